"""Recorded traffic of this wire, read whole and in pieces, compared with an independent reading."""

import json
import time
from typing import Any

import pytest
from tests.codecs.openai_responses.bodies import WIRE, as_stream, grown, read
from tests.codecs.openai_responses.independent_reader import Reading, events, reading
from tests.corpus import ROOT, Row, Table, at_random, byte_by_byte, rows
from tests.linear import is_linear

from holdfast.codecs.assemble import AssembledReply
from holdfast.codecs.openai_responses import decode
from holdfast.codecs.openai_responses.history import ItemForm, encode_items
from holdfast.core.messages import FinishReason, Reasoning, Refusal, Reply, ReplyKind

DIALECT = "openai_responses"
SMALL = 6_000


def thoughts(reply: Reply) -> list[str]:
    return [part.text for part in reply.parts if isinstance(part, Reasoning)]


def arguments(told: str) -> object:
    try:
        return json.loads(told or "{}")
    except ValueError:
        return told


def without_nulls(value: Any) -> Any:
    """A body without fields that say nothing, which servers leave out or not as they like."""
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v not in (None, [])}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


def compare(row: Row, told: Reading, assembled: AssembledReply) -> None:
    reply = assembled.reply
    # Some recordings are shortened in one copy only: the emitted text stays.
    whole = not row.truncated and told.streamed_text in (None, "", told.text)
    assert reply.text == (told.text if whole else told.streamed_text), row.id
    if not row.truncated:
        assert thoughts(reply) == told.thoughts, row.id
    calls = [(c.id, c.name, arguments(c.arguments)) for c in reply.calls]
    assert calls == told.calls, row.id
    assert "".join(p.text for p in reply.parts if isinstance(p, Refusal)) == told.refusal
    usage = reply.usage
    assert (usage.input, usage.output, usage.cached_input, usage.reasoning) == told.usage
    if told.status == "completed":
        assert reply.finish is (FinishReason.TOOL_CALLS if told.calls else FinishReason.STOP)
    if told.status == "incomplete":
        assert assembled.error is not None
    if reply.kind is ReplyKind.COMPLETE and whole:
        sent = encode_items(reply.message, ItemForm("system", stored=True, searches=True))
        wanted = [
            item for item in told.items if item.get("content", True) or item["type"] != "message"
        ]
        if wanted and wanted[-1]["type"] == "reasoning":
            wanted.pop()  # it may not be the last item of a message
        same = without_nulls(sent) == without_nulls(wanted)
        assert same, row.id


@pytest.mark.slow  # takes half a second or more
def test_every_row_reads_as_the_small_reader_reads_it() -> None:
    table = Table("mode", "status", "kind", "finish", "outcome")
    compared = 0
    for row in rows(DIALECT):
        assembled = read(row.body)
        reply = assembled.reply
        told = reading(row.body)
        if told is None or told.status in ("failed", "queued"):
            assert reply.kind in (ReplyKind.ERROR_REPLY, ReplyKind.NOT_A_REPLY), row.id
        else:
            compare(row, told, assembled)
            compared += 1
        mode = "stream" if row.framing == "sse" else "whole"
        outcome = "decoded" if told else "skipped: an error body"
        table.add(mode, row.status, reply.kind.value, reply.raw_finish or "-", outcome)
    report = f"{DIALECT}: {len(rows(DIALECT))} rows, {compared} compared\n{table}\n"
    print(f"\n{report}")
    place = ROOT / "build" / "replay"
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{DIALECT}.txt").write_text(report, "utf-8")
    assert compared > 900


@pytest.mark.slow  # takes half a second or more
def test_random_pieces_read_the_same() -> None:
    for row in rows(DIALECT):
        same = read(at_random(row.body, row.id)).reply == read(row.body).reply
        assert same, row.id


def test_events_of_the_usual_form_read_as_with_all_their_fields(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    streams = [row for row in rows(DIALECT) if row.framing == "sse"]
    usual = [read(row.body) for row in streams]

    monkeypatch.setattr(decode, "_read_quick", _refuse)
    for row, quick in zip(streams, usual, strict=True):
        slow = read(row.body)
        assert (quick.reply, repr(quick.error)) == (slow.reply, repr(slow.error)), row.id


@pytest.mark.parametrize(
    "odd",
    [
        b'event: error\ndata: {"type":"response.content_part.done","message":"overloaded"}\n\n',
        (
            b'data: {"type":"response.completed","response":{"id":"r","model":"m","status":"completed",'
            b'"output":[],"usage":{},"error":{"message":"overloaded"}}}\n\n'
        ),
        b'data: {"type":"response.created","response":{"id":"r2","model":"m"}}\n\n',
    ],
)
def test_an_event_of_the_usual_form_is_still_an_error(
    odd: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = next(row for row in rows(DIALECT) if row.framing == "sse" and reading(row.body))
    head, mark, _ = row.body.partition(b"response.output_item.done")
    assert mark
    body = head[: head.rindex(b"\n\n") + 2] + odd
    quick = read(body)
    assert quick.error is not None
    monkeypatch.setattr(decode, "_read_quick", _refuse)
    assert type(read(body).error) is type(quick.error)


def _refuse(_: bytes) -> None:
    raise ValueError


@pytest.mark.slow  # takes half a second or more
def test_single_bytes_read_the_same() -> None:
    small = [row for row in rows(DIALECT) if len(row.body) < SMALL and row.framing == "sse"]
    assert len(small) > 20
    for row in small:
        assert read(byte_by_byte(row.body)).reply == read(row.body).reply, row.id


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("final_output", [True, False])
def test_a_whole_reply_and_the_same_as_a_stream_are_equal(final_output: bool) -> None:
    compared = 0
    for row in rows(DIALECT):
        if row.framing == "sse":
            last = events(row.body)[-1].get("response") or {}
        else:
            last = json.loads(row.body)
        if not last.get("output") or last.get("error"):
            continue
        compared += 1
        body = json.dumps(last).encode()
        streamed = read(as_stream(last, final_output=final_output)).reply
        same = streamed == read(body).reply
        assert same, row.id
    assert compared > 800


def test_streams_cut_anywhere_never_look_whole() -> None:
    streams = [row for row in rows(DIALECT) if row.framing == "sse" and not row.truncated][:60]
    for row in streams:
        ends = [row.body.find(b'"response.' + w) for w in (b"completed", b"incomplete", b"failed")]
        end = min(at for at in ends if at >= 0)
        for at in range(0, end - 1, max(1, end // 25)):
            assembled = read(row.body[:at])
            assert assembled.error is not None, (row.id, at)


def test_a_long_stream_takes_linear_time() -> None:
    def seconds(pieces: int) -> float:
        body = b"".join(grown("output_text", 0, "word ", content_index=0) for _ in range(pieces))
        begun = time.process_time()
        read(at_random(body, "long", 4000))
        return time.process_time() - begun

    assert is_linear(seconds, 2_000, 16_000)


def test_the_wire_is_named_on_what_goes_back() -> None:
    row = next(row for row in rows(DIALECT) if b"encrypted_content" in row.body)
    found = [part for part in read(row.body).reply.parts if isinstance(part, Reasoning)]
    assert {part.wire for part in found} == {WIRE}
