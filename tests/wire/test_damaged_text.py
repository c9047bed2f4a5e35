"""Text that is not Unicode, and numbers that JSON cannot express, on every wire."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.transport.raw import Client, RawServer
from tests.wire.raw_calls import WAYS, call_of, result_of, turn

from holdfast import Agent, Approved, MemoryJournal, Middleware, SqliteJournal, ToolPermission, tool
from holdfast.core.deltas import TextDelta
from holdfast.core.messages import ToolCall
from holdfast.core.questions import PermissionQuestion, Question
from holdfast.events import CharactersReplaced
from holdfast.journal.port import Journal
from holdfast.testing import ScriptedModel

# Bytes of a reply that are not UTF-8 become U+FFFD, and a notice reports it.

MODELS = {
    "openai_chat": ("openai:m", "/v1"),
    "openai_responses": ("openai-responses:m", "/v1"),
    "anthropic": ("anthropic:m", ""),
    "gemini": ("gemini:m", "/v1beta"),
}
_MESSAGE = (
    b'{"type":"message","id":"1","role":"assistant","content":[{"type":"output_text","text":"%b"}]}'
)
_RESPONSE = b'{"id":"r","object":"response","status":"completed","output":[' + _MESSAGE + b"]}"
BODIES: dict[str, tuple[bytes, bytes]] = {
    # For each wire, a whole body and a stream.
    "openai_chat": (
        b'{"id":"r","model":"m","choices":[{"message":{"content":"%b"},"finish_reason":"stop"}]}',
        (
            b'data: {"id":"r","model":"m","choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n'
            b'data: {"id":"r","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
            b"data: [DONE]\n\n"
        ),
    ),
    "openai_responses": (
        _RESPONSE,
        b'data: {"type":"response.completed","response":' + _RESPONSE + b"}\n\n",
    ),
    "anthropic": (
        (
            b'{"id":"r","type":"message","role":"assistant","model":"m",'
            b'"content":[{"type":"text","text":"%b"}],"stop_reason":"end_turn","usage":{}}'
        ),
        (
            b'data: {"type":"message_start","message":{"id":"r","model":"m","content":[]}}\n\n'
            b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text"}}\n\n'
            b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%b"}}\n\n'
            b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{}}\n\n'
            b'data: {"type":"message_stop"}\n\n'
        ),
    ),
    "gemini": (
        b'{"candidates":[{"content":{"parts":[{"text":"%b"}]},"finishReason":"STOP"}]}',
        b'data: {"candidates":[{"content":{"parts":[{"text":"%b"}]},"finishReason":"STOP"}]}\n\n',
    ),
}


async def read(wire: str, form: int, text: bytes) -> tuple[str, str, int]:
    """Return the text of the result, the text that was streamed, and the number of notices."""

    async def serve(client: Client) -> None:
        await client.request()
        kind = b"text/event-stream" if form else b"application/json"
        await client.chunked(kind)
        await client.chunk(BODIES[wire][form] % text)
        await client.send(b"0\r\n\r\n")

    server = RawServer(serve)
    await server.start()
    model, path = MODELS[wire]
    place = f"http://127.0.0.1:{server.port}{path}"
    streamed, notices = "", 0
    try:
        async with Agent(model, base_url=place, api_key="k").stream("Hi") as run:
            async for item in run:
                streamed += item.text if isinstance(item, TextDelta) else ""
                notices += isinstance(item, CharactersReplaced)
            return run.result.text, streamed, notices
    finally:
        await server.stop()


@pytest.mark.parametrize("form", [0, 1], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", BODIES)
@pytest.mark.parametrize("text", [b"caf\xff", b"caf\xc3", b"caf\\ud83d"])
async def test_the_text_is_mended_and_a_notice_says_so(wire: str, form: int, text: bytes) -> None:
    assert await read(wire, form, text) == ("caf\ufffd", "caf\ufffd", 1)


@pytest.mark.parametrize("form", [0, 1], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", BODIES)
async def test_a_character_that_the_provider_sent_is_no_notice(wire: str, form: int) -> None:
    sent = "caf\ufffd é 😀"
    assert await read(wire, form, sent.encode()) == (sent, sent, 0)


# A call with such bytes is not run. A character that was cut between two reads is whole, and a
# U+FFFD that the provider sent is a character like any other.

written: list[str] = []


@tool(effect="write")
def note(text: str) -> str:
    """Write a note."""
    written.append(text)
    return "written"


@pytest.fixture(autouse=True)
def _nothing_written() -> None:
    written.clear()


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
async def test_a_call_with_invalid_unicode_is_not_run(way: tuple[str, str]) -> None:
    for text in (b"caf\xff", b"caf\xc3", b"\xed\xa0\x80", b"\\ud83d", b"\\ude00\\ud83d"):
        result = await turn(way, b'{"text":"%b"}' % text, note)
        assert written == [], text
        answer = result_of(result)
        assert answer.is_error, text
        assert "Function 'note' was not run" in answer.text, text
        assert call_of(result).name == "note", text


WHOLE = [
    ("café 😀".encode(), "café 😀"),
    (b"\\ud83d\\ude00", "😀"),
    ("a\ufffdb".encode(), "a\ufffdb"),
    (b"a\\ufffdb", "a\ufffdb"),
    (b"\\u001a", "\x1a"),
]


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
async def test_characters_that_are_whole_are_left_alone(way: tuple[str, str]) -> None:
    for text, meant in WHOLE:
        written.clear()
        result = await turn(way, b'{"text":"%b"}' % text, note)
        assert (written, result_of(result).text) == ([meant], "written")


@tool(effect="read")
def look(place: str) -> str:
    """Look at a place."""
    return place


@pytest.mark.parametrize("make", [lambda _: MemoryJournal(), SqliteJournal])
async def test_a_call_with_half_a_character_does_not_end_the_turn(
    tmp_path: Path, make: Callable[[Path], Journal]
) -> None:
    journal = make(tmp_path / "talk.db")
    call = ToolCall("c", "look", '{"place": "\ud83d"}')
    result = await Agent(ScriptedModel(call, "Sorry."), tools=[look], journal=journal).run(
        "Look.", session="ada"
    )
    assert "are not valid Unicode" in result.messages[-2].parts[0].text  # type: ignore[union-attr]
    again = await Agent(ScriptedModel("Hi"), tools=[look], journal=journal).run("Hi", session="ada")
    assert list(again.history)[:4] == list(result.history)


# A number that JSON cannot express, such as 1e400, reaches no tool and no person.

got: list[Any] = []


class Options(BaseModel):
    limit: float = 1.0


@tool(name="note", effect="write")
def note_anything(
    text: Any, options: Options | None = None, more: dict[str, Any] | None = None
) -> str:
    """Write a note."""
    got.append((text, options, more))
    return "written"


class Watch(Middleware):
    def __init__(self) -> None:
        self.seen: list[object] = []

    async def before_tool(self, moment: Any) -> None:
        self.seen.append(moment.arguments)

    async def after_tool(self, moment: Any) -> None:
        self.seen.append((moment.valid, moment.arguments, moment.result.is_error))


@pytest.fixture(autouse=True)
def _nothing_got() -> None:
    got.clear()


UNSHOWABLE = [
    '{"text": 1e400}',
    '{"text": -1e400}',
    '{"text": [{"a": [1e309]}]}',
    '{"text": NaN}',
    '{"text": Infinity}',
    '{"text": "a", "options": {"limit": 1e400}}',
    '{"text": "a", "more": {"x": {"y": -1e999}}}',
    '{"text": ' + "9" * 5000 + "}",
]


@pytest.mark.parametrize("arguments", UNSHOWABLE, ids=range(len(UNSHOWABLE)))
async def test_nobody_is_asked_about_arguments_that_cannot_be_shown(arguments: str) -> None:
    asked: list[Question[Any]] = []

    async def yes(request: Question[Any]) -> object:
        asked.append(request)
        assert isinstance(request, PermissionQuestion)
        return request.answer(Approved())

    watch = Watch()
    agent = Agent(
        ScriptedModel(ToolCall("1", "note", arguments), "Sorry."),
        tools=[note_anything],
        middleware=[ToolPermission(ask=["note"]), watch],
        on_question=yes,
    )
    result = await agent.run("Note it.")
    assert (got, asked) == ([], [])
    assert watch.seen == [(False, None, True)]
    assert "was not run" in result_of(result).text


@pytest.mark.parametrize("arguments", UNSHOWABLE, ids=range(len(UNSHOWABLE)))
async def test_a_call_that_cannot_be_shown_does_not_run_without_middleware(arguments: str) -> None:
    agent = Agent(ScriptedModel(ToolCall("1", "note", arguments), "Sorry."), tools=[note_anything])
    result = await agent.run("Note it.")
    assert got == []
    assert "Send the whole call again" in result_of(result).text


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
@pytest.mark.parametrize("number", [b"1e400", b"-1e400", b"NaN", b"Infinity"])
async def test_no_wire_makes_null_of_it(way: tuple[str, str], number: bytes) -> None:
    result = await turn(way, b'{"text":{"limit":[%b]}}' % number, note_anything)
    assert got == []
    assert result_of(result).text.startswith("Error: Function 'note' was not run: its arg")


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
async def test_what_can_be_shown_runs_as_it_was_sent(way: tuple[str, str]) -> None:
    text = {"a": [None, 1.5, 2**63 + 1, 2**70 + 1, -0.0, "null"], "b": {"c": True}}
    await turn(way, b'{"text":%b}' % json.dumps(text).encode(), note_anything)
    assert got == [(text, None, None)]


async def test_a_default_of_an_output_that_json_cannot_hold_is_left_out() -> None:
    class Reading(BaseModel):
        height: float = float("inf")
        seed: int = 2**70

    result = await Agent(ScriptedModel("{}"), output=Reading).run("Read.")
    assert result.output == Reading()


async def test_a_default_that_json_cannot_hold_is_left_out() -> None:
    @tool(effect="read")
    def look(place: str, at_most: float = float("inf"), seed: int = 2**70) -> str:
        """Look."""
        got.append((place, at_most, seed))
        return "seen"

    watch = Watch()
    call = ToolCall("1", "look", '{"place": "Porto"}')
    agent = Agent(ScriptedModel(call, "Done."), tools=[look], middleware=[watch])
    await agent.run("Look.")
    assert got == [("Porto", float("inf"), 2**70)]
    assert watch.seen[0] == {"place": "Porto", "seed": 2**70}
