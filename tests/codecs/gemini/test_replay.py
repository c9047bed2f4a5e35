"""Recorded Gemini traffic, read whole and in pieces, compared with an independent reading."""

import json
import time
from typing import Any

import pytest
from tests.codecs.gemini.bodies import array, events, read, whole
from tests.codecs.gemini.independent_reader import Reading, chunks
from tests.corpus import Row, Table, at_random, byte_by_byte, rows
from tests.linear import is_linear

from holdfast.codecs.assemble import AssembledReply
from holdfast.core.messages import FinishReason, Media, Opaque, Reasoning, Reply, ReplyKind

SMALL = 6_000


def signatures(reply: Reply) -> list[str]:
    found: list[str] = []
    for part in reply.parts:
        if isinstance(part, Reasoning):
            found += [part.signature] if part.signature else []
        elif isinstance(part, Opaque):
            found += [str(part.data["thoughtSignature"])] if "thoughtSignature" in part.data else []
        elif (extra := getattr(part, "extra", None)) and "thoughtSignature" in extra:
            found.append(str(extra["thoughtSignature"]))
    return found


def compare(row: Row, reading: Reading, assembled: AssembledReply) -> None:
    reply = assembled.reply
    assert reply.text == reading.text
    thoughts = "".join(part.text for part in reply.parts if isinstance(part, Reasoning))
    assert thoughts == reading.thoughts
    assert [(c.id, c.name, json.loads(c.arguments)) for c in reply.calls] == reading.calls
    assert signatures(reply) == reading.signatures
    assert reply.raw_finish == reading.finish
    usage = reply.usage
    assert (usage.input, usage.output, usage.cached_input, usage.reasoning) == reading.counts
    kept = [part for part in reply.parts if isinstance(part, Media | Opaque)]
    assert sum(isinstance(part, Media) for part in kept) == reading.media
    verbatim = [part for part in kept if isinstance(part, Opaque) and part.wire == "gemini"]
    assert len(verbatim) == reading.verbatim
    if reading.error:
        assert reply.kind is ReplyKind.ERROR_REPLY
    if reading.finish == "STOP":
        wanted = FinishReason.TOOL_CALLS if reading.calls else FinishReason.STOP
        assert reply.finish is wanted
    if reply.kind is ReplyKind.COMPLETE:
        assert assembled.error is None
        assert reading.finish == "STOP" or not row.stream


def test_every_row_reads_as_the_small_reader_reads_it() -> None:
    table = Table("status", "framing", "kind", "finish")
    compared = 0
    for row in rows("gemini"):
        assembled = read(row.body, row.content_type, "gemini")
        reply = assembled.reply
        table.add(row.status, row.framing, reply.kind.value, reply.raw_finish or "-")
        objects = chunks(row.body)
        if objects is None:
            assert reply.kind is ReplyKind.NOT_A_REPLY
            continue
        compare(row, Reading(objects), assembled)
        compared += 1
    print(f"\ngemini: {len(rows('gemini'))} rows, {compared} compared\n{table}")
    assert compared > 700


def test_random_pieces_read_the_same() -> None:
    for row in rows("gemini"):
        reply = read(row.body, row.content_type).reply
        assert read(at_random(row.body, row.id), row.content_type).reply == reply, row.id


@pytest.mark.slow  # takes half a second or more
def test_single_bytes_read_the_same() -> None:
    small = [row for row in rows("gemini") if len(row.body) < SMALL and row.stream]
    assert len(small) > 100
    for row in small:
        reply = read(row.body, row.content_type).reply
        assert read(byte_by_byte(row.body), row.content_type).reply == reply, row.id


def as_stream(body: dict[str, Any]) -> list[dict[str, Any]]:
    """A whole reply as the server would have streamed it: a chunk a part, the rest with the last."""
    candidate, *others = body["candidates"]
    parts = (candidate.get("content") or {}).get("parts") or []
    shared = {key: body[key] for key in ("modelVersion", "responseId") if key in body}
    split = []
    for part in parts:
        half = len(part.get("text", "")) // 2
        if half and set(part) <= {"text", "thought"}:
            split += [{**part, "text": part["text"][:half]}, {**part, "text": part["text"][half:]}]
        else:
            split.append(part)
    made = [{**shared, "candidates": [{"content": {"parts": [part]}}]} for part in split]
    rest = {key: value for key, value in candidate.items() if key != "content"}
    content = {"content": {"parts": []}} if "content" in candidate else {}
    return [*made, {**body, "candidates": [{**rest, **content}, *others]}]


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("frame", [events, array])
def test_a_whole_reply_and_the_same_as_a_stream_are_equal(frame: Any) -> None:
    compared = 0
    for row in rows("gemini"):
        objects = chunks(row.body)
        if row.stream or not objects or not objects[0].get("candidates"):
            continue
        if not objects[0]["candidates"][0].get("finishReason"):
            continue
        compared += 1
        streamed = read(frame(*as_stream(objects[0])), "text/event-stream").reply
        assert streamed == read(whole(objects[0])).reply, row.id
    assert compared > 400


def test_streams_cut_anywhere_never_look_whole() -> None:
    streams = [row for row in rows("gemini") if row.framing == "sse" and row.status == 200][:60]
    for row in streams:
        body = row.body
        end = body.rfind(b'"finishReason"')
        if end < 0 or b'"finishReason"' in body[:end]:
            continue
        for cut in range(0, end, max(1, end // 25)):
            assembled = read(body[:cut], row.content_type)
            assert assembled.reply.kind is not ReplyKind.COMPLETE, (row.id, cut)
            assert assembled.error is not None


def test_reading_takes_time_in_proportion_to_size() -> None:
    def seconds(times: int) -> float:
        body = events(*[{"candidates": [{"content": {"parts": [{"text": "x" * 50}]}}]}] * times)
        began = time.process_time()
        read(body)
        return time.process_time() - began

    seconds(100)
    assert is_linear(seconds, 2_000, 20_000, slack=3)
