"""What every wire's classifier promises, whatever the body: a value, quickly, without secrets."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.codecs.bodies import Case, anthropic, failure, google, openai

from holdfast.codecs.anthropic.errors import classify as anthropic_classify
from holdfast.codecs.anthropic.errors import classify as classify_anthropic
from holdfast.codecs.classify import LONGEST_PRIVATE, LONGEST_SAFE
from holdfast.codecs.gemini.errors import classify as gemini
from holdfast.codecs.gemini.errors import classify as gemini_classify
from holdfast.codecs.openai_chat.errors import classify as chat_classify
from holdfast.codecs.openai_chat.errors import classify as openai_chat
from holdfast.codecs.openai_responses.errors import classify as responses_classify
from holdfast.codecs.wire import Failure
from holdfast.core.errors import ErrorCategory, ErrorInfo, Landed, explain

WIRES = [chat_classify, responses_classify, anthropic_classify, gemini_classify]
RATE_LIMITED = openai("Rate limit reached", "tokens", "rate_limit_exceeded")


def chat(status: int | None, body: object, **headers: str) -> ErrorInfo:
    case: Case = ("openai", status, body, "")
    return chat_classify(failure(case, **headers))


@pytest.mark.parametrize(
    ("status", "landed"),
    [(status, Landed.NO) for status in (400, 401, 402, 403, 404, 409, 413, 422, 429, 501, 503, 529)]
    + [(status, Landed.UNKNOWN) for status in (None, 200, 408, 424, 499, 500, 502, 504, 520, 524)]
    + [(status, Landed.NO) for status in (521, 522, 523, 525, 526)],
)
def test_only_a_refusal_proves_that_nothing_happened(status: int | None, landed: Landed) -> None:
    assert chat(status, openai("x")).landed is landed


def test_a_refusal_inside_a_stream_proves_nothing() -> None:
    assert chat(None, RATE_LIMITED).landed is Landed.UNKNOWN
    assert chat(200, openai("x", code=429)).landed is Landed.UNKNOWN
    assert chat(200, openai("x", code=429)).status == 429


def test_a_rejected_sample_was_computed() -> None:
    assert chat(400, openai("x", code="tool_use_failed")).landed is Landed.UNKNOWN


def test_known_values_are_stored() -> None:
    info = chat(429, RATE_LIMITED, x_request_id="req_1", retry_after="7")
    assert info.category is ErrorCategory.RATE_LIMIT_RETRYABLE
    assert (info.status, info.code, info.request_id) == (429, "rate_limit_exceeded", "req_1")
    assert (info.retry_after, info.provider) == (7, "openai")
    assert info.safe == "openai limits the rate of requests (HTTP 429): Rate limit reached"
    assert "ask the provider for a higher limit" in explain(info)
    assert "rate_limit_exceeded" in info.private


@pytest.mark.parametrize(
    ("headers", "body", "request_id"),
    [
        ({"x-request-id": "req_a"}, {}, "req_a"),
        ({"request-id": "req_b"}, {}, "req_b"),
        ({"x-amzn-requestid": "402bd639-607f"}, {}, "402bd639-607f"),
        ({"apim-request-id": "49a7f7ae"}, {}, "49a7f7ae"),
        ({"x-goog-request-id": "g-1"}, {}, "g-1"),
        ({"cf-ray": "8f1-FRA"}, {}, "8f1-FRA"),
        ({}, anthropic("api_error", "x"), "req_011CeEEt722rfCAcdwH1yUGv"),
        ({}, openai("Include the Request Id: 4f1c-77ab-9d in your mail"), "4f1c-77ab-9d"),
        (
            {},
            openai("Please include the request ID req_35c852d7d417 in your email."),
            "req_35c852d7d417",
        ),
        ({"x-request-id": "a\r\nset-cookie: b"}, {}, None),
        ({}, {}, None),
    ],
)
def test_the_request_id_is_found(
    headers: dict[str, str], body: object, request_id: str | None
) -> None:
    body_bytes = json.dumps(body).encode()
    info = chat_classify(Failure(status=500, headers=headers, body=body_bytes))
    assert info.request_id == request_id


def test_bucket_headers_count_only_when_a_limit_refused() -> None:
    headers = {"x_ratelimit_reset_tokens": "30s", "x_ratelimit_remaining_tokens": "0"}
    assert chat(429, RATE_LIMITED, **headers).retry_after == 30
    assert chat(400, openai("x"), **headers).retry_after is None
    assert chat(429, RATE_LIMITED, **headers, retry_after="2").retry_after == 2


def test_a_gateway_may_hand_headers_on_in_the_body() -> None:
    body = openai("Rate limit exceeded", code=429)
    assert isinstance(body, dict)
    body["error"]["metadata"] = {"headers": {"X-RateLimit-Reset": "1754667660000"}}
    text = json.dumps(body).encode()
    info = chat_classify(Failure(provider="openrouter", status=429, body=text, now=1_754_667_600.0))
    assert info.retry_after == 60


def test_retry_info_is_found_in_arrays_too() -> None:
    details = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.07s"}
    body = [google(503, "UNAVAILABLE", "busy", details)]
    assert gemini_classify(failure(("google", 503, body, ""))).retry_after == 34.07


@pytest.mark.parametrize(
    ("status", "said", "category"),
    [
        (429, "false", ErrorCategory.RATE_LIMIT_TERMINAL),
        (500, "false", ErrorCategory.CLIENT_ERROR),
        (503, "false", ErrorCategory.CLIENT_ERROR),
        (504, "false", ErrorCategory.CLIENT_ERROR),
        (400, "true", ErrorCategory.TRANSIENT),
        (401, "true", ErrorCategory.AUTH_ERROR),
        (429, "true", ErrorCategory.RATE_LIMIT_RETRYABLE),
        (400, "false", ErrorCategory.CLIENT_ERROR),
    ],
)
def test_x_should_retry_is_the_servers_last_word(
    status: int, said: str, category: ErrorCategory
) -> None:
    assert chat(status, openai("x"), x_should_retry=said).category is category


@pytest.mark.parametrize(
    "secret",
    ["sk-proj-abcdefgh12345678", "DEADBEEF", "AIzaSyA1234567890abcdefghij", "key1234secret"],
)
def test_a_key_in_the_message_is_not_shown(secret: str) -> None:
    for body in (
        openai(f"Incorrect API key provided: {secret}. You can find your API key at https://x.y"),
        google(400, "INVALID_ARGUMENT", "bad", {"detail": f"Invalid API key: {secret}"}),
        f"<html><title>Invalid API key: {secret}</title></html>",
        f"Invalid API key: {secret}",
    ):
        for wire in WIRES:
            info = wire(failure(("openai", 401, body, "")))
            assert secret not in info.safe + info.private + str(info) + explain(info)


def test_a_key_at_the_cut_is_not_shown_in_half() -> None:
    filler = "word " * 400
    for length in range(1, 60):
        text = (
            filler[: 2 * LONGEST_SAFE - length]
            + "sk-proj-abcdefgh12345678abcdefgh12345678"
            + filler
        )
        assert "sk-" not in chat(400, openai(text)).safe


def test_a_message_cannot_write_to_the_terminal_or_forge_a_line() -> None:
    info = chat(400, openai("bad\x1b[2J\x1b]0;x\x07\r\n2026-01-01 INFO all is well\u2028\x00"))
    assert info.safe.isprintable()
    assert info.private.isprintable()


def test_an_html_page_is_described_by_its_title() -> None:
    page = "<!DOCTYPE html><html><head><title>Just a moment...</title></head><body>quota</body>"
    info = chat(403, page)
    assert info.category is ErrorCategory.AUTH_ERROR
    assert info.safe == "openai denied access (HTTP 403): Just a moment..."


@pytest.mark.parametrize("size", [0, 1, 10, 60, 130])
def test_a_cut_body_is_read_as_far_as_it_goes(size: int) -> None:
    whole = '{"error":{"type":"insufficient_quota","message":"You exceeded your current quota, now","x":'
    info = chat(429, whole[:size])
    wanted = "rate_limit_terminal" if size > 50 else "rate_limit_retryable"
    assert info.category.value == wanted


def test_generated_text_is_not_taken_for_an_error_message() -> None:
    body = {
        "error": {
            "message": "Bad tool call",
            "code": "tool_use_failed",
            "failed_generation": "insufficient_quota, maximum context length, retry after 9 seconds",
        }
    }
    info = chat(400, body)
    assert info.category is ErrorCategory.INVALID_RESPONSE
    assert info.retry_after is None


def test_a_gateways_shell_does_not_hide_the_reason() -> None:
    raw = json.dumps({"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}})
    error = {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}}
    info = chat(400, {"error": error})
    assert info.category is ErrorCategory.CONTEXT_WINDOW
    assert "prompt is too long" in info.safe


def test_an_event_as_it_stands_in_the_stream_is_read() -> None:
    event = 'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n'
    info = anthropic_classify(Failure(body=event.encode()))
    assert (info.category, info.code) == (ErrorCategory.TRANSIENT, "overloaded_error")


HOSTILE = [
    "model ",
    "model: x was ",
    "request too large ",
    "input length ",
    "account ",
    "<",
    "<title",
    "[",
    '{"error":',
    '"message":"\\',
    "try again in 1 ",
    "out of ",
    "\x1b[",
    "token",
    "\n",
    "request id ",
    "data: error\n",
]


# More than 40 cases: each is timed by itself.
@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("seed", HOSTILE)
@pytest.mark.parametrize("wire", WIRES)
def test_ten_hostile_megabytes_cost_bounded_time(wire: object, seed: str) -> None:
    assert callable(wire)
    for wrap in ("%s", '{"error":{"message":"%s"}}'):
        body = (wrap % (seed * (10_000_000 // len(seed)))).encode()
        started = time.process_time()
        info = wire(Failure(provider="x", status=400, body=body))
        assert time.process_time() - started < 2
        assert len(info.safe) < LONGEST_SAFE + 200
        assert len(info.private) < LONGEST_PRIVATE + 200


KEYS = [
    *("error", "message", "code", "type", "status", "details", "metadata", "headers", "raw"),
    *("retryDelay", "detail", "request_id", "response", "retry_after"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=20,
)


@given(
    st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()),
    st.none() | st.integers(-1, 1000),
    st.dictionaries(st.sampled_from(["retry-after", "x-request-id", "x-should-retry"]), st.text()),
)
def test_no_body_raises(body: bytes, status: int | None, headers: dict[str, str]) -> None:
    for wire in WIRES:
        info = wire(Failure(status=status, body=body, headers=headers))
        assert info.category is not ErrorCategory.UNKNOWN
        assert info.safe


# Tokens, quotas and long prompts.


def category(status: int, message: str) -> ErrorCategory:
    body = json.dumps({"error": {"message": message, "type": "invalid_request_error"}})
    return openai_chat(Failure(provider="openai", status=status, body=body.encode())).category


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ("Invalid token in prompt", ErrorCategory.CLIENT_ERROR),
        ("Invalid token at position 12 of the input", ErrorCategory.CLIENT_ERROR),
        ("Invalid token: <|endoftext|>", ErrorCategory.CLIENT_ERROR),
        ("Invalid token", ErrorCategory.AUTH_ERROR),
        ("Invalid access token", ErrorCategory.AUTH_ERROR),
        ("Expired token.", ErrorCategory.AUTH_ERROR),
        ("too many prompt tokens", ErrorCategory.CONTEXT_WINDOW),
        ("Token limit reached", ErrorCategory.CONTEXT_WINDOW),
        ("The token limit was exceeded", ErrorCategory.CONTEXT_WINDOW),
        ("You have reached the token limit", ErrorCategory.CONTEXT_WINDOW),
    ],
)
def test_an_error_about_tokens_has_the_category_that_is_meant(
    message: str, wanted: ErrorCategory
) -> None:
    assert category(400, message) is wanted


def test_a_token_limit_per_minute_is_no_limit_of_the_prompt() -> None:
    assert category(429, "Token limit reached") is ErrorCategory.RATE_LIMIT_RETRYABLE
    assert category(400, "token limit reached: 9000 per minute") is ErrorCategory.CLIENT_ERROR


@pytest.mark.parametrize("limit", ["0", "10"])
@pytest.mark.parametrize("place", ["message", "quotaValue", "quota_limit_value"])
def test_a_google_quota_of_0_never_fills_again(place: str, limit: str) -> None:
    retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}
    details: list[dict[str, Any]] = [retry]
    message = "Quota exceeded for metric: free_tier_requests"
    if place == "message":
        message += f", limit: {limit}, model: gemini-3-pro\nPlease retry in 34.07s."
    elif place == "quotaValue":
        violation = {"quotaId": "GenerateRequestsPerMinutePerProject", "quotaValue": limit}
        details.append({"violations": [violation]})
    else:
        details.append({"reason": "RATE_LIMIT_EXCEEDED", "metadata": {"quota_limit_value": limit}})
    error = {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": message, "details": details}
    info = gemini(Failure(status=429, body=json.dumps({"error": error}).encode()))
    terminal = info.category is ErrorCategory.RATE_LIMIT_TERMINAL
    assert terminal is (limit == "0")
    assert info.code == ("RATE_LIMIT_EXCEEDED" if "limit_value" in place else "RESOURCE_EXHAUSTED")


def test_an_empty_413_is_a_long_prompt_where_the_provider_means_that() -> None:
    for provider in ("cerebras", "mistral"):
        info = openai_chat(Failure(provider=provider, status=413))
        assert info.category is ErrorCategory.CONTEXT_WINDOW
    assert openai_chat(Failure(provider="openai", status=413)).category.value == "client_error"
    assert (
        classify_anthropic(Failure(provider="anthropic", status=413)).category.value
        == "client_error"
    )
