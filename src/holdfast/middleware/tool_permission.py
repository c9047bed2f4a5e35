"""Decides which tools may run: by rules, by remembered answers, or by asking a person.

A tool that no rule names is denied by default. Remembered answers, a yes as well as a no, are read
from the events of the session. This middleware must never treat a missing answer as a yes, nor a yes
to some arguments as a yes to others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from holdfast.core.argument_checks import check_arguments, check_fields, check_value
from holdfast.core.constraints import NonEmptyText
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import Event, QuestionAnswered, QuestionAsked, QuestionUnanswered
from holdfast.core.messages import ToolResult
from holdfast.core.question_log import ASK, ASKED
from holdfast.core.questions import Approved, Denied, PermissionQuestion, Timeout
from holdfast.middleware.decisions import Deny
from holdfast.middleware.hook_contexts import BeforeTool, ToolUse
from holdfast.middleware.hooks import Middleware

Permission = Literal["deny", "ask", "allow"]

SOURCE = "ToolPermission"
STORED_TEXT = "Execution of '{tool}' was denied by a stored user preference."
RULE_TEXT = "Execution of '{tool}' was denied by a rule."
DEFAULT_TEXT = "Execution of '{tool}' was denied: no rule allows it."
EDITED_TEXT = "Execution of '{tool}' was denied: its arguments were edited twice."

_MOST_TOOLS = 256

_encode = msgspec.json.Encoder(order="deterministic").encode


class Rule(Struct, frozen=True):
    """Matches calls by a pattern of the tool's name and by patterns of the arguments.

    Args:
        tool: a name, or a pattern with `*` and `?`, such as "read_*".
        arguments: patterns for arguments, by the names of the parameters; each must be present and
            match. They apply to the validated arguments with defaults, so `"yes"` for a boolean is
            `true`. A value that is not text is compared by its JSON form.

    >>> Rule("send", {"to": "*@example.org"}).matches("send", {"to": "ann@example.org"})
    True
    """

    tool: NonEmptyText
    arguments: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        check_fields(self)

    def matches(self, tool: str, arguments: Mapping[str, object]) -> bool:
        """Whether the rule applies to this call."""
        return fnmatchcase(tool, self.tool) and all(
            name in arguments and _is_like(arguments[name], pattern)
            for name, pattern in self.arguments.items()
        )

    def covers(self, other: Rule) -> bool:
        """Whether it applies to every call that `other` applies to, as far as patterns can tell."""
        return fnmatchcase(other.tool, self.tool) and all(
            name in other.arguments and fnmatchcase(other.arguments[name], pattern)
            for name, pattern in self.arguments.items()
        )

    def __str__(self) -> str:
        arguments = ", ".join(f"{name}={pattern}" for name, pattern in self.arguments.items())
        return f"{self.tool}({arguments})" if arguments else self.tool


Rules: TypeAlias = Iterable[NonEmptyText | Rule]


class PermissionMemory(Struct, frozen=True):
    """The answers of this session: yes or no, by tool, and by tool with its arguments.

    `edited_arguments` has the arguments that replace the model's, by the key of the call.
    """

    open_questions: Mapping[str, tuple[str, str]] = {}
    tools: Mapping[str, bool] = {}
    calls: Mapping[str, bool] = {}
    edited_arguments: Mapping[str, Mapping[str, object]] = {}


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
    events = (QuestionAsked, QuestionAnswered, QuestionUnanswered)

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
        self._rules: dict[Permission, tuple[Rule, ...]] = {
            "deny": _parse_rules("deny", deny),
            "ask": _parse_rules("ask", ask),
            "allow": _parse_rules("allow", allow),
        }
        _check_contradictions(self._rules)
        self._by_tool: dict[str, tuple[tuple[Permission, Rule], ...]] = {}
        self._default: Permission = default
        self._timeout = timeout

    @property
    def initial(self) -> PermissionMemory:
        """The memory before the first answer."""
        return PermissionMemory()

    def describe(self) -> dict[str, object]:
        """The rules."""
        texts: dict[str, object] = {
            permission: " ".join(map(str, rules))
            for permission, rules in self._rules.items()
            if rules
        }
        return {**texts, "default": self._default, "timeout": self._timeout}

    def permission_for(self, tool: str, arguments: Mapping[str, object]) -> Permission:
        """Return what the rules say about a call, without remembered answers."""
        return self._permission_by_rule(tool, arguments) or self._default

    def _permission_by_rule(self, tool: str, arguments: Mapping[str, object]) -> Permission | None:
        for permission, rule in self._rules_for(tool):
            if not rule.arguments or rule.matches(tool, arguments):
                return permission
        return None

    def _rules_for(self, tool: str) -> tuple[tuple[Permission, Rule], ...]:
        """Return the rules that match the tool's name, the strictest first."""
        found = self._by_tool.get(tool)
        if found is None:
            found = tuple(
                (permission, rule)
                for permission, rules in self._rules.items()
                for rule in rules
                if fnmatchcase(tool, rule.tool)
            )
            if len(self._by_tool) < _MOST_TOOLS:  # a model may invent any number of names
                self._by_tool[tool] = found
        return found

    def fold(self, state: PermissionMemory, event: Event) -> PermissionMemory:
        """Remember questions and their answers."""
        if isinstance(event, QuestionAsked):
            return _record_question(state, event)
        if isinstance(event, QuestionAnswered) and event.key in state.open_questions:
            return _record_answer(state, event)
        if isinstance(event, QuestionUnanswered) and event.key in state.open_questions:
            return msgspec.structs.replace(
                state, open_questions=_without_question(state.open_questions, event.key)
            )
        return state

    async def before_tool(self, context: BeforeTool) -> Deny | None:
        """Decide by the rules, by remembered answers, or by asking a person."""
        tool, arguments = context.tool, context.arguments or {}
        by_rule = self._permission_by_rule(tool, arguments)
        permission = by_rule or self._default
        if permission == "deny":
            return Deny((RULE_TEXT if by_rule else DEFAULT_TEXT).format(tool=tool))
        if permission == "allow":
            return None
        state = context.state_of(self)
        if _is_edited_by_answer(context, state):
            return None
        remembered = state.calls.get(_call_signature(tool, arguments), state.tools.get(tool))
        if remembered is not None:
            return None if remembered else Deny(STORED_TEXT.format(tool=tool))
        question = PermissionQuestion(
            tool=tool, arguments=arguments, call_id=context.call.id, source=SOURCE
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
        """Run the call with the arguments that a person wrote instead of the model's."""
        edited = context.state_of(self).edited_arguments.get(context.key)
        if edited is not None:
            call = msgspec.structs.replace(context.call, arguments=_encode(edited).decode())
            context = msgspec.structs.replace(context, call=call)
        return await call_next(context)


def _is_edited_by_answer(context: BeforeTool, state: PermissionMemory) -> bool:
    """Whether the call has exactly the arguments that a person approved instead of the model's."""
    edited, written = state.edited_arguments.get(context.key), context.written_call
    if edited is None or written is None:
        return False
    return written.arguments == _encode(edited).decode()


def _is_like(value: object, pattern: str) -> bool:
    """Whether a value matches the pattern; a whole number matches as 5 and as 5.0."""
    if isinstance(value, float) and value.is_integer() and fnmatchcase(str(int(value)), pattern):
        return True
    return fnmatchcase(_argument_text(value), pattern)


def _argument_text(value: object) -> str:
    return value if isinstance(value, str) else _encode(value).decode()


def _call_signature(tool: str, arguments: Mapping[str, object]) -> str:
    return _argument_text([tool, arguments])


def _without_question(
    questions: Mapping[str, tuple[str, str]], key: str
) -> Mapping[str, tuple[str, str]]:
    return {other: call for other, call in questions.items() if other != key}


def _record_question(state: PermissionMemory, event: QuestionAsked) -> PermissionMemory:
    if event.kind != PermissionQuestion.__name__:
        return state
    question = msgspec.convert(event.question, PermissionQuestion)
    if question.source != SOURCE:
        return state
    call = (question.tool, _call_signature(question.tool, question.arguments))
    asked = {**state.open_questions, event.key.removesuffix(ASKED): call}
    return msgspec.structs.replace(state, open_questions=asked)


def _record_answer(state: PermissionMemory, event: QuestionAnswered) -> PermissionMemory:
    tool, call = state.open_questions[event.key]
    answer = msgspec.convert(event.answer, Approved | Denied)
    yes = isinstance(answer, Approved)
    tools, calls, edited = state.tools, state.calls, state.edited_arguments
    if answer.remember == "tool":
        tools = {**tools, tool: yes}
    elif answer.remember == "call":
        changed = answer.arguments if isinstance(answer, Approved) else None
        calls = {**calls, call if changed is None else _call_signature(tool, changed): yes}
    if isinstance(answer, Approved) and answer.arguments is not None:
        edited = {**edited, event.key.partition(ASK)[0]: answer.arguments}
    return PermissionMemory(
        _without_question(state.open_questions, event.key), tools, calls, edited
    )


def _parse_rules(argument: str, rules: Rules) -> tuple[Rule, ...]:
    given = tuple(rules)
    check_value(argument, given, tuple[NonEmptyText | Rule, ...])
    return tuple(Rule(rule) if isinstance(rule, str) else rule for rule in given)


def _check_contradictions(rules: Mapping[Permission, tuple[Rule, ...]]) -> None:
    """Raise ConfigurationError for a rule that a stricter rule always overrules."""
    strictness: tuple[Permission, ...] = ("deny", "ask", "allow")
    for index, strict in enumerate(strictness):
        for loose in strictness[index + 1 :]:
            for rule in rules[strict]:
                for other in rules[loose]:
                    if rule.covers(other):
                        raise ConfigurationError(
                            loose,
                            f'"{other}" contradicts {strict} "{rule}", which always overrules it',
                            fix=f'Remove one of them, or use default="{strict}" for all others',
                        )
