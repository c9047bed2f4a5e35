"""Encodes a request as the body of `generateContent`.

The head is everything but the history; it is the same for each iteration of a run and is cached.
For a setting that this wire cannot express, this module raises `ConfigurationError` with the
field's name before anything is sent. It never ignores a setting silently.
"""

from __future__ import annotations

import re

from holdfast.codecs.gemini.history import Json, encode_message, encode_message_for_signers
from holdfast.codecs.gemini.hosted import encode_hosted_tools
from holdfast.codecs.gemini.vocabulary import WIRE
from holdfast.codecs.output_schema import schema_instruction
from holdfast.codecs.pairing import check_tail_pairs
from holdfast.codecs.request_body import (
    HeadCache,
    check_tools,
    encode_history,
    leading_system_texts,
    merge_extra,
    to_json,
)
from holdfast.codecs.tool_names import check_tool_name
from holdfast.codecs.url_path import to_path_segment
from holdfast.codecs.wire import EncodedRequest
from holdfast.core.errors import ConfigurationError
from holdfast.core.model_request import ModelRequest, ModelSettings, OutputSchema, ToolSpec
from holdfast.core.transcript import Form, Transcript

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


def encode_request(request: ModelRequest, heads: HeadCache) -> EncodedRequest:
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
    head = heads.get(request, system, lambda: _encode_head(request, system))
    body = _append_contents(head + b'"contents":[', request, len(system))
    return EncodedRequest(path, body, _HEADERS)


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
    messages = request.messages
    check_tail_pairs(
        messages, messages.encoded_count(key) if isinstance(messages, Transcript) else 0
    )
    # The leading system messages are part of the instructions.
    return encode_history(messages, Form(key, encode, skip=leading), head, b"]}")


def _encode_head(request: ModelRequest, system: tuple[str, ...]) -> bytes:
    settings, output = request.settings, request.output
    texts = [request.instructions, *system]
    if output is not None and _puts_schema_in_text(request, output):
        to_json("output.schema", output.schema)
        texts.append(schema_instruction(output.schema))
        output = None
    head: Json = {}
    if cached := _cached_content(request, system):
        head["cachedContent"] = cached
    if parts := [{"text": text} for text in texts if text]:
        head["systemInstruction"] = {"parts": parts}
    if tools := _encode_tools(request):
        head["tools"] = tools
    if config := _tool_config(request):
        head["toolConfig"] = config
    if config := _generation_config(request.model, settings, output):
        head["generationConfig"] = config
    merge_extra(head, settings.extra, ("contents",))
    encoded = to_json("settings.extra", head)[:-1]
    return encoded + b"," if head else encoded


def _puts_schema_in_text(request: ModelRequest, output: OutputSchema) -> bool:
    """Whether the schema goes into the instructions: models before 3 reject a schema together with tools."""
    if output.mode == "auto":
        return bool(request.tools or request.hosted_tools) and is_before_gemini_3(request.model)
    return output.mode == "prompt"


def _encode_tools(request: ModelRequest) -> list[Json]:
    tools: list[Json] = []
    if request.tools:
        tools.append({"functionDeclarations": _function_declarations(request.tools)})
    if request.hosted_tools and request.tools and is_before_gemini_3(request.model):
        raise ConfigurationError(
            "tools",
            "models before Gemini 3 run either your functions or the tools of the provider",
            fix="use a newer model, or give the tools of the provider to a subagent",
        )
    return tools + encode_hosted_tools(request.hosted_tools)


def _function_declarations(tools: tuple[ToolSpec, ...]) -> list[Json]:
    declarations: list[Json] = []
    for tool in tools:
        check_tool_name("tools", tool.name, WIRE)
        to_json(f"tools.{tool.name}.schema", tool.schema)
        declaration: Json = {"name": tool.name, "description": tool.description}
        if tool.schema:
            declaration["parametersJsonSchema"] = tool.schema
        declarations.append(declaration)
    return declarations


def _tool_config(request: ModelRequest) -> Json:
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
    if choice is None or (choice in ("auto", "none") and not tools):
        return config
    if not tools:
        raise ConfigurationError("settings.tool_choice", f"{choice!r} needs functions")
    if mode := _MODES.get(choice):
        return {**config, "functionCallingConfig": {"mode": mode}}
    only = {"mode": "ANY", "allowedFunctionNames": [choice]}
    return {**config, "functionCallingConfig": only}


def _generation_config(model: str, settings: ModelSettings, output: OutputSchema | None) -> Json:
    config: Json = {
        "maxOutputTokens": settings.max_tokens,
        "temperature": settings.temperature,
        "topP": settings.top_p,
        "stopSequences": list(settings.stop) or None,
        "seed": settings.seed,
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
