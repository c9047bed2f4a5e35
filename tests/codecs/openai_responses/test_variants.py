"""What clouds, gateways and servers that speak this wire send beside its document: read, or typed."""

import json
from typing import Any

import pytest
from tests.codecs.openai_responses.bodies import (
    WIRE,
    added,
    call,
    completed,
    created,
    done,
    event,
    grown,
    message,
    read,
    response,
    said,
)

from holdfast.core.errors import ErrorCategory
from holdfast.core.messages import Media, Opaque, ReplyKind, Usage

USAGE = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
PLAIN = created() + said("Hello") + completed(message("Hello"), usage=USAGE)


def whole(*output: Any, status: str = "completed", **fields: Any) -> bytes:
    return json.dumps(response(status, output=list(output), **fields)).encode()


class TestFraming:
    @pytest.mark.parametrize(
        "sent",
        [
            PLAIN.replace(b"\n", b"\r"),
            PLAIN.replace(b"\n", b"\r\n"),
            PLAIN.replace(b"data: ", b"data:"),
            PLAIN.replace(b"\n\n", b"\n"),
            b"".join(line + b"\n\n" for line in PLAIN.split(b"\n") if line.startswith(b"data")),
            PLAIN + b"data: [DONE]\n\n",
            b": ping\n\n" + PLAIN,
            event("keepalive", sequence_number=1) + PLAIN,
            b"\xef\xbb\xbf" + PLAIN,
            PLAIN.replace(b'"output_index": 0, ', b'"output_index": null, '),
        ],
    )
    def test_the_same_text_and_usage(self, sent: bytes) -> None:
        assembled = read(sent)
        assert assembled.error is None
        assert (assembled.reply.text, assembled.reply.usage) == ("Hello", Usage(3, 2))

    def test_a_whole_response_as_the_only_event(self) -> None:
        body = whole(message("Hello"), usage=USAGE)
        assert read(b"data: " + body + b"\n\n").reply == read(body).reply

    def test_an_end_marker_of_another_wire_proves_nothing(self) -> None:
        body = created() + said("Hello") + b"data: [DONE]\n\n"
        assert read(body).reply.kind is ReplyKind.UNTERMINATED


class TestErrors:
    @pytest.mark.parametrize(
        ("behind", "category"),
        [
            (b"event: error\ndata: boom\n\n", ErrorCategory.SERVER_ERROR),
            (
                event("error", code="server_error", message="boom", param=None),
                ErrorCategory.SERVER_ERROR,
            ),
            (
                event(
                    "error",
                    error={"code": "context_length_exceeded", "message": "exceeds the window"},
                ),
                ErrorCategory.CONTEXT_WINDOW,
            ),
            (
                event(
                    "response.failed",
                    response=response(
                        "failed", error={"code": "rate_limit_exceeded", "message": "x"}
                    ),
                ),
                ErrorCategory.RATE_LIMIT_RETRYABLE,
            ),
            (event("response.failed", response=response("failed")), ErrorCategory.SERVER_ERROR),
        ],
    )
    def test_a_failure_after_text_keeps_the_text(
        self, behind: bytes, category: ErrorCategory
    ) -> None:
        begun = (
            created() + added(0, **message("")) + grown("output_text", 0, "Hel", content_index=0)
        )
        assembled = read(begun + behind)
        assert assembled.reply.kind is ReplyKind.ERROR_REPLY
        assert assembled.reply.text == "Hel"
        assert assembled.error is not None
        assert assembled.error.info.category is category

    @pytest.mark.parametrize(
        ("details", "kind"),
        [
            ({"reason": "max_output_tokens"}, ReplyKind.TRUNCATED),
            ({"reason": "content_filter"}, ReplyKind.FILTERED),
            ({"reason": "brand_new"}, ReplyKind.TRUNCATED),
            ({}, ReplyKind.TRUNCATED),
            (None, ReplyKind.TRUNCATED),
        ],
    )
    def test_incomplete_is_never_a_success(self, details: Any, kind: ReplyKind) -> None:
        last = completed(message("Hello"), status="incomplete", incomplete_details=details)
        for body in (
            created() + said("Hello") + last,
            whole(message("Hello"), status="incomplete", incomplete_details=details),
        ):
            assert read(body).reply.kind is kind
            assert read(body).error is not None


class TestItems:
    @pytest.mark.parametrize(
        "item",
        [
            message("Hello"),
            {"role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]},
            {"type": "message", "content": "Hello"},
            {"content": "Hello"},
            {"type": "message", "content": [{"text": "Hello"}]},
            {"type": "message", "content": [{"type": "text", "text": "Hello"}]},
            {"type": "message", "content": [None, {"type": "output_text", "text": "Hello"}]},
        ],
    )
    def test_forms_of_a_message(self, item: Any) -> None:
        for body in (whole(item), created() + completed(item)):
            assembled = read(body)
            assert assembled.error is None
            assert assembled.reply.text == "Hello"

    @pytest.mark.parametrize("content", [None, [], [None], [{"type": "output_text", "text": None}]])
    def test_a_message_that_says_nothing(self, content: Any) -> None:
        assert read(whole({"type": "message", "content": content})).reply.kind is ReplyKind.EMPTY

    @pytest.mark.parametrize(
        ("item", "wanted"),
        [
            (call('{"sum": 1}'), ("call_1", '{"sum": 1}')),
            ({**call(""), "arguments": {"sum": 1}}, ("call_1", '{"sum":1}')),
            ({**call(""), "arguments": None}, ("call_1", "{}")),
            (
                {"type": "function_call", "id": "fc_1", "name": "pay", "arguments": "{}"},
                ("fc_1", "{}"),
            ),
            ({"type": "function_call", "name": "pay", "arguments": "{}"}, ("", "{}")),
        ],
    )
    def test_forms_of_a_call(self, item: Any, wanted: tuple[str, str]) -> None:
        for body in (whole(item), created() + completed(item)):
            (made,) = read(body).reply.calls
            assert (made.id, made.arguments) == wanted

    def test_a_cut_call_of_an_incomplete_response_cannot_be_run(self) -> None:
        item = call('{"sum":', status="incomplete")
        reply = read(whole(item, status="incomplete", incomplete_details={})).reply
        assert reply.kind is ReplyKind.TRUNCATED

    def test_items_of_searches_and_pictures(self) -> None:
        search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
        drawn = {"type": "image_generation_call", "id": "ig_1", "result": "iVBORw0KGgo="}
        noted = message("Hello")
        noted["content"][0]["annotations"] = [{"type": "url_citation", "url": "https://e.org"}]
        reply = read(whole(search, drawn, noted)).reply
        assert reply.parts[0] == Opaque(WIRE, search)
        assert isinstance(reply.parts[1], Media)
        assert reply.text == "Hello"

    def test_a_failed_image_is_not_a_reply(self) -> None:
        drawn = {"type": "image_generation_call", "id": "ig_1", "status": "failed", "result": None}
        assert read(whole(drawn)).reply.kind is ReplyKind.EMPTY

    def test_two_items_of_one_id_keep_apart(self) -> None:
        body = created() + said("Hello") + said(" again", 1)
        body += completed(message("Hello"), message(" again"))
        assert read(body).reply.text == "Hello again"


@pytest.mark.parametrize(
    ("usage", "wanted"),
    [
        (None, Usage()),
        ({}, Usage()),
        ([], Usage()),
        ({"total_tokens": 5}, Usage()),
        ({"input_tokens": "3"}, Usage()),
        ({"input_tokens": 3}, Usage(3)),
        ({"input_tokens": 3, "input_tokens_details": {"cached_tokens": 2}}, Usage(3, 0, 2)),
        (
            {
                "input_tokens": 3,
                "output_tokens": 2,
                "output_tokens_details": {"reasoning_tokens": 1},
            },
            Usage(3, 2, reasoning=1),
        ),
        ({"input_tokens": 3, "output_tokens": 2, "input_tokens_details": None}, Usage(3, 2)),
    ],
)
def test_usage_absent_partial_and_strange(usage: Any, wanted: Usage) -> None:
    assert read(whole(message("Hello"), usage=usage)).reply.usage == wanted


@pytest.mark.parametrize(
    "begun",
    [
        grown("output_text", 0, "Ye", content_index=0),
        grown("output_text", 0, "Yes", content_index=0) + grown("output_text", 1, "Y"),
        added(0, **call("")) + grown("function_call_arguments", 0, '{"n":1}'),
        done(0, **call('{"n":1}')),
        said("Yes"),
    ],
)
def test_the_name_of_the_last_event_alone_proves_nothing(begun: bytes) -> None:
    # A gateway sends it after its own connection failed.
    endings: list[dict[str, Any]] = [
        {"output": []},
        {},
        {"output": None, "usage": {"input_tokens": 1}},
    ]
    for ending in endings:
        body = created() + begun + event("response.completed", response=ending)
        assert read(body).reply.kind is ReplyKind.UNTERMINATED
    for body in (created() + begun + b"data: [DONE]\n\n", created() + begun):
        assert read(body).reply.kind is ReplyKind.UNTERMINATED


def test_an_end_without_a_status_that_lists_the_items_is_whole() -> None:
    listed = {"output": [message("Yes")]}
    for begun in (said("Yes"), grown("output_text", 0, "Ye", content_index=0), b""):
        reply = read(created() + begun + event("response.completed", response=listed)).reply
        assert (reply.text, reply.kind) == ("Yes", ReplyKind.COMPLETE)
