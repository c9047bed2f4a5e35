"""Recorded traffic of this wire, read whole and in pieces, compared with an independent reading."""

import json
import time
from typing import Any

import pytest
from tests.codecs.anthropic.bodies import as_stream, read, whole
from tests.codecs.anthropic.independent_reader import counts, message, sendable
from tests.corpus import ROOT, Row, Table, at_random, byte_by_byte, rows
from tests.linear import is_linear

from holdfast.codecs.anthropic.history import encode_message
from holdfast.codecs.assemble import AssembledReply
from holdfast.core.messages import FinishReason, Reasoning, ReplyKind

DIALECT = "anthropic_messages"
SMALL = 6_000
FINISH = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "tool_use": FinishReason.TOOL_CALLS,
    "max_tokens": FinishReason.LENGTH,
    "pause_turn": FinishReason.PAUSE,
    "refusal": FinishReason.REFUSAL,
}


def compare(row: Row, told: dict[str, Any], assembled: AssembledReply) -> None:
    reply = assembled.reply
    content = told["content"]
    assert reply.text == "".join(b["text"] for b in content if b["type"] == "text")
    thoughts = "".join(part.text for part in reply.parts if isinstance(part, Reasoning))
    assert thoughts == "".join(b["thinking"] for b in content if b["type"] == "thinking")
    uses = [(b["id"], b["name"], b["input"]) for b in content if b["type"] == "tool_use"]
    if reply.kind is ReplyKind.TRUNCATED:
        assert [(c.id, c.name) for c in reply.calls] == [(i, name) for i, name, _ in uses]
    else:
        assert [(c.id, c.name, json.loads(c.arguments)) for c in reply.calls] == uses
    assert reply.raw_finish == told["stop_reason"]
    assert reply.finish is FINISH[told["stop_reason"]]
    usage = reply.usage
    assert (usage.input, usage.output, usage.cached_input, usage.cache_write) == counts(
        told["usage"]
    )
    assert (reply.id, reply.model) == (told["id"], told["model"])
    if reply.kind in (ReplyKind.COMPLETE, ReplyKind.PAUSED):
        sent = json.loads(encode_message(reply.message))["content"]
        assert sent == sendable(content), row.id


def test_every_row_reads_as_the_small_reader_reads_it() -> None:
    table = Table("mode", "status", "kind", "finish", "outcome")
    compared = 0
    for row in rows(DIALECT):
        assembled = read(row.body)
        told = message(row.body)
        if told is None:
            assert assembled.reply.kind is ReplyKind.ERROR_REPLY, row.id
        else:
            compare(row, told, assembled)
            compared += 1
        outcome = "decoded" if told else "skipped: an error body"
        mode = "stream" if row.framing == "sse" else "whole"
        kind = assembled.reply.kind.value
        table.add(mode, row.status, kind, assembled.reply.raw_finish or "-", outcome)
    report = f"{DIALECT}: {len(rows(DIALECT))} rows, {compared} compared\n{table}\n"
    print(f"\n{report}")
    place = ROOT / "build" / "replay"
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{DIALECT}.txt").write_text(report, "utf-8")
    assert compared > 550


@pytest.mark.slow  # takes half a second or more
def test_random_pieces_read_the_same() -> None:
    for row in rows(DIALECT):
        assert read(at_random(row.body, row.id)).reply == read(row.body).reply, row.id


@pytest.mark.slow  # takes half a second or more
def test_single_bytes_read_the_same() -> None:
    small = [row for row in rows(DIALECT) if len(row.body) < SMALL and row.framing == "sse"]
    assert len(small) > 100
    for row in small:
        assert read(byte_by_byte(row.body)).reply == read(row.body).reply, row.id


@pytest.mark.slow  # takes half a second or more
def test_a_whole_reply_and_the_same_as_a_stream_are_equal() -> None:
    compared = 0
    for row in rows(DIALECT):
        told = message(row.body)
        if told is None or any(isinstance(b.get("input"), str) for b in told["content"]):
            continue
        compared += 1
        body = whole(*told["content"], **{k: v for k, v in told.items() if k != "content"})
        assert read(as_stream(told)).reply == read(body).reply, row.id
    assert compared > 550


def test_streams_cut_anywhere_never_look_whole() -> None:
    streams = [row for row in rows(DIALECT) if row.framing == "sse"][:60]
    for row in streams:
        end = row.body.index(b'"message_stop"')
        for at in range(0, end - 1, max(1, end // 25)):
            assembled = read(row.body[:at])
            assert assembled.error is not None, (row.id, at)


def test_a_long_stream_takes_linear_time() -> None:
    def seconds(pieces: int) -> float:
        body = b"".join(
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
            b'"delta":{"type":"text_delta","text":"word "}}\n\n'
            for _ in range(pieces)
        )
        begun = time.process_time()
        read(at_random(body, "long", 4000))
        return time.process_time() - begun

    assert is_linear(seconds, 2_000, 16_000)
