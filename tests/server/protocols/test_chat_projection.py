"""Chat Completions as a pure fold, and which requests continue a run."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.protocols.told import Talk, reply, saved_items, searched, tell

from holdfast.core.client_tools import ClientToolResult
from holdfast.core.json_schema import JsonSchema
from holdfast.core.messages import Message, Text, ToolCall, ToolResult, assistant, user
from holdfast.event_log.stream_items import EndItem, TextItem, WithdrawnItem
from holdfast.middleware import ToolPermission
from holdfast.server.protocols.chat.projection import ChatFailure, ChatProjection
from holdfast.server.protocols.continuation import (
    find_segment,
    note_history,
    simplify,
    was_sent,
)
from holdfast.server.protocols.openai_http import to_openai_error
from holdfast.server.protocols.openai_shapes import REQUEST_KEY, SegmentName, to_client_call
from holdfast.server.protocols.protocol_names import make_name, read_name
from holdfast.server.protocols.segments import SegmentedTurn, split_turn
from holdfast.tools import ClientTool

LOCATE = ClientTool("locate", "Where the user is.")


def chat(items: Any, number: int = 0, **options: Any) -> tuple[list[Any], ChatProjection]:
    projection = ChatProjection(SegmentName("ada", 1, number), **options)
    told = [one for event in tell(items, number) for one in projection.feed(event)]
    return told, projection


async def test_a_text_is_told_chunk_by_chunk() -> None:
    talk = await Talk(reply("Hello.")).run()
    told, projection = chat(saved_items(await talk.events()), has_usage=True)
    at = told[0]["created"]
    head = (
        b'{"id":"chatcmpl-dDEuMDphZGE","object":"chat.completion.chunk","created":%d,'
        b'"model":"greeter","service_tier":"default","system_fingerprint":null,"choices":[' % at
    )
    assert [msgspec.json.encode(one) for one in told] == [
        head
        + b'{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,'
        b'"finish_reason":null}],"usage":null}',
        head + b'{"index":0,"delta":{"content":"Hello."},"logprobs":null,"finish_reason":null}],'
        b'"usage":null}',
        head + b'{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}',
        head + b'],"usage":{"prompt_tokens":3,"completion_tokens":3,"total_tokens":6,'
        b'"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":'
        b'{"reasoning_tokens":0}}}',
    ]
    whole: Any = projection.build_completion()
    assert whole["choices"][0]["message"]["content"] == "Hello."
    assert whole["usage"]["total_tokens"] == 6


async def test_live_and_whole_have_the_same_text_with_a_tool_of_the_agent_in_between() -> None:
    def weather(city: str) -> str:
        return f"sun in {city}"

    calls = reply("Let me see.", ToolCall("c", "weather", '{"city": "Porto"}'))
    talk = await Talk(calls, reply("It is sunny."), tools=[weather]).run()
    live, _ = chat(talk.live)
    _, whole = chat(saved_items(await talk.events()))
    text = "".join(one["choices"][0]["delta"].get("content", "") for one in live)
    assert text == "".join(whole.text) == "Let me see.\n\nIt is sunny."


async def test_calls_of_the_clients_tools_end_a_completion() -> None:
    calls = [ToolCall("x", "locate", '{"a": 1}'), ToolCall("x", "locate", "{}")]
    talk = await Talk(reply(*calls)).run(tools=[LOCATE])
    told, projection = chat(talk.live)
    assert told[-1]["choices"][0]["finish_reason"] == "tool_calls"
    whole: Any = projection.build_completion()
    message = whole["choices"][0]["message"]
    assert message["content"] is None
    functions = [one["function"] for one in message["tool_calls"]]
    assert functions == [
        {"name": "locate", "arguments": '{"a":1}'},
        {"name": "locate", "arguments": "{}"},
    ]
    assert len({one["id"] for one in message["tool_calls"]}) == 2


async def test_the_sources_of_a_text_are_annotations() -> None:
    def weather(city: str) -> str:
        return f"sun in {city}"

    first = reply("Let me see.", ToolCall("c", "weather", '{"city": "Porto"}'))
    talk = await Talk(first, searched(), tools=[weather]).run()
    for items in (talk.live, saved_items(await talk.events())):
        told, projection = chat(items)
        whole: Any = projection.build_completion()
        message = whole["choices"][0]["message"]
        deltas = [one["choices"][0]["delta"] for one in told]
        (chunk,) = [one["annotations"] for one in deltas if "annotations" in one]
        assert message["annotations"] == chunk
        (note,) = chunk
        source = note["url_citation"]
        assert (note["type"], source["url"]) == ("url_citation", "https://porto.pt")
        cited = message["content"][source["start_index"] : source["end_index"]]
        assert cited == "six bridges"


async def test_withdrawn_text_is_an_error_chunk_that_names_the_run() -> None:
    talk = await Talk(reply("Hello, Ada.")).run()
    void = [
        TextItem("1.3.x", "t1.i0.model", 0, "Hem", 1),
        WithdrawnItem("1", "t1.i0.model", "The connection broke.", 1),
    ]
    told, _ = chat([*talk.live[:2], *void])
    failure = told[-1]
    assert isinstance(failure, ChatFailure)
    error: Any = failure.to_json()["error"]
    assert error["code"] == "text_withdrawn"
    assert error["message"].endswith("Read it again: session ada, turn 1.")


async def test_a_stream_that_the_service_ends_says_that_the_run_goes_on() -> None:
    talk = await Talk(reply("Hello, Ada.")).run()
    told, _ = chat([*talk.live[:2], EndItem("1", "shutting_down")])
    assert isinstance(told[-1], ChatFailure)
    assert told[-1].code == "shutting_down"
    assert "session ada, turn 1" in told[-1].message


async def test_a_stream_of_a_deleted_session_says_that_nothing_goes_on() -> None:
    talk = await Talk(reply("Hello, Ada.")).run()
    told, _ = chat([*talk.live[:2], EndItem("1", "deleted")])
    error: Any = told[-1].to_json()["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "deleted")
    assert error["message"] == "The run was deleted: session ada, turn 1."


async def test_what_the_protocol_cannot_ask_is_said_as_text() -> None:
    def pay(euros: int) -> str:
        return f"paid {euros}"

    talk = Talk(
        reply(ToolCall("x", "pay", '{"euros": 3}')),
        tools=[pay],
        middleware=[ToolPermission(ask=["pay"])],
    )
    _, projection = chat((await talk.run()).live)
    assert projection.finish == "stop"
    assert "waits for an answer" in "".join(projection.text)


async def talk_with_call() -> tuple[Talk, list[Message], SegmentedTurn]:
    """A turn that waits, the messages that its caller has, and what it was told."""
    sent = [user("I am Ada."), assistant("Hello!"), user("Where am I?")]
    noted = {"history": msgspec.to_builtins(note_history(sent)), "body": ""}
    talk = Talk(
        reply("One moment.", ToolCall("x", "locate", '{"b": 1.0, "a": "ü"}')),
        reply(ToolCall("x", "locate", "{}")),
    )
    keywords: dict[str, Any] = {
        "history": sent[:-1],
        "tools": [LOCATE],
        "metadata": {REQUEST_KEY: noted},
    }
    await talk.run("Where am I?", **keywords)
    told = split_turn(await talk.events(), "no")
    assert told is not None
    (asked,) = told.segments[0].questions
    call = to_client_call("ada", asked)
    assert call is not None
    # As a client may write it: other spaces, another order, no text where it was empty.
    arguments = '{"a":  "\\u00fc", "b": 1}'
    messages = [*sent, assistant("One moment.", ToolCall(call.id, call.name, arguments))]
    return talk, messages, told


async def test_a_history_as_a_client_writes_it_is_the_one_that_was_sent() -> None:
    _, messages, told = await talk_with_call()
    assert was_sent(told, "ada", 0, messages)
    parts = messages[-1].parts
    apart = [*messages[:-1], Message("assistant", parts[:1]), Message("assistant", parts[1:])]
    assert was_sent(told, "ada", 0, apart)


@pytest.mark.parametrize("change", ["first", "last", "missing", "more", "arguments"])
async def test_another_history_is_not_the_one_that_was_sent(change: str) -> None:
    _, messages, told = await talk_with_call()
    call = messages[-1].calls[0]
    changed = {
        "first": [user("I am Eve."), *messages[1:]],
        "last": [*messages[:-1], Message("assistant", (Text("No."), call))],
        "missing": messages[1:],
        "more": [*messages[:2], user("Wait."), *messages[2:]],
        "arguments": [
            *messages[:-1],
            assistant("One moment.", msgspec.structs.replace(call, arguments="{}")),
        ],
    }
    assert not was_sent(told, "ada", 0, changed[change])


async def test_a_second_wait_is_recognized_with_the_results_of_the_first() -> None:
    talk, messages, first = await talk_with_call()
    await talk.answer(ClientToolResult("Porto"))
    told = split_turn(await talk.events(), "no")
    assert told is not None
    assert [one.text for one in told.segments] == ["One moment.", ""]
    (asked,) = told.segments[1].questions
    assert find_segment(told, frozenset({asked.key.removesuffix(".asked")})) == 1
    assert find_segment(told, frozenset({"t1.i7.tool.0.ask.0"})) is None
    second = to_client_call("ada", asked)
    assert second is not None
    for text, is_same in (("Porto", True), ("Lisbon", False)):
        result = ToolResult(messages[-1].calls[0].id, "locate", (Text(text),))
        sent = [*messages, Message("tool", (result,)), assistant(ToolCall(second.id, "locate"))]
        assert was_sent(told, "ada", 1, sent) is is_same
    assert first.segments[0].questions == told.segments[0].questions


async def test_a_typed_output_is_told_once_it_fits_and_without_remarks() -> None:
    wanted = JsonSchema({"type": "object", "required": ["city"]}, name="trip")
    talk = Talk(
        reply("I must ask.", ToolCall("x", "locate", "{}")),
        reply('{"town": 1}'),
        reply('{"city": "Porto"}'),
    )
    await talk.run(tools=[LOCATE], output=wanted)
    await talk.answer(ClientToolResult("Porto"))
    told = split_turn(await talk.events(), "output")
    assert told is not None
    assert [one.text for one in told.segments] == ["", '{"city": "Porto"}']


@given(
    session=st.text(min_size=1, max_size=80),
    key=st.from_regex(r"t[1-9]\.i0\.model", fullmatch=True),
)
def test_a_name_is_read_as_it_was_made(session: str, key: str) -> None:
    try:
        session.encode()
    except UnicodeEncodeError:
        return
    found = read_name("call_", make_name("call_", session, key))
    if session.startswith("\0"):
        return  # no session has such a name
    assert found is not None
    assert (found.session, found.place) == (session, key)


@given(text=st.text(max_size=60))
def test_no_other_text_is_a_name(text: str) -> None:
    found = read_name("call_", "call_" + text)
    assert found is None or make_name("call_", found.session, found.place) == "call_" + text


def test_names_of_runs_are_short() -> None:
    assert len(make_name("call_", "0" * 32, "t99.i99.tool.99.ask.9")) <= 64


def test_messages_of_one_role_are_joined() -> None:
    results = [Message("tool", (ToolResult(one, "f", (Text(one),)),)) for one in ("b", "a")]
    assert simplify(results) == [["tool", ["a", "a"], ["b", "b"]]]
    assert simplify([assistant("a"), assistant("b")]) == [["assistant", "a\n\nb", []]]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "invalid_request_error"),
        (429, "rate_limit_error"),
        (503, "server_error"),
    ],
)
def test_a_problem_has_the_type_that_clients_know(status: int, kind: str) -> None:
    error: Any = to_openai_error({"status": status, "detail": "It is so.", "kind": "x"})["error"]
    assert (error["type"], error["message"], error["param"]) == (kind, "It is so.", None)
