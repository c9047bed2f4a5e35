"""What clouds, gateways and servers that speak this wire send beside its document: read, or typed."""

import json
from typing import Any

import pytest
from tests.codecs.anthropic.bodies import ended, event, grown, opened, read, started, stopped, text
from tests.codecs.anthropic.bodies import whole as message

from holdfast.core.errors import ErrorCategory
from holdfast.core.messages import FinishReason, Opaque, ReplyKind, Text, ToolCall, Usage

PLAIN = started(usage={"input_tokens": 3, "output_tokens": 1}) + text(0, "Hel", "lo")
PLAIN += ended("end_turn")
USE = {"type": "tool_use", "id": "t1", "name": "pay"}


def failed(kind: str, words: str) -> bytes:
    return event("error", error={"type": kind, "message": words})


class TestFraming:
    @pytest.mark.parametrize(
        "sent",
        [
            PLAIN.replace(b"\n", b"\r"),
            PLAIN.replace(b"data: ", b"data:").replace(b"event: ", b"event:"),
            PLAIN.replace(b"\n\n", b"\n"),
            PLAIN.replace(b"event: content_block_delta\n", b""),
            PLAIN + b"data: [DONE]\n\n",
            PLAIN + b"garbage\n\n",
            PLAIN.replace(b"event: content_block_start", b": ping\n\nevent: content_block_start"),
            PLAIN.replace(
                b"event: message_delta", b'event: ping\ndata: {"type": "ping"}\n\n' * 3
            ).replace(b'"ping"}\n\ndata:', b'"ping"}\n\nevent: message_delta\ndata:'),
            b"event: vertex_event\ndata: {}\n\n" + PLAIN,
            PLAIN.replace(
                b'"message_stop"}', b'"message_stop", "amazon-bedrock-invocationMetrics": {}}'
            ),
        ],
    )
    def test_the_same_reply(self, sent: bytes) -> None:
        assert read(sent).error is None
        assert read(sent).reply == read(PLAIN).reply

    @pytest.mark.parametrize("head", ["", "event: message\n"])
    def test_a_whole_message_as_the_only_event(self, head: str) -> None:
        body = message({"type": "text", "text": "Hi"}, usage={"input_tokens": 3})
        assert read(f"{head}data: ".encode() + body + b"\n\n").reply == read(body).reply

    def test_pretty_printed_events(self) -> None:
        sent = b"".join(
            b"".join(
                b"data: " + line + b"\n" for line in json.dumps(one, indent=1).encode().split(b"\n")
            )
            + b"\n"
            for one in map(
                json.loads, (line[6:] for line in PLAIN.split(b"\n") if line[:5] == b"data:")
            )
        )
        assert read(sent).reply == read(PLAIN).reply


class TestErrors:
    @pytest.mark.parametrize(
        ("behind", "category"),
        [
            (b"event: error\ndata: overloaded\n\n", ErrorCategory.TRANSIENT),
            (failed("overloaded_error", "Overloaded"), ErrorCategory.TRANSIENT),
            (failed("api_error", "Internal server error"), ErrorCategory.SERVER_ERROR),
            (failed("rate_limit_error", "slow down"), ErrorCategory.RATE_LIMIT_RETRYABLE),
            (
                b'data: {"error": {"message": "Bad gateway", "code": 502}}\n\n',
                ErrorCategory.SERVER_ERROR,
            ),
        ],
    )
    def test_an_error_after_text_keeps_the_text(
        self, behind: bytes, category: ErrorCategory
    ) -> None:
        begun = started() + opened(0, type="text", text="") + grown(0, "text_delta", text="Hel")
        assembled = read(begun + behind)
        assert assembled.reply.kind is ReplyKind.ERROR_REPLY
        assert assembled.reply.text == "Hel"
        assert assembled.error is not None
        assert assembled.error.info.category is category

    def test_an_error_of_another_wire_as_a_whole_body(self) -> None:
        error = read(b'{"error": {"message": "bad key", "type": "authentication_error"}}').error
        assert error is not None
        assert error.info.category is ErrorCategory.AUTH_ERROR


class TestBlocks:
    @pytest.mark.parametrize(
        ("given", "arguments"),
        [
            ({"sum": 1}, '{"sum":1}'),
            ('{"sum": 1}', '{"sum": 1}'),
            ("", "{}"),
            (None, "{}"),
            ([1], "[1]"),
        ],
    )
    def test_arguments_of_other_types(self, given: Any, arguments: str) -> None:
        reply = read(message({**USE, "input": given}, reason="tool_use")).reply
        assert reply.parts == (ToolCall("t1", "pay", arguments),)
        kind = ReplyKind.MALFORMED_CALL if arguments == "[1]" else ReplyKind.COMPLETE
        assert reply.kind is kind

    def test_a_call_without_an_id(self) -> None:
        reply = read(message({"type": "tool_use", "name": "pay", "input": {}}, reason="tool_use"))
        assert reply.reply.calls == (ToolCall("", "pay", "{}"),)

    def test_two_calls_of_one_id_are_two(self) -> None:
        reply = read(message({**USE, "input": {}}, {**USE, "input": {}}, reason="tool_use")).reply
        assert len(reply.calls) == 2

    def test_content_that_is_a_text(self) -> None:
        body = json.dumps({"type": "message", "content": "Hi", "stop_reason": "end_turn"})
        assert read(body.encode()).reply.parts == (Text("Hi"),)

    def test_the_result_of_a_server_tool_is_stored_with_its_error(self) -> None:
        failed = {
            "type": "web_search_tool_result",
            "tool_use_id": "s1",
            "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
        }
        use = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
        parts = read(message(use, failed, {"type": "text", "text": "Hi"})).reply.parts
        assert parts == (Opaque("anthropic", use), Opaque("anthropic", failed), Text("Hi"))

    @pytest.mark.parametrize(
        "delta",
        [None, {}, {"type": "text_delta", "text": None}, {"type": "hologram_delta", "x": 1}],
    )
    def test_a_delta_that_says_nothing(self, delta: Any) -> None:
        strange = event("content_block_delta", index=0, delta=delta)
        body = started() + opened(0, type="text", text="") + strange
        body += grown(0, "text_delta", text="Hi") + stopped(0) + ended("end_turn")
        assert read(body).reply.parts == (Text("Hi"),)


class TestEnds:
    @pytest.mark.parametrize(
        ("reason", "finish", "kind"),
        [
            ("model_context_window_exceeded", FinishReason.LENGTH, ReplyKind.TRUNCATED),
            ("refusal", FinishReason.REFUSAL, ReplyKind.REFUSED),
            ("pause_turn", FinishReason.PAUSE, ReplyKind.PAUSED),
            ("stop_sequence", FinishReason.STOP, ReplyKind.COMPLETE),
            ("brand_new_reason", FinishReason.UNKNOWN, ReplyKind.COMPLETE),
            (None, FinishReason.UNKNOWN, ReplyKind.COMPLETE),
        ],
    )
    def test_reasons(self, reason: str | None, finish: FinishReason, kind: ReplyKind) -> None:
        for body in (
            message({"type": "text", "text": "Hi"}, reason=reason),
            started() + text(0, "Hi") + ended(reason),
        ):
            reply = read(body).reply
            assert (reply.finish, reply.kind, reply.raw_finish) == (finish, kind, reason or "")

    @pytest.mark.parametrize(
        ("usage", "wanted"),
        [
            (None, Usage(3, 1)),
            ({}, Usage(3, 1)),
            ({"output_tokens": 9}, Usage(3, 9)),
            ({"input_tokens": 7, "output_tokens": 9}, Usage(7, 9)),
            ({"input_tokens": None, "output_tokens": 9}, Usage(3, 9)),
            ({"output_tokens": "9"}, Usage(3)),
            ({"cache_read_input_tokens": 2, "output_tokens": 9}, Usage(5, 9, 2)),
        ],
    )
    def test_usage_absent_partial_and_strange(self, usage: Any, wanted: Usage) -> None:
        body = started(usage={"input_tokens": 3, "output_tokens": 1}) + text(0, "Hi")
        assert read(body + ended("end_turn", usage=usage)).reply.usage == wanted
