"""From what a user writes (`"openai:gpt-5.2"`, a base URL, a key) to a model that can be asked.

Everything that can be wrong with it is said here, before anything is sent. A key must never appear
in an error: only the name of the variable that should hold it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from importlib import import_module

from holdfast.codecs.wire import Codec, Quirks
from holdfast.core.argument_checks import check_instance, check_text
from holdfast.core.errors import ConfigurationError
from holdfast.core.redaction import redact
from holdfast.models.http_model import Endpoint, HttpModel, Model
from holdfast.models.presets import PRESETS, Preset, find_preset
from holdfast.transport.port import Timeouts, Transport

_CODECS: dict[str, tuple[str, str]] = {
    "openai_chat": ("holdfast.codecs.openai_chat.codec", "OpenAIChat"),
    "openai_responses": ("holdfast.codecs.openai_responses.codec", "ResponsesCodec"),
    "anthropic": ("holdfast.codecs.anthropic.codec", "AnthropicCodec"),
    "gemini": ("holdfast.codecs.gemini.codec", "Gemini"),
}

_EXAMPLE = 'Write "provider:model", for example "openai:gpt-5.2" or "ollama:llama3.2"'


_PATIENCE = Timeouts()
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")
_NOT_YOURS = frozenset(
    {"connection", "content-length", "content-type", "host", "transfer-encoding", "upgrade"}
)
"""Headers that belong to the wire and to HTTP itself."""


@dataclass(frozen=True, repr=False, slots=True)
class ModelAt:
    """A model with its own address, key and headers, for `model=` and `fallback=`.

    Args:
        model: `"provider:model"`, such as "openai:gpt-5.2".
        base_url: another address of the provider.
        api_key: the key; without it, the provider's environment variable is read.
        headers: sent with each request, in place of those of the same name: for a gateway, say.
        timeouts: without them, those of the agent.
        name: what results, notices and logs call it, so that two of one model can be told apart;
            `"provider:model"` when empty.

    Raises:
        ConfigurationError: one of them is wrong; it names the argument.

    >>> ModelAt("openai:gpt-5.2", api_key="secret", headers={"X-Team": "search"}, name="eu")
    ModelAt('openai:gpt-5.2', name='eu', headers=['x-team'])
    """

    model: str
    _: KW_ONLY
    base_url: str | None = None
    api_key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    timeouts: Timeouts | None = None
    name: str = ""

    def __post_init__(self) -> None:
        check_text("model", self.model)
        check_instance("base_url", self.base_url, str, optional=True)
        check_instance("api_key", self.api_key, str, optional=True)
        check_instance("timeouts", self.timeouts, Timeouts, optional=True)
        check_text("name", self.name)
        check_instance("headers", self.headers, Mapping)
        checked = dict(map(_check_header, self.headers.items()))
        object.__setattr__(self, "headers", checked)

    def __repr__(self) -> str:
        given = {
            "name": self.name,
            "base_url": redact(self.base_url or ""),
            "timeouts": self.timeouts,
        }
        shown = [repr(self.model), *(f"{name}={value!r}" for name, value in given.items() if value)]
        # The values may be keys.
        shown += [f"headers={list(self.headers)}"] if self.headers else []
        return f"ModelAt({', '.join(shown)})"


def _check_header(header: tuple[object, object]) -> tuple[str, str]:
    """Its name in lower case, and its value. No error shows a value: it may be a key."""
    name, value = header
    if not isinstance(name, str) or not _HEADER.fullmatch(name):
        # Somebody may have written all of it in one text.
        before, colon, _ = str(name).partition(":")
        shown = redact(before) + (f"{colon} ..." if colon else "")
        raise ConfigurationError("headers", f"{shown!r} is no name of a header")
    argument = f"headers[{name!r}]"
    if name.lower() in _NOT_YOURS:
        raise ConfigurationError(argument, "is set by Holdfast itself", fix="Leave it out")
    check_text(argument, value)
    text = str(value).strip()
    if not _VALUE.fullmatch(text):
        raise ConfigurationError(argument, "has signs that no header can carry")
    return name.lower(), text


def resolve_model(
    model: str | ModelAt | Model, transport: Callable[[], Transport], timeouts: Timeouts = _PATIENCE
) -> Model:
    """The model to ask.

    Args:
        model: `"provider:model"`, the same with an address of its own, or an object that is a model
            already.
        transport: called once, when the model is reached over HTTP.
        timeouts: for a model that has none of its own.

    Raises:
        ConfigurationError: unknown provider, missing key, bad address; it says what to set.
    """
    if isinstance(model, str):
        model = ModelAt(model)
    if not isinstance(model, ModelAt):
        if not callable(getattr(model, "attempt", None)):
            raise ConfigurationError(
                "model", f"must be a string or a Model, got {type(model).__name__}", fix=_EXAMPLE
            )
        return model
    provider, colon, name = model.model.partition(":")
    if not colon or not provider.strip() or not name.strip():
        raise ConfigurationError(
            "model", f"{model.model!r} names no provider and model", fix=_EXAMPLE
        )
    preset = find_preset(provider)
    base_url = preset.resolve_base_url(model.base_url or "")
    auth = preset.auth_headers(_find_key(preset, model))
    endpoint = Endpoint(preset, base_url, auth, tuple(model.headers.items()))
    codec = _load_codec(preset.wire, preset.quirks)
    patience = model.timeouts or timeouts
    return HttpModel(name, endpoint, codec, transport(), patience, name=model.name.strip())


def _find_key(preset: Preset, model: ModelAt) -> str:
    if model.api_key is not None:
        if not model.api_key.strip():
            raise ConfigurationError("api_key", "is empty", fix="Pass the key, or leave it out")
        return model.api_key.strip()
    if preset.auth == "none" or not preset.key_env:
        return ""
    if ("authorization" if preset.auth == "bearer" else preset.auth) in model.headers:
        return ""  # which count, and not the key of the environment
    for variable in preset.key_env:
        if value := os.environ.get(variable, "").strip():
            return value
    if model.base_url is not None and model.base_url != preset.base_url:
        return ""
    raise ConfigurationError(
        preset.key_env[0],
        f"is not set, and {preset.name} needs a key",
        fix=f"export {preset.key_env[0]}=... or pass api_key=",
    )


def _load_codec(wire: str, quirks: Quirks) -> Codec:
    module, name = _CODECS[wire]
    codec: Codec = getattr(import_module(module), name)(quirks)
    return codec


def provider_names() -> tuple[str, ...]:
    """The names that may stand before the colon."""
    return tuple(sorted(PRESETS))
