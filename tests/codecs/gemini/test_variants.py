"""What proxies and older servers of this wire send beside its document: read, or typed."""

import json

import pytest
from tests.codecs.gemini.bodies import call, chunk, events, read, text, whole

from holdfast.core.errors import ErrorCategory
from holdfast.core.messages import ReplyKind, Text, Usage

USED = {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7}
HELLO = (
    chunk(text("Hel"), usageMetadata=USED),
    chunk(text("lo"), finish="STOP", usageMetadata=USED),
)
PLAIN = events(*HELLO)


@pytest.mark.parametrize(
    "sent",
    [
        PLAIN.replace(b"\r\n", b"\r"),
        PLAIN.replace(b"\r\n", b"\n"),
        PLAIN.replace(b"data: ", b"data:"),
        PLAIN.rstrip(),
        b": ping\r\n\r\n" + PLAIN,
        b"\xef\xbb\xbf" + PLAIN,
        PLAIN + b"data: [DONE]\n\n",
        ("[" + ",\r\n".join(map(json.dumps, HELLO)) + "]").encode(),
        ("[" + ",\r\n".join(map(json.dumps, HELLO)) + "\n]\n").encode(),
        "\n".join(map(json.dumps, HELLO)).encode(),
        events({"response": HELLO[0]}, {"response": HELLO[1]}),
    ],
)
def test_the_same_reply_in_any_frame(sent: bytes) -> None:
    assert read(sent).error is None
    assert read(sent).reply == read(PLAIN).reply


@pytest.mark.parametrize(
    "behind",
    [
        b"event: error\r\ndata: overloaded\r\n\r\n",
        b'event: error\r\ndata: {"code": 503, "message": "overloaded"}\r\n\r\n',
        events({"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}),
    ],
)
def test_an_error_after_text_keeps_the_text(behind: bytes) -> None:
    assembled = read(events(HELLO[0]) + behind)
    assert assembled.reply.kind is ReplyKind.ERROR_REPLY
    assert assembled.reply.text == "Hel"
    assert assembled.error is not None
    assert assembled.error.info.category is ErrorCategory.TRANSIENT


class TestCandidates:
    @pytest.mark.parametrize("numbers", [(0, 1), (None, 1), (None, None), ("0", "1"), (3, 4)])
    def test_the_first_counts_whatever_the_numbers(self, numbers: tuple[object, object]) -> None:
        candidates = [
            {"content": {"parts": [text(f"said {at}")]}, "finishReason": "STOP"} for at in (0, 1)
        ]
        for candidate, number in zip(candidates, numbers, strict=True):
            if number is not None:
                candidate["index"] = number  # type: ignore[assignment]
        assert read(whole({"candidates": candidates})).reply.parts == (Text("said 0"),)

    @pytest.mark.parametrize(
        "candidate",
        [
            {"content": None, "finishReason": "STOP"},
            {"content": {"parts": None}, "finishReason": "STOP"},
            {"content": {"parts": ["words"]}, "finishReason": "STOP"},
            {"content": "words", "finishReason": "STOP"},
            {"content": {"parts": [{}]}, "finishReason": "STOP"},
        ],
    )
    def test_one_without_readable_parts_is_empty(self, candidate: object) -> None:
        assert read(whole({"candidates": [candidate]})).reply.kind is ReplyKind.EMPTY


@pytest.mark.parametrize(
    ("args", "wanted"),
    [({"sum": 1}, '{"sum":1}'), ('{"sum": 1}', '{"sum": 1}'), ({}, "{}"), (None, "{}")],
)
def test_forms_of_arguments(args: object, wanted: str) -> None:
    sent = chunk(call("pay", args), finish="STOP")
    for body in (whole(sent), events(sent)):
        (made,) = read(body).reply.calls
        assert (made.name, made.arguments) == ("pay", wanted)


def test_two_calls_alike_are_two() -> None:
    reply = read(whole(chunk(call("pay", {}), call("pay", {}), finish="STOP"))).reply
    assert [one.name for one in reply.calls] == ["pay", "pay"]


@pytest.mark.parametrize(
    ("usage", "wanted"),
    [
        (None, Usage()),
        ([], Usage()),
        ({}, Usage()),
        ({"promptTokenCount": "5"}, Usage()),
        ({"promptTokenCount": 5}, Usage(5)),
        ({"totalTokenCount": 7}, Usage()),
        ({**USED, "thoughtsTokenCount": 4}, Usage(5, 6, reasoning=4)),
    ],
)
def test_usage_absent_partial_and_strange(usage: object, wanted: Usage) -> None:
    sent = whole(chunk(text("Hi"), finish="STOP", usageMetadata=usage))
    assert read(sent).reply.usage == wanted


def test_counts_that_come_after_the_finish_reason_count() -> None:
    late = {"usageMetadata": {**USED, "candidatesTokenCount": 9}}
    assert read(events(*HELLO, late)).reply.usage == Usage(5, 9)
