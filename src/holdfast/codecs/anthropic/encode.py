"""Encodes a request as the body of Anthropic's `/v1/messages`.

The named constants are defaults for values that the wire requires and the settings leave open: the output
limit and the budgets of thinking. The version in the model's name decides the differences between
generations of models (thinking by effort or by budget, structured output). `seed` has no field on
this wire and is ignored. For anything else that the wire cannot express, this module raises
`ConfigurationError` with the field's name before anything is sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from holdfast.codecs.anthropic.history import (
    WIRE,
    Deferred,
    begins_calls_unthought,
    encode_blocks,
    encode_message,
    find_abandoned_calls,
    find_waiting_container,
    is_text_alone,
    leave_out_calls,
    make_cached_encoder,
)
from holdfast.codecs.anthropic.hosted import add_tool_search, beta_names, encode_hosted_tools
from holdfast.codecs.output_mode import format_schema_instruction
from holdfast.codecs.pairing import arrange_results, check_new_pairs, find_tail, replace_unsafe_ids
from holdfast.codecs.request_body import (
    GO_ON,
    HeadCache,
    HeadParts,
    check_tools,
    count_encoded,
    digest_names,
    encode_history,
    find_deferred,
    leading_system_texts,
    merge_extra,
    to_json,
)
from holdfast.codecs.schemas.request_schemas import (
    EndpointDialects,
    RequestSchemas,
    SentSchema,
    convert_request,
    sends_natively,
)
from holdfast.codecs.tool_names import check_tool_name
from holdfast.codecs.wire import EncodedRequest
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Message
from holdfast.core.model_request import ModelRequest, ModelSettings, ToolSpec
from holdfast.core.transcript import Form

DEFAULT_MAX_TOKENS = 8192
"""The default output limit in tokens: the highest that all models since 3.5 accept."""

LEAST_BUDGET = 1024
"""The smallest thinking budget that the server accepts, in tokens."""

_BUDGETS = {"minimal": LEAST_BUDGET, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 32000}
_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "max"}
_ADAPTIVE_SINCE = (4, 6)
_XHIGH_SINCE = (4, 7)
_SCHEMAS_SINCE = (4, 1)
_PREFILL_BEFORE = (4, 6)
_TOOL_SEARCH_SINCE = (4, 5)
_ONE_SAMPLING_SINCE = (4, 5)
_VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}
_HEADERS = (("content-type", "application/json"), ("anthropic-version", "2023-06-01"))
_Object = dict[str, object]

_encode_unsearched = partial(encode_message, deferred=frozenset[str]())


def encode_request(
    request: ModelRequest, heads: HeadCache, dialects: EndpointDialects
) -> EncodedRequest:
    """Encode a request as path, headers and body.

    Raises:
        ConfigurationError: this wire cannot express a field, or a call and its result do not match.
    """
    system = leading_system_texts(request.messages)
    key, deferred = f"{WIRE}|{len(system)}", _find_searched(request)
    encode: Callable[[Message], bytes] = _encode_unsearched
    if deferred is None:
        key, encode = f"{key}|any", encode_message
    elif deferred:
        key, encode = f"{key}|{digest_names(deferred)}", partial(encode_message, deferred=deferred)
    messages = _arrange_messages(request.messages, key)
    if _has_budget(request.model, request.settings) and begins_calls_unthought(messages):
        request = _stop_thinking(request)
    head = heads.get(request, system, lambda: _encode_head(request, system, dialects))
    beginning = head.encoded
    container = find_waiting_container(request.messages)
    if container and "container" not in (request.settings.extra or {}):
        beginning += b',"container":' + to_json("messages", container)
    mark = _cache_mark(request.settings)
    last = make_cached_encoder(mark, deferred) if mark else None
    form = Form(key, encode, skip=len(system), encode_last=last)
    tail = _encode_tail(request, messages, deferred)
    beginning += b',"messages":['
    body = encode_history(messages, form, beginning, tail, given=request.messages)
    betas = (request.settings.extra or {}).get("betas")
    names = betas if isinstance(betas, list | tuple) else ()
    if request.hosted_tools:
        names = list(dict.fromkeys([*names, *beta_names(request.hosted_tools)]))
    header = (("anthropic-beta", ",".join(map(str, names))),) if names else ()
    return EncodedRequest("/v1/messages", body, _HEADERS + header, head.rewritings)


def _find_searched(request: ModelRequest) -> Deferred:
    """Return the names of the tools that the server's own search finds; None if the user's fields may have some."""
    if request.settings.extra and "tools" in request.settings.extra:
        return None
    return find_deferred(request.tools)


def _has_budget(model: str, settings: ModelSettings) -> bool:
    """Whether the model is to think within a budget, and not by an effort of its own."""
    if settings.reasoning_tokens is not None:
        return settings.reasoning_tokens > 0
    version = parse_version(model)
    is_adaptive = version is not None and version >= _ADAPTIVE_SINCE
    return settings.reasoning_effort not in (None, "none") and not is_adaptive


def _stop_thinking(request: ModelRequest) -> ModelRequest:
    """Return the request without thinking, which the server refuses after calls without thoughts."""
    settings = msgspec.structs.replace(
        request.settings, reasoning_effort=None, reasoning_tokens=0, reasoning_summary=None
    )
    return msgspec.structs.replace(request, settings=settings)


def parse_version(model: str) -> tuple[int, int] | None:
    """Return the version in a Claude model's name, or None for other models.

    >>> parse_version("claude-sonnet-4-5"), parse_version("us.anthropic.claude-3-5-haiku-20241022-v1:0")
    ((4, 5), (3, 5))
    >>> parse_version("claude-opus-4-20250514"), parse_version("minimax-m2")
    ((4, 0), None)
    """
    match = _VERSION.search(model)
    return (int(match[1]), int(match[2] or 0)) if match else None


def supports_prefill(request: ModelRequest) -> bool:
    """Whether the model continues the beginning of a reply: versions before 4.6, without thinking.

    >>> supports_prefill(ModelRequest(model="claude-sonnet-4-5", messages=[]))
    True
    >>> supports_prefill(ModelRequest(model="claude-opus-4-6", messages=[]))
    False
    """
    version = parse_version(request.model)
    thinks = "thinking" in (request.settings.extra or {})
    return version is not None and version < _PREFILL_BEFORE and not thinks


def supports_tool_search(model: str) -> bool:
    """Whether the server searches deferred tools for this model: versions from 4.5 on.

    >>> supports_tool_search("claude-sonnet-4-5"), supports_tool_search("claude-opus-4-20250514")
    (True, False)
    """
    version = parse_version(model)
    return version is not None and version >= _TOOL_SEARCH_SINCE


def _arrange_messages(messages: Sequence[Message], key: str) -> Sequence[Message]:
    """Check the calls and results of a history, and return it as the server takes it; usually the same object.

    Args:
        messages: the history.
        key: the key under which a transcript has encoded the messages that are known to be right.
    """
    known_count = count_encoded(messages, key)
    if not check_new_pairs(messages, known_count):
        messages, known_count = replace_unsafe_ids(messages), 0
    messages = arrange_results(messages, find_tail(messages, known_count))
    if find_abandoned_calls(messages, known_count):
        return leave_out_calls(messages, find_abandoned_calls(messages))
    return messages


def _encode_tail(request: ModelRequest, messages: Sequence[Message], deferred: Deferred) -> bytes:
    """Return the bytes after the history: the beginning of a reply, or a message after a reply at the end."""
    if request.prefill:
        beginning = {"role": "assistant", "content": request.prefill}
        return b"," + to_json("prefill", beginning) + b"]}"
    # A reply with nothing to send, such as the reasoning of another wire alone, is no end.
    last = next(
        (
            one
            for one in reversed(messages)
            if one.role != "assistant" or encode_blocks(one, deferred)
        ),
        None,
    )
    if last is not None and is_text_alone(last, deferred):
        # Such as a reply that paused on another wire. Models that continue a text refuse one with whitespace at its end;
        # others refuse every text.
        text = last.text
        if not supports_prefill(request) or text != text.rstrip():
            return b"," + encode_message(GO_ON) + b"]}"
    return b"]}"


def _encode_head(
    request: ModelRequest, system: tuple[str, ...], dialects: EndpointDialects
) -> HeadParts:
    settings = request.settings
    schemas = convert_request(request, dialects, is_native=_sends_natively(request, dialects))
    body: _Object = {"model": request.model, "max_tokens": settings.max_tokens}
    if request.stream:
        body["stream"] = True
    texts = [text for text in (request.instructions, *system) if text.strip()]
    if tools := _encode_all_tools(request, schemas.tools):
        body["tools"] = tools
    _add_output(request, schemas, body, texts)
    if texts:
        body["system"] = "\n\n".join(texts)
    _add_thinking(request.model, settings, body)
    _add_sampling(settings, body)
    check_tools(request.tools, settings.tool_choice, settings.extra)
    if (choice := _encode_tool_choice(settings, "tools" in body)) is not None:
        body["tool_choice"] = choice
    if mark := _cache_mark(settings):
        _mark_cached(body, mark)
    extra = {name: value for name, value in (settings.extra or {}).items() if name != "betas"}
    merge_extra(body, extra, ("model", "messages", "stream"))
    _set_max_tokens(body)
    _check_together(body, request.model)
    return to_json("settings.extra", body)[:-1], schemas.rewritings


def _encode_all_tools(request: ModelRequest, schemas: tuple[SentSchema, ...]) -> list[_Object]:
    tools = list(map(_encode_tool, request.tools, schemas))
    taken = frozenset(tool.name for tool in request.tools)
    if request.hosted_tools:
        tools += encode_hosted_tools(request.hosted_tools, taken)
    if any(tool.deferred_group is not None for tool in request.tools):
        tools = add_tool_search(tools, taken)
    return tools


def _encode_tool(tool: ToolSpec, sent: SentSchema) -> _Object:
    check_tool_name("tools", tool.name, WIRE)
    entry: _Object = {"name": tool.name}
    if tool.description:
        entry["description"] = tool.description
    entry["input_schema"] = sent.schema
    if sent.strict:
        entry["strict"] = True
    if tool.deferred_group is not None:
        entry["defer_loading"] = True
    return entry


def _sends_natively(request: ModelRequest, dialects: EndpointDialects) -> bool:
    """Whether the schema of the output is sent in the server's own field."""
    output = request.output
    if output is None or output.mode == "native":
        return output is not None
    version = parse_version(request.model)
    is_supported = output.strict and version is not None and version >= _SCHEMAS_SINCE
    return is_supported and sends_natively(request, dialects)


def _add_output(
    request: ModelRequest, schemas: RequestSchemas, body: _Object, texts: list[str]
) -> None:
    """Request the output by the server's own field, or by an instruction if there is none or the user wants it."""
    if schemas.output is not None:
        form = {"type": "json_schema", "schema": schemas.output.schema}
        body["output_config"] = {"format": form}
    elif request.output is not None:
        texts.append(format_schema_instruction(request.output.schema))


def _add_thinking(model: str, settings: ModelSettings, body: _Object) -> None:
    """Add the thinking budget if one is set or the model supports only budgets; otherwise the effort."""
    effort, budget, shown = (
        settings.reasoning_effort,
        settings.reasoning_tokens,
        settings.reasoning_summary,
    )
    if budget == 0 or (budget is None and effort == "none"):
        body["thinking"] = {"type": "disabled"}
        return
    # Some models omit the thinking from the reply by default, others summarize it.
    display = {} if shown is None else {"display": "summarized" if shown else "omitted"}
    if budget is None and effort is not None:
        version = parse_version(model)
        if version is not None and version >= _ADAPTIVE_SINCE:
            body["thinking"] = {"type": "adaptive", **display}
            config = body.get("output_config")
            output_config = config if isinstance(config, dict) else {}
            newest = effort == "xhigh" and version >= _XHIGH_SINCE
            level = effort if newest else _EFFORTS[effort]
            body["output_config"] = {**output_config, "effort": level}
            return
        budget = _BUDGETS[effort]
    if budget is None:
        if shown and "thinking" not in (settings.extra or {}):
            raise ConfigurationError(
                "settings.reasoning_summary",
                "has no effect on the Anthropic wire while the model does not think",
                fix="set reasoning_effort or reasoning_tokens too",
            )
        return
    if budget < LEAST_BUDGET:
        raise ConfigurationError(
            "settings.reasoning_tokens",
            f"must be at least {LEAST_BUDGET} on the Anthropic wire, got {budget}",
            fix="use 0 to turn thinking off",
        )
    body["thinking"] = {"type": "enabled", "budget_tokens": budget, **display}


def _set_max_tokens(body: _Object) -> None:
    """Set the output limit. It includes the thinking, so it must be larger than the thinking budget."""
    thinking = body.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    if not isinstance(budget, int):
        budget = 0
    limit = body["max_tokens"]
    if limit is None:
        body["max_tokens"] = DEFAULT_MAX_TOKENS + budget
    elif isinstance(limit, int) and budget and limit <= budget:
        raise ConfigurationError(
            "settings.max_tokens",
            f"must be larger than the thinking budget of {budget}, got {limit}",
            fix="the limit covers thinking and reply together",
        )


def _check_together(body: _Object, model: str) -> None:
    """Refuse settings that the server takes alone and not together; servers of other vendors take them."""
    version = parse_version(model)
    if version is None:
        return
    thinking, temperature, choice = (
        body.get(name) for name in ("thinking", "temperature", "tool_choice")
    )
    thought = thinking.get("type") if isinstance(thinking, dict) else None
    if thought in ("enabled", "adaptive") and temperature not in (None, 1):
        raise ConfigurationError(
            "settings.temperature",
            f"must be unset while the model thinks on the Anthropic wire, got {temperature}",
            fix="leave it unset, or turn thinking off with reasoning_tokens=0",
        )
    if version >= _ONE_SAMPLING_SINCE and None not in (temperature, body.get("top_p")):
        raise ConfigurationError(
            "settings.top_p", f"{model} takes it or a temperature, not both", fix="set one of them"
        )
    if thought == "enabled" and isinstance(choice, dict) and choice.get("type") in ("any", "tool"):
        raise ConfigurationError(
            "settings.tool_choice",
            "cannot force a tool while the model thinks within a budget on the Anthropic wire",
            fix="use 'auto', or turn thinking off with reasoning_tokens=0",
        )


def _add_sampling(settings: ModelSettings, body: _Object) -> None:
    if settings.temperature is not None:
        if settings.temperature > 1:
            raise ConfigurationError(
                "settings.temperature",
                f"must be from 0 to 1 on the Anthropic wire, got {settings.temperature}",
            )
        body["temperature"] = settings.temperature
    if settings.top_p is not None:
        body["top_p"] = settings.top_p
    if settings.top_k is not None and body.get("thinking") in (None, {"type": "disabled"}):
        body["top_k"] = settings.top_k  # a model that thinks takes none
    if settings.stop:
        if blank := [stop for stop in settings.stop if not stop.strip()]:
            raise ConfigurationError(
                "settings.stop", f"must not be blank on the Anthropic wire, got {blank[0]!r}"
            )
        body["stop_sequences"] = list(settings.stop)


def _encode_tool_choice(settings: ModelSettings, has_tools: bool) -> _Object | None:
    choice, parallel = settings.tool_choice, settings.parallel_tool_calls
    if not has_tools and "tools" not in (settings.extra or {}):
        if choice == "required":
            raise ConfigurationError("settings.tool_choice", "'required' needs tools")
        return None
    if choice is None and parallel is None:
        return None
    kind = _CHOICES.get(choice or "auto", "tool")
    entry: _Object = {"type": kind}
    if kind == "tool":
        entry["name"] = choice
    if parallel is not None and kind != "none":
        entry["disable_parallel_tool_use"] = not parallel
    return entry


def _cache_mark(settings: ModelSettings) -> _Object | None:
    """Return the mark of a cache point, or None without caching."""
    if settings.cache_key is not None:
        raise ConfigurationError(
            "settings.cache_key", "the Anthropic wire has no cache key", fix="leave it unset"
        )
    if not settings.cache:
        return None
    if settings.cache == "24h":
        raise ConfigurationError(
            "settings.cache",
            "the Anthropic wire keeps a cached prefix for 5 minutes or an hour, got '24h'",
            fix="use True, '5m' or '1h'",
        )
    return {"type": "ephemeral", **({} if settings.cache is True else {"ttl": settings.cache})}


def _mark_cached(body: _Object, mark: _Object) -> None:
    """Mark the ends of the tools and of the system text, so that the tools stay when the text changes.

    The end of the history is the third of the four marks that the wire accepts.
    """
    system, tools = body.get("system"), body.get("tools")
    if isinstance(system, str):
        body["system"] = [{"type": "text", "text": system, "cache_control": mark}]
    if isinstance(tools, list):
        # The server refuses a mark on a deferred tool, which is no part of what it caches.
        last = next(entry for entry in reversed(tools) if "defer_loading" not in entry)
        last["cache_control"] = mark
