"""Errors and replies were read as something else than the provider meant.

A token of the prompt counted as a key, a quota of 0 as one that fills again, a spoken answer as no
answer, and reasoning before an item that nobody runs as a reply to ask for again.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from holdfast.codecs.anthropic.errors import classify as anthropic
from holdfast.codecs.assemble import AssembledReply, Assembler
from holdfast.codecs.gemini.errors import classify as gemini
from holdfast.codecs.openai_chat.errors import classify as openai_chat
from holdfast.codecs.wire import Failure, Quirks
from holdfast.core.errors import ErrorCategory
from holdfast.core.messages import Media, Message, user
from holdfast.core.model_request import ModelRequest
from holdfast.models.resolve import _load_codec


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
def test_what_is_said_about_tokens(message: str, wanted: ErrorCategory) -> None:
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
    assert anthropic(Failure(provider="anthropic", status=413)).category.value == "client_error"


def read(wire: str, body: dict[str, Any] | bytes) -> AssembledReply:
    decoder, assembler = _load_codec(wire, Quirks()).make_decoder(""), Assembler(Quirks(), wire)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    for delta in [*decoder.feed(data), *decoder.close()]:
        assembler.feed(delta)
    return assembler.finish()


def response(*items: dict[str, Any]) -> dict[str, Any]:
    return {"id": "r", "object": "response", "status": "completed", "output": list(items)}


THOUGHT = {"type": "reasoning", "id": "1", "summary": [{"type": "summary_text", "text": "Hm."}]}


def test_reasoning_and_an_item_that_nobody_runs_is_not_asked_for_again() -> None:
    shell = {"type": "shell_call", "id": "2", "action": {"commands": ["ls"]}}
    error = read("openai_responses", response(THOUGHT, shell)).error
    assert error is not None
    assert error.info.category is ErrorCategory.CLIENT_ERROR
    assert "shell_call" in str(error)


def test_reasoning_and_a_search_of_the_server_is_asked_for_again() -> None:
    search = {"type": "web_search_call", "id": "2", "status": "completed"}
    error = read("openai_responses", response(THOUGHT, search)).error
    assert error is not None
    assert error.info.category is ErrorCategory.EMPTY_RESPONSE


SOUND = b"RIFF" + bytes(20)


def spoken(**fields: Any) -> dict[str, Any]:
    audio = {"id": "a1", "data": base64.b64encode(SOUND).decode(), "transcript": "Hello.", **fields}
    message = {"role": "assistant", "content": None, "audio": audio}
    return {"id": "r", "model": "m", "choices": [{"message": message, "finish_reason": "stop"}]}


def sent_back(wire: str, reply: AssembledReply) -> dict[str, Any]:
    history = [user("Hi"), Message("assistant", reply.reply.parts), user("And?")]
    request = ModelRequest(model="m", messages=history)
    sent: dict[str, Any] = json.loads(_load_codec(wire, Quirks()).encode(request).body)
    return sent


def test_a_transcript_is_the_text_of_the_reply() -> None:
    result = read("openai_chat", spoken())
    assert (result.reply.text, result.error) == ("Hello.", None)
    assert isinstance(result.reply.parts[1], Media)
    # It goes back once: as audio where the wire has it, and as text to other wires.
    assert sent_back("openai_chat", result)["messages"][1] == {
        "role": "assistant",
        "content": None,
        "audio": {"id": "a1"},
    }
    assert {"type": "text", "text": "Hello."} in sent_back("anthropic", result)["messages"][1][
        "content"
    ]


def test_a_transcript_without_sound_is_a_reply() -> None:
    result = read("openai_chat", spoken(data=""))
    assert (result.reply.text, result.error) == ("Hello.", None)
    assert sent_back("openai_chat", result)["messages"][1]["content"] == "Hello."


def test_a_transcript_beside_a_text_does_not_repeat_it() -> None:
    body = spoken()
    body["choices"][0]["message"]["content"] = "Hello."
    assert read("openai_chat", body).reply.text == "Hello."
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": ""},
        {"content": "Hel"},
        {"content": "lo."},
        {"audio": {"transcript": "Hello."}},
    ]
    events = [{"id": "r", "choices": [{"index": 0, "delta": one}]} for one in deltas]
    stream = b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in events)
    assert read("openai_chat", stream + b"data: [DONE]\n\n").reply.text == "Hello."


def test_a_spoken_part_of_a_responses_message_is_its_text() -> None:
    sound = {"type": "output_audio", "data": "UklGRg==", "transcript": "Yes."}
    item = {"type": "message", "id": "m1", "role": "assistant", "content": [sound]}
    result = read("openai_responses", response(item))
    assert (result.reply.text, result.error) == ("Yes.", None)
    assert sent_back("openai_responses", result)["input"][1] == item


def test_raw_sound_keeps_the_parameters_of_its_type() -> None:
    kind = "audio/L16;codec=pcm;rate=24000"
    part = {"inlineData": {"mimeType": kind, "data": base64.b64encode(SOUND).decode()}}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
    result = read("gemini", {"candidates": [candidate]})
    assert sent_back("gemini", result)["contents"][1]["parts"] == [part]
    request = ModelRequest(model="m", messages=[user(Media(kind, data=SOUND))])
    sent = json.loads(_load_codec("gemini", Quirks()).encode(request).body)
    assert sent["contents"][0]["parts"] == [part]
