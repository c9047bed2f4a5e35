"""What comes of every fault on every wire, streamed or not: one table, and its few exceptions by name.

A row holds for the first reply of a turn, which calls tools, and for the second, which answers.
"""

from __future__ import annotations

import asyncio
from itertools import product
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace
from tests.wire.rig import HASTY, MODES, PATIENT, forecaster, outcome

from holdfast import Agent, ProviderError, RetryOptions
from holdfast.core.messages import FinishReason, Reasoning, Refusal, Reply, Text
from holdfast.testing import Emulator, FakeClock
from holdfast.testing.emulator import (
    CloseBeforeHeaders,
    CutToolArguments,
    Delay,
    DropAfter,
    EmptyChoices,
    EmulatedRequest,
    ErrorEvent,
    ErrorResponse,
    Fault,
    GarbageLine,
    Html200,
    HttpStatus,
    NoTerminator,
    OddJson,
    Pace,
    RepeatedArguments,
    ResetAfterHeaders,
    ResetBeforeHeaders,
    ReusedToolIds,
    SplitEveryByte,
    Stall,
    TruncatedJson,
    WrongContentType,
    chaos,
)
from holdfast.testing.emulator.script import ReplyLike, as_reply
from holdfast.testing.emulator.wires.emulator_wire import WIRES

INTACT, RETRIED, TOLD, WITHHELD = "intact", "retried", "told", "withheld"
CELLS = tuple(product(WIRES, MODES))


class Row(NamedTuple):
    """A fault, what comes of it in each mode, and what is raised when it never goes away."""

    fault: Fault | list[Fault]
    whole: str
    streamed: str
    lasting: str = ""
    slow: bool = False


def both(fault: Fault | list[Fault], outcome: str, lasting: str = "", *, slow: bool = False) -> Row:
    return Row(fault, outcome, outcome, lasting, slow)


def refused(category: str) -> str:
    return f"raises {category}"


TABLE: dict[str, Row] = {
    # Refusals, as each provider words them: waiting helps, or it does not.
    "rate limit": both(ErrorResponse("rate_limit"), RETRIED, "rate_limit_retryable"),
    "server error": both(ErrorResponse("server_error"), RETRIED, "server_error"),
    "overload": both(ErrorResponse("overloaded"), RETRIED, "transient"),
    "no money": both(ErrorResponse("insufficient_quota"), refused("rate_limit_terminal")),
    "bad key": both(ErrorResponse("bad_key"), refused("auth_error")),
    "too long": both(ErrorResponse("context_length"), refused("context_window")),
    "no such model": both(ErrorResponse("model_not_found"), refused("model_not_found")),
    "prompt refused": both(ErrorResponse("content_filtered"), refused("content_filtered")),
    "bad request": both(ErrorResponse("invalid_request"), refused("client_error")),
    # Error responses with only a status, and those of a proxy.
    "408": both(HttpStatus(408), RETRIED, "timeout"),
    "409": both(HttpStatus(409), RETRIED, "transient"),
    "413": both(HttpStatus(413), refused("client_error")),
    "422": both(HttpStatus(422), refused("client_error")),
    "502": both(HttpStatus(502), RETRIED, "server_error"),
    "504": both(HttpStatus(504), RETRIED, "timeout"),
    "529": both(HttpStatus(529), RETRIED, "transient"),
    "503 from a proxy": both(HttpStatus(503, body="<html>Down</html>"), RETRIED, "transient"),
    "portal": both(Html200(), RETRIED, "invalid_response"),
    # Connections.
    "reset before headers": both(ResetBeforeHeaders(), RETRIED, "transient"),
    "closed before headers": both(CloseBeforeHeaders(), RETRIED, "transient"),
    "reset after headers": both(ResetAfterHeaders(), RETRIED, "transient"),
    "reset before content": both(DropAfter(0), RETRIED, "transient"),
    "reset in content": both(DropAfter(3), RETRIED, "transient"),
    "closed in content": both(DropAfter(3, reset=False), RETRIED, "transient"),
    "reset after the end": Row(DropAfter(999), RETRIED, INTACT),
    # Time.
    "late": both(Delay(30), RETRIED, "timeout", slow=True),
    "silent": both(Stall(1, 30), RETRIED, "timeout", slow=True),
    "silent after the last byte": Row(Stall(3, 30), INTACT, RETRIED, slow=True),
    "silent but for keep-alives": both(
        Stall(3, 30, comments=True, every=0.02), RETRIED, "timeout", slow=True
    ),
    "a short silence with keep-alives": both(Stall(3, 0.05, comments=True, every=0.01), INTACT),
    "slow": both(Pace(0.001), INTACT),
    # Content.
    "every byte alone": both(SplitEveryByte(), INTACT),
    "text/plain": both(WrongContentType(), INTACT),
    "JSON by name": both(WrongContentType("application/json"), INTACT),
    "events by name": both(WrongContentType("text/event-stream"), INTACT),
    "cut JSON": both(TruncatedJson(), RETRIED),
    "a list": both(OddJson([]), RETRIED, "invalid_response"),
    "null": both(OddJson(None), RETRIED, "invalid_response"),
    "a text": both(OddJson("x"), RETRIED, "invalid_response"),
    "an empty object": both(OddJson({}), RETRIED, "invalid_response"),
    "another object": both(OddJson({"a": 1}), RETRIED, "invalid_response"),
    "garbage first": Row(GarbageLine(0), RETRIED, RETRIED, "invalid_response"),
    "garbage between": both(GarbageLine(2), RETRIED, "invalid_response"),
    "garbage after the end": Row(GarbageLine(999), RETRIED, INTACT),
    "a line that is no field": Row(GarbageLine(0, b"hello"), RETRIED, INTACT),
    "no end": Row(NoTerminator(), INTACT, RETRIED),
    "no choices": both(EmptyChoices(), RETRIED, "empty_response"),
    "the same id for every call": both(ReusedToolIds(), INTACT),
    "cut arguments": both(CutToolArguments(), TOLD),
    "cumulative arguments": both(RepeatedArguments(), INTACT),
    "arguments once more": both(RepeatedArguments("again"), INTACT),
    # Errors inside a reply that began as a success.
    "overload as the first event": both(ErrorEvent(0, "overloaded"), RETRIED, "transient"),
    "an error between the events": both(
        ErrorEvent(4, "rate_limit", framed=False), RETRIED, "rate_limit_retryable"
    ),
    "server error in the reply": both(ErrorEvent(4), RETRIED, "server_error"),
    "rate limit in the reply": both(ErrorEvent(4, "rate_limit"), RETRIED, "rate_limit_retryable"),
    "bad key in the reply": both(ErrorEvent(4, "bad_key"), refused("auth_error")),
    "too long in the reply": both(ErrorEvent(4, "context_length"), refused("context_window")),
    "filtered in the reply": both(ErrorEvent(4, "content_filtered"), refused("content_filtered")),
    "an odd error in the reply": both(ErrorEvent(4, body={"oops": 1}), RETRIED),
    "error after the end": Row(ErrorEvent(999), RETRIED, INTACT),
    # Several at once.
    "all that is harmless": both([SplitEveryByte(), WrongContentType(), ReusedToolIds()], INTACT),
    "cut in every byte": both([SplitEveryByte(), TruncatedJson(0.7)], RETRIED),
}

# A stream of Gemini has no end marker: an error may still follow its last words.
NO_MARKER = ("gemini", "streamed")
EXCEPTIONS: dict[tuple[str, str, str], str] = {
    ("error after the end", *NO_MARKER): RETRIED,
    # Google checks the arguments itself, and says that the call was malformed.
    ("cut arguments", "gemini", "whole"): RETRIED,
    ("cut arguments", "gemini", "streamed"): RETRIED,
}
# The category of what never goes away, where a provider's own words make it another one.
LASTING: dict[tuple[str, str], str] = {
    # OpenAI calls an overload a server error inside a reply, where no status says more.
    ("overload as the first event", "openai_chat"): "server_error",
    ("overload as the first event", "openai_responses"): "server_error",
    # A list is what a stream of Gemini may be, and this one lacks everything.
    ("a list", "gemini"): "transient",
}


def expected(name: str, wire: str, mode: str) -> str:
    row = TABLE[name]
    plain = row.whole if mode == "whole" else row.streamed
    return EXCEPTIONS.get((name, wire, mode), plain)


async def gathered(faults: Any, **settings: Any) -> dict[tuple[str, str], str]:
    runs = [outcome(wire, mode, faults, **settings) for wire, mode in CELLS]
    return dict(zip(CELLS, await asyncio.gather(*runs), strict=True))


# More than 40 cases: a fault is a conversation over HTTP on every wire.
@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("name", TABLE)
async def test_a_fault_in_a_reply_that_calls_tools(name: str) -> None:
    row = TABLE[name]
    got = await gathered([row.fault], timeouts=HASTY if row.slow else PATIENT)
    assert got == {cell: expected(name, *cell) for cell in CELLS}


# More than 40 cases: as above.
@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("name", TABLE)
async def test_a_fault_in_the_answer(name: str) -> None:
    row = TABLE[name]
    got = await gathered([None, row.fault], timeouts=HASTY if row.slow else PATIENT)
    harmless = name == "cut arguments"  # There are none.
    wanted = {cell: INTACT if harmless else expected(name, *cell) for cell in CELLS}
    if name in ("prompt refused", "filtered in the reply"):
        # What is refused after the model has written something is about that, and not about the results.
        said_something = name == "filtered in the reply"
        wanted |= {
            cell: WITHHELD for cell in CELLS if not (said_something and cell[1] == "streamed")
        }
    assert got == wanted


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row.lasting])
async def test_a_fault_that_never_goes_away_has_one_name_everywhere(name: str) -> None:
    row = TABLE[name]
    got = await gathered(
        lambda request: row.fault, timeouts=HASTY if row.slow else PATIENT, retries=1
    )
    assert got == {cell: refused(LASTING.get((name, cell[0]), row.lasting)) for cell in CELLS}


REPLIES: dict[str, tuple[Reply, str]] = {
    "a refusal": (Reply((Refusal("I will not."),)), refused("content_filtered")),
    "filtered": (
        Reply((Text("It"),), finish=FinishReason.CONTENT_FILTER), refused("content_filtered"),
    ),
    "at the limit": (Reply((Text("It"),), finish=FinishReason.LENGTH), refused("truncated")),
    "no text": (Reply(()), refused("empty_response")),
    "blank text": (Reply((Text(" \n"),)), refused("empty_response")),
    "only thoughts": (Reply((Reasoning("Hm."),)), refused("empty_response")),
}  # fmt: skip


@pytest.mark.parametrize("name", REPLIES)
async def test_a_rejected_reply_has_one_outcome_everywhere(name: str) -> None:
    reply, expected_outcome = REPLIES[name]
    got = await gathered([], retries=1, choose_reply=lambda request: reply)
    assert got == dict.fromkeys(CELLS, expected_outcome)


async def test_calls_in_a_truncated_reply_do_not_run_and_get_an_error_result() -> None:
    def choose_reply(request: EmulatedRequest) -> ReplyLike:
        reply = as_reply(forecaster(request), request.number)
        return replace(reply, finish=FinishReason.LENGTH) if request.number == 1 else reply

    assert await gathered([], choose_reply=choose_reply) == dict.fromkeys(CELLS, TOLD)


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(3))
async def test_whatever_goes_wrong_on_the_way_the_answer_is_the_same(
    wire: str, mode: str, seed: int
) -> None:
    faults = chaos(seed=seed, share=0.3)
    for _ in range(5):
        got = await outcome(wire, mode, faults, retries=8)
        assert got in (INTACT, RETRIED)


BODY = {"error": {"message": "no", "type": "invalid_request_error", "code": "invalid_api_key"}}


async def test_the_type_of_an_error_is_kept_beside_its_code() -> None:
    async with Emulator(["never"], faults=[HttpStatus(401, body=BODY)]) as provider:
        agent = Agent(
            "openai:demo",
            base_url=provider.base_url,
            api_key="k",
            retry=RetryOptions(include_provider_details=True),
            clock=FakeClock(),
        )
        try:
            await agent.run("go")
        except ProviderError as error:
            info, text = error.info, str(error)
    assert info is not None
    assert (info.code, info.type) == ("invalid_api_key", "invalid_request_error")
    assert "code invalid_api_key, type invalid_request_error" in text
