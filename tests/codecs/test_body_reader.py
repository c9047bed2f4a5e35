"""What a body is, judged by its first bytes, and by its content type only where they could be either."""

from itertools import product

import pytest

from holdfast.codecs.body_reader import BodyReader
from holdfast.codecs.json_text import UNREADABLE
from holdfast.core.deltas import NotAReply

STREAM = "Text/Event-Stream; charset=utf-8"


def events(body: bytes, size: int, content_type: str = "") -> tuple[list[bytes], BodyReader]:
    reader = BodyReader(1000, content_type)
    found = []
    for at in range(0, len(body), size):
        found += reader.feed(body[at : at + size])
    found += reader.close()
    return [data for _, data in found], reader


@pytest.mark.parametrize(
    "body",
    [
        b"data: 1\n\n",
        b"data:1",
        b"event: x\r\ndata: 1\r\n\r\n",
        b"id: 7\ndata: 1\n\n",
        b"retry: 7\ndata: 1\n\n",
        b": ping\n\ndata: 1\n\n",
        b":\n\ndata: 1\n\n",
        b"\xef\xbb\xbf\n\ndata: 1\n\n",
    ],
)
def test_an_event_stream_is_one_under_any_type(body: bytes) -> None:
    for size, content_type in product([1, 5, 1000], ["", "application/json", STREAM]):
        found, reader = events(body, size, content_type)
        assert found == [b"1"], (size, content_type)
        assert reader.is_stream
        assert reader.problem is None


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize("content_type", ["", "application/json", STREAM])
@pytest.mark.parametrize("body", [b'{"a": 1}', b'\xef\xbb\xbf \r\n{"a": 1} ', b'\n\n\n{"a":\n1}'])
def test_json_is_json_under_any_type(body: bytes, content_type: str, size: int) -> None:
    found, reader = events(body, size, content_type)
    assert (found, reader.is_stream) == ([], False)
    assert reader.read_value() == {"a": 1}
    assert reader.problem is None


@pytest.mark.parametrize(
    ("body", "got"),
    [
        (b"", "empty body"),
        (b"<!doctype html>", "HTML page"),
        (b"upstream error", "plain text"),
        (b"dat", "plain text"),
        (b"\x28\xb5\x2f\xfd\x04", "zstd data, which was not asked for"),
        (b"\x1f\x8b\x08\x00", "gzip data, which was not asked for"),
        (b'{"a": ', "cut or malformed JSON"),
        (b"[1, 2]", "array"),
        (b"null", "null"),
    ],
)
def test_any_other_body_is_named_and_not_quoted(body: bytes, got: str) -> None:
    _, reader = events(body, 3)
    value = reader.read_value()
    assert value is UNREADABLE or not isinstance(value, dict)
    assert reader.problem == NotAReply("response object", got)


def test_the_type_decides_where_the_first_bytes_could_be_either() -> None:
    body = b"x-first: 1\ndata: 1\n\n"
    assert events(body, 4, STREAM)[0] == [b"1"]
    assert events(body, 4, "application/json")[0] == []


@pytest.mark.parametrize("size", [1, 300])
@pytest.mark.parametrize("body", [b"data: 1\n\ndata: " + b"x" * 2000, b"{" + b" " * 2000])
def test_a_body_over_the_limit_is_a_problem_and_nothing_is_read_after_it(
    body: bytes, size: int
) -> None:
    found, reader = events(body, size)
    assert found in ([b"1"], [])
    assert reader.problem is not None
    assert reader.problem.got == "more than 1000 bytes"
    assert reader.feed(b"\n\ndata: 2\n\n") == []
