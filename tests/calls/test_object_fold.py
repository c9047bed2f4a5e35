"""The objects of the SDKs give the same reply as the bytes that they were made of."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.calls.vendors import chunk_maker, plain_maker, whole_maker
from tests.corpus import Row, Table, rows

from holdfast.calls.object_fold import ObjectFold
from holdfast.codecs.anthropic.codec import AnthropicCodec
from holdfast.codecs.assemble import AssembledReply, Assembler
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.gemini.codec import Gemini
from holdfast.codecs.openai_chat.codec import OpenAIChat
from holdfast.codecs.openai_responses.codec import ResponsesCodec
from holdfast.codecs.sse import SseDecoder
from holdfast.codecs.wire import Codec
from holdfast.core.errors import NoCandidatesError
from holdfast.core.messages import Reply, ReplyKind

CODECS: dict[str, Codec] = {
    "openai_chat": OpenAIChat(),
    "openai_responses": ResponsesCodec(),
    "anthropic_messages": AnthropicCodec(),
    "gemini": Gemini(),
}
# A stream object does not show the wire's end marker, and an HTML page never becomes an object.
INVISIBLE = {
    (ReplyKind.COMPLETE, ReplyKind.UNTERMINATED): 5,
    (ReplyKind.NOT_A_REPLY, ReplyKind.UNTERMINATED): 5,
    (ReplyKind.NOT_A_REPLY, ReplyKind.EMPTY): 5,
}


def by_bytes(codec: Codec, row: Row) -> AssembledReply:
    assembler = Assembler(EndpointProfile(), codec.name)
    decoder = codec.make_decoder(row.content_type)
    for delta in [*decoder.feed(row.body), *decoder.close()]:
        assembler.feed(delta)
    return assembler.finish()


def objects_of(row: Row) -> list[Any]:
    if row.framing != "sse":
        value = json.loads(row.body)
        return value if isinstance(value, list) else [value]
    sse = SseDecoder()
    found = []
    for name, payload in [*sse.feed(row.body), *sse.close()]:
        if (text := payload.strip()) and text != b"[DONE]":
            value = json.loads(text)
            named = name not in (b"", b"message") and "type" not in value
            found.append({"type": name.decode(), **value} if named else value)
    return found


def by_objects(found: list[Any], *, streamed: bool) -> AssembledReply:
    fold = ObjectFold()
    if not streamed:
        fold.read_whole(found[0])
        return fold.finish()
    for thing in found:
        fold.read_chunk(thing)
    fold.close()
    return fold.finish()


def seen(reply: Reply) -> dict[str, object]:
    return {
        "text": reply.text,
        "calls": [(call.id, call.name, arguments(call.arguments)) for call in reply.calls],
        "usage": reply.usage,
        "finish": (reply.finish, reply.raw_finish),
    }


def arguments(text: str) -> object:
    try:
        return without_nulls(json.loads(text))
    except ValueError:
        return text


def without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


def turns_of(found: list[Any]) -> int:
    """How many messages the events hold: some recordings are those of a whole run with its tools."""
    starts = [one["message"]["id"] for one in found if one.get("type") == "message_start"]
    return len(set(starts))


def last_text(found: list[Any]) -> str:
    begins = [at for at, one in enumerate(found) if one.get("type") == "message_start"]
    deltas = [one.get("delta") or {} for one in found[begins[-1] :]]
    return "".join(delta.get("text", "") for delta in deltas)


def readable(dialect: str, every: int) -> Iterator[tuple[Row, list[Any]]]:
    for row in [row for row in rows(dialect) if row.status == 200][::every]:
        try:
            yield row, objects_of(row)
        except ValueError:
            continue


@pytest.mark.slow  # takes half a second or more
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["dictionaries", "objects"])
@pytest.mark.parametrize("dialect", CODECS)
def test_recorded_replies_are_read_as_from_their_bytes(dialect: str, form: str) -> None:
    codec, table = CODECS[dialect], Table("kind by bytes", "kind by objects")
    compared = 0
    differ: dict[tuple[ReplyKind, ReplyKind], int] = {}
    for row, found in readable(dialect, 1 if form == "dictionaries" else 4):
        streamed = row.stream or row.framing != "json"
        maker = plain_maker if form == "dictionaries" else chunk_maker if streamed else whole_maker
        make = maker(codec.name)
        if not all(isinstance(value, dict) for value in found):
            continue
        try:
            made = [make(value) for value in found]
        except AttributeError:
            # An enum as a number, which the SDK cannot take either.
            continue
        got = by_objects(made, streamed=streamed).reply
        if turns_of(found) > 1:
            assert (got.text, got.kind) == (last_text(found), ReplyKind.COMPLETE), row.id
            continue
        want = by_bytes(codec, row).reply
        table.add(want.kind.value, got.kind.value)
        if want.kind is not ReplyKind.NOT_A_REPLY:
            assert seen(got) == seen(want), row.id
        if got.kind is not want.kind:
            differ[want.kind, got.kind] = differ.get((want.kind, got.kind), 0) + 1
        compared += 1
    print(f"\n{dialect}, {form}: {compared} compared\n{table}")
    assert compared > 100
    assert all(count <= INVISIBLE.get(pair, 0) for pair, count in differ.items()), differ


def test_the_spelling_of_python_is_read_as_the_spelling_of_the_wire() -> None:
    part = {"function_call": {"name": "f", "args": {"a_b": None}}, "thought_signature": b"\xff"}
    candidate = {"content": {"role": "model", "parts": [part]}, "finish_reason": "STOP"}
    chunk = {"candidates": [candidate], "usage_metadata": {"prompt_token_count": 3}}
    fold = ObjectFold()
    fold.read_whole(chunk)
    reply = fold.finish().reply
    assert [(call.name, call.arguments) for call in reply.calls] == [("f", '{"a_b":null}')]
    assert reply.usage.input == 3
    assert reply.calls[0].extra == {"thoughtSignature": "/w=="}


def test_a_response_without_candidates_says_so_also_when_its_class_leaves_them_out() -> None:
    make = whole_maker("gemini")
    fold = ObjectFold()
    fold.read_whole(make({"modelVersion": "gemini"}))
    assert isinstance(fold.finish().error, NoCandidatesError)


def test_objects_that_say_only_their_content_end_with_their_stream() -> None:
    bare = by_objects([{"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}], streamed=True)
    assert bare.error is None
    real = {"candidates": [{"content": {"parts": [{"text": "Hi"}]}}], "modelVersion": "gemini"}
    assert by_objects([real], streamed=True).reply.kind is ReplyKind.UNTERMINATED


def test_the_helpers_of_the_sdks_are_read_without_what_they_repeat() -> None:
    class Event:
        def __init__(self, **values: object) -> None:
            self.__dict__.update(values)

    chunks = [
        {"choices": [{"index": 0, "delta": {"content": "Hel"}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {"content": "lo"}, "finish_reason": "stop"}]},
    ]
    events = []
    for chunk in chunks:
        events.append(Event(type="chunk", chunk=chunk, snapshot=object()))
        events.append(Event(type="content.delta", delta="x", snapshot="x"))
    assert by_objects(events, streamed=True).reply.text == "Hello"


def test_no_object_of_any_shape_raises() -> None:
    for wire in (
        {"choices": []},
        {"type": "response.created"},
        {"type": "message_start"},
        {"candidates": []},
    ):
        for junk in (None, 7, "text", [], [[]], {}, {"choices": 7}, {"candidates": "x"}, object()):
            fold = ObjectFold()
            fold.read_chunk(wire)
            fold.read_chunk(junk)
            fold.close()
            assert fold.finish().reply.text == ""
