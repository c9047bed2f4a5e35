"""Plays back the recorded replies, results and answers of a turn, by key.

An effect that the recording does not contain is a difference.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from holdfast.core import events as ev
from holdfast.core.errors import exception_for
from holdfast.core.messages import Reply, ToolResult
from holdfast.core.model_request import ModelRequest
from holdfast.core.questions import AnyQuestion, restore_answer
from holdfast.journal.port import Record
from holdfast.resilience.pipeline import CallContext, Done, Failed, Outcome
from holdfast.runtime.perform import IN_DOUBT_NOTE
from holdfast.runtime.tool_attempt import ToolAttempt
from holdfast.testing.event_text import IN_DOUBT, describe_event, is_formatted
from holdfast.tools.checked_call import Invocation

_BESIDE = (
    ev.QuestionAsked,
    ev.QuestionAnswered,
    ev.QuestionUnanswered,
    ev.TurnResumed,
    ev.TurnInterrupted,
    ev.TurnClosed,
)
"""Events that need not happen again: tools do not run in a replay, so they ask no questions."""


class DifferenceFound(BaseException):
    """A difference; a BaseException, so that no `except Exception` of a hook or the runtime catches it."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.key = key
        self.problem = problem


class RecordingEnded(BaseException):
    """The recorded turn ends here: it was interrupted, or not resumed."""


class Tape:
    """Plays back one recorded turn.

    Args:
        records: the records of the turn, from the event that opens it.
    """

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records
        self.by_key = {record.event.key: record for record in records}
        self.done_keys: set[str] = set()
        kinds = {type(record.event) for record in records}
        self.is_truncated = ev.TurnClosed not in kinds or ev.TurnInterrupted in kinds

    @property
    def remaining(self) -> list[ev.Event]:
        """The recorded events that have not happened in the replay yet, in order."""
        return [record.event for record in self.records if record.event.key not in self.done_keys]

    def find_first_remaining(self) -> ev.Event | None:
        """Return the first remaining event that must happen again."""
        return next((event for event in self.remaining if not isinstance(event, _BESIDE)), None)

    def find_event(self, key: str, action: str) -> ev.Event:
        """Return the recorded event of a key.

        Args:
            key: the key.
            action: what the replay does now, for the message of a difference.

        Raises:
            DifferenceFound: the recording has no such event.
            RecordingEnded: the recorded turn ended before it.
        """
        record = self.by_key.get(key)
        if record is not None:
            return record.event
        if self.is_truncated:
            raise RecordingEnded
        then = self.find_first_remaining() or self.records[-1].event
        raise DifferenceFound(
            key, f"{action} now; then, {then.key} came here: {describe_event(then)}"
        )

    async def ask_model(self, call: CallContext[ModelRequest]) -> Outcome[Reply]:
        """Return the recorded reply or failure."""
        key = self._key_of_call(call.key)
        event = self.find_event(key, "the model is called")
        if isinstance(event, ev.ResultsWithheld):
            error = exception_for(event.error)
            return Failed(error, event.error, event.attempts, tried=event.tried)
        if isinstance(event, ev.ModelReplied | ev.ModelFailed) and not event.attempts:
            raise DifferenceFound(
                call.key, f"the model is called now, but was not then: {describe_event(event)}"
            )
        if isinstance(event, ev.ModelReplied):
            return Done(event.reply, event.attempts, event.tried)
        if isinstance(event, ev.ModelFailed):
            error = exception_for(event.error, event.partial)
            return Failed(error, event.error, event.attempts, tried=event.tried)
        raise DifferenceFound(call.key, f"the model is called now; then: {describe_event(event)}")

    def _key_of_call(self, key: str) -> str:
        """Return the key of the event of a model call, which may be withheld results first."""
        withheld = f"{key.removesuffix('.model')}.withheld"
        is_first = withheld in self.by_key and withheld not in self.done_keys
        return withheld if is_first else key

    async def use_tool(self, call: CallContext[ToolAttempt]) -> Outcome[ToolResult]:
        """Return the recorded result or failure, if the current agent would run the tool."""
        effect, key = call.payload.effect, call.key
        name = effect.call.name
        event = self.find_event(key, f"{name} is run")
        if not isinstance(event, ev.ToolFinished):
            raise DifferenceFound(key, f"{name} is run now; then: {describe_event(event)}")
        checked = call.payload.checked
        if isinstance(checked, Invocation) and checked.result is not None:
            call.payload.meter.refusal = checked.info
            return Done(checked.result)
        if not event.attempts and not (event.error and event.error.code == IN_DOUBT):
            raise DifferenceFound(
                key, f"{name} is run now, but was not then: {describe_event(event)}"
            )
        if event.result.is_error and event.result.text.startswith(
            f"Error: Function '{name}' was not run"
        ):
            raise DifferenceFound(
                key, f"{name} is run now, but could not be then: {describe_event(event)}"
            )
        if event.error is None or not is_formatted(event):
            call.payload.meter.refusal = event.error
            return Done(event.result, event.attempts)
        repeatable = not event.result.text.endswith(IN_DOUBT_NOTE)
        return Failed(
            exception_for(event.error), event.error, event.attempts, may_repeat=repeatable
        )

    async def answer(self, question: AnyQuestion) -> object:
        """Return the recorded answer; None if there is none."""
        record = self.by_key.get(question.key)
        if record is None:
            return None
        event = record.event
        if isinstance(event, ev.QuestionAnswered):
            return restore_answer(question, event.answer)
        if isinstance(event, ev.QuestionUnanswered) and event.why == "timeout":
            await asyncio.Event().wait()  # the replay's clock makes the timeout pass at once
        if isinstance(event, ev.QuestionUnanswered) and event.why == "cancelled":
            raise asyncio.CancelledError
        return None
