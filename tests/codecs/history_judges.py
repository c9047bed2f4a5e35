"""Two judges of a request: the emulator in its strict form, and the request types of the vendors' SDKs.

Each preset is judged by the rules of its provider. Neither judge shares code with the encoders.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache

from msgspec import Struct

from holdfast.codecs.wire import Codec
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Media, Message, ToolResult
from holdfast.core.model_request import ModelRequest, ModelSettings
from holdfast.models.presets import PRESETS
from holdfast.models.resolve import load_codec
from holdfast.testing.emulator.emulated_request import MalformedRequest
from holdfast.testing.emulator.wires.dresses import DRESSES
from holdfast.testing.emulator.wires.emulator_wire import get_wire
from holdfast.testing.emulator.wires.request_checks import CHECKS


class Endpoint(Struct, frozen=True):
    """A model of a preset, and the settings of a request to it."""

    preset: str
    model: str
    settings: ModelSettings = ModelSettings()

    @property
    def wire(self) -> str:
        return PRESETS[self.preset].wire

    def load_codec(self) -> Codec:
        return codec_of(self.preset)


@cache
def codec_of(preset: str) -> Codec:
    return load_codec(PRESETS[preset].wire, PRESETS[preset].profile)


THINKING = ModelSettings(reasoning_tokens=2048)
ENDPOINTS = (
    *(Endpoint(name, "m") for name, preset in PRESETS.items() if preset.wire == "openai_chat"),
    Endpoint("deepseek", "deepseek-reasoner"),
    Endpoint("mistral", "devstral-2512"),
    *(Endpoint(name, "m") for name, preset in PRESETS.items() if preset.wire == "openai_responses"),
    Endpoint("openai-responses", "gpt-5.2", ModelSettings(extra={"store": True})),
    Endpoint("anthropic", "claude-sonnet-4-5"),
    Endpoint("anthropic", "claude-sonnet-4-5", THINKING),
    Endpoint("anthropic", "claude-sonnet-4-5", ModelSettings(cache=True)),
    Endpoint("anthropic", "claude-opus-4-6"),
    Endpoint("bedrock-anthropic", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
    *(Endpoint(name, "gemini-2.5-flash") for name in ("gemini", "vertex", "vertex-express")),
    Endpoint("gemini", "gemini-3-pro"),
)
"""Each preset at least once: the models and settings on which the form of a history depends."""

Objection = Callable[[Endpoint, str, bytes, tuple[tuple[str, str], ...]], str]
"""What a judge says against a request of such path, body and headers; "" for nothing."""


def ask_emulator(
    endpoint: Endpoint, path: str, body: bytes, headers: tuple[tuple[str, str], ...]
) -> str:
    """Return what the provider says against a request, by the emulator's rules for it."""
    rules = DRESSES.get(endpoint.preset, DRESSES["openai"])
    try:
        request = get_wire(endpoint.wire).parse_request(f"/{path.lstrip('/')}", dict(headers), body)
        CHECKS[endpoint.wire](request, rules)
    except MalformedRequest as error:
        return str(error)
    return ""


def ask_sdk(
    endpoint: Endpoint,
    path: str,
    body: bytes,
    headers: tuple[tuple[str, str], ...],
) -> str:
    """Return what the type of the vendor's SDK says against a request."""
    from tests.codecs.sdk_judge import find_objection  # three SDKs take seconds

    return find_objection(endpoint.wire, body, PRESETS[endpoint.preset].profile)


_PLACE = re.compile(r"messages\[(\d+)\]\.(?:media|media_type|url)")


def find_refusal(
    endpoint: Endpoint, messages: Sequence[Message], judge: Objection = ask_emulator
) -> str:
    """Encode a history for an endpoint; return what a judge says against it.

    An encoder may refuse media that the wire lacks, if it names the message that has them, and a fix.
    """
    request = ModelRequest(
        model=endpoint.model, messages=messages, settings=endpoint.settings, stream=False
    )
    try:
        encoded = endpoint.load_codec().encode(request)
    except ConfigurationError as error:
        place = _PLACE.match(error.argument)
        if place is None or not error.fix or not has_media(messages[int(place[1])]):
            return f"refused before it was sent: {error}"
        return ""
    return judge(endpoint, encoded.path, encoded.body, encoded.headers)


def has_media(message: Message) -> bool:
    """Whether a message has media, or a result with media."""
    return any(
        isinstance(part, Media)
        or (isinstance(part, ToolResult) and any(isinstance(one, Media) for one in part.content))
        for part in message.parts
    )


def find_objections(messages: Sequence[Message], judge: Objection = ask_emulator) -> list[str]:
    """Return what a judge says against a history, for all endpoints together."""
    found = ((one, find_refusal(one, messages, judge)) for one in ENDPOINTS)
    return [f"{one.preset} {one.model} {one.settings}: {text}" for one, text in found if text]
