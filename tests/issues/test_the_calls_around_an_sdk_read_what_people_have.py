"""The retry functions and `send_message` read results, objects of any class, and no error pages."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest

from holdfast import Agent, ConfigurationError, Middleware
from holdfast.calls import send_message, send_message_streaming
from holdfast.compat import (
    AgentResponse,
    async_retry_ai_call_with_parsing,
    retry_ai_call_with_parsing,
    retry_rereg_ai_call_with_parsing,
)
from holdfast.middleware import Stop
from holdfast.testing import ScriptedModel


class WithProperty:
    @property
    def output_text(self) -> str:
        return "read"


class WithCachedProperty:
    @cached_property
    def output_text(self) -> str:
        return "read"


class WithClassAttribute:
    output_text = "read"


class WithSlots:
    __slots__ = ("output_text",)

    def __init__(self) -> None:
        self.output_text = "read"


@dataclass(slots=True)
class Part:
    text: str


@dataclass(slots=True)
class Content:
    parts: list[Part]


@dataclass(slots=True)
class Candidate:
    content: Content


@dataclass(slots=True)
class Response:
    candidates: list[Candidate]


class Raises:
    @property
    def candidates(self) -> object:
        raise ValueError("no candidates yet")


@pytest.mark.parametrize(
    "kind",
    [WithProperty, WithCachedProperty, WithClassAttribute, WithSlots],
    ids=lambda k: k.__name__,
)
def test_the_fields_of_any_class_are_read(kind: type) -> None:
    assert retry_rereg_ai_call_with_parsing(kind, max_retries=0)[2] == "read"


def test_a_dataclass_with_slots_is_read_to_its_depth() -> None:
    response = Response([Candidate(Content([Part("deep")]))])
    assert str(send_message(lambda: response)) == "deep"


def test_a_property_that_raises_is_an_error_of_the_call() -> None:
    result = send_message(Raises)
    assert not result.ok
    assert isinstance(result.error, ValueError)


def test_the_result_of_an_agent_is_read() -> None:
    agent = Agent(ScriptedModel('{"agent_final_response": "Hi", "routine_number": 2}'))
    assert retry_ai_call_with_parsing(agent.run_sync, "go", max_retries=0)[2:] == ("Hi", 2)
    assert str(send_message(Agent(ScriptedModel("hello")).run_sync, "go")) == "hello"
    typed: Any = Agent(
        ScriptedModel('{"agent_final_response": "Hi", "routine_number": 2}'), output=AgentResponse
    )
    assert retry_ai_call_with_parsing(typed.run_sync, "go", max_retries=0)[2:] == ("Hi", 2)


class Guard(Middleware):
    async def before_iteration(self, context: Any) -> Stop:
        return Stop("why", "Stopped by a guard.")


def test_the_words_of_a_guard_are_no_answer() -> None:
    agent = Agent(ScriptedModel("never"), middleware=[Guard()])
    assert not retry_ai_call_with_parsing(agent.run_sync, "go", max_retries=0)[0]
    result = send_message(agent.run_sync, "go")
    assert (result.ok, result.text) == (False, "")


@pytest.mark.parametrize("page", ["<!DOCTYPE html><p>502", "\n <html>502</html>"])
def test_a_page_of_html_is_no_answer(page: str) -> None:
    answers = iter([page, "Hello"])
    assert retry_ai_call_with_parsing(lambda: next(answers), delay=0)[2] == "Hello"
    assert not retry_ai_call_with_parsing(lambda: page, max_retries=0)[0]
    assert not send_message(lambda: page).ok


async def test_the_async_form_runs_a_blocking_function_in_a_thread() -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    def block() -> str:
        time.sleep(0.3)
        return "x"

    ticking = asyncio.create_task(tick())
    found = await async_retry_ai_call_with_parsing(block, max_retries=0)
    ticking.cancel()
    assert found[2] == "x"
    assert ticks >= 3


async def test_the_sync_form_is_refused_where_a_loop_runs() -> None:
    with pytest.raises(ConfigurationError, match="running event loop"):
        retry_ai_call_with_parsing(lambda: "x")


def test_an_exception_that_becomes_a_result_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    key = "sk-" + "abcdefghijklmnop" * 2

    def broken() -> None:
        raise ValueError(f"no route, api_key={key}")

    for send in (send_message, send_message_streaming):
        caplog.clear()
        send(broken)
        (record,) = caplog.records
        assert record.levelno == logging.ERROR
        assert "ValueError: no route" in caplog.text
        assert "in broken" in caplog.text
        assert key not in caplog.text


def test_equal_statuses_in_a_row_are_shown() -> None:
    def chunks() -> Any:
        for _ in range(2):
            call = {"functionCall": {"name": "search", "args": {}}}
            yield {"candidates": [{"content": {"parts": [call]}}]}
        yield {"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]}

    shown: list[str] = []
    send_message_streaming(chunks, status_callback=shown.append)
    assert shown.count("🔧 Using search...") == 2
