"""The two middlewares through which every call of every agent goes: the rulings, and the safeguards.

Agents that other agents call take the safeguards alone: the permission of the caller judges their calls too.
This module must never make one without the other, and must never allow a call that it did not record for the
safeguards.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from adh.approval.judged_calls import JudgedCall, JudgedCalls
from adh.approval.judgement import CallJudge
from adh.approval.question import ApprovalQuestion
from adh.approval.question_making import find_name_to_type, make_question, still_holds
from adh.approval.safeguards import DENIED_TEXT, Safeguards, find_call_context, make_notice
from adh.approval.setup import ApprovalSetup
from holdfast import PermissionQuestion, ToolPermission
from holdfast.middleware import BeforeTool, Ruling


class ApprovalSource:
    """Judges calls by the rules.

    Args:
        setup: the parts that the approval works with.
        safeguards: the safeguards of the same agents; without them, no call runs.
    """

    def __init__(self, setup: ApprovalSetup, safeguards: Safeguards) -> None:
        self._setup = setup
        self._safeguards = safeguards
        self._judge = CallJudge(setup)

    def describe(self) -> Mapping[str, object]:
        """The number of the rules that hold now."""
        return {"rules": len(self._setup.read_rules().rules)}

    async def judge(self, context: BeforeTool, answered: PermissionQuestion | None) -> Ruling:
        """Return the ruling about a call, before anybody is asked and after each answer.

        Args:
            context: the call, with the arguments that would run.
            answered: the question that was approved, with these arguments; None before an approval.
        """
        if context.unknown:
            return Ruling(permission="deny", reason=context.unknown)
        history = self._safeguards.find_history(context)
        if history is None:
            return Ruling(permission="deny", reason="The agent runs without safeguards.")
        judged = await self._judge.judge_call(
            context.tool,
            context.arguments or {},
            find_call_context(context).folder,
            now=context.now(),
            calls_before=history.calls_before(context.key),
        )
        if judged.denied:
            return self._deny(context, judged)
        if not judged.decision.level.asks:
            return self._allow(context, judged)
        return await self._ask(context, judged, answered)

    def _deny(self, context: BeforeTool, judged: JudgedCall) -> Ruling:
        context.shared(JudgedCalls).record(context.key, judged)
        context.emit(make_notice(context, judged, "blocked", judged.denied))
        return Ruling(permission="deny", reason=DENIED_TEXT.format(reason=judged.denied))

    def _allow(self, context: BeforeTool, judged: JudgedCall) -> Ruling:
        context.shared(JudgedCalls).record(context.key, judged)
        return Ruling(permission="allow")

    async def _ask(
        self, context: BeforeTool, judged: JudgedCall, answered: PermissionQuestion | None
    ) -> Ruling:
        question, preview = await make_question(judged, context.agent, self._setup)
        judged = msgspec.structs.replace(
            judged, preview=preview, must_type=find_name_to_type(judged)
        )
        if isinstance(answered, ApprovalQuestion) and still_holds(answered, question):
            return self._allow(context, msgspec.structs.replace(judged, allowed_by="person"))
        # A call runs from here only if an earlier answer allows it.
        remembered = msgspec.structs.replace(judged, allowed_by="remembered")
        context.shared(JudgedCalls).record(context.key, remembered)
        context.emit(make_notice(context, judged, "asks"))
        return Ruling(permission="ask", question=question, remembered=question.may_remember)


class ApprovalPipeline(Struct, frozen=True):
    """The middlewares that judge and guard the calls of one conversation.

    Args:
        permission: asks and denies, for the agent that the person talks to.
        safeguards: checks and records, for this agent and for each agent that it calls.
    """

    permission: ToolPermission
    safeguards: Safeguards


def make_pipeline(setup: ApprovalSetup) -> ApprovalPipeline:
    """Return the middlewares of one conversation.

    A question waits without limit once its run is suspended, so that it is there again after a restart. A
    screen that stays open answers it with `ApprovalQuestion.leave_unanswered()` after 300 seconds.

    Args:
        setup: the parts that the approval works with.
    """
    safeguards = Safeguards(setup)
    return ApprovalPipeline(ToolPermission(source=ApprovalSource(setup, safeguards)), safeguards)
