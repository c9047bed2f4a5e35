r"""Removes known secrets from text by their values: API keys, secret headers, passwords.

`redaction` knows the forms of secrets and not their values, and a key of 32 hexadecimal digits has no
form. Whoever knows the values (the endpoint of a model, the address of a journal) removes them here
from errors. The search ignores upper and lower case, whitespace and invisible characters between the
characters of a secret, and escapes such as `\u002d`, `%2D` and `&amp;`. It also finds base64, and
parts of a secret that are long enough to be of use.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import NoReturn

from holdfast.core.redaction import CUT, MARK, shorten

SHORTEST_SECRET = 8
"""A shorter value is not removed, because it may be part of ordinary words."""
_PART = 12
"""A part of a secret is removed from this length on."""
_BLOCK = 6
"""The length of the blocks of a secret; every part of length `_PART` contains one whole block."""
_SHORTEST_END = 4
"""Where a text was cut, the beginning of a secret is removed from this length on."""

_IGNORED = (
    r"[\s\x00-\x1f\x7f-\xa0\xad\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    r"\U000e0000-\U000e01ef]+"
)
"""Whitespace and invisible characters."""
_ESCAPE = re.compile(
    r"\\+u00(?P<unicode>[0-9a-f]{2})|\\+x(?P<byte>[0-9a-f]{2})|%(?:25)*(?P<percent>[0-9a-f]{2})"
    r"|&#x0{0,4}(?P<hex>[0-9a-f]{2});|&#0{0,4}(?P<decimal>[0-9]{2,3});"
    r"|&(?P<entity>amp|lt|gt|quot|apos|sol);"
    rf"|(?P<ignored>{_IGNORED}|\\+[nrt]?)",
    re.IGNORECASE,
)
_INVISIBLE = re.compile(_IGNORED)
_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "sol": "/"}
_TO_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


class SecretValues:
    """The secrets that must not appear in the errors of one agent, endpoint or journal.

    Args:
        values: the secrets.
        shortest: secrets with fewer characters are ignored.

    >>> secrets = SecretValues(["0123456789abcdef"])
    >>> secrets.remove_from("the key 0123456789ABCDEF is not valid")
    'the key [redacted] is not valid'
    >>> secrets
    SecretValues(1 secret)
    """

    __slots__ = ("_blocks", "_forms", "_parts", "values")

    def __init__(self, values: Iterable[str] = (), *, shortest: int = SHORTEST_SECRET) -> None:
        self.values = frozenset(value for value in values if len(value) >= shortest)
        forms = {form for value in self.values for form in _forms_of(value) if form}
        self._forms = tuple(sorted(forms))
        self._parts: dict[int, set[str]] = {}
        self._blocks: set[str] = set()
        for form in forms:
            length = min(len(form), _PART)
            parts = self._parts.setdefault(length, set())
            parts.update(form[at : at + length] for at in range(len(form) - length + 1))
            step = _BLOCK if length == _PART else length
            self._blocks.update(form[at : at + step] for at in range(0, len(form) - step + 1, step))

    def __or__(self, other: SecretValues) -> SecretValues:
        if other.values <= self.values:
            return self
        return SecretValues(self.values | other.values, shortest=1)

    def __repr__(self) -> str:
        count = len(self.values)
        return f"SecretValues({count} secret{'' if count == 1 else 's'})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("SecretValues cannot be pickled, because it holds secrets")

    def remove_from(self, text: str) -> str:
        """Return `text` with every secret replaced by a mark; it is shortened as by `redact`."""
        if not self._blocks or not text:
            return text
        text = shorten(text)
        folded = _fold("".join(text.split()))
        is_cut = text.endswith(CUT)
        if not is_cut and not any(block in folded for block in self._blocks):
            return text
        folded, spans = _fold_with_spans(text.removesuffix(CUT) if is_cut else text)
        found = [*self._find_parts(folded), *(self._find_end(folded) if is_cut else ())]
        return _replace(text, [(spans[first][0], spans[last][1]) for first, last in found])

    def _find_parts(self, folded: str) -> Iterator[tuple[int, int]]:
        for length, parts in self._parts.items():
            for at in range(len(folded) - length + 1):
                if folded[at : at + length] in parts:
                    yield at, at + length - 1

    def _find_end(self, folded: str) -> Iterator[tuple[int, int]]:
        for form in self._forms:
            for length in range(min(len(form), _PART) - 1, _SHORTEST_END - 1, -1):
                if folded.endswith(form[:length]):
                    yield len(folded) - length, len(folded) - 1
                    break


NO_SECRETS = SecretValues()


def _forms_of(value: str) -> Iterator[str]:
    """Yield the ways in which a text may contain a secret: itself, and in base64 at each offset."""
    data = value.encode("utf-8", "replace")
    yield _fold(value)
    if not value.isascii():
        yield _fold(data.decode("latin-1"))  # its bytes, each in a percent escape
    for shift in range(3):
        encoded = b64encode(b"\0" * shift + data).decode()
        # The first and the last characters also depend on the text around the secret.
        inner = encoded[4 if shift else 0 : -4]
        if len(inner) >= SHORTEST_SECRET:
            yield _fold(inner)
            yield _fold(inner.replace("+", "-").replace("/", "_"))


def _decode(match: re.Match[str]) -> str:
    kind = match.lastgroup or "ignored"
    digits = match[kind]
    if kind == "ignored":
        return ""
    if kind == "entity":
        return _ENTITIES[digits.lower()]
    return _INVISIBLE.sub("", chr(int(digits, 10 if kind == "decimal" else 16)))


def _fold(text: str) -> str:
    """Return `text` in lower case, without escapes, whitespace and invisible characters."""
    return _ESCAPE.sub(_decode, text).translate(_TO_LOWER)


def _fold_with_spans(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Fold `text`, and return for each character of the result where it stands in `text`."""
    characters: list[str] = []
    spans: list[tuple[int, int]] = []
    end = 0
    for match in _ESCAPE.finditer(text):
        characters += text[end : match.start()]
        spans += [(at, at + 1) for at in range(end, match.start())]
        end = match.end()
        if decoded := _decode(match):
            characters.append(decoded)
            spans.append(match.span())
    characters += text[end:]
    spans += [(at, at + 1) for at in range(end, len(text))]
    return "".join(characters).translate(_TO_LOWER), spans


def _replace(text: str, spans: list[tuple[int, int]]) -> str:
    pieces: list[str] = []
    end = 0
    for first, last in sorted(spans):
        if first > end or not pieces:
            pieces += [text[end:first], MARK]
        end = max(end, last)
    return "".join([*pieces, text[end:]])
