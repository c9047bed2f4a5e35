"""Settles the doubt about a write by its check, while the turn is open.

A write is in doubt after a time limit, a lost connection or a killed process. Its check is asked whether it
took effect, and each answer is saved before it is used. A write that did not happen is done again under the
same key. This module must never do a write again while the write before it could still act.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import msgspec

from holdfast.core.effects import RunTool, check_key
from holdfast.core.errors import ConflictError, ErrorCategory, ErrorInfo, UnansweredError
from holdfast.core.events import DoubtChecked
from holdfast.core.messages import Text, ToolCall, ToolResult
from holdfast.core.questions import ClarificationQuestion
from holdfast.journal.journal_errors import JournalError
from holdfast.resilience.pipeline import Done, Failed, Outcome
from holdfast.runtime.active_turn import ActiveTurn
from holdfast.tools.asking_checks import CheckRequest
from holdfast.tools.checked_call import CheckedCall, Invocation
from holdfast.tools.context import ToolContext
from holdfast.tools.results import NO_RESULT, RESULT_LIMIT, cut_text
from holdfast.tools.write_checks import Check, DoubtfulCall

DECISIONS: Final = ("It happened", "It did not happen", "Ask the check again")
"""The answers of a person. The result of a call that happened may follow after a colon."""

_LONGEST_THREAD = 60.0
_LONGEST_ARGUMENTS = 500

UseTool: TypeAlias = Callable[[RunTool, CheckedCall | Invocation], Awaitable[Outcome[ToolResult]]]


class DoubtGuard:
    """The use of one tool with a check.

    Args:
        run: the turn.
        effect: the call.
        use: runs the tool, with all attempts.
    """

    __slots__ = ("_effect", "_run", "_use", "is_reached", "note")

    def __init__(self, run: ActiveTurn, effect: RunTool, use: UseTool) -> None:
        self._run = run
        self._effect = effect
        self._use = use
        self.is_reached = False
        """Whether the tool or its check was called; a hook can prevent both."""
        self.note = ""
        """A sentence for the model: the answer of the check about a call that has failed."""

    async def use_tool(
        self, effect: RunTool, checked: CheckedCall | Invocation
    ) -> Outcome[ToolResult]:
        """Run the tool; settle the doubt about it. A call that is left by another process is checked first."""
        check = checked.tool.check if isinstance(checked, CheckedCall) else None
        is_left = self._run.effects[effect.key].is_in_doubt
        if check is None or not isinstance(checked, CheckedCall):
            # A hook has given it to another tool.
            return left_in_doubt(effect.call) if is_left else await self._use(effect, checked)
        self.is_reached = True
        clock, known = self._run.plan.clock, self._run.machine.find_checks(effect.key)
        if known and known[-1].result is not None:
            return Done(known[-1].result, attempts=0)
        # A call that waited for a person is performed again: only a denial has let it be made again.
        if is_left or (known and not _is_denial(known[-1])):
            outcome: Outcome[ToolResult] = left_in_doubt(effect.call)
            # The process that called it may still be there, and have lost only its lease.
            limit = checked.tool.timeout or self._run.plan.tool_calls.tool_timeout
            acts_until = None if limit is None else clock.monotonic() + limit
        else:
            outcome, acts_until = await self._use(effect, checked), clock.monotonic()
        while isinstance(outcome, Failed) and _is_open(outcome):
            event = await self._find_answer(check, checked, acts_until)
            while event.verdict == "unknown" and check.on_doubt == "ask":
                decided = await self._ask_person(checked, event)
                if decided is None:
                    break
                again = decided.verdict == "unknown"
                event = await self._find_answer(check, checked, acts_until) if again else decided
            if event.result is not None:
                return Done(event.result, outcome.attempts)
            if event.verdict == "unknown":
                why = f": {event.why}" if event.why else ""
                self.note = f" Its check could not find out whether it did{why}."
                return outcome
            if self._count_denied() > check.retry:
                who = "A person said" if event.by == "person" else "Its check found"
                self.note = f" {who} that it did not take effect."
                return msgspec.structs.replace(outcome, may_repeat=True)
            outcome, acts_until = await self._use(effect, checked), clock.monotonic()
        return outcome

    def _count_denied(self) -> int:
        """Return how often the check has found, once nothing could act any more, that nothing happened."""
        checks = self._run.machine.find_checks(self._effect.key)
        return sum(map(_is_denial, checks))

    async def _find_answer(
        self, check: Check, checked: CheckedCall, acts_until: float | None
    ) -> DoubtChecked:
        """Ask the check until its answer is final, and save each answer.

        Args:
            check: the check.
            checked: the call.
            acts_until: the time of the monotonic clock until which the call can act; None if that is unknown.
        """
        run, key = self._run, self._effect.key
        while True:
            has_ended = not self._is_running
            settled_at = acts_until + check.settle if acts_until is not None and has_ended else None
            request = CheckRequest(
                key=check_key(key, len(run.machine.find_checks(key))),
                check=check,
                call=self._describe_call(checked),
                written=self._effect.call,
                settled_at=settled_at,
                result_limit=checked.tool.result_limit or RESULT_LIMIT,
            )
            event = await run.plan.ask_check(request, run.plan.clock, run.plan.rng)
            await run.log.commit(event)
            if event.verdict != "not_happened" or event.settled:
                return event
            if acts_until is None:
                why = "it has no time limit, so it may still act"
                return msgspec.structs.replace(event, verdict="unknown", why=why)
            if not has_ended:
                if not await self._wait_for_thread():
                    why = "its thread still runs"
                    return msgspec.structs.replace(event, verdict="unknown", why=why)
                acts_until = run.plan.clock.monotonic()
            await run.plan.clock.sleep(
                max(0.0, acts_until + check.settle - run.plan.clock.monotonic())
            )

    async def _ask_person(self, checked: CheckedCall, event: DoubtChecked) -> DoubtChecked | None:
        """Ask a person about a call of which the check knows nothing, and save the decision.

        Returns:
            The decision; one that is "unknown" asks the check again. None if nobody has decided.
        """
        run, key, call = self._run, self._effect.key, self._effect.call
        why = f" ({event.why})" if event.why else ""
        arguments = cut_text(checked.text, _LONGEST_ARGUMENTS)
        text = f"Did {call.name}({arguments}) take effect? Its check could not find out{why}."
        question = ClarificationQuestion(question=text, options=DECISIONS, source="check")
        try:
            said = await run.questions.make_tool_asker(run)(key, 0, question, "default")
        except UnansweredError:
            return None
        word, _, result = str(said).partition(":")
        at, number = run.plan.clock.now(), len(run.machine.find_checks(key))
        decided = DoubtChecked(check_key(key, number), at, "unknown", by="person")
        if word.strip().lower() == DECISIONS[0].lower():
            content = (Text(result.strip() or NO_RESULT),)
            found = ToolResult(call.id, call.name, content)
            decided = msgspec.structs.replace(decided, verdict="happened", result=found)
        elif word.strip().lower() == DECISIONS[1].lower():
            decided = msgspec.structs.replace(decided, verdict="not_happened", settled=True)
        await run.log.commit(decided)
        return decided

    def _describe_call(self, checked: CheckedCall) -> DoubtfulCall:
        run = self._run
        key = ToolContext(
            run_id=run.run_id, key=self._effect.key, turn_opened_at=run.machine.opened_at
        ).idempotency_key
        return DoubtfulCall(
            tool=self._effect.call.name,
            arguments=msgspec.json.decode(checked.text),
            idempotency_key=key,
            began_at=run.machine.tools_begun_at,
            deps=run.context.deps,
            session=run.context.session,
            metadata=run.context.options.metadata,
        )

    @property
    def _is_running(self) -> bool:
        """Whether a thread still runs the tool, although its time is over."""
        meter = self._run.usage_meters.get(self._effect.key)
        work = meter.left_running if meter is not None else None
        return work is not None and work.state == "abandoned"

    async def _wait_for_thread(self) -> bool:
        """Wait until the thread of the tool has ended; return False if that takes too long."""
        clock = self._run.plan.clock
        until = clock.monotonic() + _LONGEST_THREAD
        while self._is_running:
            if clock.monotonic() > until:
                return False
            await clock.sleep(0.05)
        return True


class LeftInDoubtError(Exception):
    """Another process began the call, and nobody knows whether it took effect."""


def left_in_doubt(call: ToolCall) -> Failed:
    """Return the outcome of a call that another process began and left."""
    safe = f"Function '{call.name}' was stopped before it finished."
    info = ErrorInfo(category=ErrorCategory.UNKNOWN, safe=safe, code="in_doubt")
    return Failed(LeftInDoubtError(safe), info, attempts=0, may_repeat=False)


def _is_denial(event: DoubtChecked) -> bool:
    """Whether an event says that nothing has happened and nothing can happen any more."""
    return event.verdict == "not_happened" and event.settled


def _is_open(outcome: Failed) -> bool:
    """Whether a failed call may have taken effect, and this process still drives its run."""
    return not outcome.may_repeat and not isinstance(outcome.error, ConflictError | JournalError)
