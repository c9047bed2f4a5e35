"""Text of a file for the model: which kind of file it is, its encoding, its lines.

It must never show binary data as text.
"""

from __future__ import annotations

import codecs

from msgspec import Struct

LONGEST_LINE = 20_000
"""The longest line that is shown whole, in characters."""

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF87a", "a GIF image"),
    (b"GIF89a", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive, or a document of an office program"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\x00", "xz data"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program for Windows"),
    (b"\xcf\xfa\xed\xfe", "a program for macOS"),
    (b"SQLite format 3\x00", "a SQLite database"),
    (b"\x00asm", "a WebAssembly module"),
    (b"OggS", "an Ogg file"),
    (b"ID3", "an MP3 file"),
    (b"fLaC", "a FLAC file"),
)
_MARKS: tuple[tuple[bytes, str], ...] = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROLS = bytes(byte for byte in range(0x20) if byte not in b"\t\n\r\f\b\x1b")
_MOST_CONTROLS = 0.02


class DecodedText(Struct, frozen=True):
    """A text with its encoding.

    Args:
        text: the text.
        encoding: its encoding.
    """

    text: str
    encoding: str


def find_binary_kind(content: bytes) -> str:
    r"""Return the kind of a file that is not text; empty if it is text.

    >>> find_binary_kind(b"GIF89a\0"), find_binary_kind(b"text")
    ('a GIF image', '')
    """
    for magic, kind in _MAGIC:
        if content.startswith(magic) and not _is_plain(content):
            return kind
    if content[:4] == b"RIFF" and content[8:12] in (b"WEBP", b"WAVE", b"AVI "):
        return "a WebP image" if content[8:12] == b"WEBP" else "a media file"
    if content[4:8] == b"ftyp":
        return "a media file"
    if any(content.startswith(mark) for mark, _encoding in _MARKS) or _is_plain(content):
        return ""
    return "binary data"


def _is_plain(content: bytes) -> bool:
    """Whether bytes hold no NUL and hardly any control characters."""
    sample = content[:65_536]
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    return 0 not in sample and controls <= len(sample) * _MOST_CONTROLS


def decode_text(content: bytes) -> DecodedText:
    r"""Return the text of a content that is not binary.

    A byte order mark decides, then UTF-8; otherwise each byte is a character of Windows-1252 or Latin-1.

    >>> decode_text("é".encode()).encoding, decode_text(b"\xe9").text
    ('utf-8', 'é')
    """
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return DecodedText(content.decode(encoding, "replace"), encoding.removesuffix("-sig"))
    for encoding in ("utf-8", "cp1252"):
        try:
            return DecodedText(content.decode(encoding), encoding)
        except UnicodeDecodeError:
            continue
    return DecodedText(content.decode("latin-1"), "latin-1")


def cut_lines(text: str, max_lines: int | None = None) -> str:
    r"""Return a text with long lines cut, and at most so many lines; notes name the missing parts.

    >>> cut_lines("a\nb\nc\n", 2)
    'a\nb\n[cut: 1 more line]'
    """
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    shown = lines if max_lines is None else lines[:max_lines]
    cut = [_cut_line(line) for line in shown]
    missing = len(lines) - len(shown)
    if missing:
        cut.append(f"[cut: {missing:,} more line{'s' if missing > 1 else ''}]")
    elif text.endswith("\n"):
        cut.append("")
    return "\n".join(cut)


def _cut_line(line: str) -> str:
    missing = len(line) - LONGEST_LINE
    if missing <= 0:
        return line
    return f"{line[:LONGEST_LINE]}[cut: {missing:,} more characters of this line]"
