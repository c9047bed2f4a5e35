"""What the user's own hooks raise is logged with its traceback, and without the secrets in its text."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import pytest

from holdfast import Agent, RetryOptions, ToolContext, tool
from holdfast.calls.exception_rules import classify_exception
from holdfast.core.errors import ErrorCategory, ErrorInfo, ProviderError
from holdfast.core.messages import ToolCall
from holdfast.core.questions import ClarificationQuestion
from holdfast.resilience import BreakerOptions
from holdfast.resilience.breaker.strategy import CircuitBreaker
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.transport.credentials import find_secrets

SECRET = "sk-live-8f7a6b5c4d3e2f1a"
PASSWORD = "hunter2"
VALUE = "8f7a6b5c4d3e2f1a9b8c7d6e"


def fail_with_secrets(*_: object) -> NoReturn:
    """Raise an error with a cause, a note and secrets in all of them."""
    try:
        raise ConnectionError(f"https://bob:{PASSWORD}@db/x refused Authorization: Bearer {SECRET}")
    except ConnectionError as error:
        failure = RuntimeError(f"password={PASSWORD} and {SECRET}")
        failure.add_note(f"token={SECRET}")
        raise failure from error


def down() -> ProviderError:
    info = ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="down")
    return ProviderError("down", info=info)


async def fail_as_observer() -> None:
    await Agent(ScriptedModel("done"), observers=[fail_with_secrets]).run("Go")


async def fail_as_retry_hook() -> None:
    retry = RetryOptions(custom_retry=fail_with_secrets)
    agent = Agent(ScriptedModel(down()), retry=retry, clock=FakeClock())
    with pytest.raises(ProviderError):
        await agent.run("Go")


async def fail_as_subscriber() -> None:
    breaker = CircuitBreaker("target", BreakerOptions())
    breaker.subscribe(fail_with_secrets)
    breaker.isolate()


async def fail_as_classify() -> None:
    classify_exception(KeyError("x"), fail_with_secrets, FakeClock())


def asking_agent(handler: Any, model: type[ScriptedModel] = ScriptedModel) -> Agent[str]:
    @tool(effect="read")
    async def ask(context: ToolContext) -> str:
        """Ask."""
        return await context.ask(ClarificationQuestion(question="Which?"))

    return Agent(model(ToolCall("1", "ask"), "done"), tools=[ask], on_question=handler)


async def fail_as_question_handler() -> None:
    async def handler(_: object) -> object:
        await asyncio.sleep(0)
        fail_with_secrets()

    await asking_agent(handler).run("Go")


@pytest.mark.parametrize(
    "act",
    [
        fail_as_observer,
        fail_as_retry_hook,
        fail_as_subscriber,
        fail_as_classify,
        fail_as_question_handler,
    ],
)
async def test_the_log_has_the_traceback_and_no_secret(
    act: Callable[[], Awaitable[None]], caplog: pytest.LogCaptureFixture
) -> None:
    await act()
    assert "RuntimeError: password=[redacted]" in caplog.text
    assert "in fail_with_secrets" in caplog.text
    assert "ConnectionError: https://[redacted]@db/x" in caplog.text
    for secret in (SECRET, PASSWORD):
        assert secret not in caplog.text
        assert secret not in repr([record.exc_info for record in caplog.records])


class KnowsAKey(ScriptedModel):
    """A scripted model with a secret, as a model over HTTP has one."""

    secrets = find_secrets("", [("authorization", f"Bearer {VALUE}")])


async def test_the_handler_of_questions_does_not_tell_the_key_of_its_agent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handler(_: object) -> object:
        raise KeyError(f"no page for {VALUE}")

    await asking_agent(handler, KnowsAKey).run("Go")
    assert "no page for [redacted]" in caplog.text
    assert VALUE not in caplog.text
