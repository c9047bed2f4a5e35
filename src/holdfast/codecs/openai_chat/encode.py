"""Encodes a request as the body of `chat/completions`.

The head is everything but the history; it is the same for each iteration of a run and is cached, as
are the bytes of earlier messages. For a setting that this wire cannot express, this module raises
`ConfigurationError` with the field's name before anything is sent. It never ignores a setting
silently.
"""

from __future__ import annotations

from typing import TypeAlias

from holdfast.codecs.openai_chat.history import HistoryEncoder
from holdfast.codecs.openai_chat.role_order import alternate_roles
from holdfast.codecs.openai_chat.vocabulary import WIRE
from holdfast.codecs.output_schema import is_object_schema, schema_instruction, to_strict_schema
from holdfast.codecs.pairing import check_tail_pairs
from holdfast.codecs.request_body import (
    HeadCache,
    cache_fields,
    check_no_hosted_tools,
    check_tools,
    count_encoded,
    encode_history,
    merge_extra,
    to_json,
)
from holdfast.codecs.stitching import refuse_prefill
from holdfast.codecs.tool_names import check_tool_name
from holdfast.codecs.wire import EncodedRequest, Quirks
from holdfast.core.errors import ConfigurationError
from holdfast.core.model_request import ModelRequest, ModelSettings, OutputSchema, ToolSpec

_Object: TypeAlias = dict[str, object]


_TOOL_CHOICES = frozenset({"auto", "none", "required"})
_RESERVED = ("messages", "stream")
_HEADERS = (("content-type", "application/json"),)
_CONTINUE_END = b'],"continue_final_message":true,"add_generation_prompt":false}'


class ChatEncoder:
    """Encodes requests for one provider, with the encoded heads of the last few."""

    __slots__ = ("_heads", "_history", "_quirks")

    def __init__(self, quirks: Quirks, heads: HeadCache) -> None:
        self._quirks = quirks
        self._history = HistoryEncoder(quirks)
        self._heads = heads

    def encode(self, request: ModelRequest) -> EncodedRequest:
        """Encode a request as path and body.

        Raises:
            ConfigurationError: this wire cannot express a field, or the history is invalid.
        """
        messages = request.messages
        if not messages:
            raise ConfigurationError(
                "messages", "is empty", fix="add a user message to the history"
            )
        form = self._history.form
        known_count = count_encoded(messages, form.key)
        if self._quirks.alternating_roles:
            messages = alternate_roles(messages, known_count)
        head = self._heads.get(request, (), lambda: self._encode_head(request))
        check_tail_pairs(messages, known_count)
        tail = self._encode_tail(request) if request.prefill else b"]}"
        body = encode_history(messages, form, head, tail)
        return EncodedRequest("chat/completions", body, _HEADERS)

    def _encode_tail(self, request: ModelRequest) -> bytes:
        """Return what follows the history if a reply is continued: its beginning, in the provider's form."""
        method = self._quirks.prefill
        if not method:
            refuse_prefill(request, "this provider")
        beginning: _Object = {"role": "assistant", "content": request.prefill}
        if method in ("prefix", "prefix_echo"):
            beginning["prefix"] = True
        end = _CONTINUE_END if method == "final_message" else b"]}"
        return b"," + to_json("prefill", beginning) + end

    def _encode_head(self, request: ModelRequest) -> bytes:
        quirks, output = self._quirks, request.output
        instructions = request.instructions
        check_no_hosted_tools(request, "Chat Completions")
        body: _Object = {"model": request.model}
        if request.stream:
            body["stream"] = True
            if quirks.stream_usage:
                body["stream_options"] = {"include_usage": True}
        body.update(_encode_tools(request.tools, request.settings))
        body.update(self._encode_settings(request.settings))
        if output is not None:
            if response_format := _response_format(output, quirks):
                body["response_format"] = response_format
            if response_format.get("type") != "json_schema":
                instructions = f"{instructions}\n\n{schema_instruction(output.schema)}".lstrip()
        merge_extra(body, request.settings.extra, _RESERVED)
        encoded = to_json("settings.extra", body)[:-1] + b',"messages":['
        if instructions:
            first = {"role": quirks.system_role, "content": instructions}
            encoded += to_json("instructions", first) + b","
        return encoded

    def _encode_settings(self, settings: ModelSettings) -> _Object:
        quirks = self._quirks
        fields = {
            quirks.max_tokens_field: settings.max_tokens,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "stop": list(settings.stop) or None,
            quirks.seed_field: settings.seed,
        }
        body: _Object = {name: value for name, value in fields.items() if value is not None}
        return {**body, **_reasoning_fields(settings, quirks), **_cache_fields(settings, quirks)}


def _reasoning_fields(settings: ModelSettings, quirks: Quirks) -> _Object:
    effort, budget, shown = (
        settings.reasoning_effort,
        settings.reasoning_tokens,
        settings.reasoning_summary,
    )
    if quirks.reasoning == "object":
        exclude = None if shown is None else not shown
        thinking = {"effort": effort, "max_tokens": budget, "exclude": exclude}
        given = {name: value for name, value in thinking.items() if value is not None}
        return {"reasoning": given} if given else {}
    if budget is not None:
        raise ConfigurationError(
            "settings.reasoning_tokens",
            "this provider's Chat Completions wire has no thinking budget",
            fix="set reasoning_effort",
        )
    if shown is not None:
        raise ConfigurationError(
            "settings.reasoning_summary",
            "this provider's Chat Completions wire cannot choose whether reasoning is shown",
            fix="leave it unset",
        )
    if effort is None:
        return {}
    if quirks.reasoning == "thinking":
        if effort == "none":
            return {"thinking": {"type": "disabled"}}
        return {"thinking": {"type": "enabled"}, "reasoning_effort": effort}
    return {"reasoning_effort": effort}


def _cache_fields(settings: ModelSettings, quirks: Quirks) -> _Object:
    if quirks.cache == "key":
        return cache_fields(settings)
    if settings.cache_key is not None:
        raise ConfigurationError(
            "settings.cache_key",
            "this provider's Chat Completions wire has no cache key",
            fix="leave it unset",
        )
    timed = isinstance(settings.cache, str)
    if quirks.cache == "control" and settings.cache and settings.cache != "24h":
        return {
            "cache_control": {"type": "ephemeral", **({"ttl": settings.cache} if timed else {})}
        }
    if timed:
        wanted = "True, '5m' or '1h'" if quirks.cache == "control" else "True"
        raise ConfigurationError(
            "settings.cache",
            f"this provider's Chat Completions wire cannot keep a prefix for {settings.cache!r}",
            fix=f"use {wanted}",
        )
    return {}


def _encode_tools(tools: tuple[ToolSpec, ...], settings: ModelSettings) -> _Object:
    choice = settings.tool_choice
    check_tools(tools, choice)
    if not tools:
        if choice not in (None, "auto", "none"):
            raise ConfigurationError("settings.tool_choice", f"{choice!r} needs tools")
        # The server rejects both settings if there are no tools.
        return {}
    body: _Object = {"tools": [_encode_tool(tool) for tool in tools]}
    if choice is not None:
        one_tool = {"type": "function", "function": {"name": choice}}
        body["tool_choice"] = choice if choice in _TOOL_CHOICES else one_tool
    if settings.parallel_tool_calls is not None:
        body["parallel_tool_calls"] = settings.parallel_tool_calls
    return body


def _encode_tool(tool: ToolSpec) -> _Object:
    check_tool_name("tools", tool.name, WIRE)
    to_json(f"tools.{tool.name}.schema", tool.schema)
    function: _Object = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = tool.schema or {"type": "object", "properties": {}}
    return {"type": "function", "function": function}


def _response_format(output: OutputSchema, quirks: Quirks) -> _Object:
    """Return the `response_format` field; empty if the wire does not accept the schema."""
    check_tool_name("output.name", output.name, WIRE)
    to_json("output.schema", output.schema)
    if not is_object_schema(output.schema):
        return {}
    if quirks.response_format != "json_schema" and output.mode != "native":
        return {"type": quirks.response_format}
    if output.mode == "prompt":
        return {}
    strict = to_strict_schema(output.schema) if output.strict else None
    described: _Object = {"name": output.name, "schema": strict or output.schema}
    described["strict"] = strict is not None
    return {"type": "json_schema", "json_schema": described}
