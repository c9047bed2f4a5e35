"""No bytes crash the decoder, none make it slow, and a cut is never taken for the end."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.codecs.anthropic.bodies import (
    ended,
    event,
    grown,
    opened,
    read,
    started,
    stopped,
    text,
)
from tests.codecs.reading import (
    JSON_VALUES,
    THOROUGH,
    as_events,
    check_any_bytes,
    check_damage,
    check_deep_nesting,
    decodes_in_linear_time,
)

from holdfast.codecs.anthropic.codec import AnthropicCodec
from holdfast.codecs.anthropic.history import encode_message
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import ReplyKind

KINDS = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "ping",
    "error",
    "",
]
WORDS = st.sampled_from(
    ["text", "thinking", "tool_use", "text_delta", "input_json_delta", "compaction", "fallback"]
)
OBJECT = st.fixed_dictionaries(
    {},
    optional={
        "type": WORDS | JSON_VALUES,
        "text": JSON_VALUES,
        "thinking": JSON_VALUES,
        "signature": JSON_VALUES,
        "partial_json": JSON_VALUES,
        "citation": JSON_VALUES,
        "citations": JSON_VALUES,
        "input": JSON_VALUES,
        "id": JSON_VALUES,
        "name": JSON_VALUES,
        "to": JSON_VALUES,
        "stop_reason": st.sampled_from(["end_turn", "tool_use"]) | JSON_VALUES,
        "stop_details": JSON_VALUES,
        "content": JSON_VALUES,
        "usage": JSON_VALUES,
        "container": JSON_VALUES,
    },
)
EVENT = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS)},
    optional={
        "index": st.integers(0, 3) | JSON_VALUES,
        "delta": OBJECT | JSON_VALUES,
        "content_block": OBJECT | JSON_VALUES,
        "message": OBJECT | JSON_VALUES,
        "usage": JSON_VALUES,
        "error": JSON_VALUES,
    },
)


def survive(body: bytes) -> None:
    assembled = read(body)
    assert (assembled.error is None) == (
        assembled.reply.kind in (ReplyKind.COMPLETE, ReplyKind.PAUSED, ReplyKind.MALFORMED_CALL)
    ) or assembled.reply.calls
    try:
        sent = encode_message(assembled.reply.message)
    except ConfigurationError:
        assert not assembled.reply.text.strip()
        return
    assert sent or not assembled.reply.text.strip()
    json.loads(sent or b"null")


@given(st.binary(max_size=300))
@THOROUGH
def test_any_bytes(data: bytes) -> None:
    check_any_bytes(read, data)


@pytest.mark.slow  # takes half a second or more
@given(st.lists(EVENT, max_size=8))
@THOROUGH
def test_any_events(made: list[dict[str, Any]]) -> None:
    stream = as_events(made)
    survive(stream)
    survive(started() + stream + ended("end_turn"))


@given(OBJECT)
@THOROUGH
def test_any_whole_body(made: dict[str, Any]) -> None:
    survive(json.dumps(made).encode())
    survive(json.dumps({**made, "type": "message", "content": [made, made]}).encode())


GOOD = started() + text(0, "Hel", "lo") + opened(1, type="tool_use", id="a", name="b", input={})
GOOD += grown(1, "input_json_delta", partial_json='{"a":1}') + stopped(1) + ended("tool_use")


@given(st.integers(0, len(GOOD) - 1), st.binary(min_size=1, max_size=4))
@THOROUGH
def test_damaged_streams(at: int, damage: bytes) -> None:
    check_damage(read, GOOD, at, damage)


def test_deep_nesting_does_not_crash() -> None:
    check_deep_nesting(read, b"content")
    nested = '{"a":' * 5_000 + "1" + "}" * 5_000
    body = started() + opened(0, type="x") + grown(0, "input_json_delta", partial_json=nested)
    read(body + stopped(0) + ended("end_turn"))


def many(make: Callable[[int], bytes]) -> Callable[[int], bytes]:
    return lambda count: started() + b"".join(map(make, range(count)))


SHAPES: dict[str, Callable[[int], bytes]] = {
    "text": many(lambda _: grown(0, "text_delta", text="x")),
    "unknown deltas": many(lambda _: grown(0, "new", words="x", more=[1])),
    "pieces of an unknown block": lambda n: (
        started()
        + opened(0, type="new", words="", list=[])
        + b"".join(grown(0, "new_delta", words="x", list=[1]) for _ in range(n))
    ),
    "citations": lambda n: (
        started()
        + opened(0, type="text", text="")
        + grown(0, "text_delta", text="a")
        + b"".join(grown(0, "citations_delta", citation={"a": 1}) for _ in range(n))
    ),
    "blocks": many(lambda i: opened(i, type="text", text="x")),
    "blocks of one number": many(lambda _: opened(0, type="new")),
    "starts": many(lambda _: started()),
    "kinds": many(lambda i: event(f"kind {i}")),
    "usage": many(lambda i: event("message_delta", delta={}, usage={str(i): i})),
    "ends": many(lambda _: event("message_delta", delta={"stop_reason": "end_turn"})),
}


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("shape", SHAPES)
def test_any_shape_takes_linear_time(shape: str) -> None:
    assert decodes_in_linear_time(AnthropicCodec(), SHAPES[shape], 8_000)
