"""The presets: for each provider the base URL, the wire, and how its form of the wire differs.

Each provider is one row. A difference between two providers of one wire is a field here or in
`EndpointProfile`, never an `if` on a name. This module names environment variables for API keys but does not
read them; `models.resolve` does.

`base_url` is everything before the wire's own path, which is `/chat/completions`, `/responses`,
`/v1/messages` or `/models/{model}:generateContent`. The user replaces placeholders in braces. An error
never repeats a base URL: it may be a key that was written into the wrong argument.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from holdfast.codecs.endpoint_profile import EndpointProfile, ThinkingTag
from holdfast.codecs.wire import to_path_segment
from holdfast.core.errors import ConfigurationError
from holdfast.core.redaction import MARK, quote_setting, redact
from holdfast.transport.port import Timeouts

Wire: TypeAlias = Literal["openai_chat", "openai_responses", "anthropic", "gemini"]
Auth: TypeAlias = Literal["bearer", "x-api-key", "api-key", "x-goog-api-key", "none"]
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]{0,15}://)", re.IGNORECASE)
_PUBLIC_PARAMETERS = frozenset({"api-version", "alt"})


class Preset(Struct, frozen=True, kw_only=True):
    """The settings for calling one provider, except the API key.

    Args:
        name: the name before the colon, such as "groq" in "groq:llama-3.3-70b-versatile".
        wire: the provider's wire.
        base_url: the base URL; it may hold placeholders such as `{region}`.
        key_env: the environment variables for the API key, in order of precedence; empty if the
            provider works without a key.
        auth: how the key is sent.
        headers: additional headers of each request, names in lower case.
        profile: how the provider's form of the wire differs.
        profile_elsewhere: the profile at an address that is not the provider's own, where another
            server speaks its wire; None for the same one.
        timeouts: the limits of one attempt, for an agent that sets none.
        streams: whether `run()` also receives replies as a stream, so that it notices a server that
            falls silent. Not for local servers: they read a prompt for minutes, and their parsers of
            tool calls are more reliable for whole replies.
        path: replaces the wire's own path; `{model}` stands for the model.
        models_hint: an example of a model's name.
    """

    name: str
    wire: Wire
    base_url: str
    key_env: tuple[str, ...] = ()
    auth: Auth = "bearer"
    headers: tuple[tuple[str, str], ...] = ()
    profile: EndpointProfile = EndpointProfile()
    profile_elsewhere: EndpointProfile | None = None
    timeouts: Timeouts = Timeouts()
    streams: bool = True
    path: str = ""
    models_hint: str = ""

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The placeholders of `base_url`, each once, in order.

        >>> PRESETS["bedrock-openai"].placeholders
        ('region',)
        """
        return tuple(dict.fromkeys(_PLACEHOLDER.findall(self.base_url)))

    def resolve_base_url(self, base_url: str = "") -> str:
        """Return the base URL, without a slash at its end.

        Args:
            base_url: the user's base URL; "" for the preset's own.

        Raises:
            ConfigurationError: the URL still has placeholders, or is not an http(s) URL.

        >>> PRESETS["groq"].resolve_base_url()
        'https://api.groq.com/openai/v1'
        >>> PRESETS["ollama"].resolve_base_url("http://gpu:11434/v1/")
        'http://gpu:11434/v1'
        """
        url = base_url or self.base_url
        if missing := _PLACEHOLDER.findall(url):
            raise ConfigurationError(
                "base_url",
                f"{self.name} needs a URL with {', '.join(dict.fromkeys(missing))} filled in",
                fix=f"pass base_url in the form {self.base_url}",
            )
        return check_base_url(url)

    def profile_at(self, base_url: str) -> EndpointProfile:
        """Return the profile of the server at a base URL; subdomains of the provider belong to it.

        >>> PRESETS["openai"].profile_at("https://eu.api.openai.com/v1").system_role
        'developer'
        >>> PRESETS["openai"].profile_at("https://gateway.example/v1").system_role
        'system'
        """
        if self.profile_elsewhere is None or self.is_own_address(base_url):
            return self.profile
        return self.profile_elsewhere

    def is_own_address(self, base_url: str) -> bool:
        """Whether the provider itself is at a base URL, and not another server that speaks its wire.

        >>> PRESETS["azure"].is_own_address("https://mine.openai.azure.com")
        True
        >>> PRESETS["openai"].is_own_address("https://gateway.example/v1")
        False
        """
        own = re.escape(urlsplit(self.base_url).hostname or "")
        # The location "global" of Vertex AI has no prefix.
        own = re.sub(r"\\\{\w+\\\}\\-", r"(?:[a-z0-9-]+-)?", own)
        own = re.sub(r"\\\{\w+\\\}", r"[a-z0-9-]+", own)
        host = urlsplit(base_url).hostname or ""
        return re.fullmatch(rf"(?:[a-z0-9-]+\.)*{own}", host) is not None

    def path_for(self, path: str, model: str) -> str:
        """Return the path below the base URL: the wire's own, or the provider's.

        Args:
            path: the path that the codec returned.
            model: the model of the request.

        Raises:
            ConfigurationError: the model's name cannot stand in a path.

        >>> PRESETS["azure"].path_for("/chat/completions", "my-gpt")
        '/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21'
        """
        return self.path.replace("{model}", to_path_segment(model)) if self.path else path

    def auth_headers(self, key: str) -> tuple[tuple[str, str], ...]:
        """Return the headers with the API key; none without a key.

        >>> PRESETS["anthropic"].auth_headers("k")
        (('x-api-key', 'k'),)
        """
        if not key or self.auth == "none":
            return ()
        if self.auth == "bearer":
            return (("authorization", f"Bearer {key}"),)
        return ((self.auth, key),)


_PLACEHOLDER = re.compile(r"\{(\w+)\}")

# Models with open weights think in these tags, and a server that was started without the parser of
# its model's reasoning sends them as text: lmstudio-bug-tracker#1569, cot_proxy#3 and ollama#16936
# (imported models), the table of docs.sglang.io/advanced_features/separate_reasoning, and the model
# card of Magistral for [THINK]. Replies with a field for reasoning are not searched for tags.
_OPEN_WEIGHTS: tuple[ThinkingTag, ...] = ("<think>", "[THINK]")

# Other servers refuse the role `developer` and strict tools, and many ignore an unknown `max_completion_tokens` in
# silence, while a server that wants the newer forms says so.
_OPENAI_ELSEWHERE = EndpointProfile(cache="key")

_OLLAMA = EndpointProfile(
    forces_tools="",  # its request type has no `tool_choice`
    thinking_tags=_OPEN_WEIGHTS,
    alternating_roles=True,
    ends_without_finish=True,
    reasoning_field="reasoning",
    output_mode_with_tools="tool",
    output_dialect="llama_cpp",
    images="inline",
)

_DEEPSEEK = EndpointProfile(
    reasoning="thinking",
    output_mode="prompt",
    output_mode_with_tools="prompt",
    reasoning_field="reasoning_content",
    reasoning_required=True,
    images="none",
    videos=False,
    response_format="json_object",
)

_CLAUDE = EndpointProfile(prefill="last_message")

# A local server may read a long prompt for minutes, with or without signs of life.
_LOCAL = Timeouts(first_byte=300.0, first_content=300.0)

_AZURE_VERSION = "2024-10-21"

_ROWS = (
    Preset(
        name="openai",
        wire="openai_chat",
        base_url="https://api.openai.com/v1",
        key_env=("OPENAI_API_KEY",),
        profile=EndpointProfile(
            max_tokens_field="max_completion_tokens",
            system_role="developer",
            state_fields=(),
            audio_by_id=True,
            videos=False,
            cache="key",
            strict_tools=True,
        ),
        profile_elsewhere=_OPENAI_ELSEWHERE,
        models_hint="gpt-5.2",
    ),
    Preset(
        name="openai-responses",
        wire="openai_responses",
        base_url="https://api.openai.com/v1",
        key_env=("OPENAI_API_KEY",),
        profile=EndpointProfile(strict_tools=True, tool_search=True),
        profile_elsewhere=EndpointProfile(),
        models_hint="gpt-5.2",
    ),
    # The dated API, with the deployment in the path. A deployment is the user's own name for a
    # model, so `model` is the deployment.
    Preset(
        name="azure",
        wire="openai_chat",
        base_url="https://{resource}.openai.azure.com",
        key_env=("AZURE_OPENAI_API_KEY",),
        auth="api-key",
        profile=EndpointProfile(state_fields=(), audio_by_id=True, videos=False),
        path=f"/openai/deployments/{{model}}/chat/completions?api-version={_AZURE_VERSION}",
        models_hint="the name of your deployment",
    ),
    Preset(
        name="azure-v1",
        wire="openai_chat",
        base_url="https://{resource}.openai.azure.com/openai/v1",
        key_env=("AZURE_OPENAI_API_KEY",),
        auth="api-key",
        profile=EndpointProfile(
            max_tokens_field="max_completion_tokens",
            state_fields=(),
            audio_by_id=True,
            videos=False,
            cache="key",
        ),
        models_hint="the name of your deployment",
    ),
    Preset(
        name="azure-responses",
        wire="openai_responses",
        base_url="https://{resource}.openai.azure.com/openai/v1",
        key_env=("AZURE_OPENAI_API_KEY",),
        auth="api-key",
        models_hint="the name of your deployment",
    ),
    Preset(
        name="openrouter",
        wire="openai_chat",
        base_url="https://openrouter.ai/api/v1",
        key_env=("OPENROUTER_API_KEY",),
        profile=EndpointProfile(
            output_mode="tool",
            output_mode_with_tools="tool",
            reasoning="object",
            cache="control",
            alternating_roles=True,
            reasoning_field="reasoning",
            state_fields=("extra_content", "reasoning_details"),
        ),
        models_hint="anthropic/claude-sonnet-4.5",
    ),
    Preset(
        name="groq",
        wire="openai_chat",
        base_url="https://api.groq.com/openai/v1",
        key_env=("GROQ_API_KEY",),
        # `reasoning_format` is "raw" by default: console.groq.com/docs/reasoning.
        profile=EndpointProfile(
            thinking_tags=("<think>",),
            state_fields=(),
            output_mode="tool",
            output_mode_with_tools="tool",
            max_tokens_field="max_completion_tokens",
            output_dialect="groq_strict",
            strict_models="gpt-oss",
        ),
        models_hint="llama-3.3-70b-versatile",
    ),
    # Rejects unknown fields, and always sends usage in the last chunk. Reasoning is in blocks of the
    # content, and the id of a call has nine letters and digits.
    Preset(
        name="mistral",
        wire="openai_chat",
        base_url="https://api.mistral.ai/v1",
        key_env=("MISTRAL_API_KEY",),
        profile=EndpointProfile(
            state_fields=(),
            output_mode_with_tools="tool",
            stream_usage=False,
            reasoning_field="content",
            seed_field="random_seed",
            alternating_roles=True,
            call_id_length=9,
            prefill="prefix_echo",
        ),
        models_hint="mistral-large-latest",
    ),
    # Rejects a history in which a reply with calls lacks its reasoning.
    Preset(
        name="deepseek",
        wire="openai_chat",
        base_url="https://api.deepseek.com/v1",
        key_env=("DEEPSEEK_API_KEY",),
        profile=_DEEPSEEK,
        models_hint="deepseek-chat",
    ),
    # The same models, at the URL that supports continued replies.
    Preset(
        name="deepseek-beta",
        wire="openai_chat",
        base_url="https://api.deepseek.com/beta",
        key_env=("DEEPSEEK_API_KEY",),
        profile=replace(_DEEPSEEK, prefill="prefix"),
        models_hint="deepseek-chat",
    ),
    # The arguments of tools always conform to their schema, whatever `strict` says.
    Preset(
        name="xai",
        wire="openai_chat",
        base_url="https://api.x.ai/v1",
        key_env=("XAI_API_KEY",),
        profile=EndpointProfile(output_dialect="xai", tool_dialect="xai"),
        models_hint="grok-4",
    ),
    Preset(
        name="xai-responses",
        wire="openai_responses",
        base_url="https://api.x.ai/v1",
        key_env=("XAI_API_KEY",),
        profile=EndpointProfile(output_dialect="xai", tool_dialect="xai"),
        models_hint="grok-4",
    ),
    Preset(
        name="together",
        wire="openai_chat",
        base_url="https://api.together.xyz/v1",
        key_env=("TOGETHER_API_KEY",),
        profile=EndpointProfile(output_mode_with_tools="tool"),
        models_hint="meta-llama/Llama-3.3-70B-Instruct-Turbo",
    ),
    Preset(
        name="fireworks",
        wire="openai_chat",
        base_url="https://api.fireworks.ai/inference/v1",
        key_env=("FIREWORKS_API_KEY",),
        # DeepSeek R1 thinks in the text: AIProxySwift#101.
        profile=EndpointProfile(output_mode_with_tools="tool", thinking_tags=("<think>",)),
        models_hint="accounts/fireworks/models/llama-v3p3-70b-instruct",
    ),
    Preset(
        name="cerebras",
        wire="openai_chat",
        base_url="https://api.cerebras.ai/v1",
        key_env=("CEREBRAS_API_KEY",),
        profile=EndpointProfile(
            state_fields=(),
            output_mode_with_tools="tool",
            forces_tools="",
            max_tokens_field="max_completion_tokens",
            reasoning_field="reasoning",
            output_dialect="cerebras",
        ),
        models_hint="gpt-oss-120b",
    ),
    # Ends complete replies without a finish reason.
    Preset(
        name="ollama",
        wire="openai_chat",
        base_url="http://localhost:11434/v1",
        auth="none",
        profile=_OLLAMA,
        timeouts=_LOCAL,
        streams=False,
        models_hint="qwen3",
    ),
    Preset(
        name="ollama-cloud",
        wire="openai_chat",
        base_url="https://ollama.com/v1",
        key_env=("OLLAMA_API_KEY",),
        profile=_OLLAMA,
        models_hint="gpt-oss:120b",
    ),
    # The chat templates of local servers belong to the model; many require that roles alternate.
    # Local servers may require a key: it is sent if the user passes one.
    Preset(
        name="lmstudio",
        wire="openai_chat",
        base_url="http://localhost:1234/v1",
        # "Invalid tool_choice type: 'object'. Supported string values: none, auto, required".
        profile=EndpointProfile(
            output_mode_with_tools="tool",
            alternating_roles=True,
            thinking_tags=_OPEN_WEIGHTS,
            forces_tools="required",
        ),
        timeouts=_LOCAL,
        streams=False,
        models_hint="the name that the server shows",
    ),
    Preset(
        name="llamacpp",
        wire="openai_chat",
        base_url="http://localhost:8080/v1",
        # A tool choice that names a tool is read as "auto", in silence: llama.cpp#26535.
        profile=EndpointProfile(
            forces_tools="required",
            output_mode_with_tools="tool",
            alternating_roles=True,
            thinking_tags=_OPEN_WEIGHTS,
            reasoning_field="reasoning_content",
            output_dialect="llama_cpp",
            tool_dialect="llama_cpp",
        ),
        timeouts=_LOCAL,
        streams=False,
        models_hint="any: the server has one model",
    ),
    Preset(
        name="vllm",
        wire="openai_chat",
        base_url="http://localhost:8000/v1",
        profile=EndpointProfile(
            output_mode_with_tools="tool",
            alternating_roles=True,
            thinking_tags=_OPEN_WEIGHTS,
            prefill="final_message",
            # It asks xgrammar first, and llguidance takes what this dialect sends, too.
            output_dialect="xgrammar",
            tool_dialect="xgrammar",
        ),
        timeouts=_LOCAL,
        streams=False,
        models_hint="the name that the server was started with",
    ),
    # Its grammars are those of xgrammar unless it was started with `--grammar-backend`.
    Preset(
        name="sglang",
        wire="openai_chat",
        base_url="http://localhost:30000/v1",
        profile=EndpointProfile(
            output_mode_with_tools="tool",
            alternating_roles=True,
            reasoning_field="reasoning_content",
            thinking_tags=_OPEN_WEIGHTS,
            output_dialect="xgrammar",
            tool_dialect="xgrammar",
        ),
        timeouts=_LOCAL,
        streams=False,
        models_hint="the name that the server shows",
    ),
    Preset(
        name="gemini",
        wire="gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        key_env=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        auth="x-goog-api-key",
        models_hint="gemini-2.5-flash",
    ),
    # The key is an access token of Google Cloud, which is valid for about an hour. The location
    # "global" has no prefix: https://aiplatform.googleapis.com/v1beta1/projects/...
    Preset(
        name="vertex",
        wire="gemini",
        base_url=(
            "https://{location}-aiplatform.googleapis.com/v1beta1"
            "/projects/{project}/locations/{location}/publishers/google"
        ),
        key_env=("VERTEX_ACCESS_TOKEN", "GOOGLE_ACCESS_TOKEN"),
        models_hint="gemini-2.5-flash",
    ),
    # Vertex with an API key instead of a project: "express mode".
    Preset(
        name="vertex-express",
        wire="gemini",
        base_url="https://aiplatform.googleapis.com/v1beta1/publishers/google",
        key_env=("VERTEX_API_KEY", "GOOGLE_API_KEY"),
        auth="x-goog-api-key",
        models_hint="gemini-2.5-flash",
    ),
    Preset(
        name="gemini-openai",
        wire="openai_chat",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        key_env=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        models_hint="gemini-2.5-flash",
    ),
    Preset(
        name="anthropic",
        wire="anthropic",
        base_url="https://api.anthropic.com",
        key_env=("ANTHROPIC_API_KEY",),
        auth="x-api-key",
        profile=replace(_CLAUDE, tool_search=True),
        profile_elsewhere=_CLAUDE,
        models_hint="claude-sonnet-4-5",
    ),
    # Amazon's request signatures are not supported: these two rows take a Bedrock API key.
    Preset(
        name="bedrock-openai",
        wire="openai_chat",
        base_url="https://bedrock-runtime.{region}.amazonaws.com/openai/v1",
        key_env=("AWS_BEARER_TOKEN_BEDROCK",),
        # The models of OpenAI think in the text: promptfoo#9587.
        profile=EndpointProfile(
            output_mode="tool", output_mode_with_tools="tool", thinking_tags=("<reasoning>",)
        ),
        models_hint="openai.gpt-oss-120b-1:0",
    ),
    Preset(
        name="bedrock-anthropic",
        wire="anthropic",
        base_url="https://bedrock-runtime.{region}.amazonaws.com/anthropic",
        key_env=("AWS_BEARER_TOKEN_BEDROCK",),
        profile=_CLAUDE,
        models_hint="us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    ),
)

PRESETS: Mapping[str, Preset] = MappingProxyType({preset.name: preset for preset in _ROWS})
"""Every known provider by its name."""

_OTHER_NAMES = {
    "azure-openai": "azure",
    "chatgpt": "openai",
    "claude": "anthropic",
    "google": "gemini",
    "google-ai": "gemini",
    "google-genai": "gemini",
    "google-gla": "gemini",
    "google-vertex": "vertex",
    "gpt": "openai",
    "grok": "xai",
    "openai-chat": "openai",
    "vertex-ai": "vertex",
    "vertexai": "vertex",
    "x-ai": "xai",
}
"""The name here, by the name that a provider or its models have elsewhere."""


def find_preset(name: str) -> Preset:
    """Return the preset with this name, ignoring case; `_` and `-` are equal.

    Raises:
        ConfigurationError: there is no such preset; the error names the closest ones.

    >>> find_preset("OpenAI").base_url
    'https://api.openai.com/v1'
    >>> find_preset("openrooter")
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: provider: unknown provider 'openrooter'. did you mean openrouter or openai?
    """
    key = name.strip().lower().replace("_", "-")
    preset = PRESETS.get(key)
    if preset is not None:
        return preset
    from difflib import get_close_matches

    other = _OTHER_NAMES.get(key)
    near = [other] if other else get_close_matches(key, PRESETS, n=3, cutoff=0.5)
    near += [one for one in PRESETS if key and one.startswith(key) and one not in near]
    fix = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(PRESETS)}"
    raise ConfigurationError("provider", f"unknown provider {quote_setting(name)}", fix=fix)


def check_base_url(url: str) -> str:
    """Return the base URL without a slash at its end.

    Raises:
        ConfigurationError: it is not an http or https URL, or cannot be sent as it is written.

    >>> check_base_url("http://gpu:11434/v1/")
    'http://gpu:11434/v1'
    """
    if not url.startswith(("https://", "http://")):
        scheme = _SCHEME.match(url)
        given = f"an address with {scheme[1]}" if scheme else "a text without a scheme"
        raise ConfigurationError(
            "base_url", f"must begin with https:// or http://, and this is {given}"
        )
    if "#" in url:
        raise ConfigurationError(
            "base_url", "contains '#', which is not sent", fix="Write %23 for a '#' in a password"
        )
    rest = url.partition("://")[2].partition("?")[0]
    if "@" in rest.partition("/")[2]:
        raise ConfigurationError(
            "base_url",
            "contains '@' after its host",
            fix="In a user or a password write %2F for '/', and in a path %40 for '@'",
        )
    path, question, query = url.partition("?")
    return path.rstrip("/") + question + query


def join_address(base_url: str, path: str) -> str:
    """Return the base URL with a path below it; its query is sent with every request.

    >>> join_address("https://gateway.example/v1?key=k", "models/a:streamGenerateContent?alt=sse")
    'https://gateway.example/v1/models/a:streamGenerateContent?alt=sse&key=k'
    """
    base, _, query = base_url.partition("?")
    url = f"{base}/{path.lstrip('/')}"
    if not query:
        return url
    return f"{url}{'&' if '?' in path else '?'}{query}"


def show_address(url: str) -> str:
    """Return a base URL without its user, its password and the values of its query.

    An address that is not http or https is not shown at all.

    >>> show_address("https://bob:secret@gateway.example/v1?key=secret&api-version=2")
    'https://[redacted]@gateway.example/v1?key=[redacted]&api-version=2'
    """
    if not url.startswith(("https://", "http://")) or "#" in url:
        return MARK if url else ""  # it is refused, and may be anything
    address, question, query = url.partition("?")
    scheme, separator, rest = address.partition("://")
    if "@" in rest:
        rest = f"{MARK}@{rest.rpartition('@')[2]}"
    parameters = "&".join(map(_show_parameter, query.split("&"))) if question else ""
    return redact(scheme + separator + rest) + question + parameters


def _show_parameter(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    if name.lower() in _PUBLIC_PARAMETERS:
        return parameter
    return f"{name}={MARK}" if equals else MARK
