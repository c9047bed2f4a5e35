"""The fields that Anthropic and Google take in a request, as tables.

Sources: the request types of the vendors' SDKs (anthropic 2.11, google-genai 3.4), with which a test compares
the names, and the refusals that the comments quote. A field that no source describes has any value. These
tables must never name a field that only our encoders know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from holdfast.testing.emulator.wires.request_rules import (
    ANY,
    FLAG,
    OBJECT,
    TEXT,
    FieldRule,
    by_tag,
    choice,
    list_of,
    number,
    object_of,
    whole,
)

_Fields = Mapping[str, FieldRule]

_LIST = list_of(ANY)
_TEXTS = list_of(TEXT)
_WORD_OR_OBJECT = FieldRule(kinds=("string", "object"))

# Anthropic. "response_format: Extra inputs are not permitted" (amrit110/oli#7), "tools.N.<variant>.<field>: Extra inputs
# are not permitted". Blocks and tools of other types are open.

_CACHE = {"type": TEXT, "cache_control": object_of({"type": TEXT, "ttl": choice("5m 1h")}, "type")}
_BLOCKS = by_tag(
    {
        "text": object_of({**_CACHE, "text": TEXT, "citations": _LIST}, "text"),
        "image": object_of({**_CACHE, "source": OBJECT, "transformations": OBJECT}, "source"),
        "document": object_of(
            {**_CACHE, "source": OBJECT, "title": TEXT, "context": TEXT, "citations": OBJECT},
            "source",
        ),
        "thinking": object_of({"type": TEXT, "thinking": TEXT, "signature": TEXT}),
        "redacted_thinking": object_of({"type": TEXT, "data": TEXT}),
        "tool_use": object_of(
            {
                **_CACHE,
                "id": TEXT,
                "name": TEXT,
                "input": OBJECT,
                "caller": OBJECT,
                "toolset_name": TEXT,
            }
        ),
        "tool_result": object_of(
            {
                **_CACHE,
                "tool_use_id": TEXT,
                "content": FieldRule(kinds=("string", "array")),
                "is_error": FLAG,
                "toolset_name": TEXT,
            }
        ),
    },
    closed=False,
)
_SHOWN: _Fields = {
    "type": TEXT,
    "display": choice("summarized omitted"),
    "block_binding": OBJECT,
}
_PARALLEL: _Fields = {"type": TEXT, "disable_parallel_tool_use": FLAG}
_EFFORTS = choice("low medium high xhigh max")
_TOOL_NAME = FieldRule(kinds=("string",), pattern="[a-zA-Z0-9_-]{1,128}")
_CUSTOM_TOOL: _Fields = {
    **_CACHE,
    "allowed_callers": _LIST,
    "defer_loading": FLAG,
    "description": TEXT,
    "eager_input_streaming": FLAG,
    "input_examples": _LIST,
    # Recorded: "tools.0.custom.input_schema.type: Input should be 'object'" and "tools.0.custom.input_schema: Input does
    # not match the expected shape."
    "input_schema": replace(
        object_of({"type": choice("object")}, "type", others=True),
        name="Input does not match the expected shape.",
    ),
    "name": _TOOL_NAME,
    "strict": FLAG,
}
# The server says "output_format.schema: Field required"; the format has one type, which the paths of errors leave out.
_FORMAT = object_of({"type": choice("json_schema"), "schema": OBJECT}, "type", "schema")
ANTHROPIC: Final[_Fields] = {
    "cache_control": OBJECT,
    "container": _WORD_OR_OBJECT,
    "diagnostics": OBJECT,
    "inference_geo": TEXT,
    "max_tokens": whole(1),
    "messages": list_of(
        object_of(
            {"role": TEXT, "content": FieldRule(kinds=("string", "array"), items=_BLOCKS)},
            "content",
        )
    ),
    "metadata": object_of({"user_id": TEXT}),
    "model": TEXT,
    "output_config": object_of({"effort": _EFFORTS, "format": _FORMAT, "task_budget": OBJECT}),
    "service_tier": choice("auto standard_only"),
    "speed": choice("fast standard"),
    "stop_sequences": _TEXTS,
    "stream": FLAG,
    "system": FieldRule(kinds=("string", "array"), items=_BLOCKS),
    # The server says "temperature: range: 0..1"
    "temperature": number(0, 1),
    "thinking": by_tag(
        {
            "enabled": object_of({**_SHOWN, "budget_tokens": whole(1024)}, "budget_tokens"),
            "disabled": object_of(("type",)),
            "adaptive": object_of(_SHOWN),
            "between_tools": object_of(("type",)),
        }
    ),
    "tool_choice": by_tag(
        {
            "auto": object_of(_PARALLEL),
            "any": object_of(_PARALLEL),
            "tool": object_of({**_PARALLEL, "name": TEXT}, "name"),
            "none": object_of(("type",)),
        }
    ),
    "tools": list_of(
        by_tag(
            {"custom": object_of(_CUSTOM_TOOL, "name", "input_schema")},
            closed=False,
            default="custom",
        )
    ),
    "top_k": whole(0),
    "top_p": number(0, 1),
    "user_profile_id": TEXT,
    "workspace_id": TEXT,
}
"""The fields of a Messages request."""

ANTHROPIC_BETA: Final[_Fields] = {
    "billing_policy": OBJECT,
    "compaction": OBJECT,
    "context_management": OBJECT,
    "fallback_credit_token": _WORD_OR_OBJECT,
    "fallbacks": ANY,
    "mcp_servers": _LIST,
    "output_format": _FORMAT,
    "thread": OBJECT,
}
"""The fields that need a header `anthropic-beta`: "context_management: Extra inputs are not permitted"."""

# Gemini. As in every JSON form of a protocol buffer, a number may be a text, a word of a choice may be its number, and one
# object may stand for a list.

_DECIMAL = FieldRule(kinds=("number", "string"), pattern=r"-?\d+(\.\d+)?")
_WHOLE = FieldRule(kinds=("integer", "string"), pattern=r"-?\d+")
_PARTS = object_of(
    (
        "audioMetadata",
        "audioTranscription",
        "codeExecutionResult",
        "documentMetadata",
        "executableCode",
        "fileData",
        "functionCall",
        "functionResponse",
        "inlineData",
        "mediaProcessing",
        "mediaResolution",
        "partMetadata",
        "speechMetadata",
        "spreadsheetMetadata",
        "text",
        "thought",
        "thoughtSignature",
        "toolCall",
        "toolResponse",
        "videoMetadata",
    )
)
_CONTENT = object_of({"role": TEXT, "parts": FieldRule(kinds=("array", "object"), items=_PARTS)})
_MODES = ("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED")
_LEVELS = ("THINKING_LEVEL_UNSPECIFIED", "MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH")
# The form of schemas before JSON Schema: "Unknown name "$schema" at 'tools[0].function_declarations[0].parameters': Cannot
# find field." (CLIProxyAPI#97), and the same for `additionalProperties`.
_PLAIN_SCHEMA: dict[str, FieldRule] = {
    **dict.fromkeys(("default", "enum", "example", "format", "propertyOrdering", "required"), ANY),
    **dict.fromkeys(("description", "pattern", "title"), TEXT),
    "type": FieldRule(kinds=("string", "integer")),
    **dict.fromkeys(("maxItems", "maxLength", "maxProperties"), _WHOLE),
    **dict.fromkeys(("minItems", "minLength", "minProperties"), _WHOLE),
    **dict.fromkeys(("maximum", "minimum"), _DECIMAL),
    "nullable": FLAG,
}
_SCHEMA = object_of(_PLAIN_SCHEMA)
_PLAIN_SCHEMA["anyOf"] = list_of(_SCHEMA)
_PLAIN_SCHEMA["items"] = _SCHEMA
_PLAIN_SCHEMA["properties"] = FieldRule(kinds=("object",), entries=_SCHEMA)
_DECLARATION = object_of(
    {
        "name": TEXT,
        "description": TEXT,
        "parameters": _SCHEMA,
        "parametersJsonSchema": ANY,
        "response": _SCHEMA,
        "responseJsonSchema": ANY,
        "behavior": TEXT,
    }
)
_GEMINI_TOOL = object_of(
    {
        "functionDeclarations": list_of(_DECLARATION),
        **dict.fromkeys(
            (
                "codeExecution",
                "computerUse",
                "enterpriseWebSearch",
                "exaAiSearch",
                "fileSearch",
                "googleMaps",
                "googleSearch",
                "googleSearchRetrieval",
                "mcpServers",
                "parallelAiSearch",
                "retrieval",
                "urlContext",
            ),
            ANY,
        ),
    }
)
_GENERATION: _Fields = {
    **dict.fromkeys(
        (
            "audioTimestamp",
            "audioTranscriptionConfig",
            "enableAffectiveDialog",
            "enableEnhancedCivicAnswers",
            "imageConfig",
            "mediaResolution",
            "modelConfig",
            "modelSelectionConfig",
            "responseFormat",
            "responseJsonSchema",
            "routingConfig",
            "speechConfig",
            "translationConfig",
        ),
        ANY,
    ),
    "candidateCount": _WHOLE,
    "frequencyPenalty": _DECIMAL,
    "logprobs": _WHOLE,
    "maxOutputTokens": _WHOLE,
    "presencePenalty": _DECIMAL,
    "responseLogprobs": FLAG,
    "responseMimeType": TEXT,
    "responseModalities": _TEXTS,
    "responseSchema": _SCHEMA,
    # The server says "Invalid value at 'generation_config.seed' (TYPE_INT32), 3812238859"
    "seed": _WHOLE,
    "stopSequences": _TEXTS,
    "temperature": replace(_DECIMAL, least=0, most=2),
    "thinkingConfig": object_of(
        {
            "includeThoughts": FLAG,
            "thinkingBudget": _WHOLE,
            "thinkingLevel": FieldRule(
                kinds=("string", "integer"), choices=_LEVELS, name="ThinkingConfig.ThinkingLevel"
            ),
        }
    ),
    "topK": _DECIMAL,
    "topP": _DECIMAL,
}
GEMINI: Final = object_of(
    {
        "cachedContent": TEXT,
        "contents": FieldRule(kinds=("array", "object"), items=_CONTENT),
        "continuationToken": ANY,
        "generationConfig": object_of(_GENERATION),
        "labels": OBJECT,
        "model": TEXT,
        "modelArmorConfig": OBJECT,
        "outputConfig": ANY,
        "safetySettings": FieldRule(kinds=("array", "object"), items=OBJECT),
        "serviceTier": TEXT,
        "store": FLAG,
        "systemInstruction": _CONTENT,
        "toolConfig": object_of(
            {
                "functionCallingConfig": object_of(
                    {
                        "mode": FieldRule(
                            kinds=("string", "integer"),
                            choices=_MODES,
                            name="FunctionCallingConfig.Mode",
                        ),
                        "allowedFunctionNames": _TEXTS,
                        "streamFunctionCallArguments": FLAG,
                    }
                ),
                "includeServerSideToolInvocations": FLAG,
                "retrievalConfig": OBJECT,
            }
        ),
        "tools": FieldRule(kinds=("array", "object"), items=_GEMINI_TOOL),
    }
)
"""A request of `generateContent`, by the names in camel case; the server also takes those in snake case."""
