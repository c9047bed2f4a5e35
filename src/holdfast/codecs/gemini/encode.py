"""Encodes a request as the body of `generateContent`.

The head is everything but the history; it is the same for each iteration of a run and is cached.
For a setting that this wire cannot express, this module raises `ConfigurationError` with the
field's name before anything is sent. It never ignores a setting silently.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from holdfast.codecs.gemini.history import Json, encode_message, encode_message_for_signers
from holdfast.codecs.gemini.hosted import encode_hosted_tools
from holdfast.codecs.gemini.vocabulary import WIRE
from holdfast.codecs.output_mode import format_schema_instruction
from holdfast.codecs.pairing import arrange_results, check_tail_pairs
from holdfast.codecs.request_body import (
    GO_ON,
    HeadCache,
    HeadParts,
    check_no_deferred_tools,
    check_tools,
    count_encoded,
    encode_history,
    leading_system_texts,
    merge_extra,
    to_json,
)
from holdfast.codecs.schemas.request_schemas import (
    EndpointDialects,
    SentSchema,
    convert_request,
    sends_natively,
)
from holdfast.codecs.tool_names import check_tool_name
from holdfast.codecs.wire import EncodedRequest, to_path_segment
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Message
from holdfast.core.model_request import ModelRequest, ModelSettings, ToolSpec
from holdfast.core.transcript import Form

_BEFORE_3 = re.compile(r"gemini-(?:[12]\b|pro\b|ultra\b)")
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
# The budgets that Google's OpenAI-compatible endpoint uses for these efforts.
_BUDGETS = {"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576}
_LEVELS = {
    "none": "minimal",
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
}

_HEADERS = (("content-type", "application/json"),)

_NO_QUESTION = b'{"role":"user","parts":[{"text":" "}]},'
"""Before a reply that a history begins with: the server refuses calls that follow nothing of the user."""

_GO_ON = b"," + encode_message(GO_ON) + b"]}"
"""After a reply that is to be continued: the server refuses contents that end with one of the model."""


def encode_request(
    request: ModelRequest, heads: HeadCache, dialects: EndpointDialects
) -> EncodedRequest:
    """Encode a request as path and body.

    Raises:
        ConfigurationError: this wire cannot express a field, a call and its result do not match, or
            there is no message to reply to.
    """
    path = _request_path(request)
    system = leading_system_texts(request.messages)
    if len(system) == len(request.messages):
        raise ConfigurationError(
            "messages", "holds no message to reply to", fix="add a user message to the history"
        )
    head = heads.get(request, system, lambda: _encode_head(request, system, dialects))
    body = _append_contents(head.encoded + b'"contents":[', request, len(system))
    return EncodedRequest(path, body, _HEADERS, head.rewritings)


def is_before_gemini_3(model: str) -> bool:
    """Whether the model is older than Gemini 3, so that it has thinking budgets and no required signatures.

    >>> is_before_gemini_3("gemini-2.5-flash"), is_before_gemini_3("gemini-3-pro-preview"), is_before_gemini_3("gemini-flash-latest")
    (True, False, False)
    """
    return _BEFORE_3.search(model) is not None


def _request_path(request: ModelRequest) -> str:
    model = to_path_segment(request.model)
    path = model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"
    method = "streamGenerateContent?alt=sse" if request.stream else "generateContent"
    return f"/{path}:{method}"


def _append_contents(head: bytes, request: ModelRequest, leading: int) -> bytes:
    old = is_before_gemini_3(request.model)
    encode = encode_message if old else encode_message_for_signers
    key = f"{'gemini-2' if old else 'gemini'}|{leading}"
    known_count = count_encoded(request.messages, key)
    unknown, _ = check_tail_pairs(request.messages, known_count)
    messages = arrange_results(request.messages, unknown)
    # The leading system messages are part of the instructions.
    if _begins_with_calls(messages, leading):
        head += _NO_QUESTION
    tail = _GO_ON if messages[-1].role == "assistant" else b"]}"
    form = Form(key, encode, skip=leading)
    return encode_history(messages, form, head, tail, given=request.messages)


def _begins_with_calls(messages: Sequence[Message], leading: int) -> bool:
    """Whether replies with calls stand before the first message of the user."""
    for at in range(leading, len(messages)):
        if messages[at].role != "assistant":
            return False
        if messages[at].calls:
            return True
    return False


def _encode_head(
    request: ModelRequest, system: tuple[str, ...], dialects: EndpointDialects
) -> HeadParts:
    settings, output = request.settings, request.output
    schemas = convert_request(request, dialects, is_native=_sends_natively(request, dialects))
    texts = [request.instructions, *system]
    if output is not None and schemas.output is None:
        texts.append(format_schema_instruction(output.schema))
    head: Json = {}
    if cached := _cached_content(request, system):
        head["cachedContent"] = cached
    if parts := [{"text": text} for text in texts if text]:
        head["systemInstruction"] = {"parts": parts}
    if tools := _encode_tools(request, schemas.tools):
        head["tools"] = tools
    if config := _tool_config(request, schemas.tools):
        head["toolConfig"] = config
    if config := _generation_config(request.model, settings, schemas.output):
        head["generationConfig"] = config
    merge_extra(head, settings.extra, ("contents",))
    encoded = to_json("settings.extra", head)[:-1]
    return (encoded + b"," if head else encoded), schemas.rewritings


def _sends_natively(request: ModelRequest, dialects: EndpointDialects) -> bool:
    """Whether the schema of the output has its own field: models before 3 reject it together with tools."""
    output = request.output
    if output is None:
        return False
    has_tools = bool(request.tools or request.hosted_tools)
    if output.mode == "auto" and has_tools and is_before_gemini_3(request.model):
        return False
    return sends_natively(request, dialects)


def _encode_tools(request: ModelRequest, schemas: tuple[SentSchema, ...]) -> list[Json]:
    tools: list[Json] = []
    check_no_deferred_tools(request.tools, "the Gemini wire")
    if request.tools:
        declared = list(map(_declare_function, request.tools, schemas))
        tools.append({"functionDeclarations": declared})
    if request.hosted_tools and request.tools and is_before_gemini_3(request.model):
        raise ConfigurationError(
            "tools",
            "models before Gemini 3 run either your functions or the tools of the provider",
            fix="use a newer model, or give the tools of the provider to a subagent",
        )
    return tools + encode_hosted_tools(request.hosted_tools)


def _declare_function(tool: ToolSpec, sent: SentSchema) -> Json:
    check_tool_name("tools", tool.name, WIRE)
    declaration: Json = {"name": tool.name, "description": tool.description}
    if tool.schema:
        declaration["parametersJsonSchema"] = sent.schema
    return declaration


def _tool_config(request: ModelRequest, schemas: tuple[SentSchema, ...]) -> Json:
    settings, tools = request.settings, request.tools
    if settings.parallel_tool_calls is False:
        raise ConfigurationError(
            "settings.parallel_tool_calls",
            "the Gemini wire cannot forbid parallel calls",
            fix="leave it unset",
        )
    choice = settings.tool_choice
    check_tools(tools, choice)
    # Without this field, the server rejects its own tools beside functions.
    config: Json = (
        {"includeServerSideToolInvocations": True} if request.hosted_tools and tools else {}
    )
    if choice in (None, "auto") and _enforces_schemas(tools, schemas):
        return {**config, "functionCallingConfig": {"mode": "VALIDATED"}}
    if choice is None or (choice in ("auto", "none") and not tools):
        return config
    if not tools:
        raise ConfigurationError("settings.tool_choice", f"{choice!r} needs functions")
    if mode := _MODES.get(choice):
        return {**config, "functionCallingConfig": {"mode": mode}}
    only = {"mode": "ANY", "allowedFunctionNames": [choice]}
    return {**config, "functionCallingConfig": only}


def _enforces_schemas(tools: tuple[ToolSpec, ...], schemas: tuple[SentSchema, ...]) -> bool:
    """Whether the server is to enforce the schemas, which it does for all functions or for none."""
    wanted = next((tool.name for tool in tools if tool.strict), "")
    refused = next((tool.name for tool in tools if tool.strict is False), "")
    if wanted and refused:
        raise ConfigurationError(
            f"tools.{wanted}.strict",
            f"Gemini enforces the schemas of all tools or of none, and {refused!r} has strict=False",
            fix="use one value for all tools",
        )
    return bool(wanted) or (bool(tools) and all(sent.strict for sent in schemas))


def _generation_config(model: str, settings: ModelSettings, output: SentSchema | None) -> Json:
    config: Json = {
        "maxOutputTokens": settings.max_tokens,
        "temperature": settings.temperature,
        "topP": settings.top_p,
        "stopSequences": list(settings.stop) or None,
        "seed": settings.seed,
        "topK": settings.top_k,
        "frequencyPenalty": settings.frequency_penalty,
        "presencePenalty": settings.presence_penalty,
        "thinkingConfig": _thinking_config(model, settings),
    }
    if output is not None:
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = output.schema
    return {name: value for name, value in config.items() if value is not None}


def _thinking_config(model: str, settings: ModelSettings) -> Json | None:
    """Return the thinking settings: a level for Gemini 3, a budget in tokens for older models."""
    effort, tokens, shown = (
        settings.reasoning_effort,
        settings.reasoning_tokens,
        settings.reasoning_summary,
    )
    if effort == "xhigh":
        raise ConfigurationError(
            "settings.reasoning_effort",
            "the Gemini wire has no effort above 'high'",
            fix="use 'high'",
        )
    if effort is None and tokens is None:
        return None if shown is None else {"includeThoughts": shown}
    if effort is not None and (tokens is None or not is_before_gemini_3(model)):
        if not is_before_gemini_3(model):
            thinks = effort != "none" if shown is None else shown
            return {"thinkingLevel": _LEVELS[effort], "includeThoughts": thinks}
        tokens = _BUDGETS[effort]
    return {"thinkingBudget": tokens, "includeThoughts": tokens != 0 if shown is None else shown}


def _cached_content(request: ModelRequest, system: tuple[str, ...]) -> str | None:
    """Return the name of the cached content that the request continues; it has instructions and tools of its own."""
    settings = request.settings
    if isinstance(settings.cache, str):
        raise ConfigurationError(
            "settings.cache",
            "the Gemini wire cannot say how long a prefix is kept",
            fix="use True, or name a cached content that you made: cache_key='cachedContents/...'",
        )
    name = settings.cache_key
    if name is None:
        return None
    if "cachedContents/" not in name:
        raise ConfigurationError(
            "settings.cache_key",
            "must be the name of a cached content on the Gemini wire",
            fix="write 'cachedContents/...'",
        )
    if request.instructions or system or request.tools or request.hosted_tools:
        raise ConfigurationError(
            "settings.cache_key",
            "a request with a cached content has no instructions and no tools of its own",
            fix="put them into the cached content",
        )
    return name
