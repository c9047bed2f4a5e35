"""Encodes a request as the body of `chat/completions`.

The head is everything but the history; it is the same for each iteration of a run and is cached, as
are the bytes of earlier messages. For a setting that this wire cannot express, this module raises
`ConfigurationError` with the field's name before anything is sent. It never ignores a setting
silently.

Some providers and chat templates require that user and assistant messages alternate, and that an
assistant message follows the results of tools. A turn that failed leaves a user message or results
of tools without an answer, and the next user message follows directly. For such providers the order
of the sent messages changes, and never a message of the history. Source: Mistral's API answers such a
request with status 400, `invalid_request_message_order`; the chat templates of Mistral and Gemma
models raise "Conversation roles must alternate".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from holdfast.codecs.endpoint_profile import (
    EndpointProfile,
    choose_parallel_calls,
    find_endpoint_dialects,
)
from holdfast.codecs.openai_chat.history import HistoryEncoder
from holdfast.codecs.openai_chat.vocabulary import WIRE
from holdfast.codecs.output_mode import format_schema_instruction
from holdfast.codecs.pairing import arrange_results, check_tail_pairs
from holdfast.codecs.request_body import (
    GO_ON,
    HeadCache,
    HeadParts,
    cache_fields,
    check_no_deferred_tools,
    check_no_hosted_tools,
    check_tools,
    count_encoded,
    encode_history,
    merge_extra,
    to_json,
)
from holdfast.codecs.schemas.request_schemas import (
    SentSchema,
    convert_request,
    is_object_schema,
    sends_natively,
)
from holdfast.codecs.stitching import refuse_prefill
from holdfast.codecs.tool_names import check_tool_name
from holdfast.codecs.wire import EncodedRequest
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Message, Part, Text, assistant
from holdfast.core.model_request import ModelRequest, ModelSettings, OutputSchema, ToolSpec

_Object: TypeAlias = dict[str, object]
_TOOL_CHOICES = frozenset({"auto", "none", "required"})
_RESERVED = ("messages", "stream")
_MARKED = ("prefix", "prefix_echo")
_HEADERS = (("content-type", "application/json"),)
_CONTINUE_END = b'],"continue_final_message":true,"add_generation_prompt":false}'

NO_ANSWER = assistant("(No answer was given.)")
"""The text that is sent between the results of tools and a user message."""


class ChatEncoder:
    """Encodes requests for one provider, with the encoded heads of the last few."""

    __slots__ = ("_dialects", "_heads", "_history", "_profile")

    def __init__(self, profile: EndpointProfile, heads: HeadCache) -> None:
        self._profile = profile
        self._dialects = find_endpoint_dialects(WIRE, profile)
        self._history = HistoryEncoder(profile)
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
        unknown, _ = check_tail_pairs(messages, known_count)
        messages = arrange_results(messages, unknown)
        if self._profile.system_role == "user":
            messages, known_count = begin_with(self._write_instructions(request), messages), 0
        elif self._profile.alternating_roles:
            messages = alternate_roles(messages, known_count)
        head = self._heads.get(request, (), lambda: self._encode_head(request))
        tail = self._encode_tail(request, messages)
        body = encode_history(messages, form, head.encoded, tail, given=request.messages)
        return EncodedRequest("chat/completions", body, _HEADERS, head.rewritings)

    def _encode_tail(self, request: ModelRequest, messages: Sequence[Message]) -> bytes:
        """Return the bytes after the history: the beginning of a reply that is continued, in the provider's form."""
        method = self._profile.prefill
        if not request.prefill:
            if method in _MARKED and messages[-1].role == "assistant":
                # A reply at the end, such as one that paused on another wire, is refused without the mark.
                return b"," + self._history.encode(GO_ON) + b"]}"
            return b"]}"
        if not method:
            refuse_prefill(request, "this provider")
        beginning: _Object = {"role": "assistant", "content": request.prefill}
        if method in _MARKED:
            beginning["prefix"] = True
        end = _CONTINUE_END if method == "final_message" else b"]}"
        return b"," + to_json("prefill", beginning) + end

    def _encode_head(self, request: ModelRequest) -> HeadParts:
        profile, output = self._profile, request.output
        check_no_hosted_tools(request, "Chat Completions")
        check_no_deferred_tools(request.tools, "the Chat Completions wire")
        if output is not None:
            check_tool_name("output.name", output.name, WIRE)
        is_native = self._sends_natively(request)
        schemas = convert_request(request, self._dialects, is_native=is_native)
        body: _Object = {"model": request.model}
        if request.stream:
            body["stream"] = True
            if profile.stream_usage:
                body["stream_options"] = {"include_usage": True}
        body.update(_encode_tools(request, schemas.tools, profile))
        body.update(self._encode_settings(request.settings))
        if output is not None:
            if schemas.output is not None:
                body["response_format"] = _response_format(output, schemas.output)
            # A field without a schema takes only objects.
            elif profile.response_format != "json_schema" and is_object_schema(output.schema):
                body["response_format"] = {"type": profile.response_format}
        merge_extra(body, request.settings.extra, _RESERVED)
        encoded = to_json("settings.extra", body)[:-1] + b',"messages":['
        instructions = self._write_instructions(request)
        if instructions and profile.system_role != "user":
            first = {"role": profile.system_role, "content": instructions}
            encoded += to_json("instructions", first) + b","
        return encoded, schemas.rewritings

    def _write_instructions(self, request: ModelRequest) -> str:
        """Return the instructions, with the schema of an output that is not sent in `response_format`."""
        if request.output is None or self._sends_natively(request):
            return request.instructions
        words = format_schema_instruction(request.output.schema)
        return f"{request.instructions}\n\n{words}".lstrip()

    def _sends_natively(self, request: ModelRequest) -> bool:
        """Whether the schema of the output is sent in `response_format`."""
        output = request.output
        if output is None or not is_object_schema(output.schema):
            return False
        if self._profile.response_format != "json_schema" and output.mode != "native":
            return False
        return sends_natively(request, self._dialects)

    def _encode_settings(self, settings: ModelSettings) -> _Object:
        profile = self._profile
        fields = {
            profile.max_tokens_field: settings.max_tokens,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "stop": list(settings.stop) or None,
            profile.seed_field: settings.seed,
            "frequency_penalty": settings.frequency_penalty,
            "presence_penalty": settings.presence_penalty,
            "verbosity": settings.verbosity,
        }
        body: _Object = {name: value for name, value in fields.items() if value is not None}
        return {**body, **_reasoning_fields(settings, profile), **_cache_fields(settings, profile)}


def _reasoning_fields(settings: ModelSettings, profile: EndpointProfile) -> _Object:
    effort, budget, shown = (
        settings.reasoning_effort,
        settings.reasoning_tokens,
        settings.reasoning_summary,
    )
    if profile.reasoning == "object":
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
    if profile.reasoning == "thinking":
        if effort == "none":
            return {"thinking": {"type": "disabled"}}
        return {"thinking": {"type": "enabled"}, "reasoning_effort": effort}
    return {"reasoning_effort": effort}


def _cache_fields(settings: ModelSettings, profile: EndpointProfile) -> _Object:
    if profile.cache == "key":
        return cache_fields(settings)
    if settings.cache_key is not None:
        raise ConfigurationError(
            "settings.cache_key",
            "this provider's Chat Completions wire has no cache key",
            fix="leave it unset",
        )
    timed = isinstance(settings.cache, str)
    if profile.cache == "control" and settings.cache and settings.cache != "24h":
        return {
            "cache_control": {"type": "ephemeral", **({"ttl": settings.cache} if timed else {})}
        }
    if timed:
        wanted = "True, '5m' or '1h'" if profile.cache == "control" else "True"
        raise ConfigurationError(
            "settings.cache",
            f"this provider's Chat Completions wire cannot keep a prefix for {settings.cache!r}",
            fix=f"use {wanted}",
        )
    return {}


def _encode_tools(
    request: ModelRequest, schemas: tuple[SentSchema, ...], profile: EndpointProfile
) -> _Object:
    tools, choice = request.tools, request.settings.tool_choice
    check_tools(tools, choice)
    if not tools:
        if choice not in (None, "auto", "none"):
            raise ConfigurationError("settings.tool_choice", f"{choice!r} needs tools")
        # The server rejects both settings if there are no tools.
        return {}
    encoded = list(map(_encode_tool, tools, schemas))
    body: _Object = {"tools": encoded}
    if choice in _TOOL_CHOICES:
        body["tool_choice"] = choice
    elif choice is not None and profile.forces_tools == "required":
        body["tools"] = [
            one for tool, one in zip(tools, encoded, strict=True) if tool.name == choice
        ]
        body["tool_choice"] = "required"
    elif choice is not None:
        body["tool_choice"] = {"type": "function", "function": {"name": choice}}
    if (parallel := choose_parallel_calls(request.settings, profile)) is not None:
        body["parallel_tool_calls"] = parallel
    return body


def _encode_tool(tool: ToolSpec, sent: SentSchema) -> _Object:
    check_tool_name("tools", tool.name, WIRE)
    function: _Object = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = sent.schema
    if sent.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def _response_format(output: OutputSchema, sent: SentSchema) -> _Object:
    described = {"name": output.name, "schema": sent.schema, "strict": sent.strict}
    return {"type": "json_schema", "json_schema": described}


def alternate_roles(messages: Sequence[Message], known_count: int = 0) -> Sequence[Message]:
    r"""Return the messages with alternating roles; the same object if they alternate already.

    Args:
        messages: the history.
        known_count: how many messages, from the first, are known to alternate. They are not read
            again, so that an iteration of a long run stays cheap.

    >>> from holdfast.core.messages import user
    >>> [message.text for message in alternate_roles([user("Hello?"), user("Are you there?")])]
    ['Hello?\n\nAre you there?']
    """
    last = ""
    for message in messages[max(known_count - 1, 0) :]:
        if message.role == "user" and last in ("user", "tool"):
            break
        last = message.role
    else:
        return messages
    ordered: list[Message] = []
    for message in messages:
        last = ordered[-1].role if ordered else ""
        if message.role == "user" and last == "user":
            ordered[-1] = Message("user", _join_parts(ordered[-1].parts, message.parts))
            continue
        if message.role == "user" and last == "tool":
            ordered.append(NO_ANSWER)
        ordered.append(message)
    return ordered


def begin_with(instructions: str, messages: Sequence[Message]) -> Sequence[Message]:
    r"""Return the messages with the instructions, and each system message, in the next user message.

    Source: the chat templates of Gemma models raise "System role not supported", and "Conversation roles must
    alternate" for two user messages.

    >>> from holdfast.core.messages import user
    >>> [message.text for message in begin_with("Be brief.", [user("Hello?")])]
    ['Be brief.\n\nHello?']
    """
    turned = [Message("user", one.parts) if one.role == "system" else one for one in messages]
    first = [Message("user", (Text(instructions),))] if instructions else []
    return alternate_roles([*first, *turned])


def _join_parts(first: tuple[Part, ...], second: tuple[Part, ...]) -> tuple[Part, ...]:
    """Join the parts of two messages; two plain texts become one, since templates expect a string."""
    end, start = first[-1:], second[:1]
    if len(end) == len(start) == 1:
        before, after = end[0], start[0]
        if (
            isinstance(before, Text)
            and isinstance(after, Text)
            and not (before.extra or after.extra)
        ):
            return (*first[:-1], Text(f"{before.text}\n\n{after.text}"), *second[1:])
    return (*first, *second)
