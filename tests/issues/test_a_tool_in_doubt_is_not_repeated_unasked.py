"""A tool without a declared effect was repeated after a timeout: four transfers in seven seconds.

A timeout and a lost connection leave open whether the tool acted. Any other exception is repeated.
"""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from holdfast import Agent, RetryOptions, tool
from holdfast.compat import AgentBuilder
from holdfast.core.messages import ToolCall
from holdfast.middleware import FunctionRetry
from holdfast.testing import FakeClock, ScriptedModel

pytestmark = pytest.mark.anyio

CALL = ToolCall("c", "transfer", "{}")


class RemoteProtocolError(Exception):
    """As httpx names it."""


class Unavailable(Exception):
    """As clients raise it that keep the response."""

    status_code = 503


IN_DOUBT = [
    TimeoutError("late"),
    ConnectionResetError(104, "reset"),
    aiohttp.ServerDisconnectedError(),
    RemoteProtocolError("Server disconnected without sending a response."),
]
OTHERS = [
    ConnectionRefusedError(111, "refused"),
    RuntimeError("no idea"),
    ValueError("odd"),
    Unavailable("unavailable"),
]


class Bank:
    def __init__(self, error: Exception | None) -> None:
        self.error = error
        self.attempts = 0

    async def transfer(self) -> str:
        """Transfer money."""
        self.attempts += 1
        if self.error is None:
            return await asyncio.Event().wait()  # type: ignore[return-value]
        raise self.error


async def attempts(error: Exception | None, effect: str | None = None, **options: object) -> int:
    bank = Bank(error)
    transfer = tool(effect=effect)(bank.transfer)  # type: ignore[call-overload]
    model = ScriptedModel(CALL, "Done.")
    await Agent(model, tools=[transfer], clock=FakeClock(), **options).run("Go.")  # type: ignore[arg-type]
    return bank.attempts


@pytest.mark.parametrize("error", IN_DOUBT, ids=lambda error: type(error).__name__)
async def test_what_may_have_acted_is_not_repeated(error: Exception) -> None:
    assert await attempts(error) == 1
    assert await attempts(error, "write") == 1
    assert await attempts(error, "read") == 4
    assert await attempts(error, "idempotent") == 4


async def test_a_timeout_of_ours_is_in_doubt_too() -> None:
    assert await attempts(None, tool_timeout=0.01) == 1
    assert await attempts(None, "idempotent", tool_timeout=0.01) == 4


@pytest.mark.parametrize("error", OTHERS, ids=lambda error: type(error).__name__)
async def test_other_exceptions_are_repeated(error: Exception) -> None:
    assert await attempts(error) == 4


@pytest.mark.parametrize("error", IN_DOUBT, ids=lambda error: type(error).__name__)
async def test_it_is_repeated_if_somebody_asks_for_it(error: Exception) -> None:
    asked = RetryOptions(repeat_in_doubt=True)
    assert await attempts(error, retry=asked) == 4
    assert await attempts(error, "write", retry=asked) == 1
    assert await attempts(error, middleware=[FunctionRetry(repeat_in_doubt=True)]) == 4


async def test_the_builder_of_the_seed_asks_for_it() -> None:
    bank = Bank(TimeoutError("late"))
    builder = (
        AgentBuilder().with_model(ScriptedModel(CALL, "Done.")).with_tools(tool(bank.transfer))
    )
    await builder.with_function_retry().with_keywords(clock=FakeClock()).build().run("Go.")
    assert bank.attempts == 4


def test_describe_shows_it() -> None:
    transfer = tool(Bank(None).transfer)
    line = "not repeated after a timeout or a lost connection: transfer"
    assert line in Agent(ScriptedModel(), tools=[transfer]).describe()
    asked = RetryOptions(repeat_in_doubt=True)
    assert line not in Agent(ScriptedModel(), tools=[transfer], retry=asked).describe()
