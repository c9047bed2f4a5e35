"""Removes the contents of messages from what a redacted reader gets: texts, arguments, results, titles.

It works on every JSON answer and every stream of events, whichever route or protocol sends it. A text
stays only if the name of its field says that it is no content, so a new field is removed until it is
listed here. What is neither JSON nor a stream of JSON is refused.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.server.access.asgi import Message, Send, find_header
from holdfast.server.problem_responses import make_problem, respond_problem

MARK = "[redacted]"

_NAMES = frozenset(
    {
        *("type", "object", "kind", "role", "event", "status", "turn_status", "finish_reason"),
        *(
            "id",
            "session",
            "key",
            "binding",
            "position",
            "request_id",
            "previous",
            "next",
        ),
        *("agent", "model", "provider", "endpoint", "target", "name", "effect", "origin", "by"),
        *("category", "landed", "code", "before", "after", "parsed_by", "state", "wait", "day"),
        *("runId", "threadId", "messageId", "toolCallId", "toolName", "response_id", "call_id"),
        *("subagentRunId", "parentSubagentRunId", "parentToolCallId", "activityType", "sourceId"),
    }
)
"""The fields whose texts are shown: names, ids, states, times."""

_ANY_FORM = frozenset(
    {
        *("metadata", "output", "arguments", "value", "question", "options", "input", "state"),
        *("snapshot", "rawEvent", "result", "data", "messageMetadata", "forwardedProps", "args"),
    }
)
"""The fields whose objects may have any form, so that even names in them may be contents."""

_DIGEST_BITS = 2**20 - 1
"""The part of a sequence number of `/v1/responses` that is a digest of text."""

_NOTICES = frozenset(
    {
        *("attempt_abandoned", "attempt_started", "breaker_changed", "circuit_breaker_triggered"),
        *("reply_replaced", "retry_scheduled", "tool_started"),
    }
)
"""The notices whose fields are known; those of an agent's own may have any form."""


def redact_view(view: Any) -> Any:
    """Return a JSON value without the contents of messages.

    >>> redact_view({"type": "text", "text": "My name is Ada.", "offset": 0})
    {'type': 'text', 'text': '[redacted]', 'offset': 0}
    """
    if isinstance(view, list):
        return [redact_view(one) for one in view]
    if not isinstance(view, dict):
        return MARK if isinstance(view, str) else view
    if view.get("type") == "media":
        return {"type": "media"}
    redacted = {name: _redact_field(name, value) for name, value in view.items()}
    if "fields" in view and view.get("name") not in _NOTICES:
        redacted["fields"] = {}
    return redacted


def _redact_field(name: str, value: Any) -> Any:
    if name == "sequence_number" and isinstance(value, int):
        return value & ~_DIGEST_BITS
    if isinstance(value, str):
        if name == "position":
            return _redact_position(value)
        return value if name in _NAMES else MARK
    if name in _ANY_FORM and isinstance(value, dict | list):
        return type(value)()
    return redact_view(value)


def _redact_position(position: str) -> str:
    """Return the position without the length and the digest of the text, from which it may be guessed.

    >>> _redact_position("12.5.9f3ab2c411d0")
    '12'
    """
    return position.partition(".")[0]


class RedactedAnswer:
    """Sends the answer to one request without the contents of messages.

    Args:
        send: sends a message of ASGI.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._kind = ""
        self._start: Message = {}
        self._data = b""
        self._is_over = False

    async def send(self, message: Message) -> None:
        """Send a message, or a part of it."""
        if message["type"] == "http.response.start":
            self._kind = find_header(message["headers"], b"content-type").partition(";")[0]
            self._start = message
            headers = [pair for pair in message["headers"] if pair[0] != b"content-length"]
            if self._kind == "text/event-stream":
                await self._send({**message, "headers": headers})
        elif message["type"] == "http.response.body":
            await self._send_body(message.get("body", b""), bool(message.get("more_body")))
        else:
            await self._send(message)

    async def _send_body(self, body: bytes, more: bool) -> None:
        if self._is_over:
            return
        self._data += body
        if self._kind == "text/event-stream":
            *events, self._data = self._data.split(b"\n\n")
            text = b"".join(redact_event(event) + b"\n\n" for event in events)
            await self._send({"type": "http.response.body", "body": text, "more_body": more})
        elif not more:
            await self._send_whole(self._data)

    async def _send_whole(self, body: bytes) -> None:
        self._is_over = True
        if self._kind == "application/json":
            body = msgspec.json.encode(redact_view(msgspec.json.decode(body)))
        elif body and self._kind != "application/problem+json":
            detail = (
                "This answer cannot be redacted, and the key has only the scope 'read:redacted'."
            )
            refusal = respond_problem(make_problem(403, "forbidden", detail))
            self._start = {**self._start, "status": 403, "headers": refusal.raw_headers}
            body = bytes(refusal.body)
        length = (b"content-length", str(len(body)).encode())
        headers = [pair for pair in self._start["headers"] if pair[0] != length[0]]
        await self._send({**self._start, "headers": [*headers, length]})
        await self._send({"type": "http.response.body", "body": body})


def redact_event(event: bytes) -> bytes:
    r"""Return a server-sent event without the contents of messages.

    >>> redact_event(b'event: text\ndata: {"type":"text","text":"Hi"}')
    b'event: text\ndata: {"type":"text","text":"[redacted]"}'
    """
    return b"\n".join(_redact_line(line) for line in event.split(b"\n"))


def _redact_line(line: bytes) -> bytes:
    name, _, data = line.partition(b":")
    if name == b"id":
        return b"id:" + _redact_position(data.decode()).encode()
    if name != b"data":
        return line
    try:
        view = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return line if data.strip() == b"[DONE]" else f"data: {MARK}".encode()
    return b"data: " + msgspec.json.encode(redact_view(view))
