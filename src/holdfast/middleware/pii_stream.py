"""Personal data in text that comes in pieces: masked also where it is split over them.

Text is held back as long as it may be the beginning of something: at most the longest address, so
the delay is bounded. What is shown is what the whole text would be cleaned to, but for a blocked
kind: what stood before it is shown already. Nothing that may be personal must ever be shown early.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import msgspec

from holdfast.core.deltas import ReasoningDelta, RefusalDelta, TextDelta, ToolCallDelta
from holdfast.middleware.live import Delta
from holdfast.middleware.pii import Action, Kind, find_personal_data, replacement_for

MAX_PENDING = 800
"""Signs that are held back at most: more than the longest address that is looked for."""

# Each begins where its run begins: trying every sign of a run would be quadratic.
_WORD = re.compile(r"(?<![A-Za-z0-9._%+@-])[A-Za-z0-9._%+@-]+\Z")
_NUMBER = re.compile(r"(?<![\d ()+.-])[\d ()+.-]+\Z", re.ASCII)


class MaskedText:
    """One text, given in pieces.

    Args:
        actions: what is done with each kind.
        blocked_text: the text in place of all that follows a kind that must not pass.
    """

    __slots__ = ("_actions", "_blocked_text", "_context", "_pending", "_stopped")

    def __init__(self, actions: Mapping[Kind, Action], blocked_text: Callable[[Kind], str]) -> None:
        self._actions = actions
        self._blocked_text = blocked_text
        self._context = ""
        self._pending = ""
        self._stopped = False

    def feed(self, piece: str) -> str:
        """What may be shown after this piece."""
        if self._stopped:
            return ""
        self._pending += piece
        return self._release_text(_safe_end(self._pending))

    def flush(self) -> str:
        """What may be shown at the end."""
        return "" if self._stopped else self._release_text(len(self._pending))

    def _release_text(self, end: int) -> str:
        """Give out the first `end` signs, or fewer where something found goes beyond them."""
        if not end:
            return ""
        # What was shown of a row of numbers tells where in it something begins.
        text, offset = self._context + self._pending, len(self._context)
        cut = end + offset
        said, at = [], offset
        for begin, stop, kind in sorted(find_personal_data(text, self._actions)):
            start = max(begin, offset)
            if stop <= offset:
                continue
            if start >= cut:
                break
            if stop > cut:
                cut = start
                break
            said.append(text[at:start])
            at = stop
            if self._actions[kind] == "block":
                self._stopped = True
                return "".join(said) + self._blocked_text(kind)
            said.append(replacement_for(kind, text[start:stop], self._actions[kind]))
        said.append(text[at:cut])
        self._context, self._pending = (
            _trailing_row(text[max(cut - MAX_PENDING, 0) : cut]),
            text[cut:],
        )
        return "".join(said)


def _trailing_row(text: str) -> str:
    """The row of numbers at the end with the sign before it, or the last sign."""
    row = _NUMBER.search(text)
    return text[-1:] if row is None else text[max(row.start() - 1, 0) :]


def _safe_end(text: str) -> int:
    """Where the signs at the end begin that may be a part of something unfinished."""
    tail = text[-MAX_PENDING:]
    begins = [len(tail)]
    if (word := _WORD.search(tail)) is not None:
        begins.append(word.start())
    if (number := _NUMBER.search(tail)) is not None:
        begins.append(len(tail) - len(number.group().lstrip(" .-)")))  # no number begins so
    return len(text) - len(tail) + min(begins)


class MaskedStream:
    """A `LiveFilter` that masks text, reasoning and refusals; the arguments of calls pass.

    Args:
        actions: what is done with each kind.
        blocked_text: the text in place of all that follows a kind that must not pass.
    """

    __slots__ = ("_actions", "_blocked_text", "_last", "_text")

    def __init__(self, actions: Mapping[Kind, Action], blocked_text: Callable[[Kind], str]) -> None:
        self._actions = actions
        self._blocked_text = blocked_text
        self._text = MaskedText(actions, blocked_text)
        self._last: Delta | None = None

    def feed(self, delta: Delta) -> Iterable[Delta]:
        """The delta with as much of the text as may be shown."""
        before = () if _is_same_block(self._last, delta) else self.flush()
        self._last = delta
        if isinstance(delta, ToolCallDelta):
            return (*before, delta)
        said = self._text.feed(delta.text)
        bare = not said and not (isinstance(delta, ReasoningDelta) and _has_more(delta))
        return before if bare else (*before, msgspec.structs.replace(delta, text=said))

    def flush(self) -> tuple[Delta, ...]:
        """What is left of the block that came last."""
        last, said = self._last, self._text.flush()
        self.reset()
        return (_delta_with_text(last, said),) if said and last is not None else ()

    def reset(self) -> None:
        """Begin anew."""
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
