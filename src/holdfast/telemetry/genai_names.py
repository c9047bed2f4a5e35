"""The names of OpenTelemetry's conventions for generative AI, v0.1.0, which no package has as constants.

A name of ours begins with `holdfast.`. This module must never import OpenTelemetry, and no other module may
spell a name of an attribute, a span or a metric.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

VERSION: Final = "0.1.0"
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/gen-ai/0.1.0"

# Operations, which are also the first words of the names of spans.
INVOKE_AGENT: Final = "invoke_agent"
CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"

# Attributes of spans.
OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
AGENT_NAME: Final = "gen_ai.agent.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
OUTPUT_TYPE: Final = "gen_ai.output.type"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_STREAM: Final = "gen_ai.request.stream"
REQUEST_REASONING_LEVEL: Final = "gen_ai.request.reasoning.level"
REQUEST_STOP_SEQUENCES: Final = "gen_ai.request.stop_sequences"
RESPONSE_ID: Final = "gen_ai.response.id"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
RESPONSE_TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
USAGE_INPUT: Final = "gen_ai.usage.input_tokens"
USAGE_OUTPUT: Final = "gen_ai.usage.output_tokens"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
ERROR_TYPE: Final = "error.type"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
HTTP_STATUS: Final = "http.response.status_code"

USAGE_PARTS: Final = {
    "cached_input": "gen_ai.usage.cache_read.input_tokens",
    "cache_write": "gen_ai.usage.cache_write.input_tokens",
    "reasoning": "gen_ai.usage.reasoning.output_tokens",
    "audio_input": "gen_ai.usage.audio.input_tokens",
    "audio_output": "gen_ai.usage.audio.output_tokens",
}
"""The attributes for the parts of a `Usage`, by its fields; a part of zero has none."""

SETTINGS: Final = {
    "max_tokens": "gen_ai.request.max_tokens",
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "seed": "gen_ai.request.seed",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "reasoning_effort": REQUEST_REASONING_LEVEL,
}
"""The attributes for settings of the model, by the fields of `ModelSettings`; one that is not set has none."""

# Attributes with content, which are set only if the application asks for it.
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"
TOOL_CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_CALL_RESULT: Final = "gen_ai.tool.call.result"

# Spans and attributes of ours.
ATTEMPT: Final = "holdfast.attempt"
QUESTION: Final = "holdfast.question"
QUEUE: Final = "holdfast.queue"
RETRY: Final = "holdfast.retry"
RUN_ID: Final = "holdfast.run.id"
TURN: Final = "holdfast.turn"
STATUS: Final = "holdfast.status"
CONTINUED: Final = "holdfast.drive.continued"
KEY: Final = "holdfast.key"
ATTEMPT_NUMBER: Final = "holdfast.attempt.number"
ATTEMPT_WAIT: Final = "holdfast.attempt.wait"
ATTEMPTS: Final = "holdfast.attempt.count"
LANDED: Final = "holdfast.landed"
HEDGE: Final = "holdfast.hedge"
UNASKED: Final = "holdfast.unasked"
COST: Final = "holdfast.cost.amount"
COST_CURRENCY: Final = "holdfast.cost.currency"
COST_KNOWN: Final = "holdfast.cost.known"
TOOL_OUTCOME: Final = "holdfast.tool.outcome"
QUESTION_KIND: Final = "holdfast.question.kind"
QUESTION_OUTCOME: Final = "holdfast.question.outcome"
BREAKER_TARGET: Final = "holdfast.breaker.target"

# Metrics.
MODALITY: Final = "gen_ai.token.modality"
INFERENCE_DURATION: Final = "gen_ai.client.inference.duration"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.client.inference.time_to_first_chunk"
TOKENS: Final = {
    "input": "gen_ai.client.inference.usage.input_tokens",
    "output": "gen_ai.client.inference.usage.output_tokens",
    "cached_input": "gen_ai.client.inference.usage.cache_read.input_tokens",
    "cache_write": "gen_ai.client.inference.usage.cache_write.input_tokens",
    "reasoning": "gen_ai.client.inference.usage.reasoning.output_tokens",
}
"""The counters of tokens, by the fields of `Usage`."""
AGENT_DURATION: Final = "gen_ai.invoke_agent.duration"
AGENT_INFERENCE_CALLS: Final = "gen_ai.invoke_agent.inference_calls"
AGENT_TOOL_CALLS: Final = "gen_ai.invoke_agent.tool_calls"
TOOL_DURATION: Final = "gen_ai.execute_tool.duration"
ATTEMPTS_METRIC: Final = "holdfast.attempts"
BREAKER_STATE: Final = "holdfast.breaker.state"
QUEUE_DURATION: Final = "holdfast.queue.duration"
COST_METRIC: Final = "holdfast.cost"
IGNORED_TRACES_METRIC: Final = "holdfast.traceparents.ignored"

SECONDS: Final = (
    *(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64),
    *(1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
)
"""The bounds of the histograms of seconds."""

HISTOGRAMS: Final = {
    INFERENCE_DURATION: "s",
    TIME_TO_FIRST_CHUNK: "s",
    AGENT_DURATION: "s",
    TOOL_DURATION: "s",
    QUEUE_DURATION: "s",
    AGENT_INFERENCE_CALLS: "{call}",
    AGENT_TOOL_CALLS: "{call}",
}
"""The histograms, each with its unit."""

COUNTERS: Final = {
    **dict.fromkeys(TOKENS.values(), "{token}"),
    ATTEMPTS_METRIC: "{attempt}",
    COST_METRIC: "{cost}",
}
"""The counters, each with its unit."""

GAUGES: Final = {BREAKER_STATE: "1"}
"""The gauges, each with its unit."""

BREAKER_STATES: Final = {"closed": 0, "half_open": 1, "open": 2, "isolated": 3}
"""The values of the state of a circuit breaker."""

_PROVIDERS: Final = {
    "anthropic": "anthropic",
    "azure": "azure.ai.openai",
    "azure-responses": "azure.ai.openai",
    "azure-v1": "azure.ai.openai",
    "bedrock-anthropic": "aws.bedrock",
    "bedrock-openai": "aws.bedrock",
    "deepseek": "deepseek",
    "deepseek-beta": "deepseek",
    "gemini": "gcp.gemini",
    "gemini-openai": "gcp.gemini",
    "groq": "groq",
    "mistral": "mistral_ai",
    "openai": "openai",
    "openai-responses": "openai",
    "vertex": "gcp.vertex_ai",
    "vertex-express": "gcp.vertex_ai",
    "xai": "x_ai",
    "xai-responses": "x_ai",
}


def name_provider(preset: str) -> str:
    """Return the name of a provider in the conventions; another provider has its name in Holdfast.

    Args:
        preset: the name of the provider's preset; "" for a model that is not sent over HTTP.

    >>> name_provider("mistral"), name_provider("ollama")
    ('mistral_ai', 'ollama')
    """
    return _PROVIDERS.get(preset, preset) or "holdfast"


@lru_cache(maxsize=256)
def name_server(address: str) -> Mapping[str, str | int]:
    """Return the attributes for the server of an address.

    Args:
        address: the base URL; "" if there is none.

    >>> name_server("https://api.openai.com/v1")
    {'server.address': 'api.openai.com', 'server.port': 443}
    """
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return {}
    if not parts.hostname:
        return {}
    return {
        SERVER_ADDRESS: parts.hostname,
        SERVER_PORT: port or (80 if parts.scheme == "http" else 443),
    }
