"""Each wire refuses the requests that its provider refuses, in its words, and takes all others."""

from __future__ import annotations

import typing
from collections import Counter
from collections.abc import Mapping
from typing import Any

import anthropic.types.beta.message_create_params as anthropic_beta
import anthropic.types.message_create_params as anthropic_params
import httpx
import msgspec
import openai.types.chat.completion_create_params as chat_params
import openai.types.responses.response_create_params as responses_params
import pytest
from google.genai import types as google_types
from hypothesis import given
from hypothesis import strategies as st
from tests.codecs.test_settings_of_wires import CODECS, MODELS, VALUES
from tests.corpus import rows

from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import (
    Media,
    Message,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    user,
)
from holdfast.core.model_request import ModelRequest, ModelSettings, OutputSchema, ToolSpec
from holdfast.models.presets import PRESETS
from holdfast.testing.emulator import Emulator
from holdfast.testing.emulator.emulated_request import EmulatedRequest, MalformedRequest
from holdfast.testing.emulator.wires.dresses import DRESSES, Dress, get_dress
from holdfast.testing.emulator.wires.emulator_wire import get_wire
from holdfast.testing.emulator.wires.openai_fields import RESPONSES
from holdfast.testing.emulator.wires.request_checks import CHECKS
from holdfast.testing.emulator.wires.request_rules import FieldRule
from holdfast.testing.emulator.wires.vendor_fields import ANTHROPIC, ANTHROPIC_BETA, GEMINI

Json = dict[str, Any]

PATHS = {
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/gemini-3-pro:generateContent",
}
PLAIN: dict[str, Json] = {
    "openai_chat": {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]},
    "openai_responses": {"model": "gpt-4o", "input": "Hi"},
    "anthropic": {
        "model": "claude-sonnet-4-5",
        "max_tokens": 4096,
        "messages": [{"role": "user", "content": "Hi"}],
    },
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
}


def chat_tool(name: object = "weather", **more: object) -> Json:
    return {"type": "function", "function": {"name": name, **more}}


def flat_tool(name: object = "weather", **more: object) -> Json:
    schema = {"type": "object", "properties": {}}
    return {"type": "function", "name": name, "parameters": schema, **more}


def claude_tool(name: object = "weather", **more: object) -> Json:
    return {"name": name, "input_schema": {"type": "object"}} | more


def gemini_tools(*names: str) -> list[Json]:
    return [{"functionDeclarations": [{"name": name} for name in names]}]


def calling(**more: object) -> Json:
    return {"toolConfig": {"functionCallingConfig": {"mode": "ANY", **more}}}


def parts_of_user(*parts: Json) -> Json:
    return {"messages": [{"role": "user", "content": list(parts)}]}


def text(**more: object) -> Json:
    return {"type": "text", "text": "Hi", **more}


MARK = {"cache_control": {"type": "ephemeral"}}
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 2048}}
CALL = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
CALLED = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": None, "tool_calls": [{**CALL, "index": 0}]},
    {"role": "tool", "tool_call_id": "c", "content": "Sunny"},
]


def schema_tool(schema: Json, *, strict: bool = True) -> Json:
    return {"tools": [chat_tool("find", parameters=schema, strict=strict)]}


def flat_schema_tool(schema: Json, *, strict: bool = True) -> Json:
    return {"tools": [{**flat_tool("find", strict=strict), "parameters": schema}]}


def chat_output(schema: Json, *, strict: bool = True) -> Json:
    described = {"name": "trip", "schema": schema, "strict": strict}
    return {"response_format": {"type": "json_schema", "json_schema": described}}


def responses_output(schema: Json) -> Json:
    described = {"type": "json_schema", "name": "trip", "schema": schema, "strict": True}
    return {"text": {"format": described}}


def claude_output(schema: Json) -> Json:
    return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}


def claude_schema_tool(schema: Json, **more: object) -> Json:
    return {"tools": [{"name": "find", "input_schema": schema, **more}]}


def gemini_schema_tool(schema: Json) -> Json:
    return {"tools": [{"functionDeclarations": [{"name": "a", "parametersJsonSchema": schema}]}]}


def gemini_output(schema: Json) -> Json:
    config = {"responseMimeType": "application/json", "responseJsonSchema": schema}
    return {"generationConfig": config}


def closed(**properties: Json) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def opened(**properties: Json) -> Json:
    return {"type": "object", "properties": properties}


WORD = {"type": "string"}
WHOLE = {"type": "integer", "minimum": 1, "maximum": 9}
EMAIL = {"type": "string", "pattern": "^(?!x)"}
NODE = {
    **closed(top={"$ref": "#/$defs/Node"}),
    "$defs": {"Node": closed(next={"$ref": "#/$defs/Node"})},
}
ITEMS = {"type": "array"}
EITHER = {**opened(a=WORD), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}

# The fields beside those of a plain request, and the refusal.
CHAT: list[tuple[Json, str]] = [
    ({"top_k": 5}, "Unknown parameter: 'top_k'."),
    ({"thinking": {"type": "enabled"}}, "Unknown parameter: 'thinking'."),
    ({"temperature": 3}, "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3 instead."),
    ({"temperature": "hot"}, "Invalid type for 'temperature': expected a decimal, but got a string instead."),
    ({"max_tokens": 0}, "Invalid 'max_tokens': integer below minimum value. Expected a value >= 1, but got 0 instead."),
    ({"max_tokens": 9, "model": "o3-mini"}, "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."),
    ({"reasoning_effort": "huge"}, "Invalid value: 'huge'. Supported values are: 'none', 'minimal', 'low', 'medium', 'high', 'xhigh', and 'max'."),
    ({"metadata": {"modified": True}}, "Invalid type for 'metadata.modified': expected a string, but got a boolean instead."),
    ({"metadata": {str(n): "" for n in range(17)}}, "Invalid 'metadata': too many properties. Expected an object with at most 16 properties, but got an object with 17 properties instead."),
    ({"stop": list("abcde")}, "Invalid 'stop': array too long. Expected an array with maximum length 4, but got an array with length 5 instead."),
    ({"stop": 7}, "Invalid type for 'stop': expected one of a string or array of strings, but got an integer instead."),
    ({"prompt_cache_key": "k" * 65}, "Invalid 'prompt_cache_key': string too long. Expected a string with maximum length 64, but got a string with length 65 instead."),
    ({"stream_options": {"include_usage": True}}, "The 'stream_options' parameter is only allowed when 'stream' is enabled."),
    ({"tools": []}, "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead."),
    ({"tools": [chat_tool(f"t{n}") for n in range(129)]}, "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 129 instead."),
    ({"tools": [None]}, "Invalid type for 'tools[0]': expected an object, but got null instead."),
    ({"tools": [chat_tool("bad name!")]}, "Invalid 'tools[0].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."),
    ({"tools": [chat_tool("n" * 65)]}, "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64, but got a string with length 65 instead."),
    ({"tools": [{"type": "function"}]}, "Missing required parameter: 'tools[0].function'."),
    ({"tools": [{"type": "web_search"}]}, "Invalid value: 'web_search'. Supported values are: 'function', and 'custom'."),
    ({"tools": [chat_tool(args={})]}, "Unknown parameter: 'tools[0].function.args'."),
    ({"tool_choice": "auto"}, "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."),
    ({"parallel_tool_calls": True}, "Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when 'tools' are specified."),
    ({"tools": [chat_tool()], "tool_choice": chat_tool("time")}, "Invalid value for 'tool_choice': no function named time was specified in the 'tools' parameter"),
    ({"tools": [chat_tool()], "tool_choice": "weather"}, "Invalid value: 'weather'. Supported values are: 'none', 'auto', and 'required'."),
    ({"response_format": {"type": "xml"}}, "Invalid value: 'xml'. Supported values are: 'text', 'json_object', and 'json_schema'."),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "my trip", "schema": {}}}}, "Invalid 'response_format.json_schema.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."),
    (parts_of_user({"type": "image"}), "Invalid value: 'image'. Supported values are: 'text', 'image_url', 'input_audio', 'refusal', 'audio', and 'file'."),
    (parts_of_user({"text": "Hi"}), "Missing required parameter: 'messages[0].content[0].type'."),
    (parts_of_user(text(**MARK)), "Unknown parameter: 'messages[0].content[0].cache_control'."),
    ({"messages": CALLED}, "Unknown parameter: 'messages[1].tool_calls[0].index'."),
    (schema_tool(opened(a=WORD)), "Invalid schema for function 'find': In context=(), 'additionalProperties' is required to be supplied and to be false."),
    (schema_tool({**closed(a=WORD), "required": []}), "Invalid schema for function 'find': In context=(), 'required' is required to be supplied and to be an array including every key in properties. Missing 'a'."),
    (schema_tool({"type": "array", "items": WORD}), "Invalid schema for function 'find': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"array\"'."),
    (schema_tool(opened(ids=ITEMS), strict=False), "Invalid schema for function 'find': In context=('properties', 'ids'), array schema missing items."),
    (schema_tool(EITHER, strict=False), "Invalid schema for function 'find': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level."),
    (schema_tool(opened(mail=EMAIL), strict=False), "Invalid JSON schema: regex lookaround is not supported. Found at $.properties.mail.pattern."),
    (schema_tool({"type": "object"}, strict=False), "Invalid schema for function 'find': In context=(), object schema missing properties."),
    (chat_output(closed(url={"type": "string", "format": "uri"})), "Invalid schema for response_format 'trip': In context=('properties', 'url'), 'uri' is not a valid format."),
    (chat_output(closed(a={"oneOf": [WORD]})), "Invalid schema for response_format 'trip': In context=('properties', 'a'), 'oneOf' is not permitted."),
]  # fmt: skip
RESPONSES_ROWS: list[tuple[Json, str]] = [
    ({"messages": []}, "Unknown parameter: 'messages'."),
    ({"stop": ["x"]}, "Unknown parameter: 'stop'."),
    ({"temperature": -1}, "Invalid 'temperature': decimal below minimum value. Expected a value >= 0, but got -1 instead."),
    ({"max_output_tokens": 1}, "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 1 instead."),
    ({"reasoning": {"max_tokens": 9}}, "Unknown parameter: 'reasoning.max_tokens'."),
    ({"reasoning": {"summary": "long"}}, "Invalid value: 'long'. Supported values are: 'auto', 'concise', and 'detailed'."),
    ({"input": [{"role": "user", "content": "Hi", "tool_calls": []}]}, "Unknown parameter: 'input[0].tool_calls'."),
    ({"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi", **MARK}]}]}, "Unknown parameter: 'input[0].content[0].cache_control'."),
    ({"tools": [flat_tool("bad name!")]}, "Invalid 'tools[0].name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."),
    ({"tools": [{"type": "function"}]}, "Missing required parameter: 'tools[0].name'."),
    ({"tools": [chat_tool()]}, "Missing required parameter: 'tools[0].name'."),
    ({"tools": [flat_tool(f"t{n}") for n in range(129)]}, "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 129 instead."),
    ({"tool_choice": "required"}, "Tool choice 'required' must be specified with 'tools' parameter."),
    ({"tools": [flat_tool()], "tool_choice": {"type": "function", "name": "time"}}, "Tool choice 'time' not found in 'tools' parameter."),
    ({"text": {"format": {"type": "json_schema", "name": "a b", "schema": {}}}}, "Invalid 'text.format.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."),
    ({"text": {"format": {"type": "json_schema", "name": "a"}}}, "Missing required parameter: 'text.format.schema'."),
    (flat_schema_tool(opened(a=WORD)), "Invalid schema for function 'find': In context=(), 'additionalProperties' is required to be supplied and to be false."),
    (responses_output(closed(a={"$ref": "#", "title": "A"})), "Invalid schema for response_format 'trip': In context=('properties', 'a'), $ref cannot have keywords {'title'}."),
    (responses_output(closed(a={"type": "array", "items": {}})), "Invalid schema for response_format 'trip': In context=('properties', 'a', 'items'), schema must have a 'type' key."),
]  # fmt: skip
ANTHROPIC_ROWS: list[tuple[Json, str]] = [
    ({"response_format": {}}, "response_format: Extra inputs are not permitted"),
    ({"context_management": {}}, "context_management: Extra inputs are not permitted"),
    ({"temperature": 1.5}, "temperature: range: 0..1"),
    ({"top_k": -1}, "top_k: Input should be greater than or equal to 0"),
    ({"stop_sequences": "x"}, "stop_sequences: Input should be a valid list"),
    ({"service_tier": "gold"}, "service_tier: Input should be 'auto' or 'standard_only'"),
    ({"thinking": {"type": "enabled", "budget_tokens": 9}}, "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"),
    ({"thinking": {"type": "some"}}, "thinking: Input tag 'some' found using 'type' does not match any of the expected tags: 'enabled', 'disabled', 'adaptive', 'between_tools'"),
    ({**THINKING, "temperature": 0.5}, "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode."),
    ({"temperature": 0.5, "top_p": 0.5}, "`temperature` and `top_p` cannot both be specified for this model. Please use only one."),
    ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema: Field required"),
    (parts_of_user(text(index=0)), "messages.0.content.0.text.index: Extra inputs are not permitted"),
    ({"tools": [claude_tool("bad name!")]}, "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"),
    ({"tools": [{"name": "a"}]}, "tools.0.custom.input_schema: Field required"),
    ({"tools": [{"name": "a", "input_schema": 7}]}, "tools.0.custom.input_schema: Input does not match the expected shape."),
    ({"tools": [{"name": "a", "input_schema": {"type": "string"}}]}, "tools.0.custom.input_schema.type: Input should be 'object'"),
    ({"tools": [claude_tool(index=0)]}, "tools.0.custom.index: Extra inputs are not permitted"),
    ({"tools": [claude_tool(), claude_tool()]}, "tools: Tool names must be unique."),
    ({"tool_choice": {"type": "auto"}}, "tool_choice may only be specified while providing tools."),
    ({"tools": [claude_tool()], "tool_choice": {"type": "tool", "name": "time"}}, "Tool 'time' not found in provided tools"),
    ({"tools": [claude_tool()], "tool_choice": {"type": "any"}, **THINKING}, "Thinking may not be enabled when tool_choice forces tool use."),
    ({"tools": [claude_tool(str(n), **MARK) for n in range(5)]}, "A maximum of 4 blocks with cache_control may be provided. Found 5."),
    (claude_schema_tool(EITHER), "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"),
    (claude_schema_tool(opened(**{"$top": WORD})), "tools.0.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"),
    (claude_schema_tool(opened(a={"type": "int"})), "tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12"),
    (claude_schema_tool(closed(a=WHOLE), strict=True), "tools.0.custom: For 'integer' type, properties maximum, minimum are not supported"),
    (claude_output(opened(a=WORD)), "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false"),
    (claude_output(closed(a={"type": "array", "items": WORD, "minItems": 2})), "output_config.format.schema: For 'array' type, 'minItems' values other than 0 or 1 are not supported (got: 2)"),
    (claude_output(closed(**{f"p{n}": {"type": ["string", "null"]} for n in range(17)})), "Schemas contains too many parameters with union types (17 parameters with type arrays or anyOf)."),
    (claude_output({**closed(**{f"p{n}": WORD for n in range(25)}), "required": []}), "Schemas contains too many optional parameters (25)"),
    ({"tools": [claude_tool(f"t{n}", strict=True) | {"input_schema": closed(a=WORD)} for n in range(21)]}, "Too many strict tools (21)."),
]  # fmt: skip
GEMINI_ROWS: list[tuple[Json, str]] = [
    ({"messages": []}, 'Invalid JSON payload received. Unknown name "messages": Cannot find field.'),
    ({"generationConfig": {"topX": 1}}, "Invalid JSON payload received. Unknown name \"topX\" at 'generation_config': Cannot find field."),
    ({"contents": [{"text": "Hi", "parts": [{"text": "Hi"}]}]}, "Invalid JSON payload received. Unknown name \"text\" at 'contents[0]': Cannot find field."),
    ({"tools": [{"function_declarations": [{"name": "a", "strict": True}]}]}, "Invalid JSON payload received. Unknown name \"strict\" at 'tools[0].function_declarations[0]': Cannot find field."),
    ({"generationConfig": {"temperature": "hot"}}, "Invalid value at 'generation_config.temperature' (TYPE_FLOAT), \"hot\""),
    ({"generation_config": {"seed": 1.5}}, "Invalid value at 'generation_config.seed' (TYPE_INT32), 1.5"),
    ({"generationConfig": {"temperature": 3}}, "* GenerateContentRequest.generation_config.temperature: value must be in the range [0, 2]"),
    ({"generationConfig": {"thinkingConfig": {"thinkingLevel": "HUGE"}}}, "Invalid value at 'generation_config.thinking_config.thinking_level' (type.googleapis.com/google.ai.generativelanguage.v1beta.ThinkingConfig.ThinkingLevel), \"HUGE\""),
    ({"tools": gemini_tools("bad name!")}, "The GenerateContentRequest proto is invalid:\n  * tools[0].function_declarations[0].name: [FIELD_INVALID] Invalid function name."),
    ({"tools": gemini_tools("a", "a")}, "Duplicate function declaration found: a"),
    (calling(), "Function calling config is set without function_declarations."),
    ({"tools": gemini_tools("a"), **calling(allowedFunctionNames=["b"])}, "function b is not declared"),
    ({"tools": [{"functionDeclarations": [{"name": "a", "parameters": {"$schema": ""}}]}]}, "Invalid JSON payload received. Unknown name \"$schema\" at 'tools[0].function_declarations[0].parameters': Cannot find field."),
    ({"generationConfig": {"responseSchema": {"items": {"additionalProperties": False}}}}, "Unknown name \"additionalProperties\" at 'generation_config.response_schema.items': Cannot find field."),
    (gemini_schema_tool(opened(draft={"$ref": "#/$defs/A", "title": "A"}) | {"$defs": {"A": WORD}}), "schema at properties.draft can only contain properties starting with '$' when $ref is present"),
    (gemini_output(NODE), "ref loops are only supported if they include optional or nullable property values, or a potentially-zero-length array items, but a ref loop of required fields was found at $defs.Node"),
    ({"tools": gemini_tools("a"), **calling(mode="SOME")}, "Invalid value at 'tool_config.function_calling_config.mode' (type.googleapis.com/google.ai.generativelanguage.v1beta.FunctionCallingConfig.Mode), \"SOME\""),
]  # fmt: skip
REFUSED = {
    "openai_chat": CHAT,
    "openai_responses": RESPONSES_ROWS,
    "anthropic": ANTHROPIC_ROWS,
    "gemini": GEMINI_ROWS,
}


def judge(
    wire: str, body: object, provider: str = "openai", headers: Mapping[str, str] = {}
) -> None:
    """Read a request and judge it, as the emulator does."""
    given = {"anthropic-version": "2023-06-01", **headers}
    encoded = body if isinstance(body, bytes) else msgspec.json.encode(body)
    request = get_wire(wire).parse_request(PATHS[wire], given, encoded)
    CHECKS[wire](request, get_dress(provider))


@pytest.mark.parametrize("wire", REFUSED)
def test_a_wire_refuses_as_its_provider_does(wire: str) -> None:
    judge(wire, PLAIN[wire])
    for fields, said in REFUSED[wire]:
        with pytest.raises(MalformedRequest) as refused:
            judge(wire, {**PLAIN[wire], **fields})
        assert said in str(refused.value), fields


@pytest.mark.parametrize("wire", REFUSED)
def test_a_refusal_has_the_form_of_the_provider(wire: str) -> None:
    with pytest.raises(MalformedRequest) as refused:
        judge(wire, {**PLAIN[wire], "nonsense": 1})
    answer = get_wire(wire).invalid_request(refused.value)
    assert answer.status == 400
    body: Any = answer.body
    said = body["error"]["message"]
    assert "nonsense" in said
    if wire.startswith("openai"):
        kind = "invalid_request_error"
        error = {"message": said, "type": kind, "param": "nonsense", "code": "unknown_parameter"}
        assert body == {"error": error}
    elif wire == "gemini":
        assert body["error"]["status"] == "INVALID_ARGUMENT"
        assert body["error"]["details"][0]["fieldViolations"] == [{"description": said}]
    else:
        assert body["error"]["type"] == "invalid_request_error"


def test_other_requests_are_taken() -> None:
    both = [chat_tool(), chat_tool()]
    strict = chat_tool("time", strict=True, parameters=closed())
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [chat_tool()]}}
    taken: list[tuple[str, Json]] = [
        ("openai_chat", {"tools": both}),  # OpenAI takes two tools of one name
        ("openai_chat", {"tools": [chat_tool(), strict], "tool_choice": chat_tool("time")}),
        ("openai_chat", {"tools": [chat_tool()], "tool_choice": allowed, "stop": "a long text"}),
        ("openai_chat", {"temperature": None, "max_tokens": 9, "metadata": {}}),
        ("openai_chat", {"messages": [{"role": "system", "content": [text(**MARK)]}]}),
        ("openai_chat", {"max_tokens": 9, "model": "gpt-5-chat-latest"}),
        ("openai_responses", {"tools": [{"type": "web_search"}, flat_tool(strict=False)]}),
        ("openai_responses", {"tools": [flat_tool()], "tool_choice": {"type": "web_search"}}),
        (
            "anthropic",
            {
                "tools": [
                    claude_tool(strict=True, input_schema=closed()),
                    {"type": "x_20270101", "name": "x"},
                ]
            },
        ),
        ("openai_responses", {"tools": [flat_tool() | {"parameters": None, "strict": None}]}),
        ("anthropic", {"tools": [claude_tool(type=None)]}),
        ("anthropic", {"temperature": 0.5, "top_p": 0.5, "model": "claude-3-5-haiku-latest"}),
        ("anthropic", {**THINKING, "temperature": 1}),
        (
            "gemini",
            {"generation_config": {"temperature": "0.5", "topK": 4, "max_output_tokens": 9}},
        ),
        ("gemini", {"tools": [{"googleSearch": {}}, *gemini_tools("a", "b.c:d")], **calling()}),
        (
            "openai_chat",
            schema_tool(closed(a={"type": "integer", "format": "int64", "default": 1})),
        ),
        ("openai_chat", schema_tool(opened(a=WORD), strict=False)),
        ("openai_chat", chat_output(opened(a=WORD), strict=False)),
        ("openai_responses", {"tools": [flat_tool() | {"parameters": opened(a=WORD)}]}),
        ("anthropic", claude_schema_tool(opened(a=WHOLE, mail=EMAIL))),
        ("anthropic", claude_output(closed(a={"type": ["string", "null"], "enum": ["x", None]}))),
        (
            "gemini",
            gemini_output(
                opened(a={"$ref": "#/$defs/A", "description": "A."}) | {"$defs": {"A": WHOLE}}
            ),
        ),
    ]
    for wire, fields in taken:
        judge(wire, {**PLAIN[wire], **fields})
    beta = {"anthropic-beta": "context-management-2025-06-27"}
    body = {**PLAIN["anthropic"], "context_management": {"edits": []}}
    judge("anthropic", body, headers=beta)


ANSWER: Json = {"role": "assistant", "content": "Yes"}
CALLED: Json = {"role": "assistant", "tool_calls": [{"id": "abcdefgh9", "type": "function", "function": {"name": "a", "arguments": "{}"}}]}  # fmt: skip
ANSWERED: Json = {"role": "tool", "tool_call_id": "abcdefgh9", "content": "x"}


def test_providers_of_one_wire_refuse_in_their_own_ways() -> None:
    chat = PLAIN["openai_chat"]
    history = [*chat["messages"], {"role": "assistant", "content": "Yes", "reasoning_content": "?"}]
    rows: list[tuple[str, Json, int, object]] = [
        ("openai", {"messages": history}, 0, None),
        ("cerebras", {"store": True}, 422, "body.store: property 'body.store' is unsupported"),
        ("groq", {"messages": history}, 400, {"error": {"message": "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property 'reasoning_content' is unsupported)]", "type": "invalid_request_error"}}),
        ("groq", {"thinking": {}}, 400, "property 'thinking' is unsupported"),
        ("mistral", {"max_completion_tokens": 9}, 422, {"object": "error", "message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "max_completion_tokens"], "msg": "Extra inputs are not permitted", "input": 9}]}, "type": "invalid_request_error", "param": None, "code": None, "raw_status_code": 422}),
        ("mistral", {"random_seed": 9, "tools": [{"function": {"name": "a"}}]}, 0, None),
        ("deepseek", {"thinking": {"type": "enabled"}, "messages": history}, 0, None),
        ("groq", {"tools": [{"type": "browser_search"}, chat_tool()]}, 0, None),
        ("together", {"logprobs": 1, "top_k": 40}, 0, None),
        ("vllm", {"guided_json": {}, "repetition_penalty": 1.1}, 0, None),
        ("ollama", {"temperature": "hot"}, 400, "Invalid type for 'temperature'"),
        ("ollama", chat_output(opened(a={"type": "string", "pattern": "a+"})), 400, "invalid JSON schema in format"),
        ("vllm", chat_output(opened(a={"type": "array", "uniqueItems": True})), 400, 'Grammar error: Unimplemented keys: ["uniqueItems"]'),
        ("sglang", chat_output(opened(a={"type": "integer", "minimum": 0.5}), strict=False), 400, "Failed to compile json grammar: Integer constraint must be a whole number"),
        ("sglang", schema_tool(opened(a={"type": "integer", "minimum": 0.5}), strict=False), 0, None),
        ("sglang", chat_output(opened(a={"type": "array", "uniqueItems": True})), 0, None),
        ("xai", schema_tool(EITHER, strict=False), 400, "tool parameter root must be an object type"),
        ("xai", chat_output({"type": "array", "items": WORD}), 0, None),
        ("xai", chat_output(opened(a={"type": "array", "contains": WORD, "minContains": 1})), 400, "the keyword 'minContains' is not supported"),
        ("xai", chat_output(opened(a={"$ref": "#"})), 400, "the schema contains itself"),
        ("xai", chat_output(opened(a={"not": WORD, "multipleOf": 2})), 0, None),
        ("cerebras", chat_output(closed(a={"type": ["string", "null"]})), 400, "a list of types is not supported"),
        ("groq", chat_output(opened(a=WORD)), 400, "invalid JSON schema for response_format: 'trip': additionalProperties:false must be set on every object"),
        ("groq", chat_output({**closed(a=WORD, b=WORD), "required": []}), 400, "The following properties must be listed in `required`: a, b"),
        ("llamacpp", chat_output(opened(a={"description": "A."})), 400, 'JSON schema conversion failed:\nUnrecognized schema: {"description":"A."}'),
        ("llamacpp", chat_output(opened(a={})), 0, None),
        ("llamacpp", chat_output(opened(a={"$ref": "#/$defs/A"})), 400, "Error resolving ref #/$defs/A: $defs not in {...}"),
        ("groq", chat_output(opened(a=WORD), strict=False), 0, None),
        ("deepseek", chat_output(EITHER), 400, "This response_format type is unavailable now"),
        ("deepseek", {"thinking": {"type": "enabled"}, "messages": [*chat["messages"], ANSWER]}, 400, "Missing `reasoning_content` field in the assistant message at message index 1."),
        ("deepseek", {"messages": [*chat["messages"], ANSWER]}, 0, None),
        ("mistral", {"model": "devstral-2512", "messages": [*chat["messages"], CALLED, ANSWERED, *chat["messages"]]}, 400, {"object": "error", "message": "Unexpected role 'user' after role 'tool'", "type": "invalid_request_message_order", "param": None, "code": "3230"}),
        ("mistral", {"messages": [*chat["messages"], CALLED, ANSWERED, *chat["messages"]]}, 0, None),
        ("mistral", {"messages": [*chat["messages"], ANSWER]}, 400, "Expected last role User or Tool"),
        ("mistral", {"messages": [*chat["messages"], {**ANSWER, "prefix": True}]}, 0, None),
        ("mistral", {"messages": [*chat["messages"], {**CALLED, "tool_calls": [{**CALLED["tool_calls"][0], "id": "call_1"}]}, {**ANSWERED, "tool_call_id": "call_1"}]}, 400, "Tool call id was call_1"),
    ]  # fmt: skip
    for provider, fields, status, said in rows:
        body = {**chat, **fields}
        if not status:
            judge("openai_chat", body, provider)
            continue
        with pytest.raises(MalformedRequest) as refused:
            judge("openai_chat", body, provider)
        answer = get_wire("openai_chat").invalid_request(refused.value)
        assert answer.status == status, provider
        assert answer.body == said if isinstance(said, dict) else str(said) in str(refused.value)
    with pytest.raises(ConfigurationError, match="'nobody' is not known"):
        Emulator(dress="nobody")


def test_each_preset_of_chat_completions_has_rules() -> None:
    names = {name for name, preset in PRESETS.items() if preset.wire == "openai_chat"}
    assert names <= DRESSES.keys()


def test_a_refused_schema_is_named_as_by_openai() -> None:
    rows: list[tuple[str, Json, tuple[str, str | None]]] = [
        ("openai_chat", schema_tool(opened(a=WORD)), ("tools[0].function.parameters", "invalid_function_parameters")),
        ("openai_chat", chat_output(opened(a=WORD)), ("response_format", None)),
        ("openai_responses", flat_schema_tool(opened(a=WORD)), ("tools[0].parameters", "invalid_function_parameters")),
        ("openai_responses", responses_output(opened(a=WORD)), ("text.format.schema", "invalid_json_schema")),
        ("openai_responses", responses_output(closed(a=EMAIL)), ("text.format.schema", "invalid_json_schema")),
    ]  # fmt: skip
    for wire, fields, named in rows:
        with pytest.raises(MalformedRequest) as refused:
            judge(wire, {**PLAIN[wire], **fields})
        assert (refused.value.param, refused.value.code) == named


def test_an_emulator_that_is_not_strict_judges_the_history_only() -> None:
    for strict in (True, False):
        with Emulator(strict=strict) as emulator:
            for wire in REFUSED:
                url = emulator.origin + PATHS[wire]
                fields = {"nonsense": 1, "tools": [chat_tool("bad name!")]}
                status = send(url, {**PLAIN[wire], **fields})
                assert status == (400 if strict else 200), wire
            assert send(emulator.base_url + "/chat/completions", {"model": "m"}) == 400
        assert [bool(entry.problem) for entry in emulator.requests] == [strict] * 4 + [True]


def send(url: str, body: Json) -> int:
    headers = {"anthropic-version": "2023-06-01"}
    return httpx.post(url, json=body, headers=headers).status_code


def field_names(params: Any) -> set[str]:
    return set(typing.get_type_hints(params)) - {"betas"}


def camel_case(names: typing.Iterable[str]) -> set[str]:
    return {head + "".join(map(str.title, rest)) for head, *rest in (n.split("_") for n in names)}


def known_names(rule: FieldRule | None) -> set[str]:
    assert rule is not None
    assert rule.fields is not None
    return set(rule.fields)


def test_the_known_fields_are_those_of_the_vendors_sdks() -> None:
    chat = known_names(DRESSES["openai"].make_rule())
    assert chat == field_names(chat_params.CompletionCreateParamsNonStreaming)
    responses = field_names(responses_params.ResponseCreateParamsNonStreaming)
    assert known_names(RESPONSES) == responses
    # The SDK no longer names the fields that only older models take.
    older = {"temperature", "top_k", "top_p"}
    named = field_names(anthropic_params.MessageCreateParamsNonStreaming)
    assert set(ANTHROPIC) == named | older
    beta = field_names(anthropic_beta.MessageCreateParamsNonStreaming)
    assert {*ANTHROPIC, *ANTHROPIC_BETA} == beta | older | {"output_format"}
    fields = GEMINI.fields or {}
    config = known_names(fields["generationConfig"])
    assert camel_case(google_types.GenerationConfig.model_fields) <= config | {"modelConfig"}
    tool = fields["tools"].items
    assert camel_case(google_types.Tool.model_fields) <= known_names(tool)
    contents = fields["contents"].items
    assert camel_case(google_types.Content.model_fields) == known_names(contents)
    parts = ((contents and contents.fields) or {})["parts"].items
    assert camel_case(google_types.Part.model_fields) == known_names(parts)


RECORDED = {
    "openai_chat": "openai_chat",
    "openai_responses": "openai_responses",
    "anthropic_messages": "anthropic",
    "gemini": "gemini",
}
OTHER_SERVERS = {
    "67ee4db87b8c91fa",  # vLLM's server of the Responses wire
}


def find_refusal(wire: str, request: EmulatedRequest, rules: Dress) -> str:
    """The words of the refusal, or nothing."""
    try:
        CHECKS[wire](request, rules)
    except MalformedRequest as error:
        return str(error)
    return ""


def test_recorded_requests_are_taken_or_refused_as_they_were() -> None:
    counts: Counter[str] = Counter()
    for dialect, wire in RECORDED.items():
        for row in rows(dialect):
            request: Any = row.request or {}
            body, provider = request.get("body"), row.provider
            if not isinstance(body, dict) or row.id in OTHER_SERVERS:
                continue
            if wire == "openai_chat" and provider not in DRESSES:
                continue
            if wire != "openai_chat" and provider not in ("openai", "anthropic", "google"):
                continue
            judged = EmulatedRequest(
                body=body,
                model=str(body.get("model") or request.get("url")),
                headers={"anthropic-beta": "any"},
            )
            rules = DRESSES.get(provider, DRESSES["openai"])
            refusal = find_refusal(wire, judged, rules)
            counts["refused" if refusal else provider] += 1
            if refusal.startswith("Tool call id was call_REDACTED"):
                continue  # the recorder wrote another id
            assert not refusal or row.status in (400, 422), f"{row.id} of {provider}: {refusal}"
            if refusal and provider in ("openai", "anthropic"):
                assert msgspec.json.encode(refusal).strip(b'"') in row.body, row.id
    print(f"\njudged: {dict(counts.most_common())}")
    assert counts["refused"] > 5
    assert counts.total() > 2000


TRIP = OutputSchema("Trip", closed(days=WHOLE))
TOOLS = (
    ToolSpec("weather", "The weather.", closed(city=WORD)),
    ToolSpec("time", "", {"type": "object"}, strict=True),
)
ASKED = ToolCall("call_1", "weather", '{"city":"Porto"}')
HISTORIES: list[list[Message]] = [
    [user("Hi")],
    [user("Hi"), assistant("Yes?"), user("More.")],
    [
        user("Hi"),
        Message("assistant", (Reasoning("Hm."), Text("I look."), ASKED)),
        Message("tool", (ToolResult("call_1", "weather", (Text("Sunny"),)),)),
    ],
    [
        Message("system", (Text("Be brief."),)),
        Message("user", (Text("This?"), Media("image/png", data=b"x"))),
        Message("assistant", (Refusal("No."),)),
        user("Why?"),
    ],
]
OTHERS = ("openai-responses", "anthropic", "gemini")
# A deployment of Azure has a name of its own, which does not show whether its model reasons.
SPOKEN = [
    *(name for name in DRESSES if name in PRESETS and name != "azure"),
    *OTHERS,
]


@st.composite
def model_requests(draw: st.DrawFn, wire: str, hint: str) -> ModelRequest:
    models = [model for model in MODELS[wire] if model != "other"]
    chosen = [name for name in VALUES if name != "extra" and draw(st.integers(0, 3)) == 0]
    given_settings: Any = {name: draw(st.sampled_from(VALUES[name])) for name in chosen}
    return ModelRequest(
        model=draw(st.sampled_from(models if wire != "openai_chat" else [*models, hint])),
        messages=draw(st.sampled_from(HISTORIES)),
        instructions=draw(st.sampled_from(["", "Be brief."])),
        tools=TOOLS[: draw(st.integers(0, 2))],
        output=draw(st.sampled_from([None, TRIP])),
        settings=ModelSettings(**given_settings),
        stream=draw(st.booleans()),
    )


@given(st.sampled_from(SPOKEN), st.data())
def test_requests_of_our_own_encoders_are_taken(name: str, data: st.DataObject) -> None:
    preset = PRESETS[name]
    codec: Any = CODECS[preset.wire](preset.profile)
    request = data.draw(model_requests(preset.wire, preset.models_hint))
    try:
        encoded = codec.encode(request)
    except ConfigurationError:
        return
    rules = name if preset.wire == "openai_chat" else "openai"
    judge(preset.wire, encoded.body, rules, dict(encoded.headers))


FIELDS = [
    "allowed_tools",
    "cache_control",
    "content",
    "function",
    "functionCallingConfig",
    "functionDeclarations",
    "input_schema",
    "mode",
    "name",
    "role",
    "tools",
    "type",
]


@given(
    st.sampled_from(sorted(PATHS)),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(FIELDS),
                inner,
                max_size=4,
            )
        ),
        max_leaves=10,
    ),
    st.sampled_from(
        ["tools", "tool_choice", "toolConfig", "messages", "input", "contents", "system"]
    ),
)
def test_any_request_is_taken_or_refused(wire: str, value: object, name: str) -> None:
    body = {**PLAIN[wire], name: value}
    try:
        judge(wire, body)
    except MalformedRequest:
        return
