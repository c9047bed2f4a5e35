"""The schemas of a request: which are strict, which limits they share, and how long they are remembered."""

from __future__ import annotations

import gc
import json
from typing import Any

import pytest

from holdfast.codecs.anthropic.codec import AnthropicCodec
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.gemini.codec import Gemini
from holdfast.codecs.openai_chat.codec import OpenAIChat
from holdfast.codecs.openai_responses.codec import ResponsesCodec
from holdfast.codecs.schemas import request_schemas
from holdfast.codecs.schemas.dialects import OPENAI_STRICT
from holdfast.codecs.schemas.request_schemas import convert_once
from holdfast.codecs.wire import Codec
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import user
from holdfast.core.model_request import ModelRequest, OutputSchema, ToolSpec

Json = dict[str, Any]

CLOSED: Json = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
OPTIONAL: Json = {**CLOSED, "required": []}
FREE: Json = {"type": "object", "properties": {"a": {"type": "object", "additionalProperties": {}}}}
OFFICIAL = EndpointProfile(strict_tools=True)


def encode(codec: Codec, model: str = "m", **more: Any) -> Json:
    request = ModelRequest(model=model, messages=[user("Hi")], **more)
    made: Json = json.loads(codec.encode(request).body)
    return made


def find_strict(codec: Codec, schema: Json, strict: bool | None) -> object:
    """The field `strict` of a tool as it is sent, or the name of the argument that is refused."""
    try:
        tool = encode(codec, tools=(ToolSpec("find", "", schema, strict),))["tools"][0]
    except ConfigurationError as error:
        return error.argument
    return {**tool, **tool.get("function", {})}.get("strict")


def test_a_tool_is_strict_where_that_changes_nothing_or_if_it_must_be() -> None:
    table = (
        (OpenAIChat(OFFICIAL), CLOSED, None, True),
        (OpenAIChat(OFFICIAL), OPTIONAL, None, None),
        (OpenAIChat(OFFICIAL), FREE, None, None),
        (OpenAIChat(OFFICIAL), CLOSED, False, None),
        (OpenAIChat(OFFICIAL), OPTIONAL, True, True),
        (OpenAIChat(), CLOSED, None, None),
        (OpenAIChat(), CLOSED, True, True),
        # Without the field, this wire is strict.
        (ResponsesCodec(OFFICIAL), CLOSED, None, True),
        (ResponsesCodec(OFFICIAL), OPTIONAL, None, False),
        (ResponsesCodec(OFFICIAL), CLOSED, False, False),
        (ResponsesCodec(), CLOSED, None, False),
        (AnthropicCodec(), CLOSED, None, None),
        (AnthropicCodec(), CLOSED, True, True),
        (AnthropicCodec(), OPTIONAL, True, True),
    )
    found = [find_strict(codec, schema, strict) for codec, schema, strict, _ in table]
    assert found == [wanted for *_, wanted in table]


def test_a_strict_tool_whose_schema_is_refused_names_the_place() -> None:
    for codec in (OpenAIChat(), ResponsesCodec(), AnthropicCodec()):
        refused = find_strict(codec, FREE, True)
        assert str(refused).startswith("tools.find.schema/properties/a")


def test_a_strict_tool_is_in_the_dialect_of_the_tools_of_its_endpoint() -> None:
    recursive = {**CLOSED, "properties": {"city": {"$ref": "#"}}, "required": []}
    assert find_strict(OpenAIChat(), recursive, True) is True
    xai = OpenAIChat(EndpointProfile(output_dialect="xai", tool_dialect="xai"))
    for strict in (True, None):
        assert str(find_strict(xai, recursive, strict)).startswith("tools.find.schema")
    assert (
        encode(xai, tools=(ToolSpec("find", "", OPTIONAL, True),))["tools"][0]["function"][
            "parameters"
        ]
        == OPTIONAL
    )


def test_a_strict_tool_that_lacks_a_property_comes_back_without_its_null() -> None:
    request = ModelRequest(
        model="m", messages=[user("Hi")], tools=(ToolSpec("find", "", OPTIONAL, strict=True),)
    )
    rewritings = OpenAIChat().encode(request).rewritings
    assert rewritings is not None
    assert rewritings.tools["find"].optional == {"city"}
    assert OpenAIChat().encode(request).rewritings is not None
    plain = ModelRequest(model="m", messages=[user("Hi")], tools=(ToolSpec("f", "", CLOSED),))
    for codec in (OpenAIChat(OFFICIAL), ResponsesCodec(), AnthropicCodec(), Gemini()):
        assert codec.encode(plain).rewritings is None


def test_limits_of_anthropic_count_strict_tools_and_the_output_together() -> None:
    half: Json = {"type": "object", "properties": {str(n): {"type": "null"} for n in range(13)}}
    output = OutputSchema("Half", half, mode="native")
    tools = (ToolSpec("a", "", half, strict=True),)
    model = "claude-sonnet-4-5"
    assert encode(AnthropicCodec(), model, output=output)["output_config"]
    assert encode(AnthropicCodec(), model, tools=tools)["tools"]
    with pytest.raises(ConfigurationError, match="26 optional properties"):
        encode(AnthropicCodec(), model, tools=tools, output=output)
    loose = (ToolSpec("a", "", half),)
    assert encode(AnthropicCodec(), model, tools=loose, output=output)["output_config"]


def test_a_conversion_is_made_once_and_forgotten_with_its_tool() -> None:
    schema = dict(CLOSED)
    tool = ToolSpec("find", "", schema)
    number = id(schema)
    first = convert_once(tool, schema, OPENAI_STRICT)
    assert convert_once(tool, schema, OPENAI_STRICT) is first
    assert number in request_schemas._known
    del tool
    gc.collect()
    assert number not in request_schemas._known


def test_a_schema_is_as_the_encoder_expects_it() -> None:
    for codec in (OpenAIChat(), ResponsesCodec(), AnthropicCodec()):
        for schema in ({}, {"properties": {}}):
            tool = encode(codec, tools=(ToolSpec("now", "", schema),))["tools"][0]
            tool = {**tool, **tool.get("function", {})}
            sent = tool.get("parameters") or tool.get("input_schema")
            assert sent == {"type": "object", "properties": {}}
        with pytest.raises(ConfigurationError) as caught:
            encode(codec, tools=(ToolSpec("now", "", {"properties": {"a": object()}}),))
        assert caught.value.argument == "tools.now.schema"
