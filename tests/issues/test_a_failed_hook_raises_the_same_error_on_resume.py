"""A turn that failed in a hook raised MiddlewareError at first, and ProviderError when it was resumed."""

from __future__ import annotations

import pytest

from holdfast import Agent, MemoryJournal, Middleware, tool
from holdfast.core.errors import ErrorCategory, ErrorInfo, MiddlewareError, exception_for
from holdfast.core.events import Event
from holdfast.core.messages import ToolCall
from holdfast.middleware.hook_contexts import (
    AfterIteration,
    AfterReply,
    BeforeIteration,
    BeforeTools,
    ModelCall,
)
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio


class Before(Middleware):
    async def before_iteration(self, context: BeforeIteration) -> None:
        raise ValueError("secret")


class Reply(Middleware):
    async def after_reply(self, context: AfterReply) -> None:
        raise ValueError("secret")


class Tools(Middleware):
    async def before_tools(self, context: BeforeTools) -> None:
        raise ValueError("secret")


class After(Middleware):
    async def after_iteration(self, context: AfterIteration) -> None:
        raise ValueError("secret")


class NoDecision(Middleware):
    async def before_iteration(self, context: BeforeIteration) -> None:
        return context  # type: ignore[return-value]


class Wrap(Middleware):
    name = "my.guard"

    async def wrap_model(self, context: ModelCall, call_next: object) -> object:  # type: ignore[override]
        raise ValueError("secret")


class Folding(Middleware[int]):
    initial = 0

    def fold(self, state: int, event: Event) -> int:
        raise ValueError("secret")


@tool
def look() -> str:
    """Look."""
    return "a wall"


def told(error: MiddlewareError) -> tuple[object, ...]:
    info = error.info.to_public()
    return str(error), error.middleware, error.hook, error.problem, info, error.partial


@pytest.mark.parametrize("kind", [Before, Reply, Tools, After, NoDecision, Wrap, Folding])
async def test_by_the_run_and_by_every_resume(kind: type[Middleware]) -> None:
    model = ScriptedModel(*[ToolCall("c1", "look", "{}")] * 3)
    agent = Agent(model, tools=[look], middleware=[kind()], journal=MemoryJournal())
    with pytest.raises(MiddlewareError) as first:
        await agent.run("Go.", session="s")
    for _ in range(2):
        with pytest.raises(MiddlewareError) as again:
            await agent.resume("s")
        assert told(again.value) == told(first.value)


def test_what_no_hook_said_is_no_failure_of_a_hook() -> None:
    info = ErrorInfo(category=ErrorCategory.PROGRAMMING, safe="Bad luck", code="middleware")
    assert not isinstance(exception_for(info), MiddlewareError)
