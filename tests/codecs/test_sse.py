"""The event-stream reader against an independent one, under every cut and every line ending."""

import re
from itertools import pairwise
from typing import Any, Self

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from holdfast.codecs.sse import EventTooLargeError, SseDecoder, SseEvent


def reference(body: bytes) -> list[SseEvent]:
    """The standard's algorithm, a line at a time, over the whole body."""
    text = body.decode("latin-1").removeprefix("\xef\xbb\xbf")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    events: list[SseEvent] = []
    name, data = "", []
    for line in [*lines, ""]:
        if not line:
            if data:
                events.append((name.encode("latin-1"), "\n".join(data).encode("latin-1")))
            name, data = "", []
            continue
        field, colon, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value
        elif field == "error" and colon:  # no field of the standard; see the decoder
            name = "error"
            data.append(value)
    return events


def read(pieces: list[bytes]) -> list[SseEvent]:
    decoder = SseDecoder()
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return [*events, *decoder.close()]


def cut(body: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    return [body[a:b] for a, b in pairwise(edges)]


LINES = st.one_of(
    st.sampled_from(
        [
            "",
            "data: {}",
            "data:x",
            "data",
            "data:  two",
            "event: ping",
            ": hello",
            ":",
            "id: 7",
            "retry: 300",
            "nonsense",
            "nonsense: 1",
            "event",
            "error",
            "error: no",
            "data: é😀",
        ]
    ),
    # A line that begins like JSON is an event, which the standard does not know.
    st.text(max_size=12).filter(
        lambda text: "\r" not in text and "\n" not in text and text[:1] not in ("{", "[")
    ),
)
ENDS = st.sampled_from(["\n", "\r", "\r\n"])
BODIES = st.lists(st.tuples(LINES, ENDS), max_size=20).map(
    lambda lines: "".join(line + end for line, end in lines).encode("utf-8", "replace")
)


@given(BODIES, st.booleans(), st.lists(st.integers(0, 10_000), max_size=12))
def test_any_cut_gives_the_events_of_the_standard(
    body: bytes, bom: bool, places: list[int]
) -> None:
    body = b"".join((b"\xef\xbb\xbf" if bom else b"", body))
    wanted = reference(body)
    assert read([body]) == wanted
    assert read(cut(body, places)) == wanted
    assert read([body[at : at + 1] for at in range(len(body))]) == wanted


@given(st.binary(max_size=200), st.lists(st.integers(0, 10_000), max_size=6))
@example(b"error", [])
def test_any_bytes_are_read_without_an_error(body: bytes, places: list[int]) -> None:
    # A line that begins like JSON is an event, which the standard does not know.
    assume(re.search(rb"(?:\A(?:\xef\xbb\xbf)?|[\r\n])[\[{]", body) is None)
    assert read(cut(body, places)) == reference(body)


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_each_line_ending_ends_lines_and_events(end: str) -> None:
    body = end.join(["event: a", "data: 1", "data: 2", "", "data: 3", "", ""]).encode()
    assert read([body]) == [(b"a", b"1\n2"), (b"", b"3")]


def test_a_cut_between_cr_and_lf_makes_no_blank_line() -> None:
    assert read([b"data: 1\r", b"\ndata: 2\r\n\r", b"\n"]) == [(b"", b"1\n2")]


def test_a_cr_alone_among_crlf_ends_its_line_too() -> None:
    pieces = [b"data: 0\r\n\r\n", b"data: 1\rdata: 2\r\n\r\n"]
    assert read(pieces) == [(b"", b"0"), (b"", b"1\n2")]


def test_a_cut_inside_a_character_changes_nothing() -> None:
    body = "data: 😀\n\n".encode()
    assert read([body[:8], body[8:]]) == [(b"", "😀".encode())]


def test_an_event_without_its_blank_line_is_delivered_at_the_end() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: 1\n\ndata: 2") == [(b"", b"1")]
    assert decoder.close() == [(b"", b"2")]
    assert decoder.close() == []


def test_comments_and_other_fields_are_counted_and_are_not_content() -> None:
    decoder = SseDecoder()
    events = decoder.feed(b": one\n\n: two\nid: 9\nretry: 250\nfoo: bar\ndata: x\n\n")
    assert events == [(b"", b"x")]
    assert (decoder.comments, decoder.unknown_lines) == (2, 1)
    assert (decoder.last_id, decoder.retry) == (b"9", 250)


def test_strange_ids_and_waits_are_ignored() -> None:
    decoder = SseDecoder()
    decoder.feed(b"id: a\0b\nretry: -5\nretry: 1e9\nretry: " + b"9" * 5000 + b"\n\n")
    assert (decoder.last_id, decoder.retry) == (b"", None)


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_an_event_over_the_limit_is_refused_with_the_events_before_it(size: int) -> None:
    decoder = SseDecoder(limit=100)
    body = b"data: 1\n\ndata: " + b"x" * 200 + b"\n\n"
    events: list[SseEvent] = []

    def read_all() -> None:
        for at in range(0, len(body), size):
            events.extend(decoder.feed(body[at : at + size]))

    with pytest.raises(EventTooLargeError, match="larger than 100 bytes") as caught:
        read_all()
    assert events + caught.value.events == [(b"", b"1")]


class Counting(bytearray):
    """Counts how many bytes are searched and copied."""

    work = 0

    def find(self, sub: Any, *span: Any) -> int:
        Counting.work += len(self) - (span[0] if span else 0)
        return super().find(sub, *span)

    def __iadd__(self, other: Any) -> Self:
        Counting.work += len(other)
        super().__iadd__(other)
        return self

    def __bytes__(self) -> bytes:
        Counting.work += len(self)
        return memoryview(self).tobytes()


def work(body: bytes, size: int) -> int:
    Counting.work = 0
    decoder = SseDecoder()
    decoder._buffer = Counting()
    events = 0
    for at in range(0, len(body), size):
        events += len(decoder.feed(body[at : at + size]))
    assert events + len(decoder.close()) >= 1
    return Counting.work


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("size", [1, 2, 1000])
def test_work_is_in_proportion_to_the_bytes_however_they_come(size: int) -> None:
    length = 200_000
    one_line = b"data: " + b"x" * length + b"\n\n"
    many_lines = b"data: 1\n" * (length // 8) + b"\n"
    many_events = b"data: 1\n\n" * (length // 9)
    for body in (one_line, many_lines, many_events):
        assert work(body, size) < 6 * len(body)


def test_a_line_of_the_field_error_is_an_event_of_that_name() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: 1\n\nerror: boom\n\n") == [(b"", b"1"), (b"error", b"boom")]
    assert decoder.unknown_lines == 0


NAMED = b"event: a\ndata: {}\n\n"


@pytest.mark.parametrize(
    "odd",
    [
        b"",
        b"event: b\ndata: 1\ndata: 2\n\n",
        b"event: b\n\nevent: c\ndata: 3\n\n",
        b": kept alive\n\n",
        b"data: 4\n\n",
        b"data: 5\nevent: b\n\n",
        b"event: b\ndata:6\n\n",
        b"\n\n\n",
        b"id: 7\nevent: b\n\n",
        b"data: 8\n\ndata: 9\n\n",
    ],
)
def test_events_with_names_are_read_at_once_as_byte_by_byte(odd: bytes) -> None:
    body = NAMED + NAMED + odd + NAMED
    slow, quick = SseDecoder(), SseDecoder()
    expected = [event for at in range(len(body)) for event in slow.feed(body[at : at + 1])]
    assert quick.feed(NAMED) + quick.feed(body) == [(b"a", b"{}"), *expected]
