"""Decides which tools may run: by rules, by remembered answers, or by asking a person.

A tool that no rule names is denied by default. Remembered answers, a yes as well as a no, are read
from the events of the session. This middleware must never treat a missing answer as a yes, nor a yes
to some arguments as a yes to others.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

import msgspec

from holdfast.core.argument_checks import check_arguments
from holdfast.core.events import (
    Event,
    QuestionAnswered,
    QuestionAsked,
    QuestionUnanswered,
    ToolFinished,
)
from holdfast.core.messages import ToolResult
from holdfast.core.questions import Denied, PermissionQuestion, Timeout
from holdfast.middleware.decisions import Deny
from holdfast.middleware.hook_contexts import BeforeTool, ToolUse
from holdfast.middleware.hooks import Middleware
from holdfast.middleware.permission_memory import (
    CHANGED_SOURCE,
    SOURCE,
    Arguments,
    PermissionMemory,
    argument_text,
    fold_answers,
    is_same,
)
from holdfast.middleware.permission_rules import (
    Permission,
    Rules,
    RuleTable,
    check_contradictions,
    parse_rules,
)

STORED_TEXT = "Execution of '{tool}' was denied by a stored user preference."
RULE_TEXT = "Execution of '{tool}' was denied by a rule."
DEFAULT_TEXT = "Execution of '{tool}' was denied: no rule allows it."
EDITED_TEXT = "Execution of '{tool}' was denied: its arguments were edited twice."


class ToolPermission(Middleware[PermissionMemory]):
    """Allows tools, denies them, or asks a person first.

    When several rules match, the strictest wins: deny, then ask, then allow.

    Args:
        allow: calls that run.
        ask: calls that run when a person approves them.
        deny: calls that never run.
        default: what happens to all other calls.
        timeout: seconds to wait for an answer; None waits without limit. The default is 5 minutes
            while the run waits, and no limit once it is suspended. No answer means no.

    Raises:
        ConfigurationError: two rules contradict each other; the message names both.

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
    ) -> None:
        self.table = RuleTable(
            parse_rules("deny", deny), parse_rules("ask", ask), parse_rules("allow", allow)
        )
        check_contradictions(self.table.rules)
        self.default: Permission = default
        self._timeout = timeout

    @property
    def initial(self) -> PermissionMemory:
        """The memory before the first answer."""
        return PermissionMemory()

    def describe(self) -> dict[str, object]:
        """The rules."""
        texts: dict[str, object] = {
            permission: " ".join(map(str, rules))
            for permission, rules in self.table.rules.items()
            if rules
        }
        return {**texts, "default": self.default, "timeout": self._timeout}

    def for_subagent(self, *, has_own_rules: bool) -> ToolPermission | None:
        """Return the rules that hold for the tools of an agent that is used as a tool, or None.

        What a rule denies stays denied. The other rules hold only for an agent without rules of its
        own, and `default` does not hold: the caller has allowed the agent itself.

        Args:
            has_own_rules: whether that agent has a `ToolPermission` of its own.
        """
        table = RuleTable(deny=self.table.rules["deny"]) if has_own_rules else self.table
        if not table:
            return None
        other = copy.copy(self)
        other.table, other.default = table, "allow"
        other.before = other.after = ()
        return other

    def permission_for(self, tool: str, arguments: Mapping[str, object]) -> Permission:
        """Return what the rules say about a call, without remembered answers."""
        return self.table.find_permission(tool, arguments) or self.default

    def fold(self, state: PermissionMemory, event: Event) -> PermissionMemory:
        """Remember questions and their answers."""
        return fold_answers(state, event)

    async def before_tool(self, context: BeforeTool) -> Deny | None:
        """Decide by the rules, by remembered answers, or by asking a person."""
        tool, arguments = context.tool, context.arguments or {}
        by_rule = self.table.find_permission(tool, arguments)
        permission = by_rule or self.default
        if permission == "deny":
            return Deny((RULE_TEXT if by_rule else DEFAULT_TEXT).format(tool=tool))
        if permission == "allow":
            return None
        return await self._ask(context, context.state_of(self), arguments)

    async def _ask(
        self, context: BeforeTool, memory: PermissionMemory, arguments: Arguments
    ) -> Deny | None:
        """Decide by a remembered answer, or by asking a person. A tool that does not exist is refused."""
        tool = context.tool
        if context.unknown:
            return Deny(context.unknown)
        if context.edited and memory.approved_call(context.key, arguments):
            return None
        remembered = memory.find_preference(tool, arguments, context.now())
        if remembered is not None:
            return None if remembered else Deny(STORED_TEXT.format(tool=tool))
        if not context.edited:
            # A hook that runs again after a suspension asks about what it has shown, even if a
            # default that is made anew each time differs now.
            arguments = memory.shown_arguments.get(context.key, arguments)
        source = CHANGED_SOURCE if context.edited else SOURCE
        question = PermissionQuestion(
            tool=tool, arguments=arguments, call_id=context.call.id, source=source
        )
        answer = await context.ask(question, timeout=self._timeout)
        if isinstance(answer, Denied):
            return Deny(answer.reason)
        # The arguments were already replaced once; a second replacement cannot be applied.
        edited_again = context.edited and answer.arguments is not None
        return Deny(EDITED_TEXT.format(tool=tool)) if edited_again else None

    async def wrap_tool(
        self, context: ToolUse, call_next: Callable[[ToolUse], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Run the call with the arguments that a person approved, if these differ from its own."""
        approved = context.state_of(self).approved_arguments.get(context.key)
        if approved is not None and not is_same(approved, context.arguments or {}):
            call = msgspec.structs.replace(context.call, arguments=argument_text(approved))
            context = msgspec.structs.replace(context, call=call)
        return await call_next(context)
