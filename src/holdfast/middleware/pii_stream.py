"""Masks personal data in text that arrives in pieces, also where a match is split over pieces.

Text is delayed while it may be the beginning of a match, at most for twice the length of the longest
email address. Text that only continues a delayed word or number is not searched, so that the work for
a piece does not depend on the text before it. The streamed text equals the cleaned whole text, except for a blocked kind: the text before
it has already been streamed. Nothing that may be personal data must ever be streamed early.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import msgspec

from holdfast.core.deltas import ReasoningDelta, RefusalDelta, TextDelta, ToolCallDelta
from holdfast.middleware.live import Delta
from holdfast.middleware.pii import Action, Kind, find_personal_data, replacement_for

MAX_PENDING = 800
"""More characters than the longest address that is searched. At twice as many, text is released."""

# Each pattern matches only at the start of a row of characters; a match attempt at every character
# would take quadratic time.
_WORD = re.compile(r"(?<![A-Za-z0-9._%+@-])[A-Za-z0-9._%+@-]+\Z")
_NUMBER = re.compile(r"(?<![\d ()+.-])[\d ()+.-]+\Z", re.ASCII)


_ROWS = (re.compile(r"[A-Za-z0-9._%+@-]+"), re.compile(r"[\d ()+.-]+", re.ASCII))
"""A word and a number; the delayed text is always one or both of them."""


class MaskedText:
    """One text that arrives in pieces.

    Args:
        actions: the action for each kind.
        blocked_text: returns the text that replaces a blocked match and everything after it.
    """

    __slots__ = ("_actions", "_blocked_text", "_context", "_pending", "_rows", "_stopped")

    def __init__(self, actions: Mapping[Kind, Action], blocked_text: Callable[[Kind], str]) -> None:
        self._actions = actions
        self._blocked_text = blocked_text
        self._context = ""
        self._pending = ""
        self._rows: list[re.Pattern[str]] = []
        self._stopped = False

    def feed(self, piece: str) -> str:
        """Add a piece. Return the text that may be shown now."""
        if self._stopped:
            return ""
        self._pending += piece
        if len(self._pending) < 2 * MAX_PENDING:
            self._rows = [row for row in self._rows if row.fullmatch(piece)]
            if self._rows:
                return ""  # the delayed word or number goes on
        released = self._release_text(_safe_end(self._pending))
        self._rows = [row for row in _ROWS if row.fullmatch(self._pending)]
        return released

    def flush(self) -> str:
        """Return the rest of the text at the end."""
        return "" if self._stopped else self._release_text(len(self._pending))

    def _release_text(self, end: int) -> str:
        """Release the first `end` characters, or fewer where a match extends beyond them."""
        if not end:
            return ""
        # The released part of a row of numbers is needed to find where a match begins in it.
        text, offset = self._context + self._pending, len(self._context)
        cut = end + offset
        released, at = [], offset
        for begin, stop, kind in sorted(find_personal_data(text, self._actions)):
            start = max(begin, offset)
            if stop <= offset:
                continue
            if start >= cut:
                break
            if stop > cut:
                cut = start
                break
            released.append(text[at:start])
            at = stop
            if self._actions[kind] == "block":
                self._stopped = True
                return "".join(released) + self._blocked_text(kind)
            released.append(replacement_for(kind, text[start:stop], self._actions[kind]))
        released.append(text[at:cut])
        self._context, self._pending = (
            _trailing_row(text[max(cut - MAX_PENDING, 0) : cut]),
            text[cut:],
        )
        return "".join(released)


def _trailing_row(text: str) -> str:
    """Return the row of numbers at the end with the character before it, or the last character."""
    row = _NUMBER.search(text)
    return text[-1:] if row is None else text[max(row.start() - 1, 0) :]


def _safe_end(text: str) -> int:
    """Return the index after which the text may be the beginning of a match."""
    tail = text[-MAX_PENDING:]
    begins = [len(tail)]
    if (word := _WORD.search(tail)) is not None:
        begins.append(word.start())
    if (number := _NUMBER.search(tail)) is not None:
        # No number begins with one of these characters.
        begins.append(len(tail) - len(number.group().lstrip(" .-)")))
    return len(text) - len(tail) + min(begins)


class MaskedStream:
    """A `LiveFilter` that masks text, reasoning and refusals; the arguments of calls are unchanged.

    Args:
        actions: the action for each kind.
        blocked_text: returns the text that replaces a blocked match and everything after it.
    """

    __slots__ = ("_actions", "_blocked_text", "_last", "_text")

    def __init__(self, actions: Mapping[Kind, Action], blocked_text: Callable[[Kind], str]) -> None:
        self._actions = actions
        self._blocked_text = blocked_text
        self._text = MaskedText(actions, blocked_text)
        self._last: Delta | None = None

    def feed(self, delta: Delta) -> Iterable[Delta]:
        """Return the delta with the part of its text that may be shown."""
        before = () if _is_same_block(self._last, delta) else self.flush()
        self._last = delta
        if isinstance(delta, ToolCallDelta):
            return (*before, delta)
        text = self._text.feed(delta.text)
        is_empty = not text and not (isinstance(delta, ReasoningDelta) and _has_more(delta))
        return before if is_empty else (*before, msgspec.structs.replace(delta, text=text))

    def flush(self) -> tuple[Delta, ...]:
        """Return the rest of the last block."""
        last, text = self._last, self._text.flush()
        self.reset()
        return (_delta_with_text(last, text),) if text and last is not None else ()

    def reset(self) -> None:
        """Start again."""
        self._text = MaskedText(self._actions, self._blocked_text)
        self._last = None


def _is_same_block(last: Delta | None, delta: Delta) -> bool:
    if last is None:
        return True
    return type(last) is type(delta) and getattr(last, "index", 0) == getattr(delta, "index", 0)


def _has_more(delta: ReasoningDelta) -> bool:
    return delta.signature is not None or delta.extra is not None


def _delta_with_text(delta: Delta, text: str) -> Delta:
    if isinstance(delta, ReasoningDelta):
        return ReasoningDelta(text, delta.index)
    if isinstance(delta, RefusalDelta):
        return RefusalDelta(text)
    return TextDelta(text, delta.index if isinstance(delta, TextDelta) else 0)
