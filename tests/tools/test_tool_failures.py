"""What an exception of a tool means for retry."""

from __future__ import annotations

import asyncio
import errno
import urllib.error
from email.message import Message
from typing import Any

import aiohttp
import httpx
import pytest
import requests

from holdfast import Agent, RetryOptions, tool
from holdfast.compat import AgentBuilder
from holdfast.core.errors import ErrorCategory as Category
from holdfast.core.errors import Landed, ToolFailedError
from holdfast.core.messages import ToolCall
from holdfast.middleware import FunctionRetry
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.tools.tool_failures import ToolError, error_text, failure_info


class WithStatus(Exception):
    def __init__(self, text: str = "", **attributes: Any) -> None:
        super().__init__(text)
        self.__dict__.update(attributes)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")

    @property
    def response(self) -> object:
        raise RuntimeError("no")


def http(status: int, **headers: str) -> httpx.HTTPStatusError:
    request = httpx.Request("GET", "https://example.org")
    response = httpx.Response(status, headers=headers, request=request)
    return httpx.HTTPStatusError("x", request=request, response=response)


@pytest.mark.parametrize(
    "error",
    [
        TypeError(),
        KeyError("a"),
        AttributeError(),
        AssertionError(),
        NameError(),
        UnboundLocalError(),
        IndexError(),
        NotImplementedError(),
        ZeroDivisionError(),
        ImportError(),
        RecursionError(),
        StopIteration(),
    ],
)
def test_programming_errors_are_not_retried(error: Exception) -> None:
    info = failure_info(error, "pay")
    assert info.category is Category.PROGRAMMING
    assert not info.category.is_retryable


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (ValueError("bug"), Category.UNKNOWN),
        (RuntimeError("x"), Category.UNKNOWN),
        (Exception(), Category.UNKNOWN),
        (TimeoutError(), Category.TIMEOUT),
        (BlockingIOError(), Category.TRANSIENT),
        (ConnectionResetError(), Category.TRANSIENT),
        (OSError(errno.EIO, "x"), Category.TRANSIENT),
        (FileNotFoundError("x"), Category.CLIENT_ERROR),
        (PermissionError("x"), Category.CLIENT_ERROR),
        (ToolError("x"), Category.CLIENT_ERROR),
    ],
)
def test_by_type(error: Exception, category: Category) -> None:
    info = failure_info(error, "pay")
    assert (info.category, info.landed) == (category, Landed.UNKNOWN)


@pytest.mark.parametrize(
    ("status", "category", "landed"),
    [
        (400, Category.CLIENT_ERROR, Landed.NO),
        (401, Category.AUTH_ERROR, Landed.NO),
        (402, Category.RATE_LIMIT_TERMINAL, Landed.NO),
        (403, Category.AUTH_ERROR, Landed.NO),
        (404, Category.CLIENT_ERROR, Landed.NO),
        (408, Category.TIMEOUT, Landed.UNKNOWN),
        (429, Category.RATE_LIMIT_RETRYABLE, Landed.NO),
        (500, Category.SERVER_ERROR, Landed.UNKNOWN),
        (503, Category.TRANSIENT, Landed.UNKNOWN),
        (504, Category.TIMEOUT, Landed.UNKNOWN),
        (599, Category.SERVER_ERROR, Landed.UNKNOWN),
        (302, Category.UNKNOWN, Landed.UNKNOWN),
    ],
)
def test_by_status(status: int, category: Category, landed: Landed) -> None:
    response = requests.Response()
    response.status_code = status
    for error in (
        WithStatus(status_code=status),
        WithStatus(status=status),
        WithStatus(code=status),
        http(status),
        requests.HTTPError(response=response),
        urllib.error.HTTPError("https://example.org", status, "x", Message(), None),
    ):
        info = failure_info(error, "pay")
        assert (info.category, info.landed, info.status) == (category, landed, status), error


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("Request failed. Status: 429 (Too Many Requests)", Category.RATE_LIMIT_RETRYABLE),
        ("status:503", Category.TRANSIENT),
        ("Server error (500)", Category.SERVER_ERROR),
        ("Took (200) tries", Category.UNKNOWN),
        ("Status: 4290", Category.UNKNOWN),
    ],
)
def test_by_status_in_the_text(text: str, category: Category) -> None:
    assert failure_info(RuntimeError(text), "pay").category is category


def test_an_exhausted_quota_is_not_waited_for() -> None:
    error = WithStatus("You exceeded your current quota", status_code=429)
    assert failure_info(error, "pay").category is Category.RATE_LIMIT_TERMINAL


def test_retry_after_is_read() -> None:
    assert failure_info(http(429, **{"Retry-After": "7"}), "pay").retry_after == 7
    assert failure_info(http(503, **{"retry-after-ms": "1500"}), "pay").retry_after == 1.5
    assert failure_info(WithStatus(status=429, headers={"Retry-After": 3}), "x").retry_after == 3
    assert failure_info(WithStatus(status=429, retry_after=2), "pay").retry_after == 2
    assert failure_info(http(400, **{"Retry-After": "7"}), "pay").retry_after is None


@pytest.mark.parametrize("wait", [float("nan"), float("inf"), -1, True, "soon"])
def test_an_invalid_wait_is_ignored(wait: object) -> None:
    assert failure_info(WithStatus(status=429, retry_after=wait), "pay").retry_after is None


def test_a_refused_connection_has_not_landed() -> None:
    assert failure_info(ConnectionRefusedError(), "pay").landed is Landed.NO
    # This also ends a connection on which a request was sent.
    assert failure_info(OSError(errno.ENETUNREACH, "x"), "pay").landed is Landed.UNKNOWN


def test_our_own_errors_keep_what_they_know() -> None:
    error = ToolFailedError("inner", "x")
    assert failure_info(error, "pay") is error.info


def test_a_group_is_retried_when_every_member_is() -> None:
    def category(*members: Exception) -> Category:
        return failure_info(ExceptionGroup("x", members), "pay").category

    assert category(ConnectionResetError(), TimeoutError()).is_retryable
    assert category(ConnectionResetError(), KeyError()) is Category.PROGRAMMING
    assert category(ConnectionResetError(), ExceptionGroup("y", [http(401)])) is Category.AUTH_ERROR


def test_the_text_is_in_the_private_half_only_and_redacted() -> None:
    info = failure_info(RuntimeError("login at vault.internal, password=hunter2"), "pay")
    assert info.safe == "Function 'pay' failed with RuntimeError."
    assert info.private == "RuntimeError: login at vault.internal, password=[redacted]"
    assert "vault" not in repr(info)


def test_an_exception_that_cannot_speak() -> None:
    assert failure_info(Mute(), "pay").private == "Mute: (its text cannot be read)"
    assert error_text(ValueError("a\ud800")) == "a\ufffd"
    assert error_text(Mute()) == "(its text cannot be read)"


# A timeout and a lost connection leave open whether the tool took effect. Any other exception is
# repeated.

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
async def test_a_tool_in_doubt_is_not_repeated(error: Exception) -> None:
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
async def test_a_tool_in_doubt_is_repeated_on_request(error: Exception) -> None:
    asked = RetryOptions(repeat_in_doubt=True)
    assert await attempts(error, retry=asked) == 4
    assert await attempts(error, "write", retry=asked) == 1
    assert await attempts(error, middleware=[FunctionRetry(repeat_in_doubt=True)]) == 4


async def test_the_builder_of_the_seed_repeats_a_tool_in_doubt() -> None:
    bank = Bank(TimeoutError("late"))
    builder = (
        AgentBuilder().with_model(ScriptedModel(CALL, "Done.")).with_tools(tool(bank.transfer))
    )
    await builder.with_function_retry().with_keywords(clock=FakeClock()).build().run("Go.")
    assert bank.attempts == 4


def test_describe_shows_the_tools_that_are_not_repeated() -> None:
    transfer = tool(Bank(None).transfer)
    line = "not repeated after a timeout or a lost connection: transfer"
    assert line in Agent(ScriptedModel(), tools=[transfer]).describe()
    asked = RetryOptions(repeat_in_doubt=True)
    assert line not in Agent(ScriptedModel(), tools=[transfer], retry=asked).describe()
