"""Spoken replies and items that nobody runs: their text, their kind, and what is sent back."""

from __future__ import annotations

import base64
import json
from typing import Any

from holdfast.codecs.assemble import AssembledReply, Assembler
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.core.errors import ErrorCategory
from holdfast.core.messages import Media, Message, user
from holdfast.core.model_request import ModelRequest
from holdfast.models.resolve import load_codec


def read(wire: str, body: dict[str, Any] | bytes) -> AssembledReply:
    decoder, assembler = (
        load_codec(wire, EndpointProfile()).make_decoder(""),
        Assembler(EndpointProfile(), wire),
    )
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
    profile = EndpointProfile(audio_by_id=True)
    sent: dict[str, Any] = json.loads(load_codec(wire, profile).encode(request).body)
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
    sent = json.loads(load_codec("gemini", EndpointProfile()).encode(request).body)
    assert sent["contents"][0]["parts"] == [part]
