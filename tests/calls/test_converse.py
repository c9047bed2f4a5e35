"""Replies of Bedrock's `converse` and `converse_stream`, which boto3 returns as dictionaries."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.corpus import Row, rows
from tests.resilience.operations import Bench

from holdfast.calls import ResultKind, resilient, send_message, send_message_streaming

KINDS = {
    "end_turn": {"text"},
    "stop_sequence": {"text"},
    "tool_use": {"text", "tools"},
    "max_tokens": {"truncated"},
    "guardrail_intervened": {"blocked"},
}
USAGE = {"inputTokens": 3, "outputTokens": 5, "totalTokens": 8}
START: dict[str, Any] = {"messageStart": {"role": "assistant"}}
TEXT = {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Porto"}}}
STOP = {"messageStop": {"stopReason": "end_turn"}}
CALL = [
    {
        "contentBlockStart": {
            "contentBlockIndex": 1,
            "start": {"toolUse": {"toolUseId": "t", "name": "look"}},
        }
    },
    {"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"toolUse": {"input": '{"city":'}}}},
    {"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"toolUse": {"input": '"Porto"}'}}}},
    {"contentBlockStop": {"contentBlockIndex": 1}},
]


class Events:
    """The stream of events of boto3."""

    def __init__(self, *events: Any) -> None:
        self.events, self.closed = events, 0

    def __iter__(self) -> Any:
        return iter(self.events)

    def close(self) -> None:
        self.closed += 1


def streamed(*events: Any) -> dict[str, Any]:
    return {"ResponseMetadata": {}, "stream": Events(*events)}


def whole(*content: Any, stop: str = "end_turn") -> dict[str, Any]:
    message = {"role": "assistant", "content": list(content)}
    return {
        "ResponseMetadata": {},
        "output": {"message": message},
        "stopReason": stop,
        "usage": USAGE,
    }


def events_of(row: Row) -> list[dict[str, Any]]:
    values = [json.loads(line) for line in row.body.splitlines() if line.strip()]
    return [
        {value["event"]: json.loads(value["payload"])} if "event" in value else value
        for value in values
    ]


def test_every_recorded_reply_is_what_its_stop_reason_says() -> None:
    count = 0
    for row in rows("bedrock_converse"):
        if row.status != 200:
            continue
        if row.framing == "ndjson":
            events = events_of(row)
            stops = [
                event["messageStop"]["stopReason"] for event in events if "messageStop" in event
            ]
            result = send_message_streaming(lambda events=events: streamed(*events))
        else:
            reply = json.loads(row.body)
            stops = [reply["stopReason"]]
            result = send_message(lambda reply=reply: {"ResponseMetadata": {}, **reply})
        wanted = KINDS[stops[0]] if stops else {"unterminated"}
        assert result.kind.value in wanted, (row.id, stops, result)
        count += 1
    assert count > 100


def test_a_call_is_put_together_from_its_pieces() -> None:
    stop = {"messageStop": {"stopReason": "tool_use"}}
    whole_call = {"toolUse": {"toolUseId": "t", "name": "look", "input": {"city": "Porto"}}}
    for result in (
        send_message_streaming(
            lambda: streamed(START, TEXT, *CALL, stop, {"metadata": {"usage": USAGE}})
        ),
        send_message(lambda: whole({"text": "Porto"}, whole_call, stop="tool_use")),
    ):
        (call,) = result.tool_calls
        assert (call.name, json.loads(call.arguments)) == ("look", {"city": "Porto"})
        assert (result.text, result.usage.input, result.usage.output) == ("Porto", 3, 5)


def test_reasoning_is_no_text() -> None:
    thinking = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "x"}}}
    assert send_message(lambda: whole(thinking, {"text": "Porto"})).text == "Porto"
    piece = {
        "contentBlockDelta": {
            "contentBlockIndex": 0,
            "delta": {"reasoningContent": {"text": "Hm."}},
        }
    }
    assert send_message_streaming(lambda: streamed(piece, TEXT, STOP)).text == "Porto"


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (whole(), ResultKind.EMPTY),
        (whole({"text": "x"}, stop="malformed_model_output"), ResultKind.ERROR),
        (streamed(START, TEXT), ResultKind.UNTERMINATED),
        (streamed(START, *CALL[:2]), ResultKind.UNTERMINATED),
        (streamed(START, STOP), ResultKind.EMPTY),
    ],
)
def test_what_is_no_answer(reply: Any, kind: ResultKind) -> None:
    read = send_message_streaming if "stream" in reply else send_message
    result = read(lambda: reply)
    assert (result.kind, result.tool_calls) == (kind, ()), result


def test_a_guard_alone_knows_a_whole_reply() -> None:
    replies = [whole(), whole({"text": "Porto"})]
    assert resilient(env=Bench().env)(lambda: replies.pop(0))()["output"]["message"]["content"]
    other: dict[str, Any] = {"ResponseMetadata": {}, "output": {}}
    assert resilient(env=Bench().env)(lambda: other)() is other


def test_the_stream_of_events_is_closed() -> None:
    response = streamed(TEXT, STOP)
    assert send_message_streaming(lambda: response).ok
    assert response["stream"].closed == 1
