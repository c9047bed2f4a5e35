"""From what a user writes (`"openai:gpt-5.2"`, a base URL, a key) to a model that can be asked.

Everything that can be wrong with it is said here, before anything is sent. A key must never appear
in an error: only the name of the variable that should hold it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module

from msgspec import Struct

from holdfast.codecs.presets import PRESETS, Preset, find
from holdfast.codecs.wire import Codec, Quirks
from holdfast.core.errors import ConfigurationError
from holdfast.runtime.models import Endpoint, HttpModel, Model
from holdfast.transport.port import Timeouts, Transport

_CODECS: dict[str, tuple[str, str]] = {
    "openai_chat": ("holdfast.codecs.openai_chat.codec", "OpenAIChat"),
    "openai_responses": ("holdfast.codecs.openai_responses.codec", "ResponsesCodec"),
    "anthropic": ("holdfast.codecs.anthropic.codec", "AnthropicCodec"),
    "gemini": ("holdfast.codecs.gemini.codec", "Gemini"),
}

_EXAMPLE = 'Write "provider:model", for example "openai:gpt-5.2" or "ollama:llama3.2"'


class Access(Struct, frozen=True, kw_only=True):
    """How to reach models: what the user gave beside the model's name."""

    base_url: str | None = None
    api_key: str | None = None
    timeouts: Timeouts = Timeouts()

    def __repr__(self) -> str:
        return f"Access(base_url={self.base_url!r})"


def resolve(model: str | Model, access: Access, transport: Callable[[], Transport]) -> Model:
    """The model to ask.

    Args:
        model: `"provider:model"`, or an object that is a model already.
        access: base URL, key and timeouts.
        transport: called once, when the model is reached over HTTP.

    Raises:
        ConfigurationError: unknown provider, missing key, bad address; it says what to set.
    """
    if not isinstance(model, str):
        if not callable(getattr(model, "attempt", None)):
            raise ConfigurationError(
                "model", f"must be a string or a Model, got {type(model).__name__}", fix=_EXAMPLE
            )
        return model
    provider, colon, name = model.partition(":")
    if not colon or not provider.strip() or not name.strip():
        raise ConfigurationError("model", f"{model!r} names no provider and model", fix=_EXAMPLE)
    preset = find(provider)
    base_url = preset.address(access.base_url or "")
    endpoint = Endpoint(preset, base_url, preset.auth_headers(_key(preset, access)))
    codec = _codec(preset.wire, preset.quirks)
    return HttpModel(name, endpoint, codec, transport(), access.timeouts)


def _key(preset: Preset, access: Access) -> str:
    if access.api_key is not None:
        if not access.api_key.strip():
            raise ConfigurationError("api_key", "is empty", fix="Pass the key, or leave it out")
        return access.api_key.strip()
    if preset.auth == "none" or not preset.key_env:
        return ""
    for variable in preset.key_env:
        if value := os.environ.get(variable, "").strip():
            return value
    if access.base_url is not None and access.base_url != preset.base_url:
        return ""
    raise ConfigurationError(
        preset.key_env[0],
        f"is not set, and {preset.name} needs a key",
        fix=f"export {preset.key_env[0]}=... or pass api_key=",
    )


def _codec(wire: str, quirks: Quirks) -> Codec:
    module, name = _CODECS[wire]
    codec: Codec = getattr(import_module(module), name)(quirks)
    return codec


def providers() -> tuple[str, ...]:
    """The names that may stand before the colon."""
    return tuple(sorted(PRESETS))
