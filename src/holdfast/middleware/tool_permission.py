"""Which tools may run: by rule, by what somebody said before, or by asking.

What no rule names is denied. Answers that are to be remembered are found again in the events of the
session, both ways: a "never" is kept as well as an "always". This middleware must never take
silence for a yes, nor a yes to some arguments for a yes to others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from holdfast.core.argument_checks import check_fields
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import Event, QuestionAnswered, QuestionAsked, QuestionUnanswered
from holdfast.core.messages import ToolResult
from holdfast.core.question_log import ASK, ASKED
from holdfast.core.questions import (
    Approved,
    Denied,
    PermissionQuestion,
    Timeout,
    check_timeout,
)
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
    """Tools by pattern, and by patterns of their arguments.

    Args:
        tool: a name, or a pattern with `*` and `?`, such as "read_*".
        arguments: patterns for arguments by the names of the parameters; all must be there and match.
            They judge the validated arguments, with defaults, so that `"yes"` for a boolean is
            `true`. What is not text is compared by its JSON form.

    >>> Rule("send", {"to": "*@example.org"}).matches("send", {"to": "ann@example.org"})
    True
    """

    tool: str
    arguments: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        check_fields(self, "", "tool", "arguments")

    def matches(self, tool: str, arguments: Mapping[str, object]) -> bool:
        """Whether the rule is about this call."""
        return fnmatchcase(tool, self.tool) and all(
            name in arguments and _is_like(arguments[name], pattern)
            for name, pattern in self.arguments.items()
        )

    def covers(self, other: Rule) -> bool:
        """Whether it is about every call that `other` is about, as far as patterns can tell."""
        return fnmatchcase(other.tool, self.tool) and all(
            name in other.arguments and fnmatchcase(other.arguments[name], pattern)
            for name, pattern in self.arguments.items()
        )

    def __str__(self) -> str:
        shown = ", ".join(f"{name}={pattern}" for name, pattern in self.arguments.items())
        return f"{self.tool}({shown})" if shown else self.tool


Rules: TypeAlias = Iterable[str | Rule]


class PermissionMemory(Struct, frozen=True):
    """What somebody said in this session: yes or no, by tool, and by tool with its arguments.

    `edited_arguments` are the arguments that a call runs with in place of the model's, by the call's key.
    """

    open_questions: Mapping[str, tuple[str, str]] = {}
    tools: Mapping[str, bool] = {}
    calls: Mapping[str, bool] = {}
    edited_arguments: Mapping[str, Mapping[str, object]] = {}


class ToolPermission(Middleware[PermissionMemory]):
    """Allows tools, denies them, or asks a person first.

    Where several rules match, the strictest wins: deny, then ask, then allow.

    Args:
        allow: these run.
        ask: these run when somebody says so.
        deny: these never run.
        default: what happens to all others.
        timeout: seconds to wait for an answer; None waits for ever, and by default it is 5
            minutes while the run waits and for ever once it is suspended. No answer means no.

    Raises:
        ConfigurationError: two rules contradict each other; it names both.

    >>> ToolPermission(allow=["read_*"], ask=["pay"], deny=["drop_*"]).permission_for("drop_table", {})
    'deny'
    """

    scope: Literal["turn", "session"] = "session"
    events = (QuestionAsked, QuestionAnswered, QuestionUnanswered)

    def __init__(
        self,
        *,
        allow: Rules = (),
        ask: Rules = (),
        deny: Rules = (),
        default: Permission = "deny",
        timeout: Timeout = "default",
    ) -> None:
        check_timeout("timeout", timeout)
        if default not in ("deny", "ask", "allow"):
            raise ConfigurationError(
                "default", f'must be "deny", "ask" or "allow", got {default!r}'
            )
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
        """Nothing was said yet."""
        return PermissionMemory()

    def describe(self) -> dict[str, object]:
        """The rules."""
        shown: dict[str, object] = {
            verdict: " ".join(map(str, rules)) for verdict, rules in self._rules.items() if rules
        }
        return {**shown, "default": self._default, "timeout": self._timeout}

    def permission_for(self, tool: str, arguments: Mapping[str, object]) -> Permission:
        """What the rules say of a call, whatever anybody said before."""
        return self._permission_by_rule(tool, arguments) or self._default

    def _permission_by_rule(self, tool: str, arguments: Mapping[str, object]) -> Permission | None:
        for verdict, rule in self._rules_for(tool):
            if not rule.arguments or rule.matches(tool, arguments):
                return verdict
        return None

    def _rules_for(self, tool: str) -> tuple[tuple[Permission, Rule], ...]:
        """The rules that name the tool, the strictest first."""
        found = self._by_tool.get(tool)
        if found is None:
            found = tuple(
                (verdict, rule)
                for verdict, rules in self._rules.items()
                for rule in rules
                if fnmatchcase(tool, rule.tool)
            )
            if len(self._by_tool) < _MOST_TOOLS:  # a model may invent any number of names
                self._by_tool[tool] = found
        return found

    def fold(self, state: PermissionMemory, event: Event) -> PermissionMemory:
        """Remember what was asked, and what was answered to it."""
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
        """Decide by the rules, by what was said before, or by asking."""
        tool, arguments = context.tool, context.arguments or {}
        ruled = self._permission_by_rule(tool, arguments)
        verdict = ruled or self._default
        if verdict == "deny":
            return Deny((RULE_TEXT if ruled else DEFAULT_TEXT).format(tool=tool))
        if verdict == "allow":
            return None
        state = context.state_of(self)
        if _is_edited_by_answer(context, state):
            return None
        said = state.calls.get(_call_signature(tool, arguments), state.tools.get(tool))
        if said is not None:
            return None if said else Deny(STORED_TEXT.format(tool=tool))
        request = PermissionQuestion(
            tool=tool, arguments=arguments, call_id=context.call.id, source=SOURCE
        )
        answer = await context.ask(request, timeout=self._timeout)
        if isinstance(answer, Denied):
            return Deny(answer.reason)
        # The arguments are on their way to the tool already, and are not what somebody wants.
        late = context.edited and answer.arguments is not None
        return Deny(EDITED_TEXT.format(tool=tool)) if late else None

    async def wrap_tool(
        self, context: ToolUse, call_next: Callable[[ToolUse], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Run the call with the arguments that somebody gave it in place of the model's."""
        edited = context.state_of(self).edited_arguments.get(context.key)
        if edited is not None:
            call = msgspec.structs.replace(context.call, arguments=_encode(edited).decode())
            context = msgspec.structs.replace(context, call=call)
        return await call_next(context)


def _is_edited_by_answer(moment: BeforeTool, state: PermissionMemory) -> bool:
    """Whether the call has the very arguments that somebody approved in place of the model's."""
    edited, written = state.edited_arguments.get(moment.key), moment.written_call
    if edited is None or written is None:
        return False
    return written.arguments == _encode(edited).decode()


def _is_like(value: object, pattern: str) -> bool:
    """Whether a value matches; a whole number in either of its spellings, 5 and 5.0."""
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
    request = msgspec.convert(event.question, PermissionQuestion)
    if request.source != SOURCE:
        return state
    call = (request.tool, _call_signature(request.tool, request.arguments))
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


def _parse_rules(argument: str, rules: object) -> tuple[Rule, ...]:
    if isinstance(rules, str) or not isinstance(rules, Iterable):
        raise ConfigurationError(argument, "must be a list of rules", fix=f'Write {argument}=["x"]')
    found = []
    for index, one in enumerate(rules):
        rule = Rule(one) if isinstance(one, str) else one
        if not isinstance(rule, Rule) or not rule.tool.strip():
            raise ConfigurationError(
                f"{argument}[{index}]", "must be the name of a tool, a pattern or a Rule"
            )
        found.append(rule)
    return tuple(found)


def _check_contradictions(rules: Mapping[Permission, tuple[Rule, ...]]) -> None:
    """A rule that a stricter one always overrules says something that its writer does not get."""
    strictness: tuple[Permission, ...] = ("deny", "ask", "allow")
    for index, strict in enumerate(strictness):
        for loose in strictness[index + 1 :]:
            for one in rules[strict]:
                for other in rules[loose]:
                    if one.covers(other):
                        raise ConfigurationError(
                            loose,
                            f'"{other}" contradicts {strict} "{one}", which always overrules it',
                            fix=f'Remove one of them, or use default="{strict}" for all others',
                        )
