r"""Escapes the characters that a person cannot see, or that a terminal obeys.

A model, a tool or a provider can hide text in them: escape sequences, changes of the text direction,
zero-width characters, tags. A text that a person reads or approves must show them. Line breaks and tabs stay.
"""

from __future__ import annotations

import re

_INVISIBLE = (
    # Control characters and the soft hyphen; the combining joiner; formats of Arabic and Syriac.
    r"\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2"
    # Fillers and selectors of Hangul, Khmer and Mongolian; spaces without width; directions.
    r"\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    # Surrogates; variation selectors, but those of emoji; byte order marks; interlinear marks.
    r"\ud800-\udfff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb"
    # Formats of Kaithi, hieroglyphs, shorthand and music; tags and more variation selectors.
    r"\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff"
)
_HIDDEN = re.compile(rf"\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f{_INVISIBLE}]")
_HIDDEN_IN_JSON = re.compile(rf"[{_INVISIBLE}]")


def escape_invisible(text: str) -> str:
    r"""Return `text` with every invisible character as an escape.

    >>> print(escape_invisible("pay\u200b \x1b[2J1 euro"))
    pay\u200b \x1b[2J1 euro
    """
    return _HIDDEN.sub(_escape, text)


def escape_invisible_json(text: str) -> str:
    r"""Return JSON text with every invisible character as an escape of JSON; its value is the same.

    >>> print(escape_invisible_json('"a\u2028b"'))
    "a\u2028b"
    """
    return _HIDDEN_IN_JSON.sub(_escape_json, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape_json(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
