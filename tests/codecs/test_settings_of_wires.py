"""Every setting on every wire and provider: it changes the request, is refused, or has no effect by its documentation."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from holdfast.codecs.anthropic.codec import AnthropicCodec
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.gemini.codec import Gemini
from holdfast.codecs.openai_chat.codec import OpenAIChat
from holdfast.codecs.openai_responses.codec import ResponsesCodec
from holdfast.codecs.wire import Codec, WireCodec
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import user
from holdfast.core.model_request import ModelRequest, ModelSettings, ToolSpec
from holdfast.models import Transcript, find_preset
from holdfast.models.presets import PRESETS

CODECS: dict[str, type[WireCodec]] = {
    codec.wire: codec for codec in (OpenAIChat, ResponsesCodec, AnthropicCodec, Gemini)
}
VALUES: dict[str, tuple[object, ...]] = {
    "max_tokens": (7000,),
    "temperature": (0.5,),
    "top_p": (0.25,),
    "stop": (("END",),),
    "seed": (7,),
    "top_k": (40,),
    "frequency_penalty": (0.5,),
    "presence_penalty": (-0.5,),
    "verbosity": ("low",),
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
    "anthropic": [
        ("seed", 7),
        ("reasoning_summary", False),
        ("frequency_penalty", 0.5),
        ("presence_penalty", -0.5),
        ("verbosity", "low"),
    ],
    "gemini": [
        ("parallel_tool_calls", True),
        ("cache", True),
        ("tool_choice", "auto"),
        ("verbosity", "low"),
    ],
    "openai_chat": [("cache", True), ("top_k", 40)],
    "openai_responses": [
        ("seed", 7),
        ("reasoning_summary", False),
        ("cache", True),
        ("top_k", 40),
        ("frequency_penalty", 0.5),
        ("presence_penalty", -0.5),
    ],
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

    loudness: str | None = None


def encode(codec: WireCodec, model: str, settings: ModelSettings, *, tools: bool) -> object:
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
    codec: WireCodec, model: str, settings: ModelSettings, *, tools: bool
) -> object:
    """Return the request, or why the wire refuses it."""
    try:
        return encode(codec, model, settings, tools=tools)
    except ConfigurationError as error:
        return error


def make_codecs() -> list[tuple[str, WireCodec]]:
    """Return a codec for each distinct form of each wire."""
    forms: dict[tuple[str, EndpointProfile], str] = {}
    for preset in PRESETS.values():
        forms.setdefault((preset.wire, preset.profile), preset.name)
    return [(name, CODECS[wire](profile)) for (wire, profile), name in forms.items()]


@pytest.mark.parametrize(("provider", "codec"), make_codecs())
def test_no_setting_is_dropped_in_silence(provider: str, codec: WireCodec) -> None:
    for model, field in product(MODELS[codec.wire], ModelSettings.__struct_fields__):
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
        encode(codec, model, LaterSettings(loudness="low"), tools=True)
    assert caught.value.argument == "settings.loudness"
    assert wire in str(caught.value)


@pytest.mark.parametrize("wire", CODECS)
def test_each_codec_declares_fields_that_exist(wire: str) -> None:
    codec = CODECS[wire]
    assert codec.settings_read | codec.settings_ignored <= {*ModelSettings.__struct_fields__}
    assert not codec.settings_read & codec.settings_ignored


def test_a_codec_without_a_declaration_cannot_be_made() -> None:
    class Forgetful(WireCodec):
        wire = "forgetful"

    with pytest.raises(AttributeError, match="settings_read"):
        Forgetful()


def test_each_setting_has_values_to_walk() -> None:
    assert VALUES.keys() == {*ModelSettings.__struct_fields__}


# Reasoning and caching are settings of every wire that has them, and an error on the others.


def codec_of(provider: str) -> Codec:
    preset = find_preset(provider)
    kinds: dict[str, type[Any]] = {
        "openai_chat": OpenAIChat,
        "openai_responses": ResponsesCodec,
        "anthropic": AnthropicCodec,
        "gemini": Gemini,
    }
    codec: Codec = kinds[preset.wire](preset.profile)
    return codec


def sent(provider: str, model: str = "m", **settings: Any) -> dict[str, Any]:
    request = ModelRequest(
        model=model, messages=Transcript([user("Hi")]), settings=ModelSettings(**settings)
    )
    body: dict[str, Any] = json.loads(codec_of(provider).encode(request).body)
    return body


@pytest.mark.parametrize(
    ("provider", "model", "settings", "field", "expected"),
    [
        ("openai-responses", "gpt-5.2", {"reasoning_effort": "xhigh"}, "reasoning", {"effort": "xhigh"}),
        ("openai-responses", "gpt-5.2", {"reasoning_summary": True}, "reasoning", {"summary": "auto"}),
        ("openai-responses", "gpt-5.2", {"reasoning_effort": "low", "reasoning_summary": True}, "reasoning", {"effort": "low", "summary": "auto"}),
        ("openai-responses", "gpt-5.2", {"reasoning_summary": False}, "reasoning", None),
        ("openai", "gpt-5.2", {"reasoning_effort": "high"}, "reasoning_effort", "high"),
        ("anthropic", "claude-sonnet-4-5", {"reasoning_effort": "xhigh"}, "thinking", {"type": "enabled", "budget_tokens": 32000}),
        ("anthropic", "claude-opus-4-7", {"reasoning_effort": "xhigh", "reasoning_summary": True}, "thinking", {"type": "adaptive", "display": "summarized"}),
        ("anthropic", "claude-opus-4-7", {"reasoning_effort": "xhigh"}, "output_config", {"effort": "xhigh"}),
        ("anthropic", "claude-opus-4-6", {"reasoning_effort": "xhigh"}, "output_config", {"effort": "max"}),
        ("anthropic", "claude-opus-4-7", {"reasoning_tokens": 2000, "reasoning_summary": False}, "thinking", {"type": "enabled", "budget_tokens": 2000, "display": "omitted"}),
        ("anthropic", "claude-opus-4-7", {"reasoning_summary": False}, "thinking", None),
        ("openrouter", "a/m", {"reasoning_effort": "low", "reasoning_summary": False}, "reasoning", {"effort": "low", "exclude": True}),
        ("openrouter", "a/m", {"reasoning_summary": True}, "reasoning", {"exclude": False}),
        ("deepseek", "deepseek-chat", {"reasoning_effort": "none"}, "thinking", {"type": "disabled"}),
        ("deepseek", "deepseek-chat", {"reasoning_effort": "low"}, "thinking", {"type": "enabled"}),
        ("deepseek", "deepseek-chat", {"reasoning_effort": "low"}, "reasoning_effort", "low"),
        ("ollama", "qwen3", {"reasoning_effort": "none"}, "reasoning_effort", "none"),
    ],
)  # fmt: skip
def test_reasoning_is_set_by_the_fields_of_the_wire(
    provider: str, model: str, settings: dict[str, Any], field: str, expected: object
) -> None:
    assert sent(provider, model, **settings).get(field) == expected


@pytest.mark.parametrize(
    ("model", "settings", "expected"),
    [
        ("gemini-3-pro", {"reasoning_summary": True}, {"includeThoughts": True}),
        ("gemini-3-pro", {"reasoning_effort": "low", "reasoning_summary": False}, {"thinkingLevel": "low", "includeThoughts": False}),
        ("gemini-2.5-pro", {"reasoning_tokens": 99, "reasoning_summary": False}, {"thinkingBudget": 99, "includeThoughts": False}),
    ],
)  # fmt: skip
def test_gemini_shows_its_thoughts_or_not(
    model: str, settings: dict[str, Any], expected: object
) -> None:
    assert sent("gemini", model, **settings)["generationConfig"]["thinkingConfig"] == expected


@pytest.mark.parametrize(
    ("provider", "settings", "argument", "wire"),
    [
        ("openai-responses", {"reasoning_tokens": 2000}, "settings.reasoning_tokens", "Responses"),
        ("openai", {"reasoning_tokens": 2000}, "settings.reasoning_tokens", "Chat Completions"),
        ("openai", {"reasoning_summary": True}, "settings.reasoning_summary", "Chat Completions"),
        ("mistral", {"reasoning_summary": False}, "settings.reasoning_summary", "Chat Completions"),
        ("anthropic", {"reasoning_summary": True}, "settings.reasoning_summary", "Anthropic"),
        ("gemini", {"reasoning_effort": "xhigh"}, "settings.reasoning_effort", "Gemini"),
        ("anthropic", {"cache": "24h"}, "settings.cache", "Anthropic"),
        ("anthropic", {"cache_key": "a"}, "settings.cache_key", "Anthropic"),
        ("groq", {"cache": "5m"}, "settings.cache", "Chat Completions"),
        ("groq", {"cache_key": "a"}, "settings.cache_key", "Chat Completions"),
        ("openrouter", {"cache": "24h"}, "settings.cache", "Chat Completions"),
        ("gemini", {"cache": "1h"}, "settings.cache", "Gemini"),
        ("gemini", {"cache_key": "a"}, "settings.cache_key", "Gemini"),
    ],
)
def test_what_a_wire_cannot_express_is_an_error_that_names_the_wire(
    provider: str, settings: dict[str, Any], argument: str, wire: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        sent(provider, **settings)
    assert caught.value.argument == argument
    assert wire in str(caught.value)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"top_k": 0}, "top_k"),
        ({"frequency_penalty": 2.5}, "frequency_penalty"),
        ({"presence_penalty": "much"}, "presence_penalty"),
        ({"verbosity": "loud"}, "verbosity"),
    ],
)
def test_a_wrong_wish_is_refused_where_it_is_written(settings: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"settings\.{name}"):
        ModelSettings(**settings)


def test_a_model_of_anthropic_that_thinks_takes_no_top_k() -> None:
    assert sent("anthropic", "claude-sonnet-4-5", top_k=40)["top_k"] == 40
    thinking = sent("anthropic", "claude-sonnet-4-5", top_k=40, reasoning_tokens=2000)
    assert "top_k" not in thinking


@pytest.mark.parametrize("settings", [{"cache": "2h"}, {"cache": 5}, {"cache_key": " "}])
def test_a_wrong_setting_is_refused_where_it_is_written(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"settings\.cache"):
        ModelSettings(**settings)


def test_openai_keeps_a_prefix_at_least_as_long_as_asked() -> None:
    for provider in ("openai", "openai-responses", "azure-v1"):
        made = sent(provider, cache="1h", cache_key="trips")
        assert made["prompt_cache_retention"] == "24h"
        assert made["prompt_cache_key"] == "trips"
        assert sent(provider, cache="5m")["prompt_cache_retention"] == "in_memory"
        assert (
            not {"prompt_cache_retention", "prompt_cache_key"} & sent(provider, cache=True).keys()
        )


def test_anthropic_marks_tools_instructions_and_history_with_their_time() -> None:
    request = ModelRequest(
        model="claude-sonnet-4-5",
        messages=Transcript([user("Hi")]),
        instructions="Be brief.",
        tools=(TOOL, ToolSpec("trips", "", {"type": "object"})),
        settings=ModelSettings(cache="1h"),
    )
    made = json.loads(AnthropicCodec().encode(request).body)
    mark = {"type": "ephemeral", "ttl": "1h"}
    assert [tool.get("cache_control") for tool in made["tools"]] == [None, mark]
    assert made["system"][0]["cache_control"] == mark
    assert made["messages"][-1]["content"][-1]["cache_control"] == mark
    assert json.dumps(made).count("cache_control") == 3


def test_openrouter_passes_the_mark_of_anthropic_on() -> None:
    assert sent("openrouter", cache=True)["cache_control"] == {"type": "ephemeral"}
    assert sent("openrouter", cache="1h")["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


def test_gemini_continues_a_cached_content() -> None:
    name = "cachedContents/abc"
    assert sent("gemini", cache_key=name)["cachedContent"] == name
    assert "cachedContent" not in sent("gemini", cache=True)
    request = ModelRequest(
        model="gemini-2.5-flash",
        messages=[user("Hi")],
        instructions="Be brief.",
        settings=ModelSettings(cache_key=name),
    )
    with pytest.raises(ConfigurationError, match="no instructions and no tools"):
        Gemini().encode(request)
