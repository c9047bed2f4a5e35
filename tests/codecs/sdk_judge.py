"""The request types of the vendors' SDKs as judges: strict types, and no field that a type does not have.

The types are read as they are; only what they leave open is closed. A provider of the Chat Completions wire has fields
of its own, which its profile names. The SDKs do not know the rules of order: a result without its call passes.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import anthropic.types.message_create_params as anthropic_params
import msgspec
import openai.types.chat.completion_create_params as chat_params
import openai.types.responses.response_create_params as responses_params
from google.genai import types as google_types
from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

from holdfast.codecs.endpoint_profile import EndpointProfile

TYPES: dict[str, Any] = {
    "openai_chat": chat_params.CompletionCreateParamsNonStreaming,
    "openai_responses": responses_params.ResponseCreateParamsNonStreaming,
    "anthropic": anthropic_params.MessageCreateParamsNonStreaming,
}
CONTENTS = TypeAdapter(list[google_types.Content])
_CAPITAL = re.compile(r"[A-Z]")


@cache
def make_validator(wire: str) -> SchemaValidator:
    """Return a validator of a whole request that knows every field of its SDK, and takes no other."""
    return SchemaValidator(close_schema(TypeAdapter(TYPES[wire]).core_schema))


def close_schema(schema: Any) -> Any:
    """Forbid fields that a `TypedDict` does not name, and read an iterable as a list, which is read at once."""
    if isinstance(schema, list | tuple):
        return [close_schema(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "model":
        # A part of a reply may be given as the object that the SDK made of it, which takes any field.
        return {"type": "is-instance", "cls": schema["cls"], "ref": schema.get("ref")}
    closed = {name: close_schema(value) for name, value in schema.items() if name != "metadata"}
    if schema.get("type") == "typed-dict":
        closed |= {"extra_behavior": "forbid", "total": schema.get("total", True)}
        closed.pop("cls", None)
    elif schema.get("type") == "generator":
        closed["type"] = "list"
    return closed


def find_objection(wire: str, body: bytes, profile: EndpointProfile) -> str:
    """Return what the SDK's type says against a request; "" for nothing."""
    try:
        if wire == "gemini":
            CONTENTS.validate_json(msgspec.json.encode(msgspec.json.decode(body)["contents"]))
        else:
            request = msgspec.json.decode(body)
            if wire == "openai_chat":
                remove_own_fields(request, profile)
            make_validator(wire).validate_python({**request, "stream": False}, strict=True)
    except ValidationError as error:
        return str(error)
    return ""


def remove_own_fields(request: dict[str, Any], profile: EndpointProfile) -> None:
    """Remove what a provider adds to OpenAI's messages, as its profile says."""
    for message in request["messages"]:
        content = message["content"]
        if profile.videos and isinstance(content, list):
            others = [one for one in content if one["type"] != "video_url"]
            message["content"] = others or ""
    own = {profile.reasoning_field, *profile.state_fields} - {"content"}
    for message in request["messages"]:
        if message["role"] != "assistant":
            continue
        for one in (message, *message.get("tool_calls", ())):
            for name in own & set(one):
                del one[name]
        if profile.reasoning_field == "content" and isinstance(message["content"], list):
            blocks = [one for one in message["content"] if one["type"] != "thinking"]
            message["content"] = blocks or ""
