"""A recording as the outside world of a run: it answers what was answered then, by key.

It must never reach a model, a tool or a person, and must never make an answer up: what was not done
then is a difference.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from holdfast.core import events as ev
from holdfast.core.errors import exception_for
from holdfast.core.messages import Reply, ToolResult
from holdfast.core.request import ModelRequest
from holdfast.core.requests import AnyRequest, restored
from holdfast.journal.port import Record
from holdfast.resilience.pipeline import Call, Done, Failed, Outcome
from holdfast.runtime.perform import IN_DOUBT_NOTE
from holdfast.runtime.tool_call import ToolAttempt
from holdfast.testing.told import IN_DOUBT, is_formatted, told
from holdfast.tools.checked_call import Invocation, check_call
from holdfast.tools.registry import Registry

_BESIDE = (
    ev.QuestionAsked,
    ev.QuestionAnswered,
    ev.QuestionUnanswered,
    ev.TurnResumed,
    ev.TurnInterrupted,
    ev.TurnClosed,
)
"""What need not happen again: tools do not run, so they do not ask."""


class Differs(BaseException):
    """A difference on its way out; no `except Exception` of a hook or of the runtime may stop it."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.key = key
        self.problem = problem


class SaysNoMore(BaseException):
    """The recorded turn was cut off here: it was interrupted, or nobody went on with it."""


class Tape:
    """One recorded turn, played back.

    Args:
        records: of the turn, from the event that opens it.
        registry: the tools of the agent as it is now.
    """

    def __init__(self, records: Sequence[Record], registry: Registry) -> None:
        self.records = records
        self._registry = registry
        self.by_key = {record.event.key: record for record in records}
        self.done: set[str] = set()
        kinds = {type(record.event) for record in records}
        self.is_cut = ev.TurnClosed not in kinds or ev.TurnInterrupted in kinds

    @property
    def left(self) -> list[ev.Event]:
        """What was done then and not yet now, in order."""
        return [record.event for record in self.records if record.event.key not in self.done]

    def first_left(self) -> ev.Event | None:
        """The first of it that had to be done again."""
        return next((event for event in self.left if not isinstance(event, _BESIDE)), None)

    def found(self, key: str, what: str) -> ev.Event:
        """What ended the effect of this key. Raises Differs or SaysNoMore when nothing did."""
        record = self.by_key.get(key)
        if record is not None:
            return record.event
        if self.is_cut:
            raise SaysNoMore
        then = self.first_left() or self.records[-1].event
        raise Differs(key, f"{what} now; then, {then.key} came at this place: {told(then)}")

    async def ask_model(self, call: Call[ModelRequest]) -> Outcome[Reply]:
        """The reply or the failure that was recorded."""
        event = self.found(call.key, "the model is asked")
        if isinstance(event, ev.ModelReplied | ev.ModelFailed) and not event.attempts:
            raise Differs(call.key, f"the model is asked now, and was not then: {told(event)}")
        if isinstance(event, ev.ModelReplied):
            return Done(event.reply, event.attempts, event.tried)
        if isinstance(event, ev.ModelFailed):
            error = exception_for(event.error, event.partial)
            return Failed(error, event.error, event.attempts, tried=event.tried)
        raise Differs(call.key, f"the model is asked now; then: {told(event)}")

    async def use_tool(self, call: Call[ToolAttempt]) -> Outcome[ToolResult]:
        """The result or the failure that was recorded, if the tool would still be run."""
        effect, key = call.payload.effect, call.key
        name = effect.call.name
        event = self.found(key, f"{name} is run")
        if not isinstance(event, ev.ToolFinished):
            raise Differs(key, f"{name} is run now; then: {told(event)}")
        checked = call.payload.checked or check_call(
            self._registry, effect.call, unfinished=effect.unfinished
        )
        if isinstance(checked, Invocation) and checked.result is not None:
            call.payload.notes.refusal = checked.info
            return Done(checked.result)
        if not event.attempts and not (event.error and event.error.code == IN_DOUBT):
            raise Differs(key, f"{name} is run now, and was not then: {told(event)}")
        if event.result.is_error and event.result.text.startswith(
            f"Error: Function '{name}' was not run"
        ):
            raise Differs(key, f"{name} is run now, and could not be then: {told(event)}")
        if event.error is None or not is_formatted(event):
            call.payload.notes.refusal = event.error
            return Done(event.result, event.attempts)
        repeatable = not event.result.text.endswith(IN_DOUBT_NOTE)
        return Failed(
            exception_for(event.error), event.error, event.attempts, may_repeat=repeatable
        )

    async def answer(self, request: AnyRequest) -> object:
        """What was answered then, or None when nobody did."""
        record = self.by_key.get(request.key)
        if record is None:
            return None
        event = record.event
        if isinstance(event, ev.QuestionAnswered):
            return restored(request, event.answer)
        if isinstance(event, ev.QuestionUnanswered) and event.why == "timeout":
            await asyncio.Event().wait()  # the clock of a replay lets the time pass at once
        if isinstance(event, ev.QuestionUnanswered) and event.why == "cancelled":
            raise asyncio.CancelledError
        return None
