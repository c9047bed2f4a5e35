"""The decoder base class for typed events: events that are not JSON, and the end of a body."""

import json

import pytest
from tests.codecs.reading import assemble_deltas, read_deltas
from tests.codecs.test_is_complete import CODECS

from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.event_decoder import EventDecoder, wrap_error_text
from holdfast.codecs.sse import SseEvent
from holdfast.core.deltas import Delta, NotAReply, TextDelta
from holdfast.core.errors import ErrorCategory
from holdfast.core.messages import ReplyKind


class Pieces:
    """Notes what it is given."""

    def __init__(self) -> None:
        self.ended = False
        self.unknown_counts: dict[str, int] = {}

    def read_event(self, event: dict[str, object], name: str, out: list[Delta]) -> None:
        out.append(TextDelta(f"{name}:{event}"))
        self.ended = self.ended or "end" in event

    def read_whole(self, body: dict[str, object], out: list[Delta], /) -> None:
        out.append(TextDelta(f"whole:{body}"))

    def close(self, out: list[Delta]) -> None:
        out.append(TextDelta("cut"))


class Decoder(EventDecoder[Pieces]):
    def _make_reader(self, provider: str) -> Pieces:
        return Pieces()

    def _read_events(self, events: list[SseEvent], out: list[Delta]) -> None:
        for name, payload in events:
            self._read_carefully(name, payload, out)


def read(body: bytes, limit: int = 1000) -> list[str]:
    decoder = Decoder(limit=limit)
    found = [*decoder.feed(body), *decoder.close(), *decoder.close()]
    return [one.text if isinstance(one, TextDelta) else type(one).__name__ for one in found]


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (b'data: {"a": 1}\n\n', [":{'a': 1}", "cut", "EndMissing"]),
        (b'event: x\ndata: {"a": 1}\n\n', ["x:{'a': 1}", "cut", "EndMissing"]),
        (b'data: {"a": 1}\ndata: {"b": 2}\n\n', [":{'a': 1}", ":{'b': 2}", "cut", "EndMissing"]),
        (b'data: {"a":\ndata: 1}\n\n', [":{'a': 1}", "cut", "EndMissing"]),
        (b"data: [DONE]\n\n", ["cut", "EndMissing"]),
        (b"data: words\n\n", ["NotAReply", "cut", "EndMissing"]),
        (b'data: {"end": 1}\n\ndata: words\n\n', [":{'end': 1}", "cut"]),
        (
            b"event: error\ndata: boom\n\n",
            [f"error:{wrap_error_text(b'boom')}", "cut", "EndMissing"],
        ),
        (b'{"a": 1}', ["whole:{'a': 1}"]),
        (b"<html>", ["NotAReply"]),
    ],
)
def test_bodies(body: bytes, wanted: list[str]) -> None:
    assert read(body) == wanted


def test_an_event_over_the_limit_ends_the_body_once() -> None:
    assert read(b"data: " + b"x" * 2000, limit=100) == ["NotAReply"]


def test_the_words_of_an_error_are_cut_and_never_raise() -> None:
    error = wrap_error_text(b"\xff" * 100_000)["error"]
    assert isinstance(error, dict)
    assert len(str(error["message"])) == 2000


def test_a_problem_names_what_came() -> None:
    decoder = Decoder()
    assert decoder.feed(b"data: 7\n\n") == [NotAReply("event object", "number")]


GATEWAY_ERRORS: list[tuple[dict[str, object], str, ErrorCategory]] = [
    ({"code": 50603, "msg": "System is busy"}, "System is busy", ErrorCategory.SERVER_ERROR),
    ({"code": 401, "msg": "bad key", "data": None}, "bad key", ErrorCategory.AUTH_ERROR),
    ({"code": "1302", "message": "slow down", "data": {}}, "slow down", ErrorCategory.SERVER_ERROR),
    (
        {"success": False, "error_msg": "daily quota", "object": None},
        "quota",
        ErrorCategory.RATE_LIMIT_TERMINAL,
    ),
    (
        {"status_code": 429, "status_msg": "rate limit"},
        "rate limit",
        ErrorCategory.RATE_LIMIT_RETRYABLE,
    ),
    ({"detail": "no such model"}, "no such model", ErrorCategory.MODEL_NOT_FOUND),
    (
        {"msg": "busy", "choices": None, "content": None, "output": None, "candidates": None},
        "busy",
        ErrorCategory.SERVER_ERROR,
    ),
]


@pytest.mark.parametrize("dialect", CODECS)
def test_an_error_of_a_gateway_keeps_its_words(dialect: str) -> None:
    for body, words, category in GATEWAY_ERRORS:
        whole = json.dumps(body).encode()
        event = b"data: " + whole + b"\n\n"
        for sent in (whole, event, b"event: error\n" + event):
            assembled = assemble_deltas(
                read_deltas(CODECS[dialect], sent), dialect, EndpointProfile()
            )
            assert assembled.reply.kind is ReplyKind.ERROR_REPLY, sent
            assert assembled.error is not None
            assert words in str(assembled.error)
            assert assembled.error.info.category is category, sent
