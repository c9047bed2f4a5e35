"""The dresses of the emulator: what an endpoint of the Chat Completions wire takes and refuses, and how it answers.

A dress is a row of data. Each rule and each text has a source, which a comment names or which
`tests/wire/refusal_table.py` has. This module must never refuse what no endpoint was seen to refuse, and
must never decide by the name of a dress.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.errors import ConfigurationError
from holdfast.testing.emulator.emulated_request import EmulatedRequest, find_limit
from holdfast.testing.emulator.wires.dress_words import (
    ErrorForm,
    SchemaForm,
    word_cerebras,
    word_groq,
    word_mistral,
    word_reasoning,
)
from holdfast.testing.emulator.wires.openai_fields import (
    CHAT,
    CHAT_CALL,
    CHAT_PARTS,
    CHAT_TOOL,
    MOST_TOOLS,
    WORD_OR_OBJECT,
    Fields,
)
from holdfast.testing.emulator.wires.request_rules import (
    ANY,
    OBJECT,
    REFUSED,
    TEXT,
    FieldRule,
    RefusalWording,
    by_tag,
    choice,
    list_of,
    object_of,
    word_openai,
)

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_SPOKEN_ROLES = frozenset({"developer", "user", "tool"})
_SHOWN = frozenset(
    {"refuses", "ignores", "finish_field", "formats", "named_choice", "reasoning_field", "usage"}
)
CHAT_LIMITS: Final = ("max_completion_tokens", "max_tokens")
"""The fields with the limit of a reply, in order of precedence."""

_FORMATS = ("text", "json_object", "json_schema")


class Dress(Struct, frozen=True, kw_only=True, eq=False):
    """What an endpoint of the Chat Completions wire takes, ignores and refuses, and how it answers.

    Make one of your own by `msgspec.structs.replace(DRESSES["vllm"], refuses=("stream_options",))`.

    Args:
        fields: the names of the fields that it takes; None for all, since it passes over unknown ones.
        refuses: fields that it refuses all the same; "strict" is that of a tool.
        ignores: fields that it takes and that have no effect.
        named_choice: whether it follows a `tool_choice` that names a tool; else it reads none, in silence.
        own: the rules of its own fields, and of those that differ from OpenAI's.
        message: the fields of a message; None if it passes over unknown ones.
        closed: whether it refuses unknown parts of a content, and unknown fields of parts and calls.
        roles: the roles of messages that it takes.
        formats: the types of `response_format` that it takes.
        images: whether it takes images.
        alternates: whether user and assistant messages must alternate.
        answers_results: the models, as a pattern, that refuse a user message after results.
        marked_end: whether it refuses a reply at the end that has no mark.
        call_id: the pattern of the ids of calls; "" for any.
        needs_reasoning: whether the assistant's messages must have `reasoning_content` while the model thinks.
        words: how it words a refusal.
        schema_words: how it words the refusal of a schema.
        tools: the dialect of schemas of tools; "" if it takes all.
        strict_tools: the dialect of those that are strict.
        outputs: the dialect of schemas of outputs.
        strict_outputs: the dialect of those that are strict.
        reasoning_field: the field of a message in which it sends reasoning; a tag such as "<think>"
            sends it at the beginning of the content.
        usage: whether a stream reports its tokens "asked" by `stream_options`, "always" or "never".
        finish_field: the field of a choice with the reason why the reply ended: "finish_reason"; only
            the vendor's word, in "native_finish_reason"; or none ("").
        end_marker: whether a stream ends with `[DONE]`.

    >>> request = EmulatedRequest(body={"max_tokens": 5}, max_tokens=5)
    >>> Dress(ignores=("max_tokens",)).read_request(request).max_tokens is None
    True
    """

    fields: frozenset[str] | None = None
    refuses: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()
    named_choice: bool = True
    own: Fields = {}
    message: tuple[str, ...] | None = None
    closed: bool = False
    roles: tuple[str, ...] = _ROLES
    formats: tuple[str, ...] = _FORMATS
    images: bool = True
    alternates: bool = False
    answers_results: str = ""
    marked_end: bool = False
    call_id: str = ""
    needs_reasoning: bool = False
    words: RefusalWording = word_openai
    schema_words: SchemaForm = SchemaForm()
    tools: str = ""
    strict_tools: str = ""
    outputs: str = ""
    strict_outputs: str = ""
    reasoning_field: str = "reasoning_content"
    usage: Literal["asked", "always", "never"] = "asked"
    finish_field: Literal["finish_reason", "native_finish_reason", ""] = "finish_reason"
    end_marker: bool = True

    def __repr__(self) -> str:
        """Show only what differs from a server that takes everything; rules and words by their names."""
        usual = Dress()
        names = [n for n in self.__struct_fields__ if getattr(self, n) != getattr(usual, n)]
        shown = (f"{n}={getattr(self, n)!r}" if n in _SHOWN else f"{n}=..." for n in names)
        return f"Dress({', '.join(shown)})"

    def make_rule(self) -> FieldRule:
        """Return the rule for the whole request."""
        own: dict[str, FieldRule] = {"response_format": self._make_format_rule(), **self.own}
        own["messages"] = self._make_message_rule()
        if "strict" in self.refuses:
            own["tools"] = _NO_STRICT_TOOLS
        own.update((name, REFUSED) for name in self.refuses if name != "strict")
        if self.fields is None:
            # The ranges are those of OpenAI, so only the types are known.
            typed = {name: FieldRule(kinds=rule.kinds) for name, rule in CHAT.items()}
            return object_of({**typed, **own}, others=True)
        rules = {**CHAT, **own}
        return object_of({name: rules.get(name, ANY) for name in self.fields})

    def read_request(self, request: EmulatedRequest) -> EmulatedRequest:
        """Return the request as the endpoint understands it, without what it ignores."""
        if not self.ignores and self.usage == "asked" and self.named_choice:
            return request
        body = {name: value for name, value in request.body.items() if name not in self.ignores}
        if not self.named_choice and isinstance(body.get("tool_choice"), dict):
            del body["tool_choice"]
        options: Any = body.get("stream_options") or {}
        asked = isinstance(options, dict) and options.get("include_usage") is True
        return replace(
            request,
            body=body,
            tools=request.tools if "tools" in body else (),
            max_tokens=find_limit(body, *CHAT_LIMITS),
            include_usage=self.usage == "always" or (self.usage == "asked" and asked),
        )

    def _make_format_rule(self) -> FieldRule:
        usual = CHAT["response_format"]
        if self.formats == _FORMATS:
            return OBJECT if self.fields is None else usual
        variants = {
            name: OBJECT if self.fields is None else rule for name, rule in usual.variants.items()
        }
        return by_tag({name: variants[name] for name in self.formats})

    def _make_message_rule(self) -> FieldRule:
        parts = by_tag(CHAT_PARTS) if self.closed else OBJECT
        if not self.images:
            kept = {name: rule for name, rule in CHAT_PARTS.items() if name != "image_url"}
            parts = by_tag(dict.fromkeys(kept, ANY) if not self.closed else kept)
        content = FieldRule(kinds=("string", "array"), items=parts)
        calls = list_of(CHAT_CALL if self.closed else OBJECT)
        fields: dict[str, FieldRule] = dict.fromkeys(self.message or (), ANY)
        others = self.message is None
        spoken = object_of({**fields, "content": content}, others=others)
        replied = object_of({**fields, "content": content, "tool_calls": calls}, others=others)
        # OpenAI's server passed over a `cache_control` in the parts of a message with the role "system", and
        # refused it under "developer".
        plain = object_of(fields, others=True) if others else spoken
        roles = dict.fromkeys(self.roles, plain)
        roles.update(dict.fromkeys(_SPOKEN_ROLES & roles.keys(), spoken))
        if "assistant" in roles:
            roles["assistant"] = replied
        rule = by_tag(roles, "role", closed=self.roles != _ROLES)
        return FieldRule(kinds=("array",), items=rule, alternates=self.alternates)


_NO_STRICT_TOOLS = list_of(
    by_tag(
        {
            "function": object_of(
                {"function": object_of({"strict": REFUSED}, others=True)}, others=True
            )
        },
        closed=False,
        default="function",
    )
)


_WITHOUT_DEVELOPER = tuple(role for role in _ROLES if role != "developer")


def _error(**more: object) -> Mapping[str, object]:
    return {"error": {"message": "{text}", "type": "invalid_request_error", **more}}


_NO_CODE = _error(param=None, code=None)
_AZURE = ErrorForm(unknown="Unrecognized request argument supplied: {field}", body=_NO_CODE)
_FOUNDRY = ErrorForm(
    unknown='{{"detail":[{{"type":"extra_forbidden","loc":["body","{field}"],"msg":"Extra inputs are not permitted",'
    '"input":{json},"url":"https://errors.pydantic.dev/2.10/v/extra_forbidden"}}]}}',
    body={"error": {"code": "Invalid input", "message": "{text}", "status": "{status}"}},
    status=422,
)
_VLLM = ErrorForm(
    unknown="[{{'type': 'extra_forbidden', 'loc': {location}, 'msg': 'Extra inputs are not permitted', "
    "'input': {input}}}]",
    role="Unexpected message role.",
    body={
        "object": "error",
        "message": "{text}",
        "type": "BadRequestError",
        "param": None,
        "code": "{status}",
    },
)
_SGLANG_ROLES = (
    "'role' must be one of 'system', 'assistant', 'tool', or 'function' (case-insensitive)."
)
_SGLANG = ErrorForm(
    role="[{{'type': 'value_error', 'loc': ('body', 'messages', {index}, 'ChatCompletionMessageGenericParam', 'role'), "
    f"'msg': \"Value error, {_SGLANG_ROLES}\", 'input': '{{value}}', "
    f"'ctx': {{{{'error': ValueError(\"{_SGLANG_ROLES}\")}}}}}}}}, "
    "{{'type': 'literal_error', 'loc': ('body', 'messages', {index}, 'ChatCompletionMessageUserParam', 'role'), "
    "'msg': \"Input should be 'user'\", 'input': '{value}', 'ctx': {{'expected': \"'user'\"}}}}]",
    body={
        "object": "error",
        "message": "{text}",
        "type": "Bad Request",
        "param": None,
        "code": "{status}",
    },
)
_IN_TEMPLATE = (
    "\n------------\nWhile executing CallExpression at line 189, column 32 in source:\n...\nError: "
)
_LLAMACPP_WORDS = ErrorForm(
    role=f"{_IN_TEMPLATE}Jinja Exception: Unexpected message role.",
    order=f"{_IN_TEMPLATE}Jinja Exception: After the optional system message, conversation roles must alternate "
    "user and assistant roles except for tool calls and results.",
    body={"error": {"code": "{status}", "message": "{text}", "type": "{kind}"}},
    template_status=500,
)
# BrowserOS#255; it answered 500 before llama.cpp#17572.
_LLAMACPP_SCHEMAS = SchemaForm(
    output="JSON schema conversion failed:\n{problem}", body=_LLAMACPP_WORDS.body
)
_LLAMACPP = Dress(
    roles=_WITHOUT_DEVELOPER,
    named_choice=False,  # llama.cpp#26535
    words=_LLAMACPP_WORDS,
    schema_words=_LLAMACPP_SCHEMAS,
    outputs="llama_cpp",
    strict_outputs="llama_cpp",
)
_OLLAMA = Dress(
    ignores=("max_completion_tokens", "parallel_tool_calls", "tool_choice"),
    outputs="llama_cpp",
    strict_outputs="llama_cpp",
    reasoning_field="reasoning",
    words=ErrorForm(body=_NO_CODE),
    # Of its words only the beginning is on record.
    schema_words=SchemaForm(output="invalid JSON schema in format: {at}{problem}", body=_NO_CODE),
)
_OLLAMA_WITHOUT_TOOLS = ErrorForm(
    unknown="registry.ollama.ai/library/gemma3:4b does not support {field}",
    body={"error": {"message": "{text}", "type": "api_error", "param": None, "code": None}},
)
_LMSTUDIO = ErrorForm(
    role="'messages' array must only contain objects with a 'role' field that is in [user, assistant, system, tool]. "
    "Got '{value}'",
    format="'response_format.type' must be 'json_schema' or 'text'",
    tool_choice="Invalid tool_choice type: 'object'. Supported string values: none, auto, required",
    body={"error": "{text}"},
)
_LITELLM = ErrorForm(
    unknown="litellm.UnsupportedParamsError: ollama does not support parameters: ['{field}'], for model=phi4-mini:3.8b. "
    "To drop these, set litellm.drop_params=True or for proxy:\n\nlitellm_settings:\n drop_params: true\n. \n If you "
    "want to use these params dynamically send allowed_openai_params=['{field}'] in your request.. "
    "Received Model Group=phi4-mini:3.8b\nAvailable Model Group Fallbacks=None",
    body={"error": {"message": "{text}", "type": "None", "param": None, "code": "400"}},
)
_QWEN_ROLES = "{value} is not one of ['system', 'assistant', 'user', 'tool', 'function']"
_DASHSCOPE = ErrorForm(role=_QWEN_ROLES, body=_error(param=None, code="invalid_parameter_error"))
_OPENROUTER = ErrorForm(
    role=_QWEN_ROLES,
    body={
        "error": {
            "message": "Provider returned error",
            "code": "{status}",
            "metadata": {
                "raw": 'json:{"error":{"message":"{text}","type":"invalid_request_error","param":null,'
                '"code":"invalid_parameter_error"}}',
                "provider_name": "Alibaba",
            },
        }
    },
)
_DATABRICKS = ErrorForm(
    unknown='Bad request: json: unknown field "{field}"\n',
    body={"error_code": "BAD_REQUEST", "message": "{text}"},
)
_ZAI = ErrorForm(
    role="Error from provider (Console Go): Upstream request failed: [1214] Incorrect role information",
    body={"error": {"message": "{text}", "type": "server_error", "param": "", "code": None}},
)
# pi#1048, llm-exe#662, a recorded refusal of an image, and "Missing `reasoning_content` field in the assistant message at
# message index 2." (GitNexus#43).
_DEEPSEEK = Dress(
    needs_reasoning=True,
    roles=("system", "user", "assistant", "tool"),
    formats=("text", "json_object"),
    images=False,
    words=ErrorForm(
        role="Failed to deserialize the JSON body into the target type: messages[{index}].role: unknown variant "
        "`{value}`, expected one of `system`, `user`, `assistant`, `tool` at line 1 column 60",
        format="This response_format type is unavailable now",
        part="Failed to deserialize the JSON body into the target type: messages[{index}]: unknown variant `{value}`, "
        "expected `text` at line 1 column 391",
        body=_error(param=None, code="invalid_request_error"),
    ),
)

_SPOKEN = ("role", "content", "name", "tool_calls", "tool_call_id", "refusal")
_COMMON = frozenset(
    {
        "frequency_penalty",
        "max_tokens",
        "messages",
        "model",
        "n",
        "parallel_tool_calls",
        "presence_penalty",
        "reasoning_effort",
        "response_format",
        "stop",
        "stream",
        "temperature",
        "tool_choice",
        "tools",
        "top_p",
    }
)
_USUAL = _COMMON | {
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "seed",
    "service_tier",
    "stream_options",
    "top_logprobs",
    "user",
}
# Efforts and tiers of these providers have other names; so has a choice of tools ("any"), and a tool without a
# type is a function. Groq has tools of its own, such as {"type": "browser_search"}.
_LOOSE: Fields = {
    "reasoning_effort": TEXT,
    "service_tier": TEXT,
    "tool_choice": WORD_OR_OBJECT,
    "tools": list_of(replace(CHAT_TOOL, default="function", closed=False), longest=MOST_TOOLS),
}

DRESSES: Final[Mapping[str, Dress]] = {
    **dict.fromkeys(
        ("openai", "azure", "azure-v1"),
        Dress(
            fields=frozenset(CHAT),
            closed=True,
            tools="openai_tool",
            strict_tools="openai_strict",
            strict_outputs="openai_strict",
        ),
    ),
    # Its API reference, and "property 'body.prompt_cache_key' is unsupported"; `reasoning_content` of a message too.
    "cerebras": Dress(
        fields=_USUAL
        | {
            "clear_thinking",
            "disable_reasoning",
            "min_completion_tokens",
            "min_tokens",
            "prediction",
            "reasoning_format",
        },
        own=_LOOSE,
        message=(*_SPOKEN, "reasoning"),
        words=word_cerebras,
        # agno#6013, claude-code-router#708.
        schema_words=SchemaForm(
            output="{problem}",
            body={
                "message": "{text}",
                "type": "invalid_request_error",
                "param": "response_format",
                "code": "wrong_api_format",
            },
            statuses={"closes_objects": 422},
        ),
        strict_tools="cerebras",
        strict_outputs="cerebras",
    ),
    # Its API reference, and "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' :
    # property 'reasoning_content' is unsupported)]".
    "groq": Dress(
        fields=_USUAL
        | {
            "citation_options",
            "compound_custom",
            "disable_tool_validation",
            "documents",
            "exclude_domains",
            "function_call",
            "functions",
            "include_domains",
            "include_reasoning",
            "metadata",
            "reasoning_format",
            "search_settings",
            "store",
        },
        own=_LOOSE,
        message=(*_SPOKEN, "reasoning"),
        words=word_groq,
        # eigent#1786, meridian#811.
        schema_words=SchemaForm(
            output="invalid JSON schema for response_format: '{name}': {at}{problem}",
            tool="invalid JSON schema for tool {name}, {field}: {at}{problem}",
            body=_error(param="response_format"),
            tool_body=_error(),
        ),
        strict_tools="groq_strict",
        strict_outputs="groq_strict",
    ),
    # Its API reference, and "Extra inputs are not permitted" for max_completion_tokens, store, chat_template_kwargs and
    # messages[1].name of a user.
    "mistral": Dress(
        fields=_COMMON
        | {
            "document_image_limit",
            "document_page_limit",
            "guardrails",
            "metadata",
            "prediction",
            "prompt_cache_key",
            "prompt_mode",
            "random_seed",
            "safe_prompt",
        },
        own=_LOOSE,
        message=(*_SPOKEN, "prefix"),
        words=word_mistral,
        # "Unexpected role 'user' after role 'tool'" (litellm#17761; small models took it, as recorded), "Expected last role
        # User or Tool (or Assistant with prefix True) for serving but got assistant" (rig#1130), "Tool call id was call_x but
        # must be a-z, A-Z, 0-9, with a length of 9."
        answers_results="devstral",
        marked_end=True,
        call_id="[a-zA-Z0-9]{9}",
    ),
    # These servers take any field: their request types allow or drop unknown ones. Of those of Fireworks, and of Gemini on
    # this wire, no refusal is known.
    **dict.fromkeys(("bedrock-openai", "fireworks", "gemini-openai", "openrouter"), Dress()),
    # Its schemas are always enforced. CLIProxyAPI#4343, and the form of its other errors.
    "xai": Dress(
        schema_words=SchemaForm(
            output="{at}{problem}",
            tool="{name}: {problem}",
            body={"code": "invalid-argument", "error": "{text}"},
        ),
        tools="xai",
        strict_tools="xai",
        outputs="xai",
        strict_outputs="xai",
    ),
    # Before 2024-10-21. openai-python#1724, Azure/azure-sdk-for-net#45719, pydantic-ai#169.
    "azure-2024": Dress(
        fields=frozenset(CHAT) - {"max_completion_tokens", "parallel_tool_calls", "stream_options"},
        closed=True,
        words=_AZURE,
    ),
    # A model of the series o, or one of GPT-5 that a proxy or a deployment gives a name of its own.
    "openai-reasoning": Dress(
        fields=frozenset(CHAT),
        refuses=("max_tokens", "parallel_tool_calls"),
        closed=True,
        words=word_reasoning,
        strict_outputs="openai_strict",
    ),
    # Mistral's models at Azure AI Foundry: litellm#11696, pydantic-ai#6593.
    "azure-foundry": Dress(refuses=("stream_options", "max_completion_tokens"), words=_FOUNDRY),
    "deepseek": _DEEPSEEK,
    "deepseek-beta": _DEEPSEEK,
    # Its API reference: `logprobs` is the number of alternatives.
    "together": Dress(own={"logprobs": FieldRule(kinds=("integer", "boolean"))}),
    # Qwen's own server, and those that pass its errors on.
    "dashscope": Dress(roles=_WITHOUT_DEVELOPER, words=_DASHSCOPE),
    "together-qwen": Dress(roles=_WITHOUT_DEVELOPER, words=_DASHSCOPE),
    "openrouter-qwen": Dress(roles=_WITHOUT_DEVELOPER, words=_OPENROUTER),
    # The chat template of the model judges the roles: of Qwen's llama.cpp#20079, of Mistral's llama.cpp#19851.
    "llamacpp": _LLAMACPP,
    "llamacpp-mistral": replace(_LLAMACPP, alternates=True),
    # Its request type has no other fields, and unknown ones are dropped: openai/openai.go.
    "ollama": _OLLAMA,
    "ollama-cloud": _OLLAMA,
    "ollama-without-tools": replace(_OLLAMA, refuses=("tools",), words=_OLLAMA_WITHOUT_TOOLS),
    "lmstudio": Dress(
        roles=("system", "user", "assistant", "tool"),
        formats=("text", "json_schema"),
        own={"tool_choice": choice("none auto required")},
        words=_LMSTUDIO,
    ),
    # Qwen's template, with a server since 0.7.
    "vllm": Dress(
        roles=_WITHOUT_DEVELOPER,
        words=_VLLM,
        # What xgrammar does not take goes to llguidance: paroquant#31, club-3090#45.
        schema_words=SchemaForm(output="Grammar error: {problem}", body=_VLLM.body),
        outputs="llguidance",
        strict_outputs="llguidance",
    ),
    # Before 0.7, when the request type forbade unknown fields: void#128.
    "vllm-2024": Dress(
        refuses=("max_completion_tokens", "parallel_tool_calls"),
        roles=_WITHOUT_DEVELOPER,
        words=_VLLM,
    ),
    # Before 0.5.7: sglang#14304. A tool's schema is a grammar only if the tool is strict.
    "sglang": Dress(
        roles=_WITHOUT_DEVELOPER,
        words=_SGLANG,
        # python/sglang/srt/constrained/grammar_manager.py
        schema_words=SchemaForm(
            output="Failed to compile json grammar: {problem}", body=_VLLM.body
        ),
        strict_tools="xgrammar",
        outputs="xgrammar",
        strict_outputs="xgrammar",
    ),
    # Before a server of Ollama, without `drop_params`.
    "litellm": Dress(refuses=("parallel_tool_calls",), words=_LITELLM),
    # It decodes the request strictly: continue#12936, opencode#31156.
    "databricks": Dress(refuses=("stream_options",), usage="never", words=_DATABRICKS),
    # It takes `max_tokens` and stops at 4,096: langchain-snowflake#132.
    "snowflake": Dress(ignores=("max_tokens",)),
    # Z.ai's models behind a gateway: "[1214] Incorrect role information".
    "zai-gateway": Dress(roles=_WITHOUT_DEVELOPER, words=_ZAI),
}
"""The dresses by name: each preset of the Chat Completions wire has one, and other servers have some more."""


def get_dress(dress: str | Dress) -> Dress:
    """Return a dress by its name.

    Raises:
        ConfigurationError: no dress has this name.
    """
    if isinstance(dress, Dress):
        return dress
    if dress not in DRESSES:
        names = ", ".join(DRESSES)
        raise ConfigurationError("dress", f"{dress!r} is not known", fix=f"Use one of {names}")
    return DRESSES[dress]
