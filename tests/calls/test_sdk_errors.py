"""Exceptions of real clients, raised by them over real responses, and those of the system."""

import asyncio
import errno
import json
import socket
import ssl
import urllib.error
from collections.abc import Callable
from email.message import Message
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from tests.codecs.bodies import anthropic as anthropic_body
from tests.codecs.bodies import google as google_body
from tests.codecs.bodies import openai as openai_body

from holdfast.calls.sdk_errors import BY_NAME, NOT_SENT, classify
from holdfast.core.errors import ErrorCategory, ErrorInfo, Landed, TransportError

WHY = "SKIPPED WITHOUT EVIDENCE: the vendors' SDKs are in the `sdks` extra"


def sdk(name: str) -> Any:
    return pytest.importorskip(name, reason=WHY)


def caught(act: Callable[[], object]) -> BaseException:
    try:
        act()
    except Exception as error:  # noqa: BLE001  # REASON: whatever the client raises
        return error
    raise AssertionError("nothing was raised")


def replying(status: int, body: object, **headers: str) -> Callable[[Any], Any]:
    httpx2 = sdk("httpx2")
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda request: httpx2.Response(
        status,
        content=body if isinstance(body, bytes) else json.dumps(body).encode(),
        headers=named,
    )


def raising(name: str) -> Callable[[Any], Any]:
    def handler(request: Any) -> Any:
        raise getattr(sdk("httpx2"), name)("it failed", request=request)

    return handler


def by_openai(handler: Callable[[Any], Any], *, stream: bool = False, **options: Any) -> ErrorInfo:
    openai, httpx2 = sdk("openai"), sdk("httpx2")
    transport = httpx2.Client(transport=httpx2.MockTransport(handler))
    client = openai.OpenAI(api_key="k", max_retries=0, http_client=transport, **options)
    messages = [{"role": "user", "content": "x"}]
    create = client.chat.completions.create
    error = caught(lambda: list(create(model="m", messages=messages, stream=stream)))
    return classify(error)


def by_anthropic(handler: Callable[[Any], Any], *, stream: bool = False) -> ErrorInfo:
    anthropic, httpx2 = sdk("anthropic"), sdk("httpx2")
    transport = httpx2.Client(transport=httpx2.MockTransport(handler))
    client = anthropic.Anthropic(api_key="k", max_retries=0, http_client=transport)
    messages = [{"role": "user", "content": "x"}]
    create = client.messages.create
    error = caught(lambda: list(create(model="m", max_tokens=9, messages=messages, stream=stream)))
    return classify(error)


def by_google(status: int, body: object, **headers: str) -> ErrorInfo:
    errors, httpx = sdk("google.genai.errors"), sdk("httpx")
    url = "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent"
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = httpx.Request("POST", url)
    response = httpx.Response(status, content=content, headers=named, request=request)
    return classify(caught(lambda: errors.APIError.raise_for_response(response)))


def test_openai_statuses_go_through_the_table_of_the_wire() -> None:
    body = openai_body("Please try again in 4.2s.", "tokens", "rate_limit_exceeded")
    info = by_openai(replying(429, body, x_request_id="req_1"))
    assert info.category is ErrorCategory.RATE_LIMIT_RETRYABLE
    assert (info.retry_after, info.request_id, info.provider) == (4.2, "req_1", "openai")
    assert (info.status, info.code, info.landed) == (429, "rate_limit_exceeded", Landed.NO)
    headers = {"retry_after_ms": "100"}
    assert by_openai(replying(500, b"<html>", **headers)).retry_after == 0.1


@pytest.mark.parametrize(
    ("status", "body", "category"),
    [
        (429, openai_body("no", code="insufficient_quota"), ErrorCategory.RATE_LIMIT_TERMINAL),
        (401, openai_body("Incorrect API key", code="invalid_api_key"), ErrorCategory.AUTH_ERROR),
        (404, openai_body("The model `x` does not exist"), ErrorCategory.MODEL_NOT_FOUND),
        (400, openai_body("x", code="context_length_exceeded"), ErrorCategory.CONTEXT_WINDOW),
        (400, b"not json", ErrorCategory.CLIENT_ERROR),
        (409, b"", ErrorCategory.TRANSIENT),
        (503, b"", ErrorCategory.TRANSIENT),
    ],
)
def test_openai_categories(status: int, body: object, category: ErrorCategory) -> None:
    assert by_openai(replying(status, body)).category is category


def test_the_address_tells_the_provider_behind_the_openai_sdk() -> None:
    body = openai_body("Failed to call a function.", code="tool_use_failed")
    info = by_openai(replying(400, body), base_url="https://api.groq.com/openai/v1")
    assert info.provider == "groq"
    assert info.category is ErrorCategory.INVALID_RESPONSE


def test_an_error_inside_an_openai_stream() -> None:
    event = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
    stream = b"data: " + json.dumps(event).encode() + b"\n\n"
    info = by_openai(replying(200, stream, content_type="text/event-stream"), stream=True)
    assert info.category is ErrorCategory.RATE_LIMIT_TERMINAL
    assert info.landed is Landed.UNKNOWN


@pytest.mark.parametrize("call", [by_openai, by_anthropic])
@pytest.mark.parametrize(
    ("name", "category", "landed"),
    [
        ("ConnectError", ErrorCategory.TRANSIENT, Landed.NO),
        ("ConnectTimeout", ErrorCategory.TIMEOUT, Landed.NO),
        ("PoolTimeout", ErrorCategory.TIMEOUT, Landed.NO),
        ("ReadTimeout", ErrorCategory.TIMEOUT, Landed.UNKNOWN),
        ("WriteTimeout", ErrorCategory.TIMEOUT, Landed.UNKNOWN),
        ("ReadError", ErrorCategory.TRANSIENT, Landed.UNKNOWN),
        ("RemoteProtocolError", ErrorCategory.TRANSIENT, Landed.UNKNOWN),
    ],
)
def test_a_connection_that_failed_below_an_sdk(
    call: Callable[[Any], ErrorInfo], name: str, category: ErrorCategory, landed: Landed
) -> None:
    info = call(raising(name))
    assert (info.category, info.landed) == (category, landed)


def test_openai_errors_without_a_request() -> None:
    openai, httpx2 = sdk("openai"), sdk("httpx2")
    request = httpx2.Request("POST", "https://api.openai.com/v1/chat/completions")
    response = httpx2.Response(200, request=request, content=b"<html>")
    odd = openai.APIResponseValidationError(response, body=None)
    assert classify(odd).category is ErrorCategory.INVALID_RESPONSE
    cut = openai.LengthFinishReasonError(completion=SimpleNamespace(usage=None))
    assert classify(cut).category is ErrorCategory.TRUNCATED
    filtered = openai.ContentFilterFinishReasonError()
    assert classify(filtered).category is ErrorCategory.CONTENT_FILTERED
    no_key = classify(openai.OpenAIError("The api_key client option must be set"))
    assert (no_key.category, no_key.landed) == (ErrorCategory.CLIENT_ERROR, Landed.NO)


def test_anthropic_statuses_go_through_the_table_of_the_wire() -> None:
    body = anthropic_body("invalid_request_error", "Your credit balance is too low to access")
    info = by_anthropic(replying(400, body))
    assert info.category is ErrorCategory.RATE_LIMIT_TERMINAL
    assert (info.provider, info.request_id) == ("anthropic", "req_011CeEEt722rfCAcdwH1yUGv")
    busy = by_anthropic(replying(529, anthropic_body("overloaded_error", "x"), retry_after="3"))
    assert (busy.category, busy.retry_after) == (ErrorCategory.TRANSIENT, 3)
    reset = {"anthropic_ratelimit_tokens_reset": "2025-08-08T15:41:00Z"}
    date = {"date": "Fri, 08 Aug 2025 15:40:00 GMT"}
    full = by_anthropic(replying(429, anthropic_body("rate_limit_error", "x"), **reset, **date))
    assert full.retry_after == 60


def test_an_error_inside_an_anthropic_stream() -> None:
    event = json.dumps(anthropic_body("overloaded_error", "Overloaded")).encode()
    stream = b"event: error\ndata: " + event + b"\n\n"
    info = by_anthropic(replying(200, stream, content_type="text/event-stream"), stream=True)
    assert (info.category, info.landed) == (ErrorCategory.TRANSIENT, Landed.UNKNOWN)


def test_google_statuses_go_through_the_table_of_the_wire() -> None:
    delay = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.07s"}
    info = by_google(429, google_body(429, "RESOURCE_EXHAUSTED", "x", delay))
    assert (info.category, info.retry_after) == (ErrorCategory.RATE_LIMIT_RETRYABLE, 34.07)
    bad_key = google_body(400, "INVALID_ARGUMENT", "x", {"reason": "API_KEY_INVALID"})
    assert by_google(400, bad_key).category is ErrorCategory.AUTH_ERROR
    assert by_google(400, [bad_key]).code == "API_KEY_INVALID"
    assert (
        by_google(502, b"<html><title>Bad Gateway</title>").category is ErrorCategory.SERVER_ERROR
    )
    assert by_google(503, google_body(503, "UNAVAILABLE", "x"), retry_after="9").retry_after == 9


def test_a_google_error_without_its_response() -> None:
    errors = sdk("google.genai.errors")
    body = google_body(404, "NOT_FOUND", "models/x is not found for API version v1beta")
    info = classify(errors.ClientError(404, body))
    assert (info.category, info.provider) == (ErrorCategory.MODEL_NOT_FOUND, "google")


@pytest.mark.parametrize("module", ["httpx", "httpx2"])
def test_httpx_statuses_are_read_by_the_address(module: str) -> None:
    httpx = sdk(module)
    request = httpx.Request("POST", "https://api.anthropic.com/v1/messages")
    body = anthropic_body("not_found_error", "model: claude-9")
    response = httpx.Response(404, json=body, request=request)
    info = classify(caught(response.raise_for_status))
    assert (info.category, info.provider) == (ErrorCategory.MODEL_NOT_FOUND, "anthropic")


def test_an_unread_response_is_not_read_for_this() -> None:
    httpx = sdk("httpx")

    def chunks() -> Any:
        raise AssertionError("read")
        yield b""

    request = httpx.Request("GET", "https://example.org/")
    response = httpx.Response(503, content=chunks(), request=request)
    assert classify(caught(response.raise_for_status)).category is ErrorCategory.TRANSIENT


@pytest.mark.parametrize("module", ["httpx", "httpx2"])
@pytest.mark.parametrize(
    ("name", "category", "landed"),
    [
        ("ConnectError", ErrorCategory.TRANSIENT, Landed.NO),
        ("ProxyError", ErrorCategory.TRANSIENT, Landed.NO),
        ("ConnectTimeout", ErrorCategory.TIMEOUT, Landed.NO),
        ("ReadTimeout", ErrorCategory.TIMEOUT, Landed.UNKNOWN),
        ("CloseError", ErrorCategory.TRANSIENT, Landed.UNKNOWN),
        ("UnsupportedProtocol", ErrorCategory.CLIENT_ERROR, Landed.NO),
        ("DecodingError", ErrorCategory.INVALID_RESPONSE, Landed.UNKNOWN),
    ],
)
def test_httpx_transport_errors(
    module: str, name: str, category: ErrorCategory, landed: Landed
) -> None:
    info = classify(getattr(sdk(module), name)("x"))
    assert (info.category, info.landed) == (category, landed)


def test_requests_over_a_real_response() -> None:
    requests = sdk("requests")
    response = requests.Response()
    response.status_code, response.url = 429, "https://api.mistral.ai/v1/chat/completions"
    response._content = b'{"message": "Requests rate limit exceeded"}'
    response.headers["Retry-After"] = "5"
    info = classify(caught(response.raise_for_status))
    assert (info.category, info.retry_after) == (ErrorCategory.RATE_LIMIT_RETRYABLE, 5)
    assert info.provider == "mistral"


def test_requests_that_cannot_connect() -> None:
    requests = sdk("requests")
    closed = socket.create_server(("127.0.0.1", 0))
    port = closed.getsockname()[1]
    closed.close()
    info = classify(caught(lambda: requests.get(f"http://127.0.0.1:{port}/", timeout=5)))
    assert (info.category, info.landed) == (ErrorCategory.TRANSIENT, Landed.NO)
    wrong = classify(caught(lambda: requests.get("no-scheme", timeout=5)))
    assert (wrong.category, wrong.landed) == (ErrorCategory.CLIENT_ERROR, Landed.NO)
    assert classify(requests.ReadTimeout()).landed is Landed.UNKNOWN
    assert classify(requests.exceptions.JSONDecodeError("x", "", 0)).category is (
        ErrorCategory.INVALID_RESPONSE
    )


def test_aiohttp() -> None:
    from multidict import CIMultiDict, CIMultiDictProxy
    from yarl import URL

    url = URL("https://api.openai.com/v1/chat/completions")
    empty: CIMultiDictProxy[str] = CIMultiDictProxy(CIMultiDict())
    asked = aiohttp.RequestInfo(url, "POST", empty, url)
    headers = CIMultiDict({"Retry-After": "8"})
    refused = aiohttp.ClientResponseError(
        asked, (), status=429, message="Too Many", headers=headers
    )
    info = classify(refused)
    assert (info.category, info.retry_after) == (ErrorCategory.RATE_LIMIT_RETRYABLE, 8)
    assert info.provider == "openai"
    key = SimpleNamespace(host="h", port=1, is_ssl=False, ssl=True)
    unreached: Any = aiohttp.ClientConnectorError
    failed = classify(unreached(key, OSError(errno.ECONNREFUSED, "refused")))
    assert (failed.category, failed.landed) == (ErrorCategory.TRANSIENT, Landed.NO)
    assert classify(aiohttp.ServerDisconnectedError()).landed is Landed.UNKNOWN
    assert classify(aiohttp.SocketTimeoutError()).category is ErrorCategory.TIMEOUT
    slow = classify(aiohttp.ConnectionTimeoutError())
    assert (slow.category, slow.landed) == (ErrorCategory.TIMEOUT, Landed.NO)


@pytest.mark.parametrize(
    ("error", "category", "landed"),
    [
        (ConnectionRefusedError(111, "x"), ErrorCategory.TRANSIENT, Landed.NO),
        (ConnectionResetError(104, "x"), ErrorCategory.TRANSIENT, Landed.UNKNOWN),
        (BrokenPipeError(32, "x"), ErrorCategory.TRANSIENT, Landed.UNKNOWN),
        (socket.gaierror(-2, "x"), ErrorCategory.TRANSIENT, Landed.NO),
        (OSError(errno.ENETUNREACH, "x"), ErrorCategory.TRANSIENT, Landed.NO),
        (OSError(errno.EIO, "x"), ErrorCategory.TRANSIENT, Landed.UNKNOWN),
        (TimeoutError(), ErrorCategory.TIMEOUT, Landed.UNKNOWN),
        (ssl.SSLCertVerificationError("x"), ErrorCategory.CLIENT_ERROR, Landed.NO),
        (ssl.SSLError("x"), ErrorCategory.TRANSIENT, Landed.UNKNOWN),
        (FileNotFoundError(2, "x"), ErrorCategory.CLIENT_ERROR, Landed.UNKNOWN),
        (urllib.error.URLError(ConnectionRefusedError()), ErrorCategory.TRANSIENT, Landed.NO),
        (json.JSONDecodeError("x", "", 0), ErrorCategory.INVALID_RESPONSE, Landed.UNKNOWN),
        (KeyError("x"), ErrorCategory.PROGRAMMING, Landed.UNKNOWN),
        (TypeError("x"), ErrorCategory.PROGRAMMING, Landed.UNKNOWN),
        (asyncio.CancelledError(), ErrorCategory.CANCELLED, Landed.UNKNOWN),
        (KeyboardInterrupt(), ErrorCategory.CANCELLED, Landed.UNKNOWN),
        (ValueError("x"), ErrorCategory.UNKNOWN, Landed.UNKNOWN),
        (RuntimeError(), ErrorCategory.UNKNOWN, Landed.UNKNOWN),
    ],
)
def test_the_standard_library(
    error: BaseException, category: ErrorCategory, landed: Landed
) -> None:
    info = classify(error)
    assert (info.category, info.landed) == (category, landed)
    assert info.code == type(error).__name__


def test_urllib_and_botocore_are_read_by_their_shape() -> None:
    headers = Message()
    headers["Retry-After"] = "4"
    gone = urllib.error.HTTPError("https://x.y/", 503, "busy", headers, None)
    assert (classify(gone).category, classify(gone).retry_after) == (ErrorCategory.TRANSIENT, 4)
    gone.close()
    boto = type("ClientError", (Exception,), {"__module__": "botocore.exceptions"})("x")
    boto.response = {
        "Error": {"Code": "ThrottlingException", "Message": "Too many tokens, please wait"},
        "ResponseMetadata": {"HTTPStatusCode": 429, "RequestId": "402bd639-607f"},
    }
    info = classify(boto)
    assert info.category is ErrorCategory.RATE_LIMIT_RETRYABLE
    assert (info.provider, info.request_id) == ("bedrock", "402bd639-607f")


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("Status: 429 (Too Many Requests)", ErrorCategory.RATE_LIMIT_RETRYABLE),
        ("status: 401", ErrorCategory.AUTH_ERROR),
        ("Error code: 429 - {'code': 'insufficient_quota'}", ErrorCategory.RATE_LIMIT_TERMINAL),
        ("request failed (503)", ErrorCategory.TRANSIENT),
        ("HTTP/1.1 500 oh", ErrorCategory.SERVER_ERROR),
        ("status code 400: maximum context length is 9", ErrorCategory.CONTEXT_WINDOW),
        ("there are (1234) rows", ErrorCategory.UNKNOWN),
        ("it took 429 seconds", ErrorCategory.UNKNOWN),
    ],
)
def test_a_status_in_the_text_counts_when_nothing_else_is_known(
    text: str, category: ErrorCategory
) -> None:
    assert classify(RuntimeError(text)).category is category


def test_ours_are_what_they_say() -> None:
    info = ErrorInfo(category=ErrorCategory.TIMEOUT, safe="x", landed=Landed.NO)
    assert classify(TransportError("x", info=info)) is info


def test_what_wraps_an_error_is_looked_into() -> None:
    wrapped = RuntimeError("all tries failed")
    wrapped.__cause__ = ConnectionRefusedError(111, "x")
    assert classify(wrapped).landed is Landed.NO
    assert classify(ExceptionGroup("x", [wrapped])).category is ErrorCategory.TRANSIENT
    circle = RuntimeError("x")
    circle.__cause__ = circle
    assert classify(circle).category is ErrorCategory.UNKNOWN


class Hostile(Exception):
    """An object that runs code whenever it is accessed."""

    status_code = property(lambda self: 1 / 0)
    response = property(lambda self: 1 / 0)

    def __str__(self) -> str:
        raise ValueError("no text")

    def __getattr__(self, name: str) -> Any:
        raise ValueError(name)


def test_no_code_of_the_exception_is_run() -> None:
    info = classify(Hostile("key sk-proj-abcdefgh12345678"))
    assert info.category is ErrorCategory.UNKNOWN
    assert info.safe == "The call ended with Hostile"
    assert "sk-proj" not in repr(info) + info.private


def test_odd_attributes_are_passed_over() -> None:
    error = RuntimeError("x")
    vars(error).update(status_code="429", response=[1], headers=7, body={1: object()}, code=True)
    assert classify(error).category is ErrorCategory.UNKNOWN
    vars(error).update(status_code=429, body={"message": object()}, headers={1: 2})
    assert classify(error).category is ErrorCategory.RATE_LIMIT_RETRYABLE


@pytest.mark.parametrize("module", ["httpx", "httpx2", "requests.exceptions", "aiohttp"])
def test_no_class_counts_as_unsent_only_by_its_base_class(module: str) -> None:
    for kind in vars(sdk(module)).values():
        if isinstance(kind, type) and issubclass(kind, Exception):
            names = [parent.__name__ for parent in kind.__mro__]
            first = next((name for name in names if name in BY_NAME), "")
            assert not NOT_SENT.intersection(names) or first in NOT_SENT, kind
