"""A tool's error was not redacted when it was one of Holdfast's, and a driver's error held a password."""

from __future__ import annotations

import pytest

from holdfast import Agent, tool
from holdfast.calls.foreign_fields import redact_exception
from holdfast.calls.sdk_errors import classify
from holdfast.core.errors import ErrorCategory, ErrorInfo, ProviderError
from holdfast.core.events import ToolFinished
from holdfast.core.messages import ToolCall
from holdfast.journal.journal_errors import JournalError
from holdfast.journal.postgres import PostgresJournal
from holdfast.testing import ScriptedModel
from holdfast.transport.credentials import find_secrets

KEY = "8f7a6b5c4d3e2f1a9b8c7d6e"


class KnowsAKey(ScriptedModel):
    """A scripted model with a secret, as a model over HTTP has one."""

    secrets = find_secrets("", [("authorization", f"Bearer {KEY}")])


def refuse() -> ProviderError:
    info = ErrorInfo(
        category=ErrorCategory.AUTH_ERROR,
        safe="password=hunter2",
        private="password=hunter2",
        code="token=hunter2",
    )
    return ProviderError("password=hunter2", info=info)


@pytest.mark.parametrize("detailed", [True, False])
async def test_an_error_of_holdfast_that_a_tool_raises_is_redacted(detailed: bool) -> None:
    @tool
    def pay() -> str:
        """Pay."""
        raise refuse()

    model = ScriptedModel(ToolCall("1", "pay"), "done")
    async with Agent(model, tools=[pay], detailed_errors=detailed).stream("go") as run:
        events = [item async for item in run]
    finished = [event for event in events if isinstance(event, ToolFinished)]
    assert len(finished) == 1
    assert finished[0].error is not None
    assert finished[0].error.category is ErrorCategory.AUTH_ERROR
    assert "hunter2" not in repr((events, model.requests))


async def test_a_tool_does_not_tell_the_key_of_its_agent(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def look() -> str:
        """Look."""
        raise KeyError(f"unknown key {KEY}")

    model = KnowsAKey(ToolCall("1", "look"), "done")
    agent = Agent(model, tools=[look], detailed_errors=True)
    async with agent.stream("go") as run:
        events = [item async for item in run]
    assert KEY not in repr((events, model.requests)) + caplog.text
    assert "unknown key [redacted]" in repr(model.requests)


async def test_the_error_of_a_driver_holds_no_password() -> None:
    url = f"postgresql://bob:{KEY}@127.0.0.1:1/db?connect_timeout=2"
    with PostgresJournal(url) as journal, pytest.raises(JournalError) as raised:
        await journal.read("r")
    errors: list[BaseException] = []
    pending: list[BaseException | None] = [raised.value]
    while pending:
        error = pending.pop()
        if error is not None and error not in errors:
            errors.append(error)
            pending += [error.__cause__, error.__context__]
    assert len(errors) >= 2  # the cause is still told
    for error in errors:
        assert KEY not in f"{error} {error.args} {vars(error)}"
        assert not type(error).__module__.startswith("psycopg") or not vars(error)


class Request:
    """The request of a client, as its exceptions hold it."""

    def __init__(self) -> None:
        self.url = "https://gateway.example/v1/chat"
        self.headers = {"Authorization": f"Bearer {KEY}"}


class StatusError(Exception):
    """As a vendor's SDK raises it."""

    def __init__(self) -> None:
        super().__init__(f"Error code: 401 - Incorrect API key: {KEY}")
        self.request = Request()
        self.status_code = 401


def test_the_exception_of_an_sdk_is_told_without_its_key() -> None:
    info = classify(StatusError())
    assert info.category is ErrorCategory.AUTH_ERROR
    assert KEY not in f"{info!r} {info.private}"
    assert "[redacted]" in info.safe
    assert KEY not in redact_exception(StatusError())
    wrapped = RuntimeError(f"the call failed: {KEY}")
    wrapped.__cause__ = StatusError()
    assert KEY not in redact_exception(wrapped)
