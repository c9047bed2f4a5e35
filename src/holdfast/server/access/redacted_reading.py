"""Removes the contents of messages from the answers for a redacted reader: texts, arguments, results, titles.

It works on every JSON answer and every stream of events, whichever route or protocol sends it. A text, a
number or a boolean stays only if the name of its field says that it is no content, so a new field is
removed until it is listed here. Of a question for permission the name of the tool stays. What is neither
JSON nor a stream of JSON is refused.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.event_log.positions import number_step, read_step
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
        *(
            "agent",
            "model",
            "provider",
            "endpoint",
            "target",
            "name",
            "effect",
            "origin",
            "by",
            "tool",
        ),
        *("category", "landed", "code", "before", "after", "parsed_by", "state", "wait", "day"),
        *("runId", "threadId", "messageId", "toolCallId", "toolName", "response_id", "call_id"),
        *("subagentRunId", "parentSubagentRunId", "parentToolCallId", "activityType", "sourceId"),
    }
)
"""The fields whose texts are shown: names, ids, states, times."""

_NUMBERS = frozenset(
    {
        # Times and durations.
        *("at", "asked_at", "changed_at", "closed_at", "created_at", "due_at", "expires_at"),
        *("opened_at", "seen_at", "started_at", "until", "created", "completed_at", "timestamp"),
        *("seconds", "delay", "downtime", "retry_after", "oldest_seconds", "every", "jitter"),
        # Places and numbers of turns, attempts and records.
        *("turn", "entry", "sequence", "offset", "index", "number", "to", "tick", "next_tick"),
        *("iteration", "attempt", "continued", "flags", "hooks_called", "retained_ranges"),
        *("next", "output_index", "content_index", "sequence_number", "summary_index"),
        # How many, how much.
        *("turns", "messages", "attempts", "iterations", "count", "size", "slots", "driving"),
        *("deaths",),
        *("deliveries", "missed", "workers", "running", "queued", "process", "cost", "turn_cost"),
        *("turns_today", "tokens_today", "turns_per_day", "tokens_per_day", "priority"),
        *(
            "tokens",
            "tool_calls",
            "output_repairs",
            "output_repair_tokens",
            "output_repair_seconds",
        ),
        *("max_retries", "consecutive_errors", "max_consecutive_errors", "total_errors"),
        *("max_total_errors", "max_tokens", "reasoning_tokens", "temperature", "top_p", "seed"),
        *("input_tokens", "output_tokens", "total_tokens", "prompt_tokens", "completion_tokens"),
        *("cached_tokens", "max_output_tokens", "status", "start", "end"),
        # Whether.
        *("accepted", "before_effect", "by_hook", "cache", "complete", "continues", "counts"),
        *("deferred", "extendable", "finished", "in_doubt", "is_alive", "is_draining", "is_error"),
        *(
            "is_paused",
            "is_stopping",
            "open",
            "parallel_tool_calls",
            "reasoning_summary",
            "refused",
        ),
        *("retryable", "serves_all", "strict", "store", "background", "has_more", "deleted"),
        *("settled",),
    }
)
"""The fields whose numbers and booleans are shown. `sequence_number` only without its digest."""

_TOKENS = frozenset({"input", "output", "cached_input", "cache_write", "reasoning", "hosted_calls"})
"""The numbers of an object with the usage of tokens. Elsewhere such a name has contents."""

_USAGES = frozenset({"usage", "lost"})
"""The fields that have such an object."""

_ANY_FORM = frozenset(
    {
        *("metadata", "output", "arguments", "value", "question", "options", "input", "state"),
        *("snapshot", "rawEvent", "result", "data", "messageMetadata", "forwardedProps", "args"),
        *("answer", "extra", "delta", "details", "schema", "parameters", "output_schema"),
    }
)
"""The fields whose objects may have any form, so that even names in them may be contents."""

_ENDS = frozenset(
    ["turn_ended", "too_slow", "shutting_down", "deleted", "access_ended", "time_over"]
)
"""The reasons for the end of a stream. Elsewhere a reason may be the words of a person."""

_NOTICES = frozenset(
    {
        *("attempt_abandoned", "attempt_started", "breaker_changed", "circuit_breaker_triggered"),
        *("reply_replaced", "retry_scheduled", "tool_started"),
    }
)
"""The notices whose fields are known; those of an agent's own may have any form."""


def redact_view(view: Any, name: str = "") -> Any:
    """Return a JSON value without the contents of messages.

    Args:
        view: the value.
        name: the name of the field that has it.

    >>> redact_view({"type": "text", "text": "My name is Ada.", "offset": 0, "age": 36})
    {'type': 'text', 'text': '[redacted]', 'offset': 0, 'age': '[redacted]'}
    >>> redact_view({"usage": {"input": 5}, "input": 5})
    {'usage': {'input': 5}, 'input': '[redacted]'}
    """
    if isinstance(view, list):
        return [redact_view(one, name) for one in view]
    if isinstance(view, dict):
        return _redact_object(view, name)
    if view is None or (name in _NUMBERS and not isinstance(view, str)):
        return view
    return MARK


def _redact_object(view: dict[str, Any], name: str) -> dict[str, Any]:
    if view.get("type") == "media":
        return {"type": "media"}
    if name in _USAGES and view.keys() <= _TOKENS:
        return {kind: count if isinstance(count, int) else MARK for kind, count in view.items()}
    redacted = {field: _redact_field(field, value) for field, value in view.items()}
    if "fields" in view and view.get("name") not in _NOTICES:
        redacted["fields"] = {}
    reason = view.get("reason")
    if view.get("type") == "end" and isinstance(reason, str) and reason in _ENDS:
        redacted["reason"] = reason
    question = view.get("question")
    if view.get("kind") == "PermissionQuestion" and isinstance(question, dict):
        redacted["question"] = {"tool": str(question.get("tool"))}
    return redacted


def _redact_field(name: str, value: Any) -> Any:
    if name == "sequence_number" and isinstance(value, int):
        return number_step(read_step(value))[0]  # without the digest of text
    if isinstance(value, str):
        if name == "position":
            return _redact_position(value)
        return value if name in _NAMES else MARK
    if name in _ANY_FORM and isinstance(value, dict | list):
        return type(value)()
    return redact_view(value, name)


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
