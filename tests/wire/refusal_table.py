"""What endpoints of the Chat Completions wire refuse, in their words: one row for each refusal on record, with its source.

`verbatim` is false where only a part of the body is attested, and the rest has the form that the server uses elsewhere.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

Json = dict[str, Any]


class RefusalRow(Struct, frozen=True, kw_only=True):
    """One refusal.

    Args:
        endpoint: whose server.
        sent: the fields of the request that it refused, beside a model and a message.
        status: the status of its answer.
        body: the body, or its text.
        source: where it stands.
        changed: the field of the endpoint's profile whose next form it takes; "output_mode" if an output is asked for in the
            next mode; "" if it is told in words.
        dress: the dress that answers so; "" if none does.
        verbatim: whether the whole body is attested.
    """

    endpoint: str
    sent: Json
    status: int
    body: Json | str
    source: str
    changed: str = ""
    dress: str = ""
    verbatim: bool = True


class IgnoredRow(Struct, frozen=True, kw_only=True):
    """A field that an endpoint takes and that has no effect."""

    endpoint: str
    field: str
    source: str
    dress: str


DEVELOPER: Json = {
    "messages": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
}
OPTIONS: Json = {"stream": True, "stream_options": {"include_usage": True}}
TOOL: Json = {
    "type": "function",
    "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}},
}
PARALLEL: Json = {"tools": [TOOL], "parallel_tool_calls": False}
OBJECT: Json = {"response_format": {"type": "json_object"}}
SCHEMA: Json = {
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": {"type": "object"}},
    }
}


def described(schema: Json, name: str = "answer") -> Json:
    """An output of a schema that is enforced."""
    json_schema = {"name": name, "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": json_schema}}


def strict_tool(schema: Json) -> Json:
    return {
        "type": "function",
        "function": {"name": "browser_type", "strict": True, "parameters": schema},
    }


TEXT: Json = {"type": "string"}
OPEN: Json = {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}
CLOSED: Json = {**OPEN, "additionalProperties": False}
IMAGE: Json = {
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
            ],
        }
    ]
}
NAMED: Json = {
    "tools": [TOOL],
    "tool_choice": {"type": "function", "function": {"name": "look_up"}},
}


def _error(message: str, kind: str | None = "invalid_request_error", **more: object) -> Json:
    return {"error": {"message": message, "type": kind, "param": None, "code": None, **more}}


def _object(message: str, kind: str = "BadRequestError") -> Json:
    return {"object": "error", "message": message, "type": kind, "param": None, "code": 400}


GITHUB = "https://github.com/"
_QWEN = "developer is not one of ['system', 'assistant', 'user', 'tool', 'function']"
_TEMPLATE = (
    "\n------------\nWhile executing CallExpression at line 189, column 32 in source:\n...\nError: "
)
_SGLANG = "'role' must be one of 'system', 'assistant', 'tool', or 'function' (case-insensitive)."
_LITELLM = (
    "litellm.UnsupportedParamsError: ollama does not support parameters: ['parallel_tool_calls'], for "
    "model=phi4-mini:3.8b. To drop these, set litellm.drop_params=True or for proxy:\n\nlitellm_settings:\n "
    "drop_params: true\n. \n If you want to use these params dynamically send "
    "allowed_openai_params=['parallel_tool_calls'] in your request.. Received Model Group=phi4-mini:3.8b\n"
    "Available Model Group Fallbacks=None"
)

REFUSALS: tuple[RefusalRow, ...] = (
    # OpenAI, and its models behind proxies
    RefusalRow(
        endpoint="OpenAI",
        sent={"max_tokens": 50},
        status=400,
        body=_error("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", param="max_tokens", code="unsupported_parameter"),
        source="corpus: c7f090adb2b8, from vercel/ai",
        changed="max_tokens_field",
        dress="openai-reasoning",
    ),
    RefusalRow(
        endpoint="OpenAI",
        sent=PARALLEL,
        status=400,
        body=_error("Unsupported parameter: 'parallel_tool_calls' is not supported with this model.", param="parallel_tool_calls", code="unsupported_parameter"),
        source=GITHUB + "evalstate/fast-agent/issues/279",
        changed="parallel_calls",
        dress="openai-reasoning",
    ),
    RefusalRow(
        endpoint="OpenAI",
        sent={"stream": True},
        status=400,
        body=_error("Unsupported value: 'stream' does not support true with this model. Only the default (false) value is supported.", param="stream", code="unsupported_value"),
        source=GITHUB + "animalnots/BetterChatGPT-PLUS/issues/62",
        changed="stream",
    ),
    RefusalRow(
        endpoint="OpenAI",
        sent={"temperature": 0.0},
        status=400,
        body=_error("Unsupported value: 'temperature' does not support 0.0 with this model. Only the default (1) value is supported.", param="temperature", code="unsupported_value"),
        source=GITHUB + "langchain-ai/open-swe/pull/628",
        verbatim=False,
    ),
    RefusalRow(
        endpoint="new-api",
        sent=OPTIONS,
        status=400,
        body=_error("Unknown parameter: 'stream_options'. (request id: 20240806214436917505976hvsFC5y2)", param="stream_options", code="unknown_parameter"),
        source=GITHUB + "QuantumNous/new-api/issues/418",
        changed="stream_usage",
    ),
    RefusalRow(
        endpoint="new-api",
        sent=DEVELOPER,
        status=400,
        body=_error("invalid parameter 'messages[0].role': invalid role 'developer', must be one of: system, user, assistant, tool", "gateway_error", param="", code="400002"),
        source=GITHUB + "QuantumNous/new-api/issues/5330",
        changed="system_role",
    ),
    # Azure
    RefusalRow(
        endpoint="Azure",
        sent={"max_completion_tokens": 100},
        status=400,
        body=_error("Unrecognized request argument supplied: max_completion_tokens"),
        source=GITHUB + "openai/openai-python/issues/1724",
        changed="max_tokens_field",
        dress="azure-2024",
    ),
    RefusalRow(
        endpoint="Azure",
        sent=PARALLEL,
        status=400,
        body=_error("Unrecognized request argument supplied: parallel_tool_calls"),
        source=GITHUB + "Azure/azure-sdk-for-net/issues/45719",
        changed="parallel_calls",
        dress="azure-2024",
    ),
    RefusalRow(
        endpoint="Azure",
        sent=OPTIONS,
        status=400,
        body=_error("Unknown parameter: 'stream_options'.", param="stream_options", code="unknown_parameter"),
        source=GITHUB + "Azure/azure-sdk-for-net/issues/45557",
        changed="stream_usage",
    ),
    RefusalRow(
        endpoint="Azure AI Foundry",
        sent={"max_completion_tokens": 256},
        status=422,
        body={"error": {"code": "Invalid input", "message": '{"detail":[{"type":"extra_forbidden","loc":["body","max_completion_tokens"],"msg":"Extra inputs are not permitted","input":256,"url":"https://errors.pydantic.dev/2.10/v/extra_forbidden"}]}', "status": 422}},
        source=GITHUB + "BerriAI/litellm/issues/11696, " + GITHUB + "pydantic/pydantic-ai/issues/6593",
        changed="max_tokens_field",
        dress="azure-foundry",
        verbatim=False,
    ),
    RefusalRow(
        endpoint="Azure AI Foundry",
        sent=OPTIONS,
        status=400,
        body={"error": {"requestid": "eea1c96d-fba7-4116-9cb3-e614b9ff7652", "code": 400, "message": "Validation error at #/stream_options: Extra inputs are not permitted"}},
        source=GITHUB + "microsoft/semantic-kernel/issues/10510",
        changed="stream_usage",
        verbatim=False,
    ),
    # vLLM
    RefusalRow(
        endpoint="vLLM",
        sent={"max_completion_tokens": 8192},
        status=400,
        body=_object("[{'type': 'extra_forbidden', 'loc': ('body', 'max_completion_tokens'), 'msg': 'Extra inputs are not permitted', 'input': 8192}]"),
        source=GITHUB + "voideditor/void/issues/128",
        changed="max_tokens_field",
        dress="vllm-2024",
    ),
    RefusalRow(
        endpoint="vLLM",
        sent=DEVELOPER,
        status=400,
        body=_object("Unexpected message role."),
        source=GITHUB + "1CatAI/1Cat-vLLM/issues/493, " + GITHUB + "vllm-project/vllm/issues/17119",
        changed="system_role",
        dress="vllm",
        verbatim=False,
    ),
    RefusalRow(
        endpoint="vLLM",
        sent={"tools": [TOOL]},
        status=400,
        body=_object('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        source=GITHUB + "langchain4j/langchain4j/issues/3475",
    ),
    RefusalRow(
        endpoint="halogen-server",
        sent=DEVELOPER,
        status=400,
        body=_error("chat template rejected the request: Unexpected message role."),
        source=GITHUB + "peonist-ai/halogen-server/issues/3",
        changed="system_role",
    ),
    # SGLang
    RefusalRow(
        endpoint="SGLang",
        sent=DEVELOPER,
        status=400,
        body=_object(
            "[{'type': 'value_error', 'loc': ('body', 'messages', 0, 'ChatCompletionMessageGenericParam', 'role'), "
            f"'msg': \"Value error, {_SGLANG}\", 'input': 'developer', 'ctx': {{'error': ValueError(\"{_SGLANG}\")}}}}, "
            "{'type': 'literal_error', 'loc': ('body', 'messages', 0, 'ChatCompletionMessageUserParam', 'role'), "
            "'msg': \"Input should be 'user'\", 'input': 'developer', 'ctx': {'expected': \"'user'\"}}]",
            "Bad Request",
        ),
        source=GITHUB + "sgl-project/sglang/pull/14304",
        changed="system_role",
        dress="sglang",
    ),
    # llama.cpp
    RefusalRow(
        endpoint="llama.cpp",
        sent=DEVELOPER,
        status=500,
        body={"error": {"code": 500, "message": f"{_TEMPLATE}Jinja Exception: Unexpected message role.", "type": "server_error"}},
        source=GITHUB + "ggml-org/llama.cpp/pull/20079, " + GITHUB + "ggml-org/llama.cpp/issues/19851",
        dress="llamacpp",
        verbatim=False,
    ),
    RefusalRow(
        endpoint="llama.cpp",
        sent={"messages": [{"role": "user", "content": "Hi"}, {"role": "user", "content": "Hi?"}]},
        status=500,
        body={"error": {"code": 500, "message": f"{_TEMPLATE}Jinja Exception: After the optional system message, conversation roles must alternate user and assistant roles except for tool calls and results.", "type": "server_error"}},
        source=GITHUB + "ggml-org/llama.cpp/issues/19851",
        dress="llamacpp-mistral",
        verbatim=False,
    ),
    RefusalRow(
        endpoint="llama.cpp",
        sent={"tools": [TOOL]},
        status=500,
        body={"error": {"code": 500, "message": "tools param requires --jinja flag", "type": "server_error"}},
        source=GITHUB + "containers/ramalama/issues/988",
    ),
    RefusalRow(
        endpoint="llama.cpp",
        sent=IMAGE,
        status=500,
        body={"error": {"code": 500, "message": "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", "type": "server_error"}},
        source="corpus: 001912255eca, from 0xPlaygrounds/rig",
    ),
    # Ollama
    RefusalRow(
        endpoint="Ollama",
        sent={"tools": [TOOL]},
        status=400,
        body=_error("registry.ollama.ai/library/gemma3:4b does not support tools", "api_error"),
        source=GITHUB + "louisho5/picobot/issues/6",
        dress="ollama-without-tools",
    ),
    # LM Studio
    RefusalRow(
        endpoint="LM Studio",
        sent=DEVELOPER,
        status=400,
        body={"error": "'messages' array must only contain objects with a 'role' field that is in [user, assistant, system, tool]. Got 'developer'"},
        source=GITHUB + "lmstudio-ai/lmstudio-bug-tracker/issues/669",
        changed="system_role",
        dress="lmstudio",
    ),
    RefusalRow(
        endpoint="LM Studio",
        sent=OBJECT,
        status=400,
        body={"error": "'response_format.type' must be 'json_schema' or 'text'"},
        source=GITHUB + "LoadShine/tada/issues/16",
        dress="lmstudio",
    ),
    RefusalRow(
        endpoint="LM Studio",
        sent=NAMED,
        status=400,
        body={"error": "Invalid tool_choice type: 'object'. Supported string values: none, auto, required"},
        source=GITHUB + "antropia-studio/linguito/issues/21",
        dress="lmstudio",
    ),
    # LiteLLM
    RefusalRow(
        endpoint="LiteLLM",
        sent=PARALLEL,
        status=400,
        body=_error(_LITELLM, "None", code="400"),
        source=GITHUB + "arbs-io/github-copilot-llm-gateway/issues/79",
        changed="parallel_calls",
        dress="litellm",
    ),
    RefusalRow(
        endpoint="LiteLLM",
        sent={"max_tokens": 50},
        status=400,
        body=_error("litellm.BadRequestError: OpenAIException - Error code: 400 - {'error': {'message': \"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.\", 'type': 'invalid_request_error', 'param': 'max_tokens', 'code': 'unsupported_parameter'}}\nReceived Model Group=o1\nAvailable Model Group Fallbacks=None", None, code="400"),
        source=GITHUB + "BerriAI/litellm/issues/5803, with the words of OpenAI for this field",
        changed="max_tokens_field",
        verbatim=False,
    ),
    # Together, DashScope and OpenRouter
    RefusalRow(
        endpoint="Together",
        sent=DEVELOPER,
        status=400,
        body=_error(_QWEN, code="invalid_parameter_error"),
        source=GITHUB + "earendil-works/pi/issues/5117: the words of Qwen's server",
        changed="system_role",
        dress="together-qwen",
        verbatim=False,
    ),
    RefusalRow(
        endpoint="Together",
        sent={"temperature": 9.0},
        status=400,
        body={"message": "Input validation error", "type_": "invalid_request_error"},
        source=GITHUB + "mozilla-ai/any-llm/issues/714",
    ),
    RefusalRow(
        endpoint="OpenRouter",
        sent=DEVELOPER,
        status=400,
        body={"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": '{"error":{"message":"' + _QWEN + '","type":"invalid_request_error","param":null,"code":"invalid_parameter_error"}}', "provider_name": "Alibaba"}}},
        source=GITHUB + "earendil-works/pi/issues/5117",
        changed="system_role",
        dress="openrouter-qwen",
        verbatim=False,
    ),
    # Groq
    RefusalRow(
        endpoint="Groq",
        sent={"store": True},
        status=400,
        body={"error": {"message": "property 'store' is unsupported, did you mean 'stop'?", "type": "invalid_request_error"}},
        source=GITHUB + "fanenr/chatbot/issues/21",
    ),
    RefusalRow(
        endpoint="Groq",
        sent={"messages": [{"role": "human", "content": "Hi"}]},
        status=400,
        body={"error": {"message": "'messages.0' : discriminator property 'role' has invalid value", "type": "invalid_request_error"}},
        source=GITHUB + "nhaouari/obsidian-textgenerator-plugin/issues/309",
        verbatim=False,
    ),
    # Mistral
    RefusalRow(
        endpoint="Mistral",
        sent={"max_completion_tokens": 32000},
        status=422,
        body={"object": "error", "message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "max_completion_tokens"], "msg": "Extra inputs are not permitted", "input": 32000}]}, "type": "invalid_request_error", "param": None, "code": None, "raw_status_code": 422},
        source=GITHUB + "editor-code-assistant/eca/issues/231",
        changed="max_tokens_field",
        dress="mistral",
    ),
    RefusalRow(
        endpoint="Mistral",
        sent={"frequency_penalty": 0.0},
        status=422,
        body={"object": "error", "message": '{"detail":[{"type":"extra_forbidden","loc":["body","frequency_penalty"],"msg":"Extra inputs are not permitted","input":0.0,"url":"https://errors.pydantic.dev/2.5/v/extra_forbidden"}]}', "type": "internal_error_proxy", "param": None, "code": "1000"},
        source=GITHUB + "mistralai/platform-docs-public/issues/7",
    ),
    # DeepSeek
    RefusalRow(
        endpoint="DeepSeek",
        sent=DEVELOPER,
        status=400,
        body=_error("Failed to deserialize the JSON body into the target type: messages[0].role: unknown variant `developer`, expected one of `system`, `user`, `assistant`, `tool` at line 1 column 60", code="invalid_request_error"),
        source=GITHUB + "earendil-works/pi/issues/1048",
        changed="system_role",
        dress="deepseek",
        verbatim=False,
    ),
    RefusalRow(
        endpoint="DeepSeek",
        sent=SCHEMA,
        status=400,
        body=_error("This response_format type is unavailable now", code="invalid_request_error"),
        source=GITHUB + "llm-exe/llm-exe/issues/662",
        dress="deepseek",
    ),
    RefusalRow(
        endpoint="DeepSeek",
        sent=IMAGE,
        status=400,
        body=_error("Failed to deserialize the JSON body into the target type: messages[0]: unknown variant `image_url`, expected `text` at line 1 column 391", code="invalid_request_error"),
        source="corpus: 6f4ee0292aae, from 0xPlaygrounds/rig",
        dress="deepseek",
    ),
    # Databricks
    RefusalRow(
        endpoint="Databricks",
        sent=OPTIONS,
        status=400,
        body={"error_code": "BAD_REQUEST", "message": 'Bad request: json: unknown field "stream_options"\n'},
        source=GITHUB + "continuedev/continue/issues/12936, " + GITHUB + "anomalyco/opencode/issues/31156",
        changed="stream_usage",
        dress="databricks",
    ),
    RefusalRow(
        endpoint="Databricks",
        sent={"tools": [TOOL | {"function": TOOL["function"] | {"strict": True}}]},
        status=400,
        body={"error_code": "BAD_REQUEST", "message": "tools.0.custom.strict: Extra inputs are not permitted"},
        source=GITHUB + "tidyverse/ellmer/pull/1108",
        verbatim=False,
    ),
    # Bedrock
    RefusalRow(
        endpoint="Bedrock",
        sent={"stream": True},
        status=400,
        body={"message": "The model is unsupported for streaming."},
        source=GITHUB + "aws-samples/amazon-bedrock-client-for-mac/issues/112",
        changed="stream",
    ),
    RefusalRow(
        endpoint="Bedrock",
        sent={"reasoning_effort": {"effort": "low"}},
        status=400,
        body={"message": "The model returned the following errors: Failed to deserialize the JSON body into the target type: reasoning_effort: invalid type: map, expected a string at line 1 column 187"},
        source=GITHUB + "aws-samples/amazon-bedrock-client-for-mac/issues/114",
    ),
    # Schemas that servers refused
    RefusalRow(
        endpoint="Cerebras",
        sent=described(OPEN),
        status=422,
        body={"message": "'additionalProperties' is required to be supplied and set to false.", "type": "invalid_request_error", "param": "response_format", "code": "wrong_api_format"},
        source=GITHUB + "agno-agi/agno/issues/6013",
        changed="output_mode",
        dress="cerebras",
    ),
    RefusalRow(
        endpoint="Cerebras",
        sent=described({**CLOSED, "properties": {"a": {"type": "array", "items": TEXT, "minItems": 1}}}),
        status=400,
        body={"message": "Unsupported JSON schema fields: {'minItems'}", "type": "invalid_request_error", "param": "response_format", "code": "wrong_api_format"},
        source=GITHUB + "musistudio/claude-code-router/issues/708, which names two fields",
        changed="output_mode",
        dress="cerebras",
        verbatim=False,
    ),
    RefusalRow(
        endpoint="Groq",
        sent={"tools": [strict_tool({**CLOSED, "properties": {"a": {"anyOf": [{"type": "array", "items": OPEN}]}}})]},
        status=400,
        body={"error": {"message": "invalid JSON schema for tool browser_type, tools[0].function.parameters: /properties/a/anyOf/0/items: additionalProperties:false must be set on every object", "type": "invalid_request_error"}},
        source=GITHUB + "eigent-ai/eigent/pull/1786, where the place is another one",
        dress="groq",
        verbatim=False,
    ),
    RefusalRow(
        endpoint="Groq",
        sent=described(OPEN),
        status=400,
        body={"error": {"message": "invalid JSON schema for response_format: 'answer': additionalProperties:false must be set on every object", "type": "invalid_request_error", "param": "response_format"}},
        source=GITHUB + "Meridiona/meridian/pull/811",
        changed="output_mode",
        dress="groq",
        verbatim=False,
    ),
    RefusalRow(
        endpoint="Groq",
        sent=described(CLOSED),
        status=400,
        body={"error": {"message": "invalid JSON schema for response_format: 'answer': /properties/a/anyOf: anyOf disambiguation failed: anyOf: key-set-exclusion: required key 'title' from one variant appears in another's properties (variant 0 vs 1) [keyset_required_overlap]", "type": "invalid_request_error", "param": "response_format", "schema_path": "/properties/a/anyOf", "schema_path_segments": ["$", "properties", "a", "anyOf"], "schema_kind": "anyOf", "schema_code": "keyset_required_overlap"}},
        source="corpus: 69872273441, a published recording with a longer place",
        changed="output_mode",
        verbatim=False,
    ),
    RefusalRow(
        endpoint="vLLM",
        sent=described(CLOSED),
        status=400,
        body=_object("The provided JSON schema contains features not supported by xgrammar."),
        source=GITHUB + "vllm-project/vllm/issues/16321",
        changed="output_mode",
    ),
    RefusalRow(
        endpoint="vLLM",
        sent=described({"type": "object", "propertyNames": {"maxLength": 5}}),
        status=400,
        body=_object('Grammar error: Unimplemented keys: ["propertyNames"]'),
        source=GITHUB + "noonghunna/club-3090/issues/45",
        changed="output_mode",
        dress="vllm",
        verbatim=False,
    ),
    RefusalRow(
        endpoint="vLLM",
        sent=described({**CLOSED, "properties": {"a": {**TEXT, "format": "uri"}}}),
        status=400,
        body=_object("Grammar error: Unknown format: uri"),
        source=GITHUB + "z-lab/paroquant/issues/31",
        changed="output_mode",
        dress="vllm",
        verbatim=False,
    ),
    RefusalRow(
        endpoint="SGLang",
        sent=described({**CLOSED, "properties": {"a": {"$ref": "#/$defs/AxisScores"}}}),
        status=400,
        body=_object("Failed to compile json grammar: Cannot find field $defs in #/$defs/AxisScores"),
        source=GITHUB + "sgl-project/sglang, python/sglang/srt/constrained/grammar_manager.py at 18cc7bf; the words of xgrammar as a gateway passed them on",
        changed="output_mode",
        dress="sglang",
        verbatim=False,
    ),
    RefusalRow(
        endpoint="SGLang",
        sent=described({**CLOSED, "properties": {"a": {"type": "integer", "minimum": 0.5}}}),
        status=400,
        body=_object("Failed to compile json grammar: Integer constraint must be a whole number"),
        source=GITHUB + "mlc-ai/xgrammar, cpp/json_schema_converter.cc",
        changed="output_mode",
        dress="sglang",
        verbatim=False,
    ),
    RefusalRow(
        endpoint="llama.cpp",
        sent=described({**CLOSED, "properties": {"a": {"description": "Arguments for the tool (JSON object)"}}}),
        status=400,
        body={"error": {"code": 400, "message": 'JSON schema conversion failed:\nUnrecognized schema: {"description":"Arguments for the tool (JSON object)"}', "type": "invalid_request_error"}},
        source=GITHUB + "browseros-ai/BrowserOS/issues/255",
        changed="output_mode",
        dress="llamacpp",
    ),
    RefusalRow(
        endpoint="llama.cpp",
        sent=described({**CLOSED, "properties": {"a": {"required": ["prompt"]}}}),
        status=500,
        body={"error": {"code": 500, "message": 'JSON schema conversion failed:\nUnrecognized schema: {"required":["instructions"]}\nUnrecognized schema: {"required":["prompt"]}', "type": "server_error"}},
        source=GITHUB + "aaif-goose/goose/issues/4815",
        changed="output_mode",
    ),
    RefusalRow(
        endpoint="xAI",
        sent={"tools": [{"type": "function", "function": {"name": "exec_command", "parameters": {"type": "object", "properties": {}, "anyOf": [{"required": ["cmd"]}]}}}]},
        status=400,
        body={"code": "invalid-argument", "error": "exec_command: tool parameter root must be an object type (root schema is an anyOf/oneOf union with a non-object branch)"},
        source=GITHUB + "router-for-me/CLIProxyAPI/issues/4343, in the form of its other errors",
        dress="xai",
        verbatim=False,
    ),
    # Others
    RefusalRow(
        endpoint="DeepInfra",
        sent=DEVELOPER,
        status=422,
        body={"detail": [{"type": "literal_error", "loc": ["body", "messages", 0, "role"], "msg": "Input should be 'system', 'user', 'assistant', or 'tool'", "input": "developer"}]},
        source=GITHUB + "earendil-works/pi/pull/1578",
        changed="system_role",
        verbatim=False,
    ),
    RefusalRow(
        endpoint="Kilo",
        sent=DEVELOPER,
        status=400,
        body=_error("developer is not one of ['system', 'assistant', 'user', 'tool', 'function'] - 'messages.[0].role'"),
        source=GITHUB + "can1357/oh-my-pi/issues/843",
        changed="system_role",
        verbatim=False,
    ),
    RefusalRow(
        endpoint="Z.ai behind a gateway",
        sent=DEVELOPER,
        status=400,
        body=_error("Error from provider (Console Go): Upstream request failed: [1214] Incorrect role information", "server_error", param=""),
        source=GITHUB + "vastsa/PI-Desktop/issues/30",
        changed="system_role",
        dress="zai-gateway",
    ),
    RefusalRow(
        endpoint="a gateway that checks by Joi",
        sent=OPTIONS,
        status=400,
        body='"stream_options" is not allowed',
        source=GITHUB + "RooCodeInc/Roo-Code/issues/83",
        changed="stream_usage",
        verbatim=False,
    ),
)  # fmt: skip

OLLAMA = "ollama/ollama: openai/openai.go, at fb30760: its request type has no such field"

IGNORED: tuple[IgnoredRow, ...] = (
    *(
        IgnoredRow(endpoint="Ollama", field=field, source=OLLAMA, dress="ollama")
        for field in ("max_completion_tokens", "parallel_tool_calls", "tool_choice")
    ),
    IgnoredRow(
        endpoint="Snowflake",
        field="max_tokens",
        source=GITHUB + "langchain-ai/langchain-snowflake/issues/132",
        dress="snowflake",
    ),
)
