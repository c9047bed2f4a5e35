"""Where each provider lives, which wire it speaks and how its form of the wire differs, as data.

One row a provider. A difference between two providers of one wire is a field here or in `Quirks`,
never an `if` on a name. This module must never hold a key or read an environment variable: it
names the variables, and whoever opens the connection reads them.

`base_url` is everything before the wire's own path, which is `/chat/completions`, `/responses`,
`/v1/messages` or `/models/{model}:generateContent`. Blanks in braces are for the user to fill in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from holdfast.codecs.url_path import to_path_segment
from holdfast.codecs.wire import Quirks
from holdfast.core.errors import ConfigurationError
from holdfast.core.redaction import redact

Wire: TypeAlias = Literal["openai_chat", "openai_responses", "anthropic", "gemini"]
Auth: TypeAlias = Literal["bearer", "x-api-key", "api-key", "x-goog-api-key", "none"]


class Preset(Struct, frozen=True, kw_only=True):
    """What must be known to call one provider, apart from the key.

    Args:
        name: what users write before the colon: "groq" in "groq:llama-3.3-70b-versatile".
        wire: the codec that it speaks.
        base_url: may hold blanks such as `{region}`; `resolve_base_url` fills it or refuses.
        key_env: environment variables that may hold the key, best first; none: works without one.
        auth: how a key is sent, when there is one.
        headers: sent with each request besides those of the wire, names in lower case.
        quirks: how its form of the wire differs.
        path: replaces the wire's own path, by `path_for`; `{model}` stands for the model.
        models_hint: a model's name that it understands.
    """

    name: str
    wire: Wire
    base_url: str
    key_env: tuple[str, ...] = ()
    auth: Auth = "bearer"
    headers: tuple[tuple[str, str], ...] = ()
    quirks: Quirks = Quirks()
    path: str = ""
    models_hint: str = ""

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The blanks of `base_url`, each once, in order.

        >>> PRESETS["bedrock-openai"].blanks
        ('region',)
        """
        return tuple(dict.fromkeys(_BLANK.findall(self.base_url)))

    def resolve_base_url(self, base_url: str = "") -> str:
        """The base URL to use, without a slash at its end.

        Args:
            base_url: what the user gave; empty takes the preset's own.

        Raises:
            ConfigurationError: the address still has blanks, or is no http(s) URL.

        >>> PRESETS["groq"].resolve_base_url()
        'https://api.groq.com/openai/v1'
        >>> PRESETS["ollama"].resolve_base_url("http://gpu:11434/v1/")
        'http://gpu:11434/v1'
        """
        url = base_url or self.base_url
        if missing := _BLANK.findall(url):
            raise ConfigurationError(
                "base_url",
                f"{self.name} needs an address with {', '.join(dict.fromkeys(missing))} filled in",
                fix=f"give base_url in the form {self.base_url}",
            )
        if not url.startswith(("https://", "http://")):
            raise ConfigurationError(
                "base_url", f"must begin with https:// or http://, got {redact(url)[:40]!r}"
            )
        return url.rstrip("/")

    def path_for(self, path: str, model: str) -> str:
        """The path below the base URL: the wire's own, unless this provider has another.

        Args:
            path: what the codec's `encode` gave.
            model: the model of the request.

        Raises:
            ConfigurationError: the model's name cannot stand in a path.

        >>> PRESETS["azure"].path_for("/chat/completions", "my-gpt")
        '/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21'
        """
        return self.path.replace("{model}", to_path_segment(model)) if self.path else path

    def auth_headers(self, key: str) -> tuple[tuple[str, str], ...]:
        """The headers that carry the key; none without a key.

        >>> PRESETS["anthropic"].auth_headers("k")
        (('x-api-key', 'k'),)
        """
        if not key or self.auth == "none":
            return ()
        if self.auth == "bearer":
            return (("authorization", f"Bearer {key}"),)
        return ((self.auth, key),)


_BLANK = re.compile(r"\{(\w+)\}")


_OLLAMA = Quirks(
    ends_without_finish=True, reasoning_field="reasoning", output_mode_with_tools="tool"
)
_DEEPSEEK = Quirks(
    output_mode="prompt",
    output_mode_with_tools="prompt",
    reasoning_field="reasoning_content",
    response_format="json_object",
)
_CLAUDE = Quirks(prefill="last_message")
_AZURE_VERSION = "2024-10-21"

_ROWS = (
    Preset(
        name="openai",
        wire="openai_chat",
        base_url="https://api.openai.com/v1",
        key_env=("OPENAI_API_KEY",),
        quirks=Quirks(max_tokens_field="max_completion_tokens", system_role="developer"),
        models_hint="gpt-5.2",
    ),
    Preset(
        name="openai-responses",
        wire="openai_responses",
        base_url="https://api.openai.com/v1",
        key_env=("OPENAI_API_KEY",),
        models_hint="gpt-5.2",
    ),
    # The dated form, where the deployment stands in the path. A deployment is the user's own name
    # for a model, so the model is the deployment.
    Preset(
        name="azure",
        wire="openai_chat",
        base_url="https://{resource}.openai.azure.com",
        key_env=("AZURE_OPENAI_API_KEY",),
        auth="api-key",
        path=f"/openai/deployments/{{model}}/chat/completions?api-version={_AZURE_VERSION}",
        models_hint="the name of your deployment",
    ),
    Preset(
        name="azure-v1",
        wire="openai_chat",
        base_url="https://{resource}.openai.azure.com/openai/v1",
        key_env=("AZURE_OPENAI_API_KEY",),
        auth="api-key",
        quirks=Quirks(max_tokens_field="max_completion_tokens"),
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
        quirks=Quirks(
            output_mode="tool",
            output_mode_with_tools="tool",
            reasoning_object=True,
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
        quirks=Quirks(
            output_mode="tool",
            output_mode_with_tools="tool",
            max_tokens_field="max_completion_tokens",
        ),
        models_hint="llama-3.3-70b-versatile",
    ),
    # Refuses fields that it does not know, and sends usage in the last chunk unasked. Thoughts are
    # blocks of the content, and an id of a call is nine letters and digits.
    Preset(
        name="mistral",
        wire="openai_chat",
        base_url="https://api.mistral.ai/v1",
        key_env=("MISTRAL_API_KEY",),
        quirks=Quirks(
            output_mode_with_tools="tool",
            stream_usage=False,
            reasoning_field="content",
            seed_field="random_seed",
            call_id_length=9,
            prefill="prefix_echo",
        ),
        models_hint="mistral-large-latest",
    ),
    # Refuses a history in which a reply with calls has lost its thoughts.
    Preset(
        name="deepseek",
        wire="openai_chat",
        base_url="https://api.deepseek.com/v1",
        key_env=("DEEPSEEK_API_KEY",),
        quirks=_DEEPSEEK,
        models_hint="deepseek-chat",
    ),
    # The same models at the address that continues a reply.
    Preset(
        name="deepseek-beta",
        wire="openai_chat",
        base_url="https://api.deepseek.com/beta",
        key_env=("DEEPSEEK_API_KEY",),
        quirks=replace(_DEEPSEEK, prefill="prefix"),
        models_hint="deepseek-chat",
    ),
    Preset(
        name="xai",
        wire="openai_chat",
        base_url="https://api.x.ai/v1",
        key_env=("XAI_API_KEY",),
        models_hint="grok-4",
    ),
    Preset(
        name="xai-responses",
        wire="openai_responses",
        base_url="https://api.x.ai/v1",
        key_env=("XAI_API_KEY",),
        models_hint="grok-4",
    ),
    Preset(
        name="together",
        wire="openai_chat",
        base_url="https://api.together.xyz/v1",
        key_env=("TOGETHER_API_KEY",),
        quirks=Quirks(output_mode_with_tools="tool"),
        models_hint="meta-llama/Llama-3.3-70B-Instruct-Turbo",
    ),
    Preset(
        name="fireworks",
        wire="openai_chat",
        base_url="https://api.fireworks.ai/inference/v1",
        key_env=("FIREWORKS_API_KEY",),
        quirks=Quirks(output_mode_with_tools="tool"),
        models_hint="accounts/fireworks/models/llama-v3p3-70b-instruct",
    ),
    Preset(
        name="cerebras",
        wire="openai_chat",
        base_url="https://api.cerebras.ai/v1",
        key_env=("CEREBRAS_API_KEY",),
        quirks=Quirks(
            output_mode_with_tools="tool",
            forces_tools=False,
            max_tokens_field="max_completion_tokens",
            reasoning_field="reasoning",
        ),
        models_hint="gpt-oss-120b",
    ),
    # Ends complete replies without a finish reason.
    Preset(
        name="ollama",
        wire="openai_chat",
        base_url="http://localhost:11434/v1",
        auth="none",
        quirks=_OLLAMA,
        models_hint="qwen3",
    ),
    Preset(
        name="ollama-cloud",
        wire="openai_chat",
        base_url="https://ollama.com/v1",
        key_env=("OLLAMA_API_KEY",),
        quirks=_OLLAMA,
        models_hint="gpt-oss:120b",
    ),
    # Local servers may be started with a key of the user's own: it is sent when it is given.
    Preset(
        name="lmstudio",
        wire="openai_chat",
        base_url="http://localhost:1234/v1",
        quirks=Quirks(output_mode_with_tools="tool"),
        models_hint="the name that the server shows",
    ),
    Preset(
        name="llamacpp",
        wire="openai_chat",
        base_url="http://localhost:8080/v1",
        quirks=Quirks(output_mode_with_tools="tool", reasoning_field="reasoning_content"),
        models_hint="any: the server has one model",
    ),
    Preset(
        name="vllm",
        wire="openai_chat",
        base_url="http://localhost:8000/v1",
        quirks=Quirks(output_mode_with_tools="tool", prefill="final_message"),
        models_hint="the name that the server was started with",
    ),
    Preset(
        name="gemini",
        wire="gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        key_env=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        auth="x-goog-api-key",
        models_hint="gemini-2.5-flash",
    ),
    # The key is an access token of Google Cloud, which lives for about an hour. The location
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
        quirks=_CLAUDE,
        models_hint="claude-sonnet-4-5",
    ),
    # Amazon's own signatures are not spoken here: these two rows take a Bedrock API key.
    Preset(
        name="bedrock-openai",
        wire="openai_chat",
        base_url="https://bedrock-runtime.{region}.amazonaws.com/openai/v1",
        key_env=("AWS_BEARER_TOKEN_BEDROCK",),
        quirks=Quirks(output_mode="tool", output_mode_with_tools="tool"),
        models_hint="openai.gpt-oss-120b-1:0",
    ),
    Preset(
        name="bedrock-anthropic",
        wire="anthropic",
        base_url="https://bedrock-runtime.{region}.amazonaws.com/anthropic",
        key_env=("AWS_BEARER_TOKEN_BEDROCK",),
        quirks=_CLAUDE,
        models_hint="us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    ),
)

PRESETS: Mapping[str, Preset] = MappingProxyType({preset.name: preset for preset in _ROWS})
"""Every known provider by its name."""


def find_preset(name: str) -> Preset:
    """The preset of this name, whatever its case; `_` and `-` are the same.

    Raises:
        ConfigurationError: no such preset; names the nearest ones.

    >>> find_preset("OpenAI").base_url
    'https://api.openai.com/v1'
    >>> find_preset("openrooter")
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: provider: unknown provider 'openrooter'. did you mean openrouter or openai?
    """
    wanted = name.strip().lower().replace("_", "-")
    preset = PRESETS.get(wanted)
    if preset is not None:
        return preset
    from difflib import get_close_matches

    near = get_close_matches(wanted, PRESETS, n=3, cutoff=0.5)
    near += [
        known for known in PRESETS if wanted and known.startswith(wanted) and known not in near
    ]
    fix = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(PRESETS)}"
    raise ConfigurationError("provider", f"unknown provider {name!r}", fix=fix)
