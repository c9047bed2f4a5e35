"""Settles the doubt about a write by its check, while the turn is open.

A write is in doubt after a time limit, a lost connection or a killed process. Its check is asked whether it
took effect, and each answer is saved before it is used. A write that did not happen is done again under the
same key. This module must never do a write again while the write before it could still act.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import msgspec

from holdfast.core.effects import RunTool, check_key
from holdfast.core.errors import ConflictError, ErrorCategory, ErrorInfo, UnansweredError
from holdfast.core.events import DoubtChecked, Verdict
from holdfast.core.messages import ToolCall, ToolResult
from holdfast.core.questions import ClarificationQuestion
from holdfast.journal.journal_errors import JournalError
from holdfast.resilience.pipeline import Done, Failed, Outcome
from holdfast.runtime.active_turn import ActiveTurn
from holdfast.tools.asking_checks import CheckRequest
from holdfast.tools.checked_call import CheckedCall, Invocation
from holdfast.tools.context import ToolContext
from holdfast.tools.results import (
    NO_RESULT,
    RESULT_LIMIT,
    content_of,
    cut_text,
    output_content,
)
from holdfast.tools.write_checks import Check, DoubtfulCall

DECISIONS: Final = ("It happened", "It did not happen", "Ask the check again")
"""The answers of a person. The result of a call that happened may follow."""

_MOST_DECISIONS = 5
_SECONDS_BETWEEN_LOOKS = 0.25
_LONGEST_THREAD = 60.0
_LONGEST_ARGUMENTS = 500

UseTool: TypeAlias = Callable[
    [RunTool, CheckedCall | Invocation, float | None], Awaitable[Outcome[ToolResult]]
]
"""Runs a tool, with all attempts that begin before a time of the monotonic clock."""


class DoubtGuard:
    """The use of one tool with a check.

    Args:
        run: the turn.
        effect: the call.
        use: runs the tool.
    """

    __slots__ = ("_acts_until", "_effect", "_one_by_one", "_run", "_use", "is_reached", "note")

    def __init__(self, run: ActiveTurn, effect: RunTool, use: UseTool) -> None:
        self._run = run
        self._effect = effect
        self._use = use
        self._acts_until: float | None = None
        self._one_by_one = asyncio.Lock()  # a hook may pass a call on twice at once
        self.is_reached = False
        """Whether the tool or its check was called; a hook can prevent both."""
        self.note = ""
        """A sentence for the model: the answer of the check about a call that has failed."""

    async def use_tool(
        self, effect: RunTool, checked: CheckedCall | Invocation
    ) -> Outcome[ToolResult]:
        """Run the tool; settle the doubt about it. A call that is left by another process is checked first."""
        async with self._one_by_one:
            return await self._use_alone(effect, checked)

    async def _use_alone(
        self, effect: RunTool, checked: CheckedCall | Invocation
    ) -> Outcome[ToolResult]:
        check = checked.tool.check if isinstance(checked, CheckedCall) else None
        is_left = self._run.effects[effect.key].is_in_doubt
        if check is None or not isinstance(checked, CheckedCall):
            # A hook has given it to another tool.
            return left_in_doubt(effect.call) if is_left else await self._use(effect, checked, None)
        self.is_reached = True
        last = self._find_last_answer()
        if last is not None and last.result is not None:
            return Done(last.result, attempts=0)
        # A call that waited for a person is performed again: only a denial has let it be made again.
        if is_left or (last is not None and not _is_denial(last)):
            outcome: Outcome[ToolResult] = left_in_doubt(effect.call)
            limit = self._find_limit(checked)
            # The process that called it may still be there, and have lost only its lease. Its last attempt began
            # within the limit, and has the limit itself.
            self._acts_until = None if limit is None else self._now + 2 * limit
        else:
            outcome = await self._use_once(checked)
        while isinstance(outcome, Failed) and _is_open(outcome):
            event = await self._settle(check, checked)
            if event.result is not None:
                return Done(event.result, outcome.attempts)
            if event.verdict == "unknown":
                why = f": {event.why}" if event.why else ""
                self.note = f" Its check could not find out whether it did{why}."
                return outcome
            if self._count(_is_denial) > check.retry:
                who = "A person said" if event.by == "person" else "Its check found"
                self.note = f" {who} that it did not take effect."
                return msgspec.structs.replace(outcome, may_repeat=True)
            before = outcome.attempts
            # It begins again, and so it asks the questions again that have their answers.
            self._run.questions.forget_scope(effect.key)
            outcome = await self._use_once(checked)
            outcome = msgspec.structs.replace(outcome, attempts=before + outcome.attempts)
        return outcome

    @property
    def _now(self) -> float:
        return self._run.plan.clock.monotonic()

    def _find_limit(self, checked: CheckedCall) -> float | None:
        return checked.tool.timeout or self._run.plan.tool_calls.tool_timeout

    def _find_last_answer(self) -> DoubtChecked | None:
        checks = self._run.machine.find_checks(self._effect.key)
        return checks[-1] if checks else None

    def _count(self, fits: Callable[[DoubtChecked], bool]) -> int:
        return sum(map(fits, self._run.machine.find_checks(self._effect.key)))

    async def _use_once(self, checked: CheckedCall) -> Outcome[ToolResult]:
        """Run the tool, with the attempts that begin within its limit; note until when it can act."""
        limit = self._find_limit(checked)
        outcome = await self._use(
            self._effect, checked, None if limit is None else self._now + limit
        )
        self._acts_until = self._now
        return outcome

    async def _settle(self, check: Check, checked: CheckedCall) -> DoubtChecked:
        """Return the final answer about the call: of the check, or of a person."""
        if self._run.shutdown is not None:
            # A process that stops waits for no check, and the next one asks it.
            self._run.shutdown.finish_call(self._run.run_id, self._effect.key)
        event = self._find_last_answer()
        if event is None or not _waits_for_person(event) or check.on_doubt == "tell":
            event = await self._ask_check(check, checked)
        while event.verdict == "unknown" and check.on_doubt == "ask":
            if self._count(lambda one: one.by == "person") >= _MOST_DECISIONS:
                return event
            decided = await self._ask_person(check, checked, event)
            if decided is None or decided.verdict != "unknown":
                return decided or event
            event = await self._ask_check(check, checked)
        return event

    async def _ask_check(self, check: Check, checked: CheckedCall) -> DoubtChecked:
        """Ask the check until its answer is final, and save each answer."""
        run, key = self._run, self._effect.key
        while True:
            is_over = self._acts_until is not None and not self._is_running()
            request = CheckRequest(
                key=check_key(key, len(run.machine.find_checks(key))),
                check=check,
                call=self._describe_call(checked),
                written=self._effect.call,
                settled_at=(self._acts_until or 0.0) + check.settle if is_over else None,
                result_limit=checked.tool.result_limit or RESULT_LIMIT,
                is_output=checked.tool.gives_output,
            )
            event = await run.plan.ask_check(request, run.plan.clock, run.plan.rng)
            await run.log.commit(event)
            if event.verdict != "not_happened" or event.settled:
                return event
            why = await self._wait_until_settled(check)
            if why:
                return msgspec.structs.replace(event, verdict="unknown", why=why)

    async def _wait_until_settled(self, check: Check) -> str:
        """Wait until nothing of the call can land any more; return the reason if that is not known."""
        clock = self._run.plan.clock
        if self._is_running():
            until = self._now + _LONGEST_THREAD
            while self._is_running():
                if self._now > until:
                    return "its thread still runs"
                if self._run.hooks.stop is not None:
                    return "the turn was stopped before that was certain"
                await clock.sleep(0.05)
            self._acts_until = self._now
        if self._acts_until is None:
            return "it has no time limit, so it may still act"
        settled_at = self._acts_until + check.settle
        while self._now < settled_at:
            if self._run.hooks.stop is not None:
                return "the turn was stopped before that was certain"
            await clock.sleep(min(settled_at - self._now, _SECONDS_BETWEEN_LOOKS))
        return ""

    async def _ask_person(
        self, check: Check, checked: CheckedCall, event: DoubtChecked
    ) -> DoubtChecked | None:
        """Ask a person about a call of which the check knows nothing, and save the decision.

        The question has the number of the check, so that each one has its own answer, also after a crash.

        Returns:
            The decision; one that is "unknown" asks the check again. None if nobody has decided.
        """
        run, key, call = self._run, self._effect.key, self._effect.call
        why = f" ({event.why})" if event.why else ""
        arguments = cut_text(checked.text, _LONGEST_ARGUMENTS)
        text = f"Did {call.name}({arguments}) take effect? Its check could not find out{why}."
        source = f"check {len(run.machine.find_checks(key))}"
        question = ClarificationQuestion(question=text, options=DECISIONS, source=source)
        try:
            said = await run.questions.make_tool_asker(run)(key, 0, question, "default")
        except UnansweredError:
            return None
        verdict, result = read_decision(str(said))
        if verdict == "not_happened":
            unsettled = await self._wait_until_settled(check)
            if unsettled:
                return msgspec.structs.replace(event, why=unsettled)
        found = None
        if verdict == "happened":
            give = output_content if checked.tool.gives_output else content_of
            found = ToolResult(call.id, call.name, give(result or NO_RESULT))
        decided = DoubtChecked(
            check_key(key, len(run.machine.find_checks(key))),
            run.plan.clock.now(),
            verdict,
            result=found,
            settled=verdict == "not_happened",
            by="person",
        )
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

    def _is_running(self) -> bool:
        """Whether a thread still runs the tool, although its time is over."""
        meter = self._run.usage_meters.get(self._effect.key)
        work = meter.left_running if meter is not None else None
        return work is not None and work.state == "abandoned"


def read_decision(said: str) -> tuple[Verdict, str]:
    """Return what a person decided about a call in doubt, and the result that they gave.

    >>> read_decision("It happened: receipt 17"), read_decision("it did not happen.")
    (('happened', 'receipt 17'), ('not_happened', ''))
    >>> read_decision("Ask the check again"), read_decision("Who knows?")
    (('unknown', ''), ('unknown', ''))
    """
    words = said.strip()
    for decision, verdict in zip(DECISIONS, _VERDICTS, strict=False):
        if words.lower().startswith(decision.lower()):
            return verdict, words[len(decision) :].strip(" :;,.-")
    return "unknown", ""


_VERDICTS: Final[tuple[Verdict, ...]] = ("happened", "not_happened")


class LeftInDoubtError(Exception):
    """Another process began the call, and nobody knows whether it took effect."""


def left_in_doubt(call: ToolCall) -> Failed:
    """Return the outcome of a call that another process began and left."""
    safe = f"Function '{call.name}' was stopped before it finished."
    info = ErrorInfo(category=ErrorCategory.UNKNOWN, safe=safe, code="in_doubt")
    return Failed(LeftInDoubtError(safe), info, attempts=0, may_repeat=False)


def _waits_for_person(event: DoubtChecked) -> bool:
    """Whether a check did not know, and no person has answered since."""
    return event.verdict == "unknown" and event.by == "check"


def _is_denial(event: DoubtChecked) -> bool:
    """Whether an event says that nothing has happened and nothing can happen any more."""
    return event.verdict == "not_happened" and event.settled


def _is_open(outcome: Failed) -> bool:
    """Whether a failed call may have taken effect, and this process still drives its run."""
    return not outcome.may_repeat and not isinstance(outcome.error, ConflictError | JournalError)
