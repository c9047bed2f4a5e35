"""Creates a model from the user's settings: `"openai:gpt-5.2"`, a base URL, an API key.

Invalid settings raise an error here, before anything is sent. Errors never show a key, only the name
of its environment variable.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field

from holdfast.codecs.endpoint_profile import EndpointProfile, ProfileChanges
from holdfast.codecs.wire import Codec
from holdfast.core.argument_checks import check_fields, check_value
from holdfast.core.errors import ConfigurationError
from holdfast.core.import_part import import_part
from holdfast.core.limits import ReplyLimits
from holdfast.core.redaction import quote_setting
from holdfast.models.http_model import Endpoint, HttpModel, Model
from holdfast.models.presets import PRESETS, Preset, find_preset, show_address
from holdfast.transport.port import Timeouts, Transport

_CODECS: dict[str, tuple[str, str]] = {
    "openai_chat": ("holdfast.codecs.openai_chat.codec", "OpenAIChat"),
    "openai_responses": ("holdfast.codecs.openai_responses.codec", "ResponsesCodec"),
    "anthropic": ("holdfast.codecs.anthropic.codec", "AnthropicCodec"),
    "gemini": ("holdfast.codecs.gemini.codec", "Gemini"),
}

_EXAMPLE = 'Write "provider:model", for example "openai:gpt-5.2" or "ollama:llama3.2"'


_DEFAULT_LIMITS = ReplyLimits()
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")
_OWN_HEADERS = frozenset(
    {"connection", "content-length", "content-type", "host", "transfer-encoding", "upgrade"}
)
"""Headers that Holdfast sets itself."""


@dataclass(frozen=True, repr=False, slots=True)
class ModelAt:
    """A model with its own base URL, API key and headers, for `model=` and `fallback=`.

    Args:
        model: `"provider:model"`, such as "openai:gpt-5.2".
        base_url: another base URL of the provider.
        api_key: the API key; by default the provider's environment variable is read.
        headers: headers of each request, for example for a gateway; they replace those of the same
            name.
        timeouts: the limits of one attempt; by default those of the agent.
        name: the name in results, notices and logs, to distinguish two endpoints of one model;
            `"provider:model"` if empty.
        profile: other values for fields of the provider's `EndpointProfile`, for a server whose form
            of the wire differs; "like" names another provider whose profile is changed instead.

    Raises:
        ConfigurationError: an argument is invalid; the error names it.

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
    profile: ProfileChanges | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        check_fields(self)
        checked = dict(map(_check_header, self.headers.items()))
        object.__setattr__(self, "headers", checked)
        if self.profile is not None:
            object.__setattr__(self, "profile", {**self.profile})

    def __repr__(self) -> str:
        fields = {
            "name": self.name,
            "base_url": show_address(self.base_url or ""),
            "timeouts": self.timeouts,
            "profile": self.profile,
        }
        parts = [
            repr(self.model),
            *(f"{name}={value!r}" for name, value in fields.items() if value),
        ]
        # Only the names of the headers, because the values may be API keys.
        names = ", ".join(map(quote_setting, self.headers))
        parts += [f"headers=[{names}]"] if names else []
        return f"ModelAt({', '.join(parts)})"


def _check_header(header: tuple[str, str]) -> tuple[str, str]:
    """Check a header, and return it with its name in lower case. Errors do not show the value: it may be a key."""
    name, value = header
    if not _HEADER.fullmatch(name):
        # The user may have written name and value in one string.
        before, colon, _ = name.partition(":")
        quoted = quote_setting(before) + (" with a value" if colon else "")
        raise ConfigurationError("headers", f"{quoted} is not a header name")
    argument = f"headers[{quote_setting(name)}]"
    if name.lower() in _OWN_HEADERS:
        raise ConfigurationError(argument, "is set by Holdfast itself", fix="Leave it out")
    text = value.strip()
    if not _VALUE.fullmatch(text):
        raise ConfigurationError(argument, "has characters that are not allowed in a header")
    return name.lower(), text


def resolve_model(
    model: str | ModelAt | Model,
    transport: Callable[[], Transport],
    timeouts: Timeouts | None = None,
    reply_limits: ReplyLimits = _DEFAULT_LIMITS,
) -> Model:
    """Create the model that `model` describes.

    Args:
        model: `"provider:model"`, a `ModelAt`, or an object that is already a model.
        transport: creates the transport of an HTTP model.
        timeouts: the limits for a model without its own; by default those of the preset.
        reply_limits: the limits of one reply.

    Raises:
        ConfigurationError: the provider is unknown, the key is missing or the URL is invalid; the
            error names the variable to set.
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
            "model",
            f"{quote_setting(model.model)} does not name a provider and a model",
            fix=_EXAMPLE,
        )
    preset = find_preset(provider)
    base_url = preset.resolve_base_url(model.base_url or "")
    profile = find_profile(preset, base_url, model.profile or {})
    auth = preset.auth_headers(_find_key(preset, model))
    endpoint = Endpoint(preset, base_url, auth, tuple(model.headers.items()), profile)
    codec = load_codec(preset.wire, profile)
    return HttpModel(
        name,
        endpoint,
        codec,
        transport(),
        model.timeouts or timeouts or preset.timeouts,
        name=model.name.strip(),
        reply_limits=reply_limits,
    )


def find_profile(preset: Preset, base_url: str, changes: Mapping[str, object]) -> EndpointProfile:
    """Return the profile of an endpoint: of its preset at this address, with the user's changes.

    Args:
        preset: the preset.
        base_url: the address.
        changes: other values of fields; "like" names a provider whose profile is changed instead.

    Raises:
        ConfigurationError: a change is wrong; the error names the field.

    >>> find_profile(PRESETS["openai"], "http://gpu:8000/v1", {"like": "vllm"}).prefill
    'final_message'
    """
    fields = dict(changes)
    like = fields.pop("like", None)
    profile = preset.profile_at(base_url) if like is None else _find_like(like, preset.wire)
    return profile.change_fields(fields, preset.wire)


def _find_like(like: object, wire: str) -> EndpointProfile:
    """Return the profile of the provider that `like` names."""
    check_value("profile.like", like, str)
    try:
        other = find_preset(str(like))
    except ConfigurationError as error:
        raise ConfigurationError("profile.like", error.problem, fix=error.fix) from None
    if other.wire != wire:
        names = [name for name, preset in PRESETS.items() if preset.wire == wire]
        raise ConfigurationError(
            "profile.like",
            f"{other.name} has another wire",
            fix=f"Of this wire are {', '.join(names)}",
        )
    return other.profile


def _find_key(preset: Preset, model: ModelAt) -> str:
    if model.api_key is not None:
        if not model.api_key.strip():
            raise ConfigurationError("api_key", "is empty", fix="Pass the key, or leave it out")
        return model.api_key.strip()
    if preset.auth == "none" or not preset.key_env:
        return ""
    if ("authorization" if preset.auth == "bearer" else preset.auth) in model.headers:
        return ""  # the user's header replaces the key of the environment
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


def load_codec(wire: str, profile: EndpointProfile) -> Codec:
    """Return the codec of a wire for endpoints with this profile."""
    module, name = _CODECS[wire]
    codec: Codec = getattr(import_part(module), name)(profile)
    return codec


def provider_names() -> tuple[str, ...]:
    """Return the names of all providers."""
    return tuple(sorted(PRESETS))
