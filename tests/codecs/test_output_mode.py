"""Which way of asking for a typed answer is chosen: by provider, by model, by schema, by the user."""

from __future__ import annotations

import pytest

from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.output_mode import OutputMethod, choose_output_method
from holdfast.core.messages import user
from holdfast.core.model_request import ModelRequest, ModelSettings, OutputSchema, ToolSpec
from holdfast.models.presets import PRESETS, find_preset

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
TREE = {
    "type": "object",
    "properties": {"inside": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
    "$defs": {
        "Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Other"}}},
        "Other": {"type": "object", "properties": {"back": {"$ref": "#/$defs/Node"}}},
    },
}
TOOLS = (ToolSpec("weather", "", {}),)


def chosen(
    provider: str,
    model: str,
    *,
    tools: tuple[ToolSpec, ...] = (),
    output: OutputSchema | None = None,
    settings: ModelSettings | None = None,
) -> OutputMethod:
    preset = find_preset(provider)
    request = ModelRequest(
        model=model,
        messages=(user("Hi"),),
        tools=tools,
        output=output or OutputSchema("A", SCHEMA),
        settings=settings or ModelSettings(),
    )
    return choose_output_method(preset.wire, preset.profile, request)


@pytest.mark.parametrize(
    ("provider", "model", "alone", "with_tools"),
    [
        ("openai", "gpt-5.2", "native", "native"),
        ("openai", "gpt-4o-mini", "native", "native"),
        ("openai", "gpt-4.1", "native", "native"),
        ("openai", "gpt-4", "tool", "tool"),
        ("openai", "gpt-4-turbo", "tool", "tool"),
        ("openai", "gpt-3.5-turbo", "tool", "tool"),
        ("openai-responses", "gpt-5.2", "native", "native"),
        ("anthropic", "claude-sonnet-4-5", "native", "native"),
        ("anthropic", "claude-opus-4-1-20250805", "native", "native"),
        ("anthropic", "claude-sonnet-5", "native", "native"),
        ("anthropic", "claude-sonnet-4-20250514", "tool", "tool"),
        ("anthropic", "claude-3-5-haiku-latest", "tool", "tool"),
        ("anthropic", "minimax-m2", "tool", "tool"),
        ("bedrock-anthropic", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "native", "native"),
        ("gemini", "gemini-2.5-flash", "native", "tool"),
        ("gemini", "gemini-3-pro-preview", "native", "native"),
        ("gemini-openai", "gemini-2.5-flash", "native", "tool"),
        ("deepseek", "deepseek-chat", "prompt", "prompt"),
        ("groq", "llama-3.3-70b-versatile", "tool", "tool"),
        ("openrouter", "google/gemini-2.5-pro", "tool", "tool"),
        ("mistral", "mistral-large-latest", "native", "tool"),
        ("ollama", "qwen3", "native", "tool"),
        ("llamacpp", "any", "native", "tool"),
        ("cerebras", "gpt-oss-120b", "native", "tool"),
    ],
)
def test_the_rows(provider: str, model: str, alone: str, with_tools: str) -> None:
    assert chosen(provider, model).mode == alone
    assert chosen(provider, model, tools=TOOLS).mode == with_tools


@pytest.mark.parametrize("mode", ["native", "tool", "prompt"])
def test_what_the_user_says_goes_before_every_row(mode: str) -> None:
    output = OutputSchema("A", SCHEMA, mode=mode)  # type: ignore[arg-type]
    for provider, preset in PRESETS.items():
        chosen_mode = chosen(provider, preset.models_hint, output=output, tools=TOOLS).mode
        assert chosen_mode == mode, provider


@pytest.mark.parametrize(
    ("schema", "mode"),
    [
        (SCHEMA, "native"),
        (TREE, "tool"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "tool"),
        (
            {
                "type": "object",
                "properties": {"m": {"type": "object", "additionalProperties": True}},
            },
            "tool",
        ),
        ({"type": "object", "additionalProperties": False, "properties": {}}, "native"),
        ({"type": "object", "properties": {str(n): {"type": "null"} for n in range(24)}}, "native"),
        ({"type": "object", "properties": {str(n): {"type": "null"} for n in range(25)}}, "tool"),
        ({"type": "object", "properties": {"any": {}}}, "tool"),
    ],
)
def test_a_schema_that_anthropics_grammar_cannot_hold_is_asked_for_by_a_tool(
    schema: dict[str, object], mode: str
) -> None:
    output = OutputSchema("A", schema)
    assert chosen("anthropic", "claude-sonnet-4-5", output=output).mode == mode
    assert chosen("openai", "gpt-5.2", output=output).mode == "native"


def test_a_tool_is_not_forced_where_that_is_refused() -> None:
    thinking = ModelSettings(reasoning_effort="high")
    assert chosen("anthropic", "claude-3-7-sonnet").can_force
    assert not chosen("anthropic", "claude-3-7-sonnet", settings=thinking).can_force
    assert chosen("openai", "gpt-5.2", settings=thinking).can_force
    assert not chosen("cerebras", "gpt-oss-120b").can_force


def test_a_request_for_text_is_asked_for_in_words() -> None:
    request = ModelRequest(model="m", messages=(user("Hi"),))
    assert choose_output_method("openai_chat", EndpointProfile(), request) == OutputMethod("prompt")
