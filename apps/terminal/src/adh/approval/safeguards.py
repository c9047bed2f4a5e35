"""Stands around the run of each call: nothing runs that was not judged, checked and written to the audit log.

It is called around each attempt, behind every other hook, so it sees the call that runs. The tool then acts on
the judged paths and the shown content alone. This module must never change a call, must never approve more than
was judged, and must never hide that something ran.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Literal

import msgspec

from adh.approval.call_facts import find_search_path
from adh.approval.call_history import CallHistory, GivenAnswer, fold_calls
from adh.approval.file_preview import preview_change
from adh.approval.judged_calls import JudgedCall, JudgedCalls
from adh.approval.judgement import CallJudge
from adh.approval.notices import AuditBroken, CallJudged
from adh.approval.question_making import check_call
from adh.approval.setup import ApprovalSetup
from adh.checks.check_context import CheckOutcome, explain_failures
from adh.checks.confinement import confine_words
from adh.checks.daemon_thread import call_in_thread
from adh.checks.protected_places import list_hidden
from adh.checks.url_check import is_allowed_host
from adh.rules.levels import Level
from adh.storage.audit_log import AuditEntry, AuditError
from adh.storage.call_context import ApprovedCall, ApprovedCalls, CallContext
from holdfast import Middleware, Text, ToolError, ToolResult
from holdfast.events import (
    Event,
    ModelReplied,
    QuestionAnswered,
    QuestionUnanswered,
    ToolFinished,
    TurnInterrupted,
)
from holdfast.middleware import AfterTool, BeforeTool, HookContext, ToolUse

DENIED_TEXT = "Action blocked by policy: {reason}"
"""The text for the model about a call that a rule denies."""
CHANGED_TEXT = (
    "The call was not run: {what} changed after it was approved. Look at it again, and call the tool "
    "again if it is still right."
)
NOT_JUDGED_TEXT = "The call was not run: no rule has judged it."
AUDIT_TEXT = (
    "The call was not run: the audit log cannot be written ({problem}), so nothing runs but automatic "
    "reads. Tell the user."
)
AUDIT_AFTER_TEXT = "(The call ran, and its outcome could not be written to the audit log.)"

_READS = frozenset({"reads_fs"})


def find_call_context(context: HookContext) -> CallContext:
    """Return for whom and where the call runs. Raises TypeError if the run was started without it."""
    if not isinstance(context.deps, CallContext):
        raise TypeError("the run needs deps=CallContext(...)")
    return context.deps


def make_notice(
    context: BeforeTool,
    judged: JudgedCall,
    outcome: Literal["runs", "asks", "blocked"],
    reason: str = "",
) -> CallJudged:
    """Return the notice about a judged call."""
    return CallJudged(
        tool=context.tool,
        call=context.key,
        agent=context.agent,
        level=judged.decision.level.word,
        risk=judged.decision.risk.word,
        rule=judged.rule_text,
        outcome=outcome,
        reason=reason,
    )


class Safeguards(Middleware[CallHistory]):
    """Checks each call again, writes it to the audit log, runs it, and writes its outcome.

    Args:
        setup: the parts that the approval works with.
    """

    scope: Literal["turn", "session"] = "session"
    events = (ModelReplied, QuestionAnswered, QuestionUnanswered, ToolFinished, TurnInterrupted)
    rewinds = False

    def __init__(self, setup: ApprovalSetup) -> None:
        self._setup = setup
        self._judge = CallJudge(setup)

    @property
    def initial(self) -> CallHistory:
        """The history before the first call."""
        return CallHistory()

    def fold(self, state: CallHistory, event: Event) -> CallHistory:
        """Remember the calls and the answers about them."""
        return fold_calls(state, event)

    def find_history(self, context: HookContext) -> CallHistory | None:
        """Return the history of the run; None if these safeguards are none of its middlewares."""
        found = context.facts.states.get(id(self))
        return found if isinstance(found, CallHistory) else None

    async def wrap_attempt(
        self, context: ToolUse, call_next: Callable[[], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Run the call if it has not changed since its judgement, its checks pass, and the audit log is written."""
        judged = context.shared(JudgedCalls).find_equal(context.key, context.arguments or {})
        if judged is None or judged.denied:
            return _refuse(context, NOT_JUDGED_TEXT)
        changed = await self._find_change(context, judged)
        if changed:
            return await self._block(context, judged, CHANGED_TEXT.format(what=changed))
        answer = context.state_of(self).answers.get(context.key)
        checks = await check_call(judged, self._setup, answer=answer)
        failures = explain_failures(checks)
        if failures:
            return await self._block(context, judged, failures, checks)
        entry = self._make_entry(context, judged, checks)
        problem = await self._write_before(context, entry)
        if problem and not _is_automatic_read(judged):
            context.emit(make_notice(context, judged, "blocked", problem))
            return _refuse(context, AUDIT_TEXT.format(problem=problem))
        context.shared(ApprovedCalls).approve(context.key, make_approved_call(judged, self._setup))
        context.emit(make_notice(context, judged, "runs"))
        return await self._run(context, entry, call_next)

    async def _find_change(self, context: ToolUse, judged: JudgedCall) -> str:
        """Return the change since the call was judged; empty if there is none."""
        now = await self._judge.judge_call(
            context.tool,
            judged.facts.arguments,
            find_call_context(context).folder,
            now=context.now(),
            calls_before=context.state_of(self).calls_before(context.key),
        )
        if now.denied or now.decision.level > judged.decision.level:
            return f"what the rules say ({now.denied or 'they are stricter now'})"
        if now.facts != judged.facts:
            return "what it touches"
        if judged.preview.path and judged.allowed_by == "person":
            preview = await call_in_thread(partial(preview_change, now.facts))
            if preview.digest != judged.preview.digest:
                return judged.preview.path
        return ""

    async def _block(
        self,
        context: ToolUse,
        judged: JudgedCall,
        reason: str,
        checks: tuple[CheckOutcome, ...] = (),
    ) -> ToolResult:
        entry = self._make_entry(context, judged, checks)
        entry = msgspec.structs.replace(entry, decision="blocked", reason=reason)
        await self._write_after(context, entry)
        context.emit(make_notice(context, judged, "blocked", reason))
        return _refuse(context, reason)

    async def _run(
        self,
        context: ToolUse,
        entry: AuditEntry,
        call_next: Callable[[], Awaitable[ToolResult]],
    ) -> ToolResult:
        began = context.clock()

        def outcome(decision: str, result: str = "") -> AuditEntry:
            return msgspec.structs.replace(
                entry,
                at=_read_time(context),
                event="outcome",
                decision=decision,
                result=result,
                seconds=round(context.clock() - began, 3),
            )

        try:
            result = await call_next()
        except asyncio.CancelledError:
            # Nothing may be awaited in a task that is being cancelled.
            self._write_now(context, outcome("cancelled"))
            raise
        except Exception as error:
            # Only the text of a ToolError is meant to be read.
            problem = str(error) if isinstance(error, ToolError) else type(error).__name__
            await self._write_after(context, outcome("failed", problem))
            raise
        word = {"done": "success", "failed": "failed"}.get(result.outcome, "in doubt")
        if await self._write_after(context, outcome(word, result.text)):
            content = (*result.content, Text(AUDIT_AFTER_TEXT))
            return msgspec.structs.replace(result, content=content)
        return result

    async def after_tool(self, context: AfterTool) -> None:
        """Write the calls to the audit log that did not run: denied, refused, or of an unknown tool."""
        if not context.denied and context.valid:
            return
        judged = context.shared(JudgedCalls).find(context.key)
        entry = self._make_denied_entry(context, judged)
        await self._write_after(context, entry)

    def _make_denied_entry(self, context: AfterTool, judged: JudgedCall | None) -> AuditEntry:
        answer = context.state_of(self).answers.get(context.key)
        by_rule = judged is not None and bool(judged.denied)
        entry = self._make_entry(context, judged, ())
        word = "denied" if context.denied else "refused"
        return msgspec.structs.replace(
            entry,
            decision="blocked" if by_rule else word,
            decided_by=_name_refuser(judged, answer),
            reason=context.result.text,
        )

    def _make_entry(
        self,
        context: ToolUse | AfterTool,
        judged: JudgedCall | None,
        checks: tuple[CheckOutcome, ...],
    ) -> AuditEntry:
        call = find_call_context(context)
        answer = context.state_of(self).answers.get(context.key)
        arguments: Mapping[str, object] = context.arguments or {}
        return AuditEntry(
            at=_read_time(context),
            event="decision",
            session=call.session,
            user=call.user,
            agent=context.agent,
            request_id=call.request_id,
            folder=judged.facts.folder if judged is not None else call.folder,
            repository=call.repository,
            call=context.key,
            tool=context.tool,
            parameters=arguments,
            rule=judged.rule_text if judged is not None else "",
            level=judged.decision.level.word if judged is not None else "",
            risk=judged.decision.risk.word if judged is not None else "",
            decision="allowed",
            decided_by=_name_decider(judged, answer),
            reason=_name_reason(judged),
            checks=tuple(map(str, checks)),
        )

    async def _write_before(self, context: HookContext, entry: AuditEntry) -> str:
        """Write a line before the call; returns the problem if it cannot be written."""
        return await asyncio.to_thread(self._try_write, context, entry)

    async def _write_after(self, context: HookContext, entry: AuditEntry) -> str:
        """Write a line about a past event; it is on disk even if the turn is cancelled meanwhile."""
        return await asyncio.shield(asyncio.to_thread(self._try_write, context, entry))

    def _write_now(self, context: HookContext, entry: AuditEntry) -> None:
        self._try_write(context, entry)

    def _try_write(self, context: HookContext, entry: AuditEntry) -> str:
        try:
            self._setup.audit.write(entry)
        except AuditError as error:
            context.emit(AuditBroken(problem=str(error)))
            return str(error).rstrip(".")
        return ""


def _refuse(context: ToolUse, text: str) -> ToolResult:
    return ToolResult(context.call.id, context.call.name, (Text(text),), is_error=True)


def _read_time(context: HookContext) -> datetime:
    return datetime.fromtimestamp(context.now(), UTC)


def _is_automatic_read(judged: JudgedCall) -> bool:
    is_read = bool(judged.facts.effects) and judged.facts.effects <= _READS
    return is_read and judged.decision.level is Level.AUTOMATIC


def _name_refuser(judged: JudgedCall | None, answer: GivenAnswer | None) -> str:
    if judged is not None and judged.denied:
        return "rule"
    # A resumed turn does not judge a call again that was answered with no.
    if answer is not None and not answer.allows:
        return answer.by
    return "rule" if judged is None else "remembered"


def _name_reason(judged: JudgedCall | None) -> str:
    if judged is None:
        return ""
    if judged.decision.softened:
        return "made freer by a preference of the person, or as safety is off"
    return judged.decision.reason


def _name_decider(judged: JudgedCall | None, answer: GivenAnswer | None) -> str:
    if judged is None or judged.allowed_by == "rule":
        return "rule"
    if judged.allowed_by == "person" and answer is not None:
        return answer.by
    return judged.allowed_by


def make_approved_call(judged: JudgedCall, setup: ApprovalSetup) -> ApprovedCall:
    """Return the approved paths, content and confinement, which the tool of a call acts on.

    Args:
        judged: the call.
        setup: the parts that the approval works with.
    """
    facts, hosts = judged.facts, judged.private_hosts
    search_path = find_search_path(facts, setup.places)
    content = {}
    if judged.preview.digest and judged.allowed_by == "person":
        content[judged.preview.path] = judged.preview.digest
    return ApprovedCall(
        paths={use.written: use.path for use in facts.paths},
        content=content,
        private_addresses=bool(facts.urls)
        and all(is_allowed_host(url, hosts) for url in facts.urls),
        command_prefix=_find_prefix(judged, setup),
        environment={"PATH": search_path} if search_path else {},
    )


def _find_prefix(judged: JudgedCall, setup: ApprovalSetup) -> tuple[str, ...]:
    """Return the words that confine a command whose rule asks for the check `sandbox`."""
    facts = judged.facts
    if "executes_process" not in facts.effects or "sandbox" not in judged.decision.checks:
        return ()
    hidden = list_hidden(facts.home, setup.own_folders)
    return confine_words(setup.confinement, facts.project, facts.folder, hidden)
