"""Decides which tools may run: by a source of rulings, by remembered answers, or by asking a person.

A tool that no rule names is denied by default. Remembered answers, a yes as well as a no, are read
from the events of the session. This middleware must never treat a missing answer as a yes, nor a yes
to some arguments as a yes to others, nor run an approved call without judging it again.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from holdfast.core.argument_checks import check_arguments
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import (
    Event,
    QuestionAnswered,
    QuestionAsked,
    QuestionUnanswered,
    ToolFinished,
)
from holdfast.core.messages import ToolResult
from holdfast.core.questions import Denied, PermissionQuestion, Timeout
from holdfast.middleware.chain import AnyMiddleware
from holdfast.middleware.decisions import Deny
from holdfast.middleware.hook_contexts import BeforeTool, ToolUse
from holdfast.middleware.hooks import Middleware
from holdfast.middleware.permission_memory import (
    Arguments,
    PermissionMemory,
    argument_text,
    changed_label,
    describe_change,
    fold_answers,
    is_same,
    source_label,
)
from holdfast.middleware.permission_rules import (
    RULE_TEXT,
    Rules,
    RuleTable,
    check_contradictions,
    parse_rules,
)
from holdfast.middleware.permission_source import (
    DenialsOnly,
    Permission,
    PermissionSource,
    Ruling,
    check_ruling,
)

C = TypeVar("C", bound=BeforeTool)

MOST_QUESTIONS = 5
"""How often a person is asked about one call. A source that still asks then gets a denial."""

STORED_TEXT = "Execution of '{tool}' was denied by a stored user preference."
EDITED_TEXT = "Execution of '{tool}' was denied: its arguments were edited twice."
ASKED_OFTEN_TEXT = (
    f"Execution of '{{tool}}' was denied: it was approved {MOST_QUESTIONS} times, and each time it "
    "had changed before it could run."
)


class ToolPermission(Middleware[PermissionMemory]):
    """Allows tools, denies them, or asks a person first.

    When several rules match, the strictest wins: deny, then ask, then allow. After a person has
    approved a call, it is judged again with the approved arguments: an edit cannot pass a rule that
    denies, and a source may void the approval and ask again, at most 5 times for one call.

    Args:
        allow: calls that run.
        ask: calls that run when a person approves them.
        deny: calls that never run.
        default: the ruling about all other calls.
        timeout: seconds to wait for an answer; None waits without limit. The default is 5 minutes
            while the run waits, and no limit once it is suspended. No answer means no.
        source: judges each call, in place of the rules above.

    Raises:
        ConfigurationError: two rules contradict each other, and the message names both; or there are
            rules and a source.

    >>> ToolPermission(allow=["read_*"], ask=["pay"], deny=["drop_*"]).permission_for("drop_table", {})
    'deny'
    """

    scope: Literal["turn", "session"] = "session"
    events = (QuestionAsked, QuestionAnswered, QuestionUnanswered, ToolFinished)

    @check_arguments
    def __init__(
        self,
        *,
        allow: Rules = (),
        ask: Rules = (),
        deny: Rules = (),
        default: Permission = "deny",
        timeout: Timeout = "default",
        source: PermissionSource | None = None,
    ) -> None:
        table = RuleTable(
            parse_rules("deny", deny), parse_rules("ask", ask), parse_rules("allow", allow), default
        )
        check_contradictions(table.rules)
        if source is not None:
            _check_no_rules(table)
        self.source: PermissionSource = table if source is None else source
        self._label = source_label("" if source is None else type(source).__name__)
        self._timeout = timeout

    @property
    def initial(self) -> PermissionMemory:
        """The memory before the first answer."""
        return PermissionMemory()

    def describe(self) -> dict[str, object]:
        """The rules, or the description of the source."""
        return {**self.source.describe(), "timeout": self._timeout}

    def for_subagent(self, *, has_own_rules: bool) -> ToolPermission | None:
        """Return the permissions for an agent that is used as a tool, or None.

        A call that a rule or the source denies stays denied. The rest holds only for an agent without a
        `ToolPermission` of its own. `default` does not hold: the caller has allowed the agent itself.

        Args:
            has_own_rules: whether that agent has a `ToolPermission` of its own.
        """
        source: PermissionSource | None = self.source
        if isinstance(source, RuleTable):
            source = source.for_subagent(has_own_rules=has_own_rules)
        elif has_own_rules:
            source = DenialsOnly(self.source)
        if source is None:
            return None
        other = copy.copy(self)
        other.source = source
        other.before = other.after = ()
        return other

    def permission_for(self, tool: str, arguments: Mapping[str, object]) -> Permission:
        """Return the ruling of the rules about a call, without remembered answers.

        Args:
            tool: the name of the tool.
            arguments: its arguments.

        Raises:
            ConfigurationError: there are no rules, because a source judges the calls of a run.
        """
        if not isinstance(self.source, RuleTable):
            raise ConfigurationError(
                "permission_for", "needs rules, and this ToolPermission has a source of its own"
            )
        return self.source.find_permission(tool, arguments) or self.source.default

    def fold(self, state: PermissionMemory, event: Event) -> PermissionMemory:
        """Remember questions and their answers."""
        return fold_answers(state, event, self._label)

    async def before_tool(self, context: BeforeTool) -> Deny | None:
        """Decide by the source, by remembered answers, or by asking a person."""
        step: _Inquiring | Deny | None = self._continue_inquiry(context)
        while isinstance(step, _Inquiring):
            step = await self._judge_or_ask(step)
        return step

    def _continue_inquiry(self, context: BeforeTool) -> _Inquiring | Deny:
        """Return how far the questions about this call came before the run was suspended or killed."""
        arguments = context.arguments or {}
        changed_to = arguments if context.edited else None
        inquiring = _Inquiring(context)
        for inquiry in context.state_of(self).asked_before(context.key, changed_to):
            answer = inquiry.answer_at(context.now())
            if isinstance(answer, Denied):
                return Deny(answer.reason)
            is_changed = inquiry.fields.tool_digest != context.tool_digest
            if answer is None:
                # A question about the tool as it was is not asked again.
                question = None if is_changed else inquiry.question()
                inquiring = msgspec.structs.replace(inquiring, open_question=question)
            elif is_changed:
                asked = inquiring.questions_asked + 1
                inquiring = msgspec.structs.replace(inquiring, questions_asked=asked)
            else:
                inquiring = inquiring.with_approval(inquiry.approved_question())
        return inquiring

    async def _judge_or_ask(self, inquiring: _Inquiring) -> _Inquiring | Deny | None:
        """Judge the call once. Returns the decision, or the next step when a person approved the call."""
        context, tool = inquiring.context, inquiring.context.tool
        ruling = check_ruling(await self.source.judge(context, inquiring.answered))
        if ruling.permission == "allow":
            return None
        if ruling.permission == "deny":
            return Deny(ruling.reason or RULE_TEXT.format(tool=tool))
        if context.unknown:
            return Deny(context.unknown)  # nobody is asked about a tool that does not exist
        arguments = context.arguments or {}
        memory, digest = context.state_of(self), context.tool_digest
        remembered = memory.find_preference(tool, arguments, context.now(), digest)
        if remembered is False:
            return Deny(STORED_TEXT.format(tool=tool))
        if remembered and ruling.remembered:
            return None
        if inquiring.questions_asked >= MOST_QUESTIONS:
            return Deny(ASKED_OFTEN_TEXT.format(tool=tool))
        return await self._ask(inquiring, ruling)

    async def _ask(self, inquiring: _Inquiring, ruling: Ruling) -> _Inquiring | Deny:
        context = inquiring.context
        # An open question is asked as it was saved, so that its answer finds it.
        question = inquiring.open_question or self._make_question(context, ruling)
        answer = await context.ask(question, timeout=self._timeout)
        if isinstance(answer, Denied):
            return Deny(answer.reason)
        if answer.arguments is None:
            return inquiring.with_approval(question)
        if context.edited:
            # The arguments were already replaced once; a second replacement cannot be applied.
            return Deny(EDITED_TEXT.format(tool=context.tool))
        edited = msgspec.structs.replace(question, arguments=answer.arguments)
        return inquiring.with_approval(edited)

    def _make_question(self, context: BeforeTool, ruling: Ruling) -> PermissionQuestion:
        question = ruling.question or PermissionQuestion(tool=context.tool)
        before = context.state_of(self).find_approved_digest(
            context.tool, context.arguments or {}, context.key
        )
        return msgspec.structs.replace(
            question,
            key="",
            binding="",
            tool=context.tool,
            arguments=context.arguments or {},
            call_id=context.call.id,
            source=changed_label(self._label) if context.edited else self._label,
            may_remember=question.may_remember and ruling.remembered,
            server=context.server,
            tool_digest=context.tool_digest,
            changed=describe_change(before, context.tool_digest),
        )

    async def wrap_tool(
        self, context: ToolUse, call_next: Callable[[ToolUse], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Run the call with the arguments that a person approved, if these differ from its own."""
        approved = context.state_of(self).approved_arguments(context.key)
        return await call_next(context if approved is None else _with_arguments(context, approved))


class _Inquiring(Struct, frozen=True):
    """The questions about one call so far.

    Args:
        context: the call, with the arguments that would run.
        answered: the question that a person approved last.
        questions_asked: how many questions were approved.
        open_question: a question that was asked before the run stopped and has no answer yet.
    """

    context: BeforeTool
    answered: PermissionQuestion | None = None
    questions_asked: int = 0
    open_question: PermissionQuestion | None = None

    def with_approval(self, question: PermissionQuestion) -> _Inquiring:
        """Return the next step, with the approved question and the arguments that it has now."""
        context = _with_arguments(self.context, question.arguments)
        return _Inquiring(context, question, self.questions_asked + 1)


def _with_arguments(context: C, arguments: Arguments) -> C:
    """Return the context with other arguments; the same object if they are equal."""
    if is_same(arguments, context.arguments or {}):
        return context
    call = msgspec.structs.replace(context.call, arguments=argument_text(arguments))
    return msgspec.structs.replace(context, call=call)


def _check_no_rules(table: RuleTable) -> None:
    """Raise ConfigurationError if there are rules beside a source."""
    if any(table.rules.values()) or table.default != "deny":
        raise ConfigurationError(
            "source",
            "judges every call, so allow, ask, deny and default would have no effect",
            fix="Pass either the rules or the source",
        )


def inherit_rules(
    caller: Sequence[AnyMiddleware], own: Sequence[AnyMiddleware]
) -> list[AnyMiddleware]:
    """Return the rules of a caller that hold for a subagent. They come before its own middlewares.

    Otherwise a model could use a tool that its agent denies, by giving the task to an agent that has the tool.

    Args:
        caller: the middlewares of the calling agent, with the rules that it has from its own caller.
        own: the middlewares of the subagent.
    """
    has_own_rules = any(isinstance(one, ToolPermission) for one in own)
    of_caller = [
        one.for_subagent(has_own_rules=has_own_rules)
        for one in caller
        if isinstance(one, ToolPermission)
    ]
    return [rules for rules in of_caller if rules is not None]
