"""litellm and boto3's `converse` with the pieces in three orders, under faults; prints what each came to, as JSON."""

from __future__ import annotations

import asyncio
import binascii
import functools
import json
import logging
import os
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # without it, importing asks the network

import botocore.config
import botocore.session
import litellm

from holdfast.calls import (
    ResponseHandler,
    asend_message,
    asend_message_streaming,
    resilient,
    send_message,
    send_message_streaming,
)
from holdfast.resilience import BreakerStrategy, CallMetrics, CircuitBreaker, MetricsRecorder, Retry
from holdfast.resilience.retry.options import RetryOptions
from holdfast.testing import Emulator, no_waits
from holdfast.testing.emulator import (
    DropAfter,
    EmptyChoices,
    ErrorResponse,
    Html200,
    HttpStatus,
    NoTerminator,
)

ANSWER = "Porto is in Portugal."
MESSAGES = [{"role": "user", "content": "Where is Porto?"}]
FAULTS = {
    "503": HttpStatus(503),
    "429": HttpStatus(429, {"retry-after": "7"}),
    "quota": ErrorResponse("insufficient_quota"),
    "key": HttpStatus(401),
    "html": Html200(),
    "empty": EmptyChoices(),
    "drop": DropAfter(2),
    "cut": NoTerminator(),
}
ORDERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "send(guard(f))": lambda f, send, guard: functools.partial(send, guard(f)),
    "guard(send(f))": lambda f, send, guard: guard(functools.partial(send, f)),
    "send(guard(send(f)))": lambda f, send, guard: functools.partial(
        send, guard(functools.partial(send, f))
    ),
}


def run(order: str, call: Any, send: Any, count: Callable[[], int]) -> dict[str, Any]:
    """Make one call with the pieces in this order; one repetition is allowed."""
    metrics, breaker = CallMetrics(), CircuitBreaker("any")
    guard = resilient(
        Retry(RetryOptions(max_retries=1)), MetricsRecorder(metrics), BreakerStrategy(breaker)
    )
    before = count()
    function = ORDERS[order](call, send, guard)
    try:
        with no_waits():
            result = function()
            result = asyncio.run(result) if asyncio.iscoroutine(result) else result
    except Exception as error:  # noqa: BLE001  # REASON: a guard that is outside raises what has failed
        result = ResponseHandler().result(error)
    return {
        "requests": count() - before,
        "kind": result.kind.value,
        "category": result.category and result.category.value,
        "text": result.text,
        "successes": metrics.snapshot().successful_calls,
        "unwell": breaker.snapshot().failures,
    }


def rows(call: Any, send: Any, faults: Any, fail: Any, count: Callable[[], int]) -> Iterator[Any]:
    """What one client makes of each fault, once and always, in each order."""
    for fault in faults:
        for order in ORDERS:
            fail([fault])
            once = run(order, call, send, count)
            fail([fault] * once["requests"])
            yield {
                "fault": fault,
                "order": order,
                "once": once,
                "always": run(order, call, send, count),
            }


def litellm_rows(*, streamed: bool, is_async: bool) -> list[Any]:
    coming: list[Any] = []
    with Emulator(lambda _: ANSWER, faults=lambda _: coming.pop(0) if coming else None) as provider:
        request: dict[str, Any] = {
            "model": "openai/demo",
            "api_base": provider.base_url,
            "api_key": "any",
            "messages": MESSAGES,
            "num_retries": 0,
            "max_retries": 0,
            "stream": streamed,
        }

        async def acall() -> Any:
            # litellm keeps its asynchronous clients, and each call here has an event loop of its own.
            litellm.in_memory_llm_clients_cache.flush_cache()
            return await litellm.acompletion(**request)

        call = acall if is_async else functools.partial(litellm.completion, **request)
        senders = (
            (asend_message, asend_message_streaming)
            if is_async
            else (send_message, send_message_streaming)
        )
        faults = [name for name in FAULTS if streamed or name != "cut"]
        fail = lambda names: coming.__setitem__(slice(None), [FAULTS[name] for name in names])  # noqa: E731
        return list(rows(call, senders[streamed], faults, fail, lambda: len(provider.requests)))


def frame(kind: str, value: object) -> bytes:
    """One event of an AWS event stream."""
    names = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(text)) + text.encode()
        for name, text in names.items()
    )
    payload = json.dumps(value).encode()
    start = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    start += struct.pack(">I", binascii.crc32(start))
    body = start + headers + payload
    return body + struct.pack(">I", binascii.crc32(body))


USAGE = {"inputTokens": 3, "outputTokens": 5, "totalTokens": 8}
BUSY = b'{"message":"busy"}'
EVENTS = [
    frame("messageStart", {"role": "assistant"}),
    frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": ANSWER[:9]}}),
    frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": ANSWER[9:]}}),
    frame("contentBlockStop", {"contentBlockIndex": 0}),
    frame("messageStop", {"stopReason": "end_turn"}),
    frame("metadata", {"usage": USAGE, "metrics": {"latencyMs": 1}}),
]


def reply_of(text: str) -> bytes:
    message = {"role": "assistant", "content": [{"text": text}] if text else []}
    reply = {"output": {"message": message}, "stopReason": "end_turn", "usage": USAGE}
    return json.dumps({**reply, "metrics": {"latencyMs": 1}}).encode()


class Bedrock(BaseHTTPRequestHandler):
    """Answers `converse` and `converse-stream`, with the faults that are to come."""

    coming: list[str]
    count = 0

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        """Answer one call."""
        Bedrock.count += 1
        self.rfile.read(int(self.headers["content-length"]))
        fault = self.coming.pop(0) if self.coming else ""
        streamed = self.path.endswith("stream")
        status, kind, body = 200, "application/json", reply_of(ANSWER)
        if streamed:
            kind, body = "application/vnd.amazon.eventstream", b"".join(EVENTS)
        if fault in ("503", "429", "key"):
            status = {"503": 503, "429": 429, "key": 403}[fault]
            kind, body = "application/json", BUSY
        elif fault == "html":
            kind, body = "text/html", b"<html>Sign in</html>"
        elif fault == "empty":
            body = EVENTS[0] + EVENTS[4] if streamed else reply_of("")
        elif fault == "cut":
            body = b"".join(EVENTS[:3])
        self.send_response(status)
        if fault in ("429", "key"):
            name = {"429": "ThrottlingException", "key": "UnrecognizedClientException"}[fault]
            self.send_header("x-amzn-errortype", name)
            self.send_header("retry-after", "7")
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if fault == "drop" else body)
        self.close_connection = True


@contextmanager
def bedrock() -> Iterator[Any]:
    Bedrock.coming = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bedrock)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield botocore.session.get_session().create_client(
        "bedrock-runtime",
        region_name="eu-west-1",
        endpoint_url=f"http://127.0.0.1:{server.server_port}",
        aws_access_key_id="x",
        aws_secret_access_key="x",
        config=botocore.config.Config(retries={"max_attempts": 0}),
    )
    server.shutdown()


def boto_rows(*, streamed: bool) -> list[Any]:
    messages = [{"role": "user", "content": [{"text": "Where is Porto?"}]}]
    with bedrock() as client:
        make = client.converse_stream if streamed else client.converse
        call = functools.partial(make, modelId="demo", messages=messages)
        send = send_message_streaming if streamed else send_message
        faults = ["503", "429", "key", "html", "empty", "drop", *(["cut"] if streamed else [])]
        fail = lambda names: setattr(Bedrock, "coming", list(names))  # noqa: E731
        return list(rows(call, send, faults, fail, lambda: Bedrock.count))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    litellm.suppress_debug_info = True
    found = {
        f"litellm{'_async' * is_async}-{'streamed' if streamed else 'whole'}": litellm_rows(
            streamed=streamed, is_async=is_async
        )
        for is_async in (False, True)
        for streamed in (False, True)
    }
    found |= {
        f"boto3-{'streamed' if streamed else 'whole'}": boto_rows(streamed=streamed)
        for streamed in (False, True)
    }
    print(json.dumps(found))
