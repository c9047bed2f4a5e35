"""Reads images and audio in the replies of this wire.

Audio comes in fragments of base64, together with a transcript, which is the text of the reply. This
module never raises on invalid base64: such a part is dropped.
"""

from __future__ import annotations

import binascii

from holdfast.core.messages import Media

_SOUNDS = (
    (b"RIFF", "audio/wav"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
)


def read_image(item: dict[str, object]) -> Media | None:
    """Read an image block (`image_url`); None for any other block.

    >>> read_image({"image_url": {"url": "data:image/png;base64,iVA="}}).media_type
    'image/png'
    """
    holder = item.get("image_url")
    url = holder.get("url") if isinstance(holder, dict) else holder
    if not isinstance(url, str) or not url:
        return None
    if not url.startswith("data:"):
        return Media("image/*", url=url)
    head, _, payload = url[5:].partition(",")
    data = _decode_base64(payload)
    return Media(head.partition(";")[0] or "image/*", data=data) if data else None


class AudioCollector:
    """Joins the fragments of one reply's audio."""

    __slots__ = ("_data", "_fields", "_transcript")

    def __init__(self) -> None:
        self._data: list[str] = []
        self._transcript: list[str] = []
        self._fields: dict[str, object] = {}

    def add(self, audio: dict[str, object]) -> str:
        """Add one `audio` object of a message or delta, and return its piece of the transcript."""
        for name, pieces in (("data", self._data), ("transcript", self._transcript)):
            if isinstance(value := audio.get(name), str):
                pieces.append(value)
        for name in ("id", "expires_at"):
            if audio.get(name) is not None:
                self._fields[name] = audio[name]
        transcript = audio.get("transcript")
        return transcript if isinstance(transcript, str) else ""

    def take_audio(self) -> Media | None:
        """Return the whole audio, or None if there is none."""
        pieces = self._data
        if not pieces:
            return None
        if all(len(piece) % 4 == 0 for piece in pieces):
            # Each fragment may end in padding.
            data = b"".join(_decode_base64(piece) or b"" for piece in pieces) or None
        else:
            data = _decode_base64("".join(pieces))
        if data is None:
            return None
        extra = {**self._fields, "transcript": "".join(self._transcript)}
        self._data = []
        kind = next((kind for mark, kind in _SOUNDS if data.startswith(mark)), "audio/pcm")
        return Media(kind, data=data, extra=extra)


def _decode_base64(text: str) -> bytes | None:
    try:
        return binascii.a2b_base64(text) or None
    except ValueError:
        # binascii.Error is a ValueError, and text that is not ASCII raises one too.
        return None
