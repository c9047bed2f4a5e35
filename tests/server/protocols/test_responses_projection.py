"""Responses as a pure fold: the events of a turn, their numbers, and readers that come back."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.protocols.told import (
    NAME,
    Talk,
    project,
    project_live,
    reply,
    saved_items,
    searched,
    tell,
    text_of,
)

from holdfast.core.client_tools import ClientToolResult
from holdfast.core.errors import ErrorCategory, ErrorInfo, exception_for
from holdfast.core.events import Status, TurnOpened
from holdfast.core.json_schema import JsonSchema
from holdfast.core.messages import FinishReason, ReplyKind, ToolCall, Usage, user
from holdfast.core.questions import Approved
from holdfast.event_log.positions import number_step, read_step
from holdfast.event_log.stream_items import TextItem, WithdrawnItem
from holdfast.middleware import ToolPermission
from holdfast.server.protocols.responses.projection import ResponseProjection
from holdfast.server.protocols.segments import (
    SegmentBegun,
    SegmentEnded,
    SegmentTextEnded,
    TextAdded,
)
from holdfast.testing.emulator import hosted_call
from holdfast.testing.emulator.script import expand_hosted
from holdfast.tools import ClientTool

_WRONG = exception_for(ErrorInfo(category=ErrorCategory.CLIENT_ERROR, safe="The request is wrong."))
LOCATE = ClientTool("locate", "Where the user is.")


def _logs(text: str) -> dict[str, str]:
    return {"type": "logs", "logs": text}


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


async def test_a_text_is_told_event_by_event() -> None:
    talk = await Talk(reply("Hello.")).run()
    events = project_live(talk.live)
    assert types(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    steps = [read_step(event["sequence_number"]) for event in events]
    assert steps == [0, 1, 2, 3, 9, 10, 11, 12, 13]
    item = "msg_dDEuaTAubW9kZWw6YWRh"
    assert msgspec.json.encode(events[4]) == (
        b'{"type":"response.output_text.delta","sequence_number":%d,"item_id":"%s","output_index":0,'
        b'"content_index":0,"delta":"Hello.","logprobs":[]}'
        % (events[4]["sequence_number"], item.encode())
    )
    done = events[-1]["response"]
    assert done["id"] == "resp_dDEuMDphZGE"
    assert (done["status"], done["model"], done["usage"]["total_tokens"]) == (
        "completed",
        "greeter",
        6,
    )
    assert done["output"] == [
        {
            "id": item,
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": "Hello.", "annotations": [], "logprobs": []}
            ],
        }
    ]


async def test_live_and_saved_tell_the_same_numbers_and_the_same_response() -> None:
    def weather(city: str) -> str:
        return f"sun in {city}"

    calls = reply("Let me see.", ToolCall("c", "weather", '{"city": "Porto"}'))
    talk = await Talk(calls, reply("It is sunny."), tools=[weather]).run()
    live, saved = project_live(talk.live), project(saved_items(await talk.events()))
    assert text_of(live) == "Let me see.It is sunny."
    assert live[-1] == saved[-1]
    assert _joined(live) == _joined(saved)
    assert live[-1]["response"]["usage"]["input_tokens"] == 6


async def test_a_call_of_the_clients_tool_ends_a_response_and_its_result_begins_the_next() -> None:
    talk = Talk(reply("Wait.", ToolCall("x", "locate", "{}")), reply("Porto!"))
    await talk.run(tools=[LOCATE])
    first = project_live(talk.live)
    assert types(first)[-5:] == [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    call = first[-1]["response"]["output"][1]
    assert (call["type"], call["name"], call["arguments"]) == ("function_call", "locate", "{}")
    assert len(call["call_id"]) <= 64
    await talk.answer(ClientToolResult("Porto"))
    assert project_live(talk.live)[-1] == first[-1]  # the first response stays what it was
    second = project_live(talk.live, 1)
    assert text_of(second) == "Porto!"
    assert second[-1]["response"]["previous_response_id"] == first[-1]["response"]["id"]
    assert second[-1]["response"]["usage"]["total_tokens"] == 6
    events = await talk.events()
    for number, told in ((0, first), (1, second)):
        assert project(saved_items(events), number)[-1] == told[-1]


async def test_a_permission_is_a_request_for_an_approval() -> None:
    def pay(euros: int) -> str:
        return f"paid {euros}"

    talk = Talk(
        reply(ToolCall("x", "pay", '{"euros": 3}')),
        reply("Paid."),
        tools=[pay],
        middleware=[ToolPermission(ask=["pay"])],
    )
    await talk.run()
    first = project_live(talk.live)
    (request,) = first[-1]["response"]["output"]
    assert (request["type"], request["name"]) == ("mcp_approval_request", "pay")
    assert request["arguments"] == '{"euros":3}'
    await talk.answer(Approved())
    assert text_of(project_live(talk.live, 1)) == "Paid."


async def test_withdrawn_text_fails_the_stream_and_the_run_goes_on() -> None:
    wanted = JsonSchema({"type": "object", "required": ["city"]}, name="trip")
    talk = await Talk(reply('{"town": 1}'), reply('{"city": "Porto"}')).run(output=wanted)
    live = project_live(talk.live)
    assert types(live)[-1] == "failed"
    failed = live[-1]["response"]
    assert failed["error"]["code"] == "text_withdrawn"
    assert "session ada, turn 1" in failed["error"]["message"]
    saved = project(saved_items(await talk.events()))
    assert types(saved)[-1] == "completed"
    assert text_of(saved) == '{"city": "Porto"}'
    held = project(talk.live, hold="output")
    assert text_of(held) == '{"city": "Porto"}'


async def test_an_abandoned_attempt_fails_the_stream_and_a_reader_who_comes_back_is_told() -> None:
    talk = await Talk(reply("Hello, Ada.")).run()
    begin = talk.live[:2]
    void = [
        TextItem("1.3.x", "t1.i0.model", 0, "Hem", 1),
        WithdrawnItem("1", "t1.i0.model", "The connection broke.", 1),
    ]
    told = project_live([*begin, *void, *talk.live[2:]])
    assert types(told)[-1] == "failed"
    assert "The connection broke. The run goes on." in told[-1]["response"]["error"]["message"]
    last_text = told[-2]["sequence_number"]
    saved = saved_items(await talk.events())
    back = project(saved, after=last_text)
    assert types(back) == ["failed"]
    assert back[-1]["response"]["error"]["code"] == "text_withdrawn"
    assert types(project(saved, after=told[-1]["sequence_number"])) == ["failed"]


@pytest.mark.parametrize("is_live", [True, False])
async def test_a_reader_gets_the_rest_after_every_number(is_live: bool) -> None:
    calls = reply("Let me see, please. ", ToolCall("x", "locate", "{}"))
    talk = await Talk(calls).run(tools=[LOCATE])
    whole = project_live(talk.live)
    items = talk.live if is_live else saved_items(await talk.events())
    for at, event in enumerate(whole):
        rest = project(items, after=event["sequence_number"])
        assert rest == whole[at + 1 :] or _joined(rest) == _joined(whole[at + 1 :])


@pytest.mark.parametrize("is_live", [True, False])
@pytest.mark.parametrize("after", [-3, 0, 1, 2, 3, 4, 7, 1000, 2**17 - 1, 2**17 + 5, 2**19 - 1])
async def test_a_reader_may_name_any_number_before_the_first_text(
    is_live: bool, after: int
) -> None:
    talk = await Talk(reply("Let me see.")).run()
    whole = project_live(talk.live)
    items = talk.live if is_live else saved_items(await talk.events())
    rest = project(items, after=after)
    wanted = [event for event in whole if event["sequence_number"] > after]
    assert _joined(rest) == _joined(wanted)
    assert rest[-1]["type"] == "response.completed"


async def test_a_number_of_a_text_that_is_none_of_the_response_is_told() -> None:
    talk = await Talk(reply("Let me see.")).run()
    whole = project_live(talk.live)
    delta = next(one for one in whole if one["type"] == "response.output_text.delta")
    numbers = [delta["sequence_number"] ^ 1, whole[-1]["sequence_number"] + 1, 2**31 - 1, 2**63]
    for after in numbers:
        rest = project(talk.live, after=after)
        assert types(rest) == ["failed"], after
        assert rest[0]["response"]["error"]["code"] == "text_withdrawn"


@given(st.integers(0, 2**26), st.integers(0, 2**17))
def test_numbers_grow_and_have_room_for_the_longest_answer(step: int, digest: int) -> None:
    number, bits = number_step(step)
    assert read_step(number + digest % 2**bits) == step
    following, _ = number_step(step + 1)
    assert following == number + 2**bits
    if step < 2**25:  # a reply of 16 MiB has 2 ** 24 characters at most
        assert number + 2**bits <= 2**31


@given(st.integers(0, 2**40))
def test_every_number_has_a_step(number: int) -> None:
    begin, bits = number_step(read_step(number))
    assert begin <= number < begin + 2**bits


def test_an_answer_of_many_characters_has_numbers_below_2_to_the_31() -> None:
    begun = SegmentBegun(TurnOpened("t1", 0.0, user("Hi"), agent="greeter"), 0.0)
    live = ResponseProjection(NAME)
    told = list(live.feed(begun))
    for _ in range(64):
        told += live.feed(TextAdded("t1.i0.model", "word " * 2000))
    numbers = [one["sequence_number"] for one in told]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] < 2**31
    back = ResponseProjection(NAME, numbers[40])
    rest = [*back.feed(begun), *back.feed(TextAdded("t1.i0.model", "word " * 128_000))]
    assert text_of(told[:41]) + text_of(rest) == "word " * 128_000


def _joined(events: list[dict[str, Any]]) -> list[object]:
    return [text_of(events), *(one for one in events if "delta" not in one["type"])]


@pytest.mark.slow  # takes half a second or more
@given(text=st.text(st.characters(), min_size=1, max_size=40), data=st.data())
def test_a_reader_cut_anywhere_in_the_text_ends_with_the_exact_text(text: str, data: Any) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=5)) | {0, len(text)})
    pieces = [text[a:b] for a, b in pairwise(cuts)]
    begun = SegmentBegun(TurnOpened("t1", 0.0, user("Hi"), agent="greeter"), 0.0)
    live = ResponseProjection(NAME)
    told = [*live.feed(begun)]
    for piece in pieces:
        told += live.feed(TextAdded("t1.i0.model", piece))
    after = data.draw(st.sampled_from(told))["sequence_number"]
    had = text_of(one for one in told if one["sequence_number"] <= after)
    other = data.draw(st.text(min_size=1, max_size=40))
    for now in (text, other):
        back = ResponseProjection(NAME, after)
        rest = [*back.feed(begun), *back.feed(TextAdded("t1.i0.model", now))]
        rest += back.feed(SegmentTextEnded("t1.i0.model"))
        rest += back.feed(SegmentEnded(Status.COMPLETED, 1.0, Usage()))
        if now.startswith(had):
            assert had + text_of(rest) == now
            assert rest[-1]["type"] == "response.completed"
        else:
            assert rest[-1]["type"] == "response.failed"
            assert not text_of(rest)


async def test_a_failed_turn_is_a_failed_response() -> None:
    talk = await Talk(_WRONG).run()
    (*_, ended) = tell(talk.live)
    assert isinstance(ended, SegmentEnded)
    told = project_live(talk.live)
    assert types(told)[-1] == "failed"
    assert told[-1]["response"]["error"]["code"] == "server_error"
    assert "The request is wrong." in told[-1]["response"]["error"]["message"]


WIRES = ["anthropic", "openai_responses", "gemini"]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_search_of_the_provider_and_the_source_of_a_text(wire: str) -> None:
    talk = await Talk(searched(wire)).run()
    live, saved = project_live(talk.live), project(saved_items(await talk.events()))
    assert _joined(live) == _joined(saved)
    assert types(live)[-9:] == [
        "output_text.annotation.added",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "web_search_call.in_progress",
        "web_search_call.completed",
        "output_item.done",
        "completed",
    ]
    message, search = live[-1]["response"]["output"]
    text = message["content"][0]["text"]
    (note,) = message["content"][0]["annotations"]
    assert (note["type"], note["url"]) == ("url_citation", "https://porto.pt")
    assert text[note["start_index"] : note["end_index"]] == "six bridges"
    assert (search["type"], search["status"]) == ("web_search_call", "completed")
    assert search["action"]["query"] == "bridges"
    assert {"type": "url", "url": "https://porto.pt"} in search["action"]["sources"]
    for at, event in enumerate(live):
        rest = project(saved_items(await talk.events()), after=event["sequence_number"])
        assert _joined(rest) == _joined(live[at + 1 :])


@pytest.mark.parametrize(
    ("script", "item"),
    [
        (
            hosted_call("code_execution", {"code": "1 + 1"}, result="2"),
            {"type": "code_interpreter_call", "code": "1 + 1", "outputs": [_logs("2")]},
        ),
        (
            hosted_call("file_search", {"queries": ["bridges"]}, pages=["a.pdf"], result="six"),
            {"type": "file_search_call", "queries": ["bridges"], "results": [{"text": "six"}]},
        ),
        (hosted_call("web_search", error="too_many_requests"), {"status": "failed"}),
    ],
)
async def test_calls_of_the_provider_have_the_items_of_the_protocol(
    script: Any, item: dict[str, object]
) -> None:
    talk = await Talk(reply(*expand_hosted([script], "openai_responses", 1), "Done.")).run()
    _, shown = project_live(talk.live)[-1]["response"]["output"]
    assert {name: shown[name] for name in item} == item


async def test_a_call_whose_result_is_in_the_next_reply_is_told_once_and_whole() -> None:
    call, result, *_ = expand_hosted([hosted_call("web_search", {"query": "q"})], "anthropic", 1)
    paused = msgspec.structs.replace(reply(call), finish=FinishReason.PAUSE, kind=ReplyKind.PAUSED)
    talk = await Talk(paused, reply(result, "Done.")).run()
    for items in (talk.live, saved_items(await talk.events())):
        _, search = project(items)[-1]["response"]["output"]
        assert search["action"]["queries"] == ["q"]


async def test_a_held_reply_has_its_calls_after_its_text_too() -> None:
    talk = await Talk(searched()).run()
    for hold in ("no", "accepted", "output"):
        output = project(saved_items(await talk.events()), hold=hold)[-1]["response"]["output"]
        assert [one["type"] for one in output] == ["message", "web_search_call"]
        assert len(output[0]["content"][0]["annotations"]) == 1
