"""The shown part of the reply of one step, while it is streamed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from holdfast.codecs.hosted_calls import HostedCall
from holdfast.core.messages import Refusal, Reply
from holdfast.event_log.display.display_items import (
    CallArgumentsShown,
    CallStarted,
    DisplayItem,
    HostedCallShown,
    ReasoningEnded,
    ReasoningShown,
    TextEnded,
    TextShown,
)


class _StreamedCall:
    """A call that the model is writing."""

    __slots__ = ("arguments", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.arguments = ""


def shown_text(reply: Reply) -> str:
    """Return the text of a reply that a person sees: its text, or the words with which it declines."""
    declined = "".join(part.text for part in reply.parts if isinstance(part, Refusal))
    return reply.text or declined


class ShownReply:
    """The shown part of a reply.

    Args:
        step: its step.
    """

    __slots__ = (
        "_calls",
        "_hosted",
        "_step",
        "_texts",
        "has_parts",
        "is_complete",
        "is_reasoning",
        "is_writing",
        "reasoned",
        "shown",
    )

    def __init__(self, step: str) -> None:
        self._step = step
        self._calls: dict[int, _StreamedCall] = {}
        self._texts: list[str] = []
        self._hosted: list[HostedCallShown] = []
        self.shown = 0
        """The number of characters of text."""
        self.reasoned = 0
        """The number of characters of reasoning."""
        self.is_writing = False
        self.is_reasoning = False
        self.is_complete = False
        """Whether the reply was accepted, or broke off for good."""
        self.has_parts = False
        """Whether parts of its record were shown: calls and media."""

    @property
    def text(self) -> str:
        """The text that was shown."""
        return "".join(self._texts)

    @property
    def is_anything(self) -> bool:
        """Whether anything was shown."""
        return bool(self.shown or self.reasoned or self._calls or self._hosted or self.has_parts)

    @property
    def unfinished(self) -> tuple[HostedCallShown, ...]:
        """The calls of the provider's tools without a result."""
        return tuple(shown for shown in self._hosted if not shown.hosted.finished)

    def fits(self, reply: Reply, reasoning: str, hosted: Sequence[HostedCall] = ()) -> bool:
        """Whether the shown part is the beginning of a reply.

        Args:
            reply: the reply.
            reasoning: its reasoning.
            hosted: its calls of the provider's tools.
        """
        if not self._fits_hosted(hosted):
            return False
        if len(self._calls) > len(reply.calls) or not shown_text(reply).startswith(self.text):
            return False
        for streamed, call in zip(self._calls.values(), reply.calls, strict=False):
            if streamed.name != call.name or not call.arguments.startswith(streamed.arguments):
                return False
        has_other = bool(self.shown or self._calls)
        return self.reasoned == len(reasoning) or not (self.reasoned or has_other)

    def _fits_hosted(self, hosted: Sequence[HostedCall]) -> bool:
        known, rest = hosted[: len(self._hosted)], hosted[len(self._hosted) :]
        places = [(shown.hosted.name, shown.hosted.start) for shown in self._hosted]
        is_beginning = places == [(call.name, call.start) for call in known]
        return is_beginning and all(call.start >= self.shown for call in rest)

    def add_text(self, text: str) -> Iterator[DisplayItem]:
        """Yield more text."""
        yield from self.end_reasoning()
        yield TextShown(self._step, text)
        self.shown += len(text)
        self._texts.append(text)
        self.is_writing = True

    def add_reasoning(self, text: str, offset: int) -> Iterator[DisplayItem]:
        """Yield more reasoning, unless its beginning was not seen."""
        if offset == self.reasoned:
            yield ReasoningShown(self._step, text)
            self.reasoned += len(text)
            self.is_reasoning = True

    def add_call(self, fields: Mapping[str, object]) -> Iterator[DisplayItem]:
        """Yield a piece of a call that the model is writing, unless its beginning was not seen.

        Args:
            fields: those of a `ToolCallDelta`.
        """
        index, name = fields.get("index"), str(fields.get("name", ""))
        if not isinstance(index, int):
            return
        known = self._calls.get(index)
        if known is None and not name:
            return
        call = f"{self._step}.tool.{list(self._calls).index(index) if known else len(self._calls)}"
        if known is None:
            yield from self.end_reasoning()
            yield from self.end_text()
            known = self._calls[index] = _StreamedCall(name)
            yield CallStarted(self._step, call, name)
        text = str(fields.get("arguments", ""))
        if text:
            known.arguments += text
            yield CallArgumentsShown(call, text)

    def add_hosted(self, call: HostedCall) -> Iterator[DisplayItem]:
        """Yield a call of the provider's tools, or its result, while the reply is streamed."""
        for at, shown in enumerate(self._hosted):
            known = shown.hosted
            if not known.finished and (known.id, known.name) == (call.id, call.name):
                arguments = known.arguments or call.arguments
                ended = msgspec.structs.replace(call, arguments=arguments, start=known.start)
                yield from self._show_hosted(at, ended)
                return
        yield from self._show_hosted(
            len(self._hosted), msgspec.structs.replace(call, start=self.shown)
        )

    def add_rest(self, text: str, hosted: Sequence[HostedCall]) -> Iterator[DisplayItem]:
        """Yield the rest of the text and of the calls of the provider's tools.

        Args:
            text: the text of the reply, which begins with the shown part.
            hosted: the calls of the reply.
        """
        for at, call in enumerate(hosted):
            if before := text[self.shown : call.start]:
                yield from self.add_text(before)
            yield from self._show_hosted(at, call)
        if rest := text[self.shown :]:
            yield from self.add_text(rest)
        yield from self.end_text()

    def _show_hosted(self, at: int, call: HostedCall) -> Iterator[DisplayItem]:
        if at < len(self._hosted):
            if self._hosted[at].hosted == call:
                return
            del self._hosted[at]
        else:
            yield from self.end_reasoning()
            yield from self.end_text()
        self._hosted.insert(at, HostedCallShown(self._step, f"{self._step}.hosted.{at}", call))
        yield self._hosted[at]

    def streamed_arguments(self, index: int) -> int:
        """Return how many characters of the arguments of a call were shown; -1 if it was not begun.

        Args:
            index: its index in the reply.
        """
        calls = list(self._calls.values())
        return len(calls[index].arguments) if index < len(calls) else -1

    def end_text(self) -> Iterator[DisplayItem]:
        """Yield the end of the text, if some is open."""
        if self.is_writing:
            self.is_writing = False
            yield TextEnded(self._step)

    def end_reasoning(self) -> Iterator[DisplayItem]:
        """Yield the end of the reasoning, if some is open."""
        if self.is_reasoning:
            self.is_reasoning = False
            yield ReasoningEnded(self._step)

    def end_all(self) -> Iterator[DisplayItem]:
        """Yield the ends of all that is open."""
        yield from self.end_reasoning()
        yield from self.end_text()
