"""Checks questions and answers: prepares a question before it is asked, and an answer before it is accepted.

A question gets a description and its key. An answer is accepted only if it belongs to the question and
fits it; an answer to another question is never accepted, however similar the two are. This module must
not wait for an answer, nor decide about a missing one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container
from itertools import count
from typing import TypeAlias, cast

import msgspec
from msgspec import Struct

from holdfast.core.argument_checks import check_value, is_async
from holdfast.core.effects import asking_scopes
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import OnWait, QuestionAsked
from holdfast.core.machine import SessionMachine
from holdfast.core.question_log import ask_key, asked_key, restore_question
from holdfast.core.questions import (
    NO_DESCRIPTION,
    AnyAnswer,
    AnyQuestion,
    Approved,
    PermissionQuestion,
    Question,
    Timeout,
    plain_form,
    question_content,
    validate_answer,
)
from holdfast.runtime.plan import AgentPlan
from holdfast.runtime.questions.open_question import Receipt
from holdfast.tools.registry import Registry
from holdfast.tools.tool import Tool
from holdfast.tools.tool_failures import RefusedCall

OnQuestion: TypeAlias = Callable[[AnyQuestion], Awaitable[object]]
"""Returns an answer, or None to let others answer the question."""


class PendingQuestion(Struct, frozen=True):
    """One question that is ready to be asked.

    Args:
        question: the question, with its key and its binding.
        event: the event that saves it.
        timeout: how long an answer may take.
        suspends: whether the asker is suspended when nobody answers in time.
    """

    question: AnyQuestion
    event: QuestionAsked
    timeout: Timeout
    suspends: bool

    @property
    def hold_seconds(self) -> float | None:
        """How many seconds the question is held; None means without a limit."""
        return self.question.default_timeout if self.timeout == "default" else self.timeout


def check_handler(handler: object) -> OnQuestion | None:
    """Return the handler if it is an async callable or None. Raises ConfigurationError."""
    if handler is None:
        return None
    if not is_async(handler):
        raise ConfigurationError(
            "on_question",
            f"must be an async function, got {type(handler).__name__}",
            fix="Write `async def answer(request): ...` and return an answer or None",
        )
    return cast("OnQuestion", handler)


def check_on_wait(on_wait: object, journal: object) -> OnWait:
    """Return the checked setting `on_wait`. Raises ConfigurationError."""
    check_value("on_wait", on_wait, OnWait)
    if on_wait == "suspend" and journal is None:
        raise ConfigurationError(
            "journal",
            'on_wait="suspend" needs one, in which a run waits',
            fix="Pass journal=SqliteJournal(path), or MemoryJournal() for this process alone",
        )
    return cast("OnWait", on_wait)


def check_can_ask(machine: SessionMachine, scope: str, request: object, timeout: object) -> None:
    """Raise ConfigurationError unless this question can be asked now."""
    check_value("request", request, Question)
    check_value("timeout", timeout, Timeout)
    if not (machine.allows_event(QuestionAsked) and _is_in_progress(machine, scope)):
        raise ConfigurationError(
            "ask",
            f"nobody can be asked here, because {scope} is not in progress",
            fix="Ask in a tool, or in any hook but after_turn and live",
        )


def _is_in_progress(machine: SessionMachine, scope: str) -> bool:
    """Whether this effect, this turn or its tools are in progress, so that they can ask."""
    scopes = asking_scopes(machine.turn, machine.iteration)
    return scope in scopes or machine.find_pending(scope) is not None


def add_description(registry: Registry, question: AnyQuestion) -> AnyQuestion:
    """Return a permission question without a description with that of its tool."""
    if isinstance(question, PermissionQuestion) and question.description == NO_DESCRIPTION:
        tool = registry.get(question.tool)
        if tool is not None and tool.description:
            return msgspec.structs.replace(question, description=tool.description)
    return question


class UsedKeys:
    """The keys that are not free for one asker: a tool in one attempt, or the hooks of an effect."""

    __slots__ = ("_keys", "lowest")

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self.lowest = 0
        """The lowest number that is free."""

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def add(self, scope: str, number: int) -> None:
        """Note that the key of this number is not free."""
        self._keys.add(ask_key(scope, number))
        while ask_key(scope, self.lowest) in self._keys:
            self.lowest += 1


class AskedBy(Struct, frozen=True):
    """Who asks a question.

    Args:
        scope: the key of the effect.
        by_hook: whether a hook asks, and not the tool itself.
        used_keys: the keys that this asker has used; the new key is added to them.
    """

    scope: str
    by_hook: bool
    used_keys: UsedKeys


def assign_key(
    machine: SessionMachine,
    asker: AskedBy,
    question: AnyQuestion,
    in_progress: Container[str] = (),
) -> QuestionAsked:
    """Return the event of the question: a saved one, or a new one with a free key.

    A saved event is used only if its question is equal and comes from the same place. So a saved
    answer is never used for a different question: a yes to 10 euros is not a yes to 1000 euros, and
    a yes to the first payment of a subagent is not a yes to its second one.

    Args:
        machine: has the questions asked so far.
        asker: who asks.
        question: the question. If it has a binding, it is passed on from another run.
        in_progress: the keys of questions that may not be saved yet.
    """
    scope, used = asker.scope, asker.used_keys
    kind, content = type(question).__name__, question_content(question)
    wanted = (kind, content, question.binding)
    for number in count(used.lowest):
        key = ask_key(scope, number)
        before = machine.questions.questions.get(key)
        if key in used or (before is None and key in in_progress):
            continue
        if before is None:
            used.add(scope, number)
            return QuestionAsked(
                asked_key(key),
                0.0,
                kind,
                content,
                by_hook=asker.by_hook,
                origin=question.binding,
            )
        if before.by_hook is not asker.by_hook:
            used.add(scope, number)  # this key is never free for this asker
        elif _shows_the_same(before, wanted):
            used.add(scope, number)
            return before
    raise AssertionError("unreachable")


def _shows_the_same(before: QuestionAsked, wanted: tuple[str, object, str]) -> bool:
    """Whether a saved question is the one that is asked now.

    A field that its class got later, and that has its default value, makes no difference: the program
    may be newer than the question.
    """
    kind, content, origin = wanted
    if (before.kind, before.origin) != (kind, origin):
        return False
    if before.question == content:
        return True
    saved = before.question
    if not (
        isinstance(saved, dict) and isinstance(content, dict) and saved.keys() < content.keys()
    ):
        return False
    return question_content(restore_question(before, "")) == content


def check_answer(plan: AgentPlan, question: AnyQuestion, answer: AnyAnswer) -> AnyAnswer | Receipt:
    """Return the answer as it is saved, or a receipt with the reason why it is not accepted.

    Args:
        plan: the agent that asks.
        question: the question, with its key and its binding.
        answer: the answer.

    Raises:
        AnswerTypeError: the question asks for another type; it stays open.
        ConfigurationError: the edited arguments do not fit the tool; the question stays open.
    """
    if (answer.key, answer.binding) != (question.key, question.binding):
        return Receipt("mismatch")
    if answer.expires_at is not None and plan.clock.now() >= answer.expires_at:
        return Receipt("late")
    value = validate_answer(question, answer.value)
    if isinstance(question, PermissionQuestion) and isinstance(value, Approved):
        tool = plan.registry.get(question.tool)
        value = _with_validated_arguments(tool, value, plan.clock.now())
    return msgspec.structs.replace(answer, value=value)


def _with_validated_arguments(tool: Tool | None, value: Approved, now: float) -> Approved:
    """Return the approval with its arguments as the tool would receive them.

    The run validates the saved arguments, so the approval must contain validated ones: a default that
    is made anew each time would otherwise differ from the approved one.
    """
    if value.arguments is None or tool is None:
        return value
    text = msgspec.json.encode(plain_form(value.arguments)).decode()
    try:
        checked = tool.signature.check(text, edited=True, now=now)
    except Exception as error:  # REASON: validators are the user's code
        raise _arguments_error(tool, f"{type(error).__name__} in a validator") from error
    if isinstance(checked, RefusedCall):
        raise _arguments_error(tool, checked.text)
    return msgspec.structs.replace(value, arguments=msgspec.json.decode(checked.text))


def _arguments_error(tool: Tool, why: str) -> ConfigurationError:
    problem = why.removesuffix("\nCorrect them and call it again.")  # that is for a model
    return ConfigurationError(
        "arguments",
        f"do not fit the tool {tool.name!r}: {problem}",
        fix="Correct them and answer again; the question is still open",
    )
