"""Prepares a question before it is asked: checks it, adds a description and assigns its key.

This module must not wait for an answer, nor decide what a missing answer means.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TypeAlias, cast

import msgspec
from msgspec import Struct

from holdfast.core.argument_checks import check_value
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import OnWait, QuestionAsked
from holdfast.core.machine import SessionMachine
from holdfast.core.question_log import ask_key
from holdfast.core.questions import (
    NO_DESCRIPTION,
    AnyQuestion,
    PermissionQuestion,
    Question,
    Timeout,
    plain_form,
)
from holdfast.tools.registry import Registry

OnQuestion: TypeAlias = Callable[[AnyQuestion], Awaitable[object]]
"""Returns an answer, or None to let others answer the question."""


class PendingQuestion(Struct, frozen=True):
    """One question that is ready to be asked.

    Args:
        question: the question, with its key.
        plain: the question in the form in which it is saved.
        timeout: how long an answer may take.
        suspends: whether the asker is suspended when nobody answers in time.
        before_effect: whether a hook asks before its effect has started.
    """

    question: AnyQuestion
    plain: object
    timeout: Timeout
    suspends: bool
    before_effect: bool

    def compute_expiry(self, now: float) -> float | None:
        """The time after which an answer to a suspended asker is too late; None means never."""
        if not self.suspends or self.timeout is None or self.timeout == "default":
            return None
        return now + self.timeout

    @property
    def hold_seconds(self) -> float | None:
        """How many seconds the question is held; None means without a limit."""
        return self.question.default_timeout if self.timeout == "default" else self.timeout


def check_handler(handler: object) -> OnQuestion | None:
    """Return the handler if it is an async callable or None. Raises ConfigurationError."""
    if handler is None:
        return None
    call = getattr(type(handler), "__call__", None)  # noqa: B004  # REASON: its kind is asked
    if not (inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)):
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
    if not machine.allows_event(QuestionAsked):
        raise ConfigurationError(
            "ask",
            f"{scope} is not within a turn, and a question belongs to one",
            fix="Ask in a hook of an iteration or of a tool, or in a tool",
        )


def add_description(registry: Registry, question: AnyQuestion) -> AnyQuestion:
    """Return a permission question without a description with that of its tool."""
    if isinstance(question, PermissionQuestion) and question.description == NO_DESCRIPTION:
        tool = registry.get(question.tool)
        if tool is not None and tool.description:
            return msgspec.structs.replace(question, description=tool.description)
    return question


def assign_key(
    machine: SessionMachine, scope: str, used_keys: set[str], question: AnyQuestion
) -> tuple[AnyQuestion, object]:
    """Return the question with its key, and its plain form.

    The key is the first one that is free or belongs to an equal question. So a saved answer is
    never used for a different question: a yes to 10 euros is not a yes to 1000 euros.

    Args:
        machine: has the questions asked so far.
        scope: who asks.
        used_keys: the keys that this attempt has used; the new one is added to it.
        question: the question.
    """
    plain = plain_form(msgspec.structs.replace(question, key=""))
    what = (type(question).__name__, plain)
    for number in count():
        key = ask_key(scope, number)
        before = machine.questions.questions.get(key)
        if key not in used_keys and (before is None or (before.kind, before.question) == what):
            used_keys.add(key)
            return msgspec.structs.replace(question, key=key), plain
    raise AssertionError("unreachable")
