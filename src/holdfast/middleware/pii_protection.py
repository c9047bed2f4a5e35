"""Keeps personal data out of requests and the journal and, optionally, out of replies.

User messages are cleaned before anything of them is saved. A blocked text must never be sent, saved
or shown. If replies are cleaned, they are also cleaned while they are streamed: text is delayed while it may be
the beginning of a match, so nothing that may be personal data is streamed early.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import msgspec

from holdfast.core.argument_checks import check_arguments
from holdfast.core.deltas import ReasoningDelta, RefusalDelta, TextDelta, ToolCallDelta
from holdfast.core.messages import Media, Part, Text
from holdfast.middleware.decisions import Deny, Patch, Replace, UseReply
from holdfast.middleware.hook_contexts import AfterReply, AfterTool, BeforeTurn, ModelCall, RunFacts
from holdfast.middleware.hooks import Middleware
from holdfast.middleware.live import Delta
from holdfast.middleware.pii import (
    DEFAULTS,
    Action,
    CleanedText,
    Kind,
    clean_text,
    find_personal_data,
    replacement_for,
)

BLOCKED = "PII of type '{kind}' detected. Message blocked for security."


class PIIProtection(Middleware):
    """Removes personal data from messages. Register it first, so that no other middleware sees the data.

    Five kinds are found, by their form: names, postal addresses, phone numbers outside North America,
    IPv6 and much else are not. Pictures, files, the arguments of tool calls and saved reasoning are
    not searched.

    Args:
        actions: the actions for some kinds: "redact", "mask", "hash", "block" or "keep".
        on_input: clean user messages; a blocked message is refused before it is saved.
        on_output: clean the replies of the model, also while they stream, which delays the text by a
            word or a number. Text before a blocked match has already been streamed.
        on_tool_results: clean the results of tools.
    """

    @check_arguments
    def __init__(
        self,
        actions: Mapping[Kind, Action] | None = None,
        *,
        on_input: bool = True,
        on_output: bool = False,
        on_tool_results: bool = False,
    ) -> None:
        self.actions = {**DEFAULTS, **(actions or {})}
        self.on_input = on_input
        self.on_output = on_output
        self.on_tool_results = on_tool_results
        self._hooks = (
            *(("before_turn",) if on_input else ()),
            *(("after_reply", "live") if on_output else ()),
            *(("after_tool",) if on_tool_results else ()),
        )

    def enabled(self, hook: str, facts: RunFacts) -> bool:
        """Where it cleans."""
        del facts
        return hook in self._hooks

    async def before_turn(self, context: BeforeTurn) -> Patch | Deny | None:
        """Clean the user's message, or refuse it."""
        parts: list[Part] = []
        for part in context.message.parts:
            if isinstance(part, Text):
                cleaned = clean_text(part.text, self.actions)
                if cleaned.blocked_kind is not None:
                    return Deny(_blocked_message(cleaned), save_message=False)
                parts.append(msgspec.structs.replace(part, text=cleaned.text))
            else:
                parts.append(part)
        if tuple(parts) == context.message.parts:
            return None
        return Patch(messages=(msgspec.structs.replace(context.message, parts=tuple(parts)),))

    def live(self, context: ModelCall) -> MaskedStream:
        """Clean the streamed text; text that may continue in the next delta is delayed."""
        del context
        return MaskedStream(self.actions, lambda kind: BLOCKED.format(kind=kind))

    async def after_reply(self, context: AfterReply) -> UseReply | None:
        """Clean the text of the reply; its tool calls stay unchanged."""
        if context.reply is None:
            return None
        parts = tuple(
            msgspec.structs.replace(part, text=self._cleaned_text(part.text))
            if isinstance(part, Text)
            else part
            for part in context.reply.parts
        )
        if parts == context.reply.parts:
            return None
        return UseReply(msgspec.structs.replace(context.reply, parts=parts))

    async def after_tool(self, context: AfterTool) -> Replace | None:
        """Clean the result of a tool."""
        content: tuple[Text | Media, ...] = tuple(
            msgspec.structs.replace(part, text=self._cleaned_text(part.text))
            if isinstance(part, Text)
            else part
            for part in context.result.content
        )
        if content == context.result.content:
            return None
        return Replace(msgspec.structs.replace(context.result, content=content))

    def _cleaned_text(self, text: str) -> str:
        cleaned = clean_text(text, self.actions)
        return cleaned.text if cleaned.blocked_kind is None else _blocked_message(cleaned)

    def describe(self) -> dict[str, object]:
        """The actions, and where they apply."""
        return {
            **{str(kind): action for kind, action in self.actions.items()},
            "on_input": self.on_input,
            "on_output": self.on_output,
            "on_tool_results": self.on_tool_results,
        }


def _blocked_message(cleaned: CleanedText) -> str:
    return BLOCKED.format(kind=cleaned.blocked_kind)


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
