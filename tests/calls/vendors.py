"""The objects of the vendors' SDKs, built from JSON as the SDKs build them."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

WHY = "SKIPPED WITHOUT EVIDENCE: the vendors' SDKs are not installed"


def sdk(name: str) -> Any:
    return pytest.importorskip(name, reason=WHY)


def _constructed(package: str, module: str, name: str) -> Callable[[dict[str, Any]], Any]:
    models, types = sdk(f"{package}._models"), sdk(module)
    wanted = getattr(types, name)
    return lambda value: models.construct_type(type_=wanted, value=value)


def chunk_maker(wire: str) -> Callable[[dict[str, Any]], Any]:
    """What turns the JSON of one chunk or event into the SDK's object."""
    if wire == "gemini":
        return whole_maker(wire)
    return {
        "openai_chat": lambda: _constructed("openai", "openai.types.chat", "ChatCompletionChunk"),
        "openai_responses": lambda: _constructed(
            "openai", "openai.types.responses", "ResponseStreamEvent"
        ),
        "anthropic": lambda: _constructed("anthropic", "anthropic.types", "RawMessageStreamEvent"),
    }[wire]()


def whole_maker(wire: str) -> Callable[[dict[str, Any]], Any]:
    """What turns the JSON of a whole response into the SDK's object."""
    if wire == "gemini":
        response = sdk("google.genai.types").GenerateContentResponse
        # The SDK drops the fields that it does not know, in place.
        return lambda value: response._from_response(response=deepcopy(value), kwargs={})
    return {
        "openai_chat": lambda: _constructed("openai", "openai.types.chat", "ChatCompletion"),
        "openai_responses": lambda: _constructed("openai", "openai.types.responses", "Response"),
        "anthropic": lambda: _constructed("anthropic", "anthropic.types", "Message"),
    }[wire]()


def plain_maker(_wire: str) -> Callable[[dict[str, Any]], Any]:
    """Dictionaries, as they came."""
    return lambda value: value
