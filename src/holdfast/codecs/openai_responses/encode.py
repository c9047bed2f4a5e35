"""Encodes a request as the body of OpenAI's `responses`, without server-side state.

`store` is false and the reasoning is encrypted and sent back, so a run can continue on any machine
and the server stores nothing. To use server-side state, set `store` in `settings.extra`. `seed` has
no field on this wire and is ignored. The server caches by itself; `cache` and `cache_key` say how
long and where. For anything else that the wire cannot express, this module raises
`ConfigurationError` with the field's name before anything is sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from holdfast.codecs.endpoint_profile import EndpointProfile, choose_parallel_calls
from holdfast.codecs.openai_responses.history import (
    is_custom_call,
    make_message_encoder,
)
from holdfast.codecs.openai_responses.hosted import (
    encode_hosted_tools,
    group_deferred,
    include_names,
)
from holdfast.codecs.openai_responses.vocabulary import WIRE
from holdfast.codecs.output_mode import format_schema_instruction
from holdfast.codecs.pairing import check_new_pairs, replace_unsafe_ids
from holdfast.codecs.request_body import (
    HeadCache,
    HeadParts,
    cache_fields,
    check_tools,
    count_encoded,
    encode_history,
    find_deferred,
    merge_extra,
    to_json,
)
from holdfast.codecs.schemas.request_schemas import (
    EndpointDialects,
    SentSchema,
    convert_request,
    is_object_schema,
    sends_natively,
)
from holdfast.codecs.tool_names import check_tool_name
from holdfast.codecs.wire import EncodedRequest
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Message, ToolCall
from holdfast.core.model_request import ModelRequest, ModelSettings, OutputSchema, ToolSpec
from holdfast.core.transcript import Form

_Object = dict[str, object]


_LONGEST_ID = 64
_STATE_FIELDS = frozenset({"previous_response_id", "conversation"})
_TOOL_CHOICES = frozenset({"auto", "none", "required"})
_HEADERS = (("content-type", "application/json"),)
# These models do not reason, and the server rejects the field for them.
_WITHOUT_REASONING = re.compile(r"(?:^|[/.])(?:gpt-3|gpt-4|chatgpt-)|-chat-latest")
_VERSION = re.compile(r"(?:^|[/.])gpt-(\d{1,2})(?:\.(\d{1,2}))?(?![\w.])(?!.*nano)")
_TOOL_SEARCH_SINCE = (5, 4)
ENCRYPTED = "reasoning.encrypted_content"
"""The value of `include` that makes the server send encrypted reasoning."""


def encode_request(
    request: ModelRequest, heads: HeadCache, profile: EndpointProfile, dialects: EndpointDialects
) -> EncodedRequest:
    """Encode a request as path, headers and body.

    Raises:
        ConfigurationError: this wire cannot express a field, or a call and its result do not match.
    """
    deferred = find_deferred(request.tools)
    if deferred:
        request = _load_called_tools(request, deferred)
    head = heads.get(request, (), lambda: _encode_head(request, profile, dialects))
    body = _append_history(head.encoded + b',"input":[', request, profile)
    return EncodedRequest("/responses", body, _HEADERS, head.rewritings)


def supports_tool_search(model: str) -> bool:
    """Whether the server searches deferred tools for this model: GPT from 5.4 on, without the smallest ones.

    >>> [supports_tool_search(model) for model in ("gpt-5.4", "gpt-5.4-mini", "gpt-6-astra", "gpt-5.2")]
    [True, True, True, False]
    """
    match = _VERSION.search(model)
    return match is not None and (int(match[1]), int(match[2] or 0)) >= _TOOL_SEARCH_SINCE


def _append_history(head: bytes, request: ModelRequest, profile: EndpointProfile) -> bytes:
    messages: Sequence[Message] = request.messages
    extra = request.settings.extra or {}
    stored = bool(extra.get("store"))
    on_server = not _STATE_FIELDS.isdisjoint(extra)
    searches = "tools" in extra or bool(find_deferred(request.tools))
    key = f"{WIRE}|{profile.system_role}|{stored}|{on_server}|{searches}"
    encoded_count = count_encoded(messages, key)
    # If the server stores a part of the history, the rest cannot be checked here.
    plain = on_server or check_new_pairs(messages, encoded_count, _accepts_id)
    custom: frozenset[str] = frozenset()
    if not plain or any(map(is_custom_call, _all_calls(messages[encoded_count:]))):
        # Results of custom calls have another form, so these messages are always encoded together.
        messages = list(messages) if plain else replace_unsafe_ids(messages, _accepts_id)
        custom = frozenset(call.id for call in _all_calls(messages) if is_custom_call(call))
    encode = make_message_encoder(
        profile.system_role, stored=stored, custom=custom, searches=searches
    )
    return encode_history(messages, Form(key, encode), head, b"]}")


def _load_called_tools(request: ModelRequest, deferred: frozenset[str]) -> ModelRequest:
    """Return the request in which the model sees each tool that the history calls without a namespace.

    Such a call is of another model or of code, or of a time when the tool was not deferred. The server refuses a call
    that names no namespace if its tool is in one.
    """
    called = {
        call.name
        for call in _all_calls(request.messages)
        if call.name in deferred and not _has_namespace(call)
    }
    if not called:
        return request
    tools = [
        msgspec.structs.replace(tool, deferred_group=None) if tool.name in called else tool
        for tool in request.tools
    ]
    # Those that are deferred come last.
    tools.sort(key=lambda tool: tool.deferred_group is not None)
    return msgspec.structs.replace(request, tools=tuple(tools))


def _has_namespace(call: ToolCall) -> bool:
    return call.wire == WIRE and call.extra is not None and bool(call.extra.get("namespace"))


def _all_calls(messages: Iterable[Message]) -> Iterator[ToolCall]:
    return (call for message in messages for call in message.calls)


def _accepts_id(call: ToolCall) -> bool:
    """Whether the id can be sent; servers of this wire other than OpenAI's also make longer ones."""
    return 0 < len(call.id) <= _LONGEST_ID


def _encode_head(
    request: ModelRequest, profile: EndpointProfile, dialects: EndpointDialects
) -> HeadParts:
    settings = request.settings
    output = request.output
    if output is not None:
        check_tool_name("output.name", output.name, WIRE)
    # The server accepts only an object at the top level.
    is_native = (
        output is not None and is_object_schema(output.schema) and sends_natively(request, dialects)
    )
    schemas = convert_request(request, dialects, is_native=is_native)
    body: _Object = {"model": request.model, "store": False}
    if request.stream:
        body["stream"] = True
    if not _WITHOUT_REASONING.search(request.model):
        body["include"] = [ENCRYPTED]
    instructions = request.instructions
    text: _Object = {}
    if output is not None and schemas.output is not None:
        text["format"] = _text_format(output, schemas.output)
    elif output is not None:
        instructions = f"{instructions}\n\n{format_schema_instruction(output.schema)}".lstrip()
    if settings.verbosity is not None:
        text["verbosity"] = settings.verbosity
    if text:
        body["text"] = text
    if instructions:
        body["instructions"] = instructions
    body.update(_encode_tools(request, schemas.tools, profile))
    if include := include_names(request.hosted_tools):
        given = body.get("include")
        body["include"] = [*(given if isinstance(given, list) else ()), *include]
    body.update(_sampling_fields(settings))
    merge_extra(body, settings.extra, ("model", "input", "stream"))
    return to_json("settings.extra", body)[:-1], schemas.rewritings


def _encode_tools(
    request: ModelRequest, schemas: tuple[SentSchema, ...], profile: EndpointProfile
) -> _Object:
    tools, hosted, settings = request.tools, request.hosted_tools, request.settings
    choice = settings.tool_choice
    check_tools(tools, choice, settings.extra)
    if not (tools or hosted) and "tools" not in (settings.extra or {}):
        if choice == "required":
            raise ConfigurationError("settings.tool_choice", "'required' needs tools")
        return {}
    encoded = group_deferred(tools, list(map(_encode_tool, tools, schemas)))
    body: _Object = {"tools": encoded + encode_hosted_tools(hosted)}
    if choice is not None:
        one_tool = {"type": "function", "name": choice}
        body["tool_choice"] = choice if choice in _TOOL_CHOICES else one_tool
    if (parallel := choose_parallel_calls(settings, profile)) is not None:
        body["parallel_tool_calls"] = parallel
    return body


def _encode_tool(tool: ToolSpec, sent: SentSchema) -> _Object:
    check_tool_name("tools", tool.name, WIRE)
    # Without this field, the server treats the schema as strict, which requires every property.
    entry: _Object = {"type": "function", "name": tool.name, "strict": sent.strict}
    if tool.description:
        entry["description"] = tool.description
    return {**entry, "parameters": {"type": "object", "properties": {}, **sent.schema}}


def _sampling_fields(settings: ModelSettings) -> _Object:
    if settings.stop:
        raise ConfigurationError(
            "settings.stop",
            "the Responses wire has no stop sequences",
            fix="leave it empty, or use Chat Completions",
        )
    fields = {
        "max_output_tokens": settings.max_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "reasoning": _reasoning_fields(settings) or None,
        **cache_fields(settings),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _reasoning_fields(settings: ModelSettings) -> _Object:
    if settings.reasoning_tokens is not None:
        raise ConfigurationError(
            "settings.reasoning_tokens",
            "the Responses wire has no thinking budget",
            fix="set reasoning_effort",
        )
    # Without this field, the server shows nothing of the reasoning.
    fields = {
        "effort": settings.reasoning_effort,
        "summary": "auto" if settings.reasoning_summary else None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _text_format(output: OutputSchema, sent: SentSchema) -> _Object:
    named: _Object = {"type": "json_schema", "name": output.name}
    return {**named, "schema": sent.schema, "strict": sent.strict}
