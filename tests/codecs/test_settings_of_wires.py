"""Every setting on every wire and provider: it changes the request, is refused, or has no effect by its documentation."""

import json

import pytest

from holdfast.codecs.anthropic.codec import AnthropicCodec
from holdfast.codecs.gemini.codec import Gemini
from holdfast.codecs.openai_chat.codec import OpenAIChat
from holdfast.codecs.openai_responses.codec import ResponsesCodec
from holdfast.codecs.wire import Quirks, QuirkyCodec
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import user
from holdfast.core.model_request import ModelRequest, ModelSettings, ToolSpec
from holdfast.models.presets import PRESETS

CODECS: dict[str, type[QuirkyCodec]] = {
    codec.wire: codec for codec in (OpenAIChat, ResponsesCodec, AnthropicCodec, Gemini)
}
VALUES: dict[str, tuple[object, ...]] = {
    "max_tokens": (7000,),
    "temperature": (0.5,),
    "top_p": (0.25,),
    "stop": (("END",),),
    "seed": (7,),
    "tool_choice": ("auto", "none", "required", "weather"),
    "parallel_tool_calls": (True, False),
    "reasoning_effort": ("none", "minimal", "low", "medium", "high", "xhigh"),
    "reasoning_tokens": (0, 3000),
    "reasoning_summary": (True, False),
    "cache": (True, "5m", "1h", "24h"),
    "cache_key": ("trips", "cachedContents/trips"),
    "extra": ({"vendor_field": 1},),
}
# The wire does it anyway, the server caches by itself, or the field is a wish that the wire lacks.
WITHOUT_EFFECT: dict[str, list[tuple[str, object]]] = {
    "anthropic": [("seed", 7), ("reasoning_summary", False)],
    "gemini": [("parallel_tool_calls", True), ("cache", True)],
    "openai_chat": [("cache", True)],
    "openai_responses": [("seed", 7), ("reasoning_summary", False), ("cache", True)],
}
MODELS = {
    "anthropic": ("claude-3-5-haiku-latest", "claude-sonnet-4-5", "claude-opus-4-7", "other"),
    "gemini": ("gemini-2.5-flash", "gemini-3-pro-preview"),
    "openai_chat": ("gpt-4o", "gpt-5.2"),
    "openai_responses": ("gpt-4o", "gpt-5.2"),
}
TOOL = ToolSpec("weather", "", {"type": "object", "properties": {}})


class LaterSettings(ModelSettings, frozen=True, kw_only=True):
    """The settings with a field that no codec knows yet."""

    verbosity: str | None = None


def encode(codec: QuirkyCodec, model: str, settings: ModelSettings, *, tools: bool) -> object:
    made = codec.encode(  # type: ignore[attr-defined]  # REASON: each codec has it
        ModelRequest(
            model=model,
            messages=[user("Hi")],
            tools=(TOOL,) if tools else (),
            settings=settings,
        )
    )
    return made.path, made.headers, json.loads(made.body)


def encode_or_refuse(
    codec: QuirkyCodec, model: str, settings: ModelSettings, *, tools: bool
) -> object:
    """Return the request, or why the wire refuses it."""
    try:
        return encode(codec, model, settings, tools=tools)
    except ConfigurationError as error:
        return error


def make_codecs() -> list[tuple[str, QuirkyCodec]]:
    """Return a codec for each distinct form of each wire."""
    forms: dict[tuple[str, Quirks], str] = {}
    for preset in PRESETS.values():
        forms.setdefault((preset.wire, preset.quirks), preset.name)
    return [(name, CODECS[wire](quirks)) for (wire, quirks), name in forms.items()]


@pytest.mark.parametrize("field", ModelSettings.__struct_fields__)
@pytest.mark.parametrize(("provider", "codec"), make_codecs())
def test_no_setting_is_dropped_in_silence(provider: str, codec: QuirkyCodec, field: str) -> None:
    for model in MODELS[codec.wire]:
        for value in VALUES[field]:
            # A cached content of Gemini has its own tools.
            tools = field != "cache_key"
            plain = encode(codec, model, ModelSettings(), tools=tools)
            made = encode_or_refuse(codec, model, ModelSettings(**{field: value}), tools=tools)
            if isinstance(made, ConfigurationError):
                assert made.argument == f"settings.{field}"
                continue
            is_known = (field, value) in WITHOUT_EFFECT.get(codec.wire, ())
            assert made != plain or is_known, (provider, model, field, value)


@pytest.mark.parametrize("wire", CODECS)
def test_a_setting_that_a_codec_does_not_know_is_refused(wire: str) -> None:
    codec, model = CODECS[wire](), MODELS[wire][0]
    encode(codec, model, LaterSettings(), tools=True)
    with pytest.raises(ConfigurationError) as caught:
        encode(codec, model, LaterSettings(verbosity="low"), tools=True)
    assert caught.value.argument == "settings.verbosity"
    assert wire in str(caught.value)


@pytest.mark.parametrize("wire", CODECS)
def test_each_codec_declares_fields_that_exist(wire: str) -> None:
    codec = CODECS[wire]
    assert codec.settings_read | codec.settings_ignored == {*ModelSettings.__struct_fields__}
    assert not codec.settings_read & codec.settings_ignored


def test_a_codec_without_a_declaration_cannot_be_made() -> None:
    class Forgetful(QuirkyCodec):
        wire = "forgetful"

    with pytest.raises(AttributeError, match="settings_read"):
        Forgetful()


def test_each_setting_has_values_to_walk() -> None:
    assert VALUES.keys() == {*ModelSettings.__struct_fields__}
