"""The calls around an SDK read what the vendors' own clients return, over HTTP, as the last two documents ask."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import Any

import pytest
from tests.seeds.sdks import WIRES, send, vendor_call

from holdfast.calls import ResultKind, current_session, session_scope
from holdfast.compat import (
    CallOptions,
    async_retry_ai_call_with_parsing,
    retry_ai_call_with_parsing,
    retry_rereg_ai_call_with_parsing,
)
from holdfast.errors import EmptyResponseError
from holdfast.testing import Emulator
from holdfast.testing.emulator import (
    CloseBeforeHeaders,
    CutToolArguments,
    DropAfter,
    EmptyChoices,
    ErrorResponse,
    Html200,
    HttpStatus,
    NoTerminator,
    OddJson,
    ResetAfterHeaders,
    ResetBeforeHeaders,
    TruncatedJson,
    call,
)

ANSWER = '{"agent_final_response": "Hello", "routine_number": 2}'

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

each_wire = pytest.mark.parametrize("wire", WIRES)
each_form = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
each_kind = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


@pytest.mark.slow  # takes half a second or more
@each_wire
@each_form
@each_kind
async def test_text_is_read(wire: str, *, streamed: bool, is_async: bool) -> None:
    async with Emulator(["Porto is in Portugal."]) as provider:
        result = await send(wire, provider, streamed=streamed, is_async=is_async)
    assert (result.ok, result.text) == (True, "Porto is in Portugal.")


@each_wire
@each_form
async def test_a_reply_of_calls_only_is_an_answer(wire: str, *, streamed: bool) -> None:
    async with Emulator([call("look", {"name": "x"})]) as provider:
        result = await send(wire, provider, streamed=streamed)
    assert (result.kind, [one.name for one in result.tool_calls]) == (ResultKind.TOOLS, ["look"])
    wanted = "Analysis complete" if streamed else "Task completed"
    assert result.user_message == f"{wanted} using available tools."


@pytest.mark.slow  # takes half a second or more
@each_wire
@each_form
async def test_text_goes_before_calls(wire: str, *, streamed: bool) -> None:
    async with Emulator([("I look.", call("look", {"name": "x"}))]) as provider:
        result = await send(wire, provider, streamed=streamed)
    assert (result.kind, result.text) == (ResultKind.TEXT, "I look.")
    assert len(result.tool_calls) == 1


@each_wire
@each_form
async def test_an_empty_reply_is_an_error(wire: str, *, streamed: bool) -> None:
    async with Emulator([""]) as provider:
        result = await send(wire, provider, streamed=streamed)
    assert isinstance(result.error, EmptyResponseError)
    assert (result.kind, result.ok) == (ResultKind.EMPTY, False)


FAULTS = [
    HttpStatus(503),
    HttpStatus(429),
    HttpStatus(401),
    ErrorResponse("context_length"),
    ErrorResponse("insufficient_quota"),
    ResetBeforeHeaders(),
    CloseBeforeHeaders(),
    ResetAfterHeaders(),
    DropAfter(1),
    TruncatedJson(0.5),
    OddJson({"x": 1}),
    Html200(),
    EmptyChoices(),
    NoTerminator(),
    CutToolArguments(),
]


# More than 40 cases: a fault and a client are a conversation of their own over HTTP.
@pytest.mark.slow  # takes half a second or more
@each_wire
@each_form
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{type(fault).__name__}")
async def test_each_fault_is_a_result_and_never_half_an_answer(
    wire: str, fault: Any, *, streamed: bool
) -> None:
    async with Emulator(["Porto is in Portugal."], faults=[fault]) as provider:
        result = await send(wire, provider, streamed=streamed)
    assert result.user_message
    assert not result.ok or result.text == "Porto is in Portugal."


async def test_the_answer_of_a_real_client_is_parsed() -> None:
    plain = '{"agent_final_response": "Hello"}'
    async with Emulator([ANSWER, plain, ANSWER]) as provider:
        async with vendor_call("openai_responses", provider) as ask:
            four = await asyncio.to_thread(retry_ai_call_with_parsing, ask)
            three = await asyncio.to_thread(retry_rereg_ai_call_with_parsing, ask)
        async with vendor_call("openai_responses", provider, is_async=True) as later:
            again = await async_retry_ai_call_with_parsing(later)
    assert (four[0], four[2:]) == (True, ("Hello", 2))
    assert (again[0], again[2:]) == (True, ("Hello", 2))
    assert (three[0], three[2:]) == (True, ("Hello",))


async def test_a_call_survives_what_the_service_does() -> None:
    faults = [HttpStatus(503), DropAfter(1), ResetBeforeHeaders(), TruncatedJson(0.5)]
    async with Emulator([ANSWER], faults=faults) as provider:
        async with vendor_call("openai_responses", provider) as ask:
            answer = await asyncio.to_thread(
                retry_ai_call_with_parsing, ask, max_retries=4, delay=0.001
            )
        assert len(provider.requests) == 5
    assert (answer[0], answer[2:]) == (True, ("Hello", 2))


def test_the_functions_take_the_arguments_of_the_document() -> None:
    documented = {"max_retries": 3, "delay": 1.0, "session_id": "unknown"}
    for function, named in (
        (retry_ai_call_with_parsing, {**documented, "call_type": "AI"}),
        (async_retry_ai_call_with_parsing, {**documented, "call_type": "AI"}),
        (retry_rereg_ai_call_with_parsing, documented),
    ):
        first, rest, *others = inspect.signature(function).parameters.values()
        assert (first.kind, first.default) == (first.POSITIONAL_OR_KEYWORD, first.empty)
        assert (rest.name, rest.kind) == ("args", rest.VAR_POSITIONAL)
        defaults = {one.name: one.default for one in others if one.name != "options"}
        assert defaults == named


def test_a_call_without_settings_logs_and_answers_by_the_defaults(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "holdfast")
    slept: list[float] = []

    def call() -> None:
        raise OSError("gone")

    answer = retry_ai_call_with_parsing(call, options=CallOptions(sleep=slept.append))
    assert (answer[0], answer[2]) == (False, "Error: AI AI call failed after 4 attempts")
    assert slept == [1.0, 2.0, 4.0]
    assert "--- Session [unknown] AI AI call attempt 1/4 ---" in caplog.text


async def test_the_session_of_a_call_is_that_of_its_task() -> None:
    async def one(number: int) -> str | None:
        with session_scope(f"s{number}"):
            await asyncio.sleep(0)
            return current_session()

    names = await asyncio.gather(*(one(number) for number in range(100)))
    assert names == [f"s{number}" for number in range(100)]
