"""Compares the texts that came in pieces with the final texts of the same section.

The final texts repeat what was emitted. Some servers number the parts of the final form differently
than the pieces, merge two parts, or split one. So the texts are compared and not only their numbers.
Emitted text stays, and no text is emitted twice.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct, field


class Track(Struct, gc=False):
    """One text: the index of its part, and the pieces so far; `complete` after its whole text came."""

    index: int
    pieces: list[str]
    complete: bool = False

    @property
    def text(self) -> str:
        """The pieces, joined. They become one piece, since several later copies are compared with it."""
        pieces = self.pieces
        if len(pieces) > 1:
            pieces[:] = ["".join(pieces)]
        return pieces[0] if pieces else ""

    def remaining(self, text: str) -> str:
        """Return the rest of `text` after the emitted pieces; "" if they are not its beginning."""
        emitted = self.text
        return text[len(emitted) :] if text.startswith(emitted) else ""


class Section(Struct):
    """The texts of one section of an item, by the number of the part, in the order of their beginning."""

    tracks: dict[int, Track] = field(default_factory=dict)
    incomplete: deque[Track] = field(default_factory=deque)

    @property
    def text(self) -> str:
        """All texts, joined."""
        return "".join([track.text for track in self.tracks.values()])

    def add_track(self, part: int, track: Track) -> None:
        """Add the text of a part."""
        self.tracks[part] = track
        self.incomplete.append(track)

    def next_incomplete(self) -> Track | None:
        """Return the oldest text whose whole form has not come."""
        while self.incomplete and self.incomplete[0].complete:
            self.incomplete.popleft()
        return self.incomplete[0] if self.incomplete else None


class TextMatch(Struct, frozen=True):
    """The track of a final text, None for a new one, and the rest of the text that it adds."""

    track: Track | None
    rest: str = ""


def match_texts(section: Section, texts: dict[int, str]) -> dict[int, TextMatch]:
    """Match the final texts of a section to its tracks, by the number of the part.

    >>> section = Section({1: Track(0, ["Hel"])})
    >>> match_texts(section, {0: "Hello"})[0].rest
    'lo'
    """
    tracks = section.tracks
    if all(part in texts and texts[part].startswith(track.text) for part, track in tracks.items()):
        return {
            part: TextMatch(track, track.remaining(text))
            if (track := tracks.get(part)) is not None
            else TextMatch(None, text)
            for part, text in texts.items()
        }
    if "".join(texts.values()).startswith(section.text):
        return _match_by_position(list(tracks.values()), texts)
    # The final form contradicts the pieces. Only texts beyond the emitted ones are new.
    emitted = [*tracks.values(), *[None] * len(texts)]
    return {
        part: TextMatch(track) if track is not None else TextMatch(None, text)
        for (part, text), track in zip(texts.items(), emitted, strict=False)
    }


def _match_by_position(tracks: list[Track], texts: dict[int, str]) -> dict[int, TextMatch]:
    """Match the texts of which the emitted text is the beginning, wherever one part ends."""
    starts: list[int] = []
    emitted = 0
    for track in tracks:
        starts.append(emitted)
        emitted += len(track.text)
    matches: dict[int, TextMatch] = {}
    at = start = 0
    for part, text in texts.items():
        while at + 1 < len(tracks) and starts[at + 1] <= start:
            at += 1
        if start >= emitted:
            matches[part] = TextMatch(None, text)
        else:
            end_is_missing = start + len(text) > emitted
            track = tracks[-1] if end_is_missing else tracks[at]
            matches[part] = TextMatch(track, text[emitted - start :])
        start += len(text)
    return matches
