"""Every event is decoded from its line as an equal event; unknown events are refused by name."""

from __future__ import annotations

import json
import math
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.cost import Cost
from holdfast.core.errors import ErrorCategory, ErrorInfo, Landed
from holdfast.core.events import Event, FailedTarget, ModelReplied, ToolsBegun, TurnResumed
from holdfast.core.limits import Limits
from holdfast.core.messages import (
    FinishReason,
    Media,
    Message,
    Opaque,
    Reasoning,
    Refusal,
    Reply,
    ReplyKind,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from holdfast.core.model_request import ModelSettings
from holdfast.core.turn_options import TurnOptions
from holdfast.journal import readable_events
from holdfast.journal.encoding import (
    SCHEMA,
    TYPES,
    decode,
    encode,
    encode_event,
    record_of,
    to_json,
    to_line,
)
from holdfast.journal.journal_errors import JournalCorruptError, JournalVersionError
from holdfast.journal.port import Record
from holdfast.testing.journal_conformance import make_turn_opened

TEXTS = st.text(st.characters(), max_size=8) | st.sampled_from(["\ud800", "\x00", "\u2028\n", "🧿"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
EXTRA = st.none() | st.dictionaries(TEXTS, JSON, max_size=3)
OPTIONAL = st.none() | TEXTS
TEXT_PARTS = st.builds(Text, TEXTS, EXTRA)
MEDIA = st.builds(
    Media, TEXTS, data=st.binary(max_size=20), name=OPTIONAL, extra=EXTRA
) | st.builds(Media, TEXTS, url=TEXTS, name=OPTIONAL)
RESULTS = st.builds(
    ToolResult,
    TEXTS,
    TEXTS,
    st.lists(TEXT_PARTS | MEDIA, max_size=2).map(tuple),
    st.booleans(),
)
CALLS = st.builds(ToolCall, TEXTS, TEXTS, TEXTS, OPTIONAL, EXTRA)
PARTS = st.lists(
    st.one_of(
        TEXT_PARTS,
        MEDIA,
        RESULTS,
        st.builds(Reasoning, TEXTS, OPTIONAL, OPTIONAL, EXTRA),
        CALLS,
        st.builds(Refusal, TEXTS),
        st.builds(Opaque, TEXTS, st.dictionaries(TEXTS, JSON, max_size=2)),
    ),
    max_size=4,
).map(tuple)
TIMES = st.floats(0, 1e10, allow_nan=False)
REPLIES = st.builds(
    Reply,
    PARTS,
    st.sampled_from(ReplyKind),
    st.sampled_from(FinishReason),
    st.builds(Usage, st.integers(0, 9), st.integers(0, 9)),
    TEXTS,
)
ERRORS = st.builds(
    ErrorInfo,
    category=st.sampled_from(ErrorCategory),
    safe=TEXTS,
    landed=st.sampled_from(Landed),
    retry_after=st.none() | TIMES,
    status=st.none() | st.integers(100, 599),
    code=OPTIONAL,
)
st.register_type_strategy(
    Message, st.builds(Message, st.sampled_from(["user", "assistant", "tool"]), PARTS)
)
st.register_type_strategy(Reply, REPLIES)
st.register_type_strategy(ToolResult, RESULTS)
st.register_type_strategy(ToolCall, CALLS)
st.register_type_strategy(ErrorInfo, ERRORS)
st.register_type_strategy(FailedTarget, st.builds(FailedTarget, TEXTS, st.integers(1, 9), ERRORS))
st.register_type_strategy(
    TurnOptions,
    st.builds(
        TurnOptions,
        TEXTS,
        st.none() | st.builds(ModelSettings, seed=st.integers(0, 9), max_tokens=st.integers(1, 9)),
        st.dictionaries(TEXTS, JSON, max_size=2),
        st.dictionaries(TEXTS, st.lists(TEXTS, max_size=2).map(tuple), max_size=2),
    ),
)
COSTS = st.builds(Cost, st.decimals(0, 10**9, places=9), TEXTS, st.booleans())
st.register_type_strategy(Cost, COSTS)
st.register_type_strategy(Limits, st.builds(Limits, iterations=st.integers(1, 9)))
BY_TYPE = {
    str: TEXTS,
    float: TIMES,
    float | None: st.none() | TIMES,
    int: st.integers(1, 2**53),
    object: JSON,
}


def events_of(member: type[Event]) -> st.SearchStrategy[Event]:
    """Draw a value for every field, so that fields that are added later are covered."""
    hints = {field.name: field.type for field in msgspec.structs.fields(member)}
    drawn = {
        name: BY_TYPE[hint] if hint in BY_TYPE else st.from_type(hint)
        for name, hint in hints.items()
    }
    return st.builds(member, **drawn)


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("member", get_args(Event), ids=lambda member: member.__name__)
def test_every_event_comes_back_equal_from_its_line(member: type[Event]) -> None:
    @settings(max_examples=40, deadline=None)
    @given(events_of(member), TEXTS, st.integers(1, 10**9))
    def check(event: Event, digest: str, seq: int) -> None:
        text = encode(to_line("a run", seq, Record(event, digest)))
        assert b"\n" not in text
        text.decode()
        line = decode(text)
        assert (line.run, line.seq, line.schema) == ("a run", seq, SCHEMA)
        assert record_of(line) == Record(event, digest)

    check()


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("member", get_args(Event), ids=lambda member: member.__name__)
def test_an_event_is_encoded_as_in_its_line(member: type[Event]) -> None:
    @settings(max_examples=40, deadline=None)
    @given(events_of(member))
    def check(event: Event) -> None:
        line = to_line("a run", 1, Record(event))
        assert encode_event(event).encode() == to_json(line.event)

    check()


@pytest.mark.parametrize("key", ['","at":9,', ',"at":', "a,", '\\","at":1', "\ud83d\ude00", ""])
def test_no_key_is_taken_for_the_time_of_an_event(key: str) -> None:
    event = ToolsBegun(key, 1.5)
    empty = TurnResumed(key, -1e300)
    for one in (event, empty):
        assert encode_event(one).encode() == to_json(to_line("a run", 1, Record(one)).event)


def test_a_line_is_readable() -> None:
    line = encode(to_line("alice", 1, Record(make_turn_opened(1, "Olá", 2.0), "d")))
    assert line.decode().startswith(
        '{"schema":1,"run":"alice","seq":1,"key":"t1","digest":"d","type":"turn_opened","at":2.0,'
        '"event":{"message":{"role":"user","parts":[{"type":"text","text":"Olá"}]}'
    )


def changed(**fields: object) -> bytes:
    plain = json.loads(encode(to_line("alice", 1, Record(make_turn_opened(1)))))
    return json.dumps({**plain, **fields}).encode()


def test_a_newer_schema_is_refused_and_says_so() -> None:
    with pytest.raises(JournalVersionError, match=r"has schema 2, and this .* reads up to 1\. Upd"):
        decode(changed(schema=2, event="of another form"))


def test_an_unknown_event_is_refused_by_name() -> None:
    line = decode(changed(type="dreamt"))
    with pytest.raises(JournalVersionError, match="t1 is an event of the unknown type 'dreamt'"):
        record_of(line)
    assert "turn_opened" in TYPES


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        changed(schema="1"),
        changed(schema=0),
        changed(seq="one"),
        changed(key=None),
        changed(event=[]),
        changed()[:-20],
    ],
)
def test_an_invalid_record_is_reported(text: bytes) -> None:
    with pytest.raises(JournalCorruptError, match="is not a valid record"):
        decode(text, "here")


@pytest.mark.parametrize("event", [{}, {"message": 3}, {"message": {"role": "x", "parts": []}}])
def test_an_event_that_does_not_fit_its_type_is_reported(event: object) -> None:
    with pytest.raises(JournalCorruptError, match="here, t1: is not a valid record"):
        record_of(decode(changed(event=event)), "here")


def test_a_key_inside_and_outside_a_record_cannot_differ() -> None:
    line = decode(changed(event={**json.loads(changed())["event"], "key": "t9", "at": 99.0}))
    assert (record_of(line).event.key, math.floor(record_of(line).event.at)) == ("t1", 1)


_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text()
    | st.sampled_from(["\ud800", b"bytes", 1j, FinishReason.STOP])
)
_JUNK = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
)


@given(extra=st.dictionaries(st.text(max_size=3), _JUNK, max_size=3))
def test_fields_of_a_wire_that_are_taken_as_they_are_come_back_the_same(
    extra: dict[str, Any],
) -> None:
    parts = (Text("Hi", extra=extra), ToolCall("1", "f", "{}", wire="w", extra=extra))
    event = ModelReplied(key="t1.i0.model", at=1.0, reply=Reply(parts), attempts=1)
    if readable_events._is_plain_reply(event):
        assert readable_events._survives(event)
        found = record_of(decode(encode(to_line("run", 0, Record(event))))).event
        assert isinstance(found, ModelReplied)
        assert found.reply.parts == parts


def test_the_usual_fields_of_a_wire_are_taken_as_they_are() -> None:
    extra = {"wire": "w", "item": {"id": "1", "ok": True, "parts": [{"n": 1, "x": None}]}}
    event = ModelReplied(key="t1.i0.model", at=1.0, reply=Reply((Text("Hi", extra=extra),)))
    assert readable_events._is_plain_reply(event)


def test_usage_of_another_type_is_not_taken_as_it_is() -> None:
    foreign: Any = {"input": 1, "output": 2}
    reply = Reply((Text("Hi"),), usage=foreign)
    assert not readable_events._is_plain_reply(ModelReplied("t1.i0.model", 1.0, reply))
