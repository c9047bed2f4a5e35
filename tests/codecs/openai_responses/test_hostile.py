"""No bytes crash the decoder, none make it slow, and a cut is never taken for the end."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.codecs.openai_responses.bodies import (
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
from tests.codecs.reading import (
    JSON_VALUES,
    THOROUGH,
    as_events,
    check_any_bytes,
    check_damage,
    check_deep_nesting,
    decodes_in_linear_time,
)

from holdfast.codecs.openai_responses.codec import ResponsesCodec
from holdfast.codecs.openai_responses.history import make_message_encoder
from holdfast.core.errors import ConfigurationError

KINDS = [
    "response.created",
    "response.output_item.added",
    "response.output_item.done",
    "response.output_text.delta",
    "response.output_text.done",
    "response.refusal.delta",
    "response.reasoning_summary_text.delta",
    "response.reasoning_text.done",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.custom_tool_call_input.delta",
    "response.custom_tool_call_input.done",
    "response.completed",
    "response.incomplete",
    "response.failed",
    "error",
    "",
]
PART = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["output_text", "refusal", "reasoning_text"]) | JSON_VALUES,
        "text": JSON_VALUES,
        "refusal": JSON_VALUES,
    },
)
ITEM = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(
            ["message", "reasoning", "function_call", "custom_tool_call", "image_generation_call"]
        )
        | JSON_VALUES,
        "id": st.sampled_from(["a", "b"]) | JSON_VALUES,
        "call_id": JSON_VALUES,
        "name": JSON_VALUES,
        "arguments": JSON_VALUES,
        "input": JSON_VALUES,
        "result": JSON_VALUES,
        "content": st.lists(PART, max_size=2) | JSON_VALUES,
        "summary": st.lists(PART, max_size=2) | JSON_VALUES,
    },
)
RESPONSE = st.fixed_dictionaries(
    {},
    optional={
        "id": JSON_VALUES,
        "status": st.sampled_from(["completed", "incomplete", "failed", "queued"]) | JSON_VALUES,
        "output": st.lists(ITEM, max_size=3) | JSON_VALUES,
        "usage": JSON_VALUES,
        "error": JSON_VALUES,
        "incomplete_details": JSON_VALUES,
    },
)
EVENT = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS)},
    optional={
        "output_index": st.integers(0, 2) | JSON_VALUES,
        "content_index": st.integers(0, 2) | JSON_VALUES,
        "item_id": st.sampled_from(["a", "b"]) | JSON_VALUES,
        "delta": JSON_VALUES,
        "text": JSON_VALUES,
        "arguments": JSON_VALUES,
        "input": JSON_VALUES,
        "item": ITEM | JSON_VALUES,
        "response": RESPONSE | JSON_VALUES,
        "error": JSON_VALUES,
    },
)


def survive(body: bytes) -> None:
    reply = read(body).reply
    try:
        json.loads(b"[" + make_message_encoder("system")(reply.message) + b"]")
    except ConfigurationError:
        assert not reply.text


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
    survive(created() + said("Hi") + stream + completed(message("Hi")))


@pytest.mark.slow  # takes half a second or more
@given(RESPONSE)
@THOROUGH
def test_any_whole_body(made: dict[str, Any]) -> None:
    survive(json.dumps(made).encode())


GOOD = (
    created()
    + said("Hello")
    + added(1, **call(""))
    + grown("function_call_arguments", 1, '{"a":1}')
)
GOOD += done(1, **call('{"a":1}')) + completed(message("Hello"), call('{"a":1}'))


@given(st.integers(0, len(GOOD) - 1), st.binary(min_size=1, max_size=4))
@THOROUGH
def test_damaged_streams(at: int, damage: bytes) -> None:
    check_damage(read, GOOD, at, damage)


def test_deep_nesting_does_not_crash() -> None:
    check_deep_nesting(read, b"output")


def many(make: Callable[[int], bytes]) -> Callable[[int], bytes]:
    return lambda count: created() + b"".join(map(make, range(count)))


def place(at: int, **more: Any) -> dict[str, Any]:
    return {"output_index": at, "content_index": 0, **more}


SHAPES: dict[str, Callable[[int], bytes]] = {
    "text": many(lambda _: grown("output_text", 0, "x", content_index=0)),
    "texts of one item": many(lambda i: grown("output_text", 0, "x", content_index=i)),
    "thoughts of one item": many(
        lambda i: grown("reasoning_summary_text", 0, "x", summary_index=i)
    ),
    "pieces and sayings by turns": many(
        lambda _: (
            grown("output_text", 0, "x", content_index=0)
            + event("response.output_text.done", **place(0, text=""))
            + event("response.output_text.done", **place(0, text="x" * 20))
        )
    ),
    "items": many(lambda i: added(i, **message("x", f"msg_{i}"))),
    "items by id": many(
        lambda i: event("response.output_item.added", item=message("x", f"msg_{i}"))
    ),
    "pieces by id": many(
        lambda i: event("response.output_text.delta", item_id=f"m{i}", delta="x", content_index=0)
    ),
    "ends of one item": many(lambda _: done(0, **message("x"))),
    "items at the end": lambda n: (
        created()
        + b"".join(added(i, **message("x", f"a{i}")) for i in range(n))
        + completed(*(message("x", f"b{i}") for i in range(n)))
    ),
    "kinds": many(lambda i: event(f"kind {i}")),
    "errors": many(lambda _: event("error", message="x")),
    "beginnings": many(lambda _: event("response.in_progress", response=response())),
}


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("shape", SHAPES)
def test_any_shape_takes_linear_time(shape: str) -> None:
    assert decodes_in_linear_time(ResponsesCodec(), SHAPES[shape], 4_000)
