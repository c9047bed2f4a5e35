"""What a question is made of before anybody is asked: its checks, its words and its key.

Nothing here may wait for an answer, nor decide what silence means.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TypeAlias, cast

import msgspec
from msgspec import Struct

from holdfast.core.errors import ConfigurationError
from holdfast.core.events import OnWait
from holdfast.core.machine import SessionMachine
from holdfast.core.question_log import ask_key
from holdfast.core.questions import (
    NO_DESCRIPTION,
    AnyQuestion,
    PermissionQuestion,
    Question,
    Timeout,
    check_timeout,
    plain_form,
)
from holdfast.core.session_state import Phase
from holdfast.tools.registry import Registry

OnQuestion: TypeAlias = Callable[[AnyQuestion], Awaitable[object]]
"""Gives an answer, or None to leave the question to others."""


class PendingQuestion(Struct, frozen=True):
    """One question on its way to somebody.

    Args:
        question: with its key.
        plain: the request as it is kept.
        timeout: how long an answer may take.
        suspends: whoever asks leaves when nobody answers at once.
        before_effect: a hook asks whose effect has not begun.
    """

    question: AnyQuestion
    plain: object
    timeout: Timeout
    suspends: bool
    before_effect: bool

    def compute_expiry(self, now: float) -> float | None:
        """From when on an answer is too late for one who leaves, by the clock; None is never."""
        if not self.suspends or self.timeout is None or self.timeout == "default":
            return None
        return now + self.timeout

    @property
    def hold_seconds(self) -> float | None:
        """How long the question is held."""
        return self.question.default_timeout if self.timeout == "default" else self.timeout


def check_handler(handler: object) -> OnQuestion | None:
    """The handler, if it is an async callable. Raises ConfigurationError."""
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
    """What becomes of a run while nobody has answered. Raises ConfigurationError."""
    if on_wait not in ("hold", "suspend"):
        raise ConfigurationError("on_wait", f'must be "hold" or "suspend", got {on_wait!r}')
    if on_wait == "suspend" and journal is None:
        raise ConfigurationError(
            "journal",
            'on_wait="suspend" needs one, in which a run waits',
            fix="Pass journal=SqliteJournal(path), or MemoryJournal() for this process alone",
        )
    return on_wait


def check_can_ask(machine: SessionMachine, scope: str, request: object, timeout: object) -> None:
    """Raise ConfigurationError unless this can be asked now."""
    if not isinstance(request, Question):
        raise ConfigurationError(
            "request",
            f"must be a Request, got {type(request).__name__}",
            fix="Use PermissionQuestion, ClarificationQuestion or a class of your own",
        )
    check_timeout("timeout", timeout)
    if machine.phase not in (Phase.MODEL, Phase.TOOLS):
        raise ConfigurationError(
            "ask",
            f"{scope} is not within a turn, and a question belongs to one",
            fix="Ask in a hook of an iteration or of a tool, or in a tool",
        )


def add_description(registry: Registry, question: AnyQuestion) -> AnyQuestion:
    """The request with what the tool says of itself, where nothing else is said."""
    if isinstance(question, PermissionQuestion) and question.description == NO_DESCRIPTION:
        tool = registry.get(question.tool)
        if tool is not None and tool.description:
            return msgspec.structs.replace(question, description=tool.description)
    return question


def assign_key(
    machine: SessionMachine, scope: str, used_keys: set[str], question: AnyQuestion
) -> tuple[AnyQuestion, object]:
    """The request with its key, and its plain form.

    The key is the first one that is free, or that was asked this very same thing: so a kept answer
    is never used for another question, and a yes to 10 euros is none to 1000.

    Args:
        machine: knows what was asked.
        scope: who asks.
        used_keys: the keys that this attempt has used; takes the new one.
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
