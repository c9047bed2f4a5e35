"""Recorded chat completions, read whole and in pieces, compared with an independent reading."""

import json
from typing import Any

import pytest
from tests.codecs.openai_chat.bodies import as_stream, event, read
from tests.corpus import Row, Table, at_random, byte_by_byte, rows

from holdfast.codecs.assemble import AssembledReply
from holdfast.core.messages import Reasoning, ReplyKind, Usage

SMALL = 4_000


def answered() -> list[Row]:
    return [row for row in rows("openai_chat") if (row.status or 200) < 300]


def objects(row: Row) -> list[Any]:
    """The JSON objects of a body, by the plainest means."""
    text = row.body.decode()
    if row.framing != "sse":
        return [json.loads(text)]
    found = []
    for line in text.splitlines():
        if line.startswith("data:") and line[5:].strip() not in ("", "[DONE]"):
            try:
                found.append(json.loads(line[5:]))
            except ValueError:
                assert row.truncated
    return found


class Reading:
    """A second, smaller reader of this wire, for the rows of the corpus only."""

    def __init__(self, row: Row) -> None:
        self.text = self.thoughts = self.refusal = self.finish = ""
        self.usage: dict[str, Any] = {}
        self.error = False
        self.calls: list[list[str]] = []
        for value in objects(row):
            self.error = self.error or bool(value.get("error"))
            for choice in value.get("choices") or []:
                if choice.get("index", 0) == 0:
                    self._choice(choice, "delta" if row.framing == "sse" else "message")
            group = value.get("x_groq") or {}
            self.usage = value.get("usage") or group.get("usage") or self.usage

    def _choice(self, choice: dict[str, Any], field: str) -> None:
        message = choice.get(field) or {}
        content = message.get("content")
        if isinstance(content, dict):
            self.text += json.dumps(content, separators=(",", ":"), ensure_ascii=False)
        elif isinstance(content, list):
            for block in content:
                self.text += block.get("text") or ""
                self.thoughts += "".join(part["text"] for part in block.get("thinking") or [])
        else:
            self.text += content or choice.get("text") or ""
        details = message.get("reasoning_details") or []
        told = "".join(one.get("text") or one.get("summary") or "" for one in details)
        self.thoughts += message.get("reasoning_content") or message.get("reasoning") or told
        self.refusal += message.get("refusal") or ""
        if not content:
            self.text += (message.get("audio") or {}).get("transcript") or ""
        for entry in message.get("tool_calls") or []:
            self._call(entry, field)
        legacy = message.get("function_call")
        if legacy and any(legacy.values()):
            self._call({"index": 0, "function": legacy}, field)
        self.finish = choice.get("finish_reason") or self.finish

    def _call(self, entry: dict[str, Any], field: str) -> None:
        function = entry.get("function") or entry.get("custom")
        number = entry.get("index", len(self.calls)) if field == "delta" else len(self.calls)
        if number >= len(self.calls):
            self.calls.append(["", "", ""])
        made = self.calls[number]
        made[0] = made[0] or entry.get("id") or ""
        made[1] = made[1] or function.get("name") or ""
        made[2] += function.get("arguments") or function.get("input") or ""


def compare(reading: Reading, assembled: AssembledReply) -> None:
    reply = assembled.reply
    assert reply.text == reading.text
    thoughts = "".join(part.text for part in reply.parts if isinstance(part, Reasoning))
    assert thoughts == reading.thoughts
    assert reply.raw_finish == reading.finish
    assert [(made.id, made.name) for made in reply.calls] == [(c[0], c[1]) for c in reading.calls]
    for made, wanted in zip(reply.calls, reading.calls, strict=True):
        assert made.arguments == wanted[2] or (made.arguments == "{}" and not wanted[2])
    assert (reply.kind is ReplyKind.ERROR_REPLY) == reading.error
    assert (reply.kind is ReplyKind.REFUSED) == bool(reading.refusal)
    used = reading.usage
    details = used.get("prompt_tokens_details") or {}
    usage = Usage(
        input=used.get("prompt_tokens") or 0,
        output=used.get("completion_tokens") or 0,
        cached_input=details.get("cached_tokens") or used.get("prompt_cache_hit_tokens") or 0,
    )
    found = reply.usage
    assert (found.input, found.output) == (usage.input, usage.output)
    assert found.cached_input >= usage.cached_input


@pytest.mark.slow  # takes half a second or more
def test_every_row_reads_as_the_small_reader_reads_it() -> None:
    table = Table("framing", "kind", "finish")
    for row in answered():
        assembled = read(row.body, row.content_type)
        reply = assembled.reply
        table.add(row.framing, reply.kind.value, reply.raw_finish or "-")
        try:
            compare(Reading(row), assembled)
        except AssertionError as error:
            raise AssertionError(f"row {row.id} of {row.provider}") from error
        if reply.kind is ReplyKind.UNTERMINATED:
            assert row.truncated, row.id
        if assembled.error is None and reply.kind is ReplyKind.COMPLETE:
            assert reply.text.strip() or reply.calls or reply.parts, row.id
    print(f"\nopenai_chat: {len(answered())} rows\n{table}")
    assert len(answered()) > 1500


@pytest.mark.slow  # takes half a second or more
def test_bodies_of_other_wires_are_never_replies() -> None:
    for dialect in (
        "anthropic_messages",
        "gemini",
        "openai_responses",
        "ollama_native",
        "cohere_chat",
    ):
        taken = [
            row.id
            for row in rows(dialect)
            if (row.status or 200) < 300
            and b'"chat.completion' not in row.body
            and read(row.body, row.content_type).error is None
        ]
        assert taken == []


@pytest.mark.slow  # takes half a second or more
def test_random_pieces_read_the_same() -> None:
    for row in answered():
        pieces = at_random(row.body, row.id)
        assert read(pieces, row.content_type).reply == read(row.body, row.content_type).reply, (
            row.id
        )


def test_single_bytes_read_the_same() -> None:
    small = [row for row in answered() if len(row.body) < SMALL]
    assert len(small) > 100
    for row in small[::4]:
        pieces = byte_by_byte(row.body)
        assert read(pieces, row.content_type).reply == read(row.body, row.content_type).reply, (
            row.id
        )


def test_line_endings_read_the_same() -> None:
    for row in [row for row in answered() if row.framing == "sse"][::3]:
        body = row.body.replace(b"\r\n", b"\n")
        for end in (b"\r\n", b"\r"):
            other = body.replace(b"\n", end)
            assert read(other, row.content_type).reply == read(body, row.content_type).reply, row.id


def test_a_whole_reply_and_the_same_as_a_stream_are_equal() -> None:
    compared = 0
    for row in answered():
        if row.framing == "sse":
            continue
        (body,) = objects(row)
        choices = body.get("choices") or []
        if not choices or body.get("error"):
            continue
        if any("message" not in choice or "delta" in choice for choice in choices):
            continue
        compared += 1
        assert read(as_stream(body)).reply == read(row.body, row.content_type).reply, row.id
    assert compared > 800


def test_streams_cut_anywhere_never_look_whole() -> None:
    streams = [row for row in answered() if row.framing == "sse" and b"finish_reason" in row.body]
    cuts = 0
    for row in streams[::5]:
        whole = read(row.body, row.content_type)
        if whole.error is not None:
            continue
        # The last chunk with a finish reason is the first proof of the end.
        end = row.body.find(b'"finish_reason":"')
        end = row.body.find(b'"finish_reason": "') if end < 0 else end
        for at in range(0, max(end, 0), max(1, end // 20)):
            assembled = read(row.body[:at], row.content_type)
            assert assembled.error is not None, (row.id, at)
            assert whole.reply.text.startswith(assembled.reply.text), (row.id, at)
            cuts += 1
    assert cuts > 500


@pytest.mark.parametrize("name", ["", "message", "error"])
def test_recorded_errors_inside_a_stream_are_errors(name: str) -> None:
    refused = [row for row in rows("openai_chat") if (row.status or 200) >= 400]
    assert refused
    for row in refused:
        body = json.loads(row.body)
        assert read(event(body, name)).reply.kind is ReplyKind.ERROR_REPLY, row.id
        assert read(row.body, row.content_type).reply.kind is ReplyKind.ERROR_REPLY, row.id
