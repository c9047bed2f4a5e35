"""Translates the finish reasons and the token counts of this wire.

Unknown values never raise: an unknown reason is UNKNOWN, an invalid count is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

from holdfast.codecs.json_text import read_count
from holdfast.core.messages import FinishReason, Usage

WIRE = "openai_chat"
"""The name of this wire on parts that hold its data."""

BLOCKS = "content_blocks"
"""The field of an opaque part that holds blocks of a reply's content; never sent back."""

ABOUT = ("citations", "search_results", "related_questions")
"""Search metadata of a reply, beside its choices; stored in an opaque part and never sent back."""

EXECUTED = "executed_tools"
"""The server's own tools that ran; stored in the same part."""

TRANSCRIPT = "transcript"
"""Marks a text that is the transcript of the reply's audio; never sent back beside the audio."""

TRANSCRIPT_INDEX = 1
"""The index of that text. Any other text of this wire has the index 0."""

THINKING_TAG = "thinking_tag"
"""Marks reasoning that stood in tags of the text; never sent back."""

_FINISH = {
    "stop": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "eos_token": FinishReason.STOP,
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "complete": FinishReason.STOP,
    "tool_calls": FinishReason.TOOL_CALLS,
    "tool_call": FinishReason.TOOL_CALLS,
    "tool_use": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "max_output_tokens": FinishReason.LENGTH,
    "max_length": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
    "content_filtered": FinishReason.CONTENT_FILTER,
    "safety": FinishReason.CONTENT_FILTER,
    "recitation": FinishReason.CONTENT_FILTER,
    "sensitive": FinishReason.CONTENT_FILTER,
    "refusal": FinishReason.REFUSAL,
    "guardrail_intervened": FinishReason.REFUSAL,
    "pause_turn": FinishReason.PAUSE,
    "error": FinishReason.ERROR,
    "abort": FinishReason.ERROR,
    "cancelled": FinishReason.ERROR,
    "network_error": FinishReason.ERROR,
    "insufficient_system_resource": FinishReason.ERROR,
}


def finish_reason(raw: str) -> FinishReason:
    """Return the finish reason for the wire's name of it.

    >>> finish_reason("model_length").value, finish_reason("moon_phase").value
    ('length', 'unknown')
    """
    return _FINISH.get(raw) or _FINISH.get(raw.lower(), FinishReason.UNKNOWN)


_STOP, _CALLS, _LENGTH = FinishReason.STOP, FinishReason.TOOL_CALLS, FinishReason.LENGTH
_FILTER, _REFUSAL, _PAUSE = FinishReason.CONTENT_FILTER, FinishReason.REFUSAL, FinishReason.PAUSE
_ERROR = FinishReason.ERROR

NATIVE_REASONS: Mapping[str, Mapping[str, FinishReason]] = {
    # platform.openai.com/docs/api-reference: chat/object and responses/object (`status`, `incomplete_details.reason`).
    # OpenRouter asks OpenAI by Responses: recorded are "completed" and "max_output_tokens".
    "OpenAI": {
        "stop": _STOP, "completed": _STOP, "tool_calls": _CALLS, "function_call": _CALLS,
        "length": _LENGTH, "max_output_tokens": _LENGTH, "incomplete": _LENGTH,
        "content_filter": _FILTER, "failed": _ERROR, "cancelled": _ERROR,
    },
    # docs.anthropic.com/en/api/handling-stop-reasons
    "Anthropic": {
        "end_turn": _STOP, "stop_sequence": _STOP, "tool_use": _CALLS, "max_tokens": _LENGTH,
        "model_context_window_exceeded": _LENGTH, "refusal": _REFUSAL, "pause_turn": _PAUSE,
    },
    # ai.google.dev/api/generate-content#FinishReason, and GenerateContentResponse of Vertex AI
    "Google": {
        "STOP": _STOP, "MAX_TOKENS": _LENGTH,
        **dict.fromkeys(
            ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR",
             "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"), _FILTER,
        ),
        **dict.fromkeys(
            ("MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS",
             "MISSING_THOUGHT_SIGNATURE", "NO_IMAGE", "OTHER", "IMAGE_OTHER"), _ERROR,
        ),
    },
    # docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html (`stopReason`)
    "Amazon Bedrock": {
        "end_turn": _STOP, "stop_sequence": _STOP, "tool_use": _CALLS, "max_tokens": _LENGTH,
        "model_context_window_exceeded": _LENGTH, "guardrail_intervened": _REFUSAL,
        "content_filtered": _FILTER, "malformed_model_output": _ERROR, "malformed_tool_use": _ERROR,
    },
    # docs.mistral.ai/api, ChatCompletionChoice
    "Mistral": {
        "stop": _STOP, "tool_calls": _CALLS, "length": _LENGTH, "model_length": _LENGTH, "error": _ERROR,
    },
    # docs.cohere.com/reference/chat and /v1/reference/chat
    "Cohere": {
        "COMPLETE": _STOP, "STOP_SEQUENCE": _STOP, "TOOL_CALL": _CALLS, "MAX_TOKENS": _LENGTH,
        "ERROR_LIMIT": _LENGTH, "ERROR_TOXIC": _FILTER, "ERROR": _ERROR, "USER_CANCEL": _ERROR,
        "TIMEOUT": _ERROR,
    },
    # api-docs.deepseek.com/api/create-chat-completion
    "DeepSeek": {
        "stop": _STOP, "tool_calls": _CALLS, "length": _LENGTH, "content_filter": _FILTER,
        "insufficient_system_resource": _ERROR,
    },
    # docs.z.ai/api-reference/llm/chat-completion
    "Z.ai": {
        "stop": _STOP, "tool_calls": _CALLS, "length": _LENGTH, "sensitive": _FILTER,
        "model_context_window_exceeded": _LENGTH, "network_error": _ERROR,
    },
    # vllm/v1/request.py and sglang/srt/managers/schedule_batch.py
    "vLLM and SGLang": {"stop": _STOP, "length": _LENGTH, "abort": _ERROR, "eos_token": _STOP},
}  # fmt: skip
"""The words of vendors that a gateway passes on as `native_finish_reason`, by vendor. OpenRouter's own words for `error`
and `stop` hide some of them: litellm#23273 (MALFORMED_FUNCTION_CALL), go-openrouter#43."""

MISTAKES = frozenset(
    {
        "malformed_function_call",
        "malformed_model_output",
        "malformed_response",
        "malformed_tool_use",
        "missing_thought_signature",
        "no_image",
        "too_many_tool_calls",
        "unexpected_tool_call",
    }
)
"""The words, in lower case, for mistakes of the model; another attempt may succeed."""

_NATIVE = {
    word.lower(): reason for words in NATIVE_REASONS.values() for word, reason in words.items()
}
_HIDING = (_STOP, _CALLS, _ERROR)
"""The reasons of a gateway behind which a more exact reason of the vendor may be hidden."""


class ChosenFinish(Struct, frozen=True):
    """Why a reply ended.

    Args:
        reason: the reason.
        raw: the word of the server, or that of the vendor if the server says none.
        word: the word that was believed.
    """

    reason: FinishReason
    raw: str
    word: str


def choose_finish(raw: object, native: object) -> ChosenFinish | None:
    """Return why a reply ended; None if it has not ended.

    Args:
        raw: `finish_reason`, the word of the server.
        native: `native_finish_reason`, the word of the vendor behind a gateway.

    >>> choose_finish("tool_calls", "max_output_tokens").word, choose_finish("length", "STOP").word
    ('max_output_tokens', 'length')
    """
    said = raw if isinstance(raw, str) else ""
    reason = finish_reason(said)
    known = _NATIVE.get(native.lower()) if isinstance(native, str) else None
    if known is not None:
        is_hidden = reason in _HIDING and known not in (_STOP, _CALLS)
        if is_hidden or reason is FinishReason.UNKNOWN:
            return ChosenFinish(known, said or str(native), str(native))
    return ChosenFinish(reason, said, said) if said else None


_Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
_Sum: TypeAlias = Annotated[int, Meta(ge=1, le=2**53)]


class _InputDetails(Struct, gc=False):
    cached_tokens: _Count | None = None
    cache_write_tokens: _Count | None = None
    audio_tokens: _Count | None = None
    cache_creation_tokens: None = None


class _OutputDetails(Struct, gc=False):
    reasoning_tokens: _Count | None = None
    audio_tokens: _Count | None = None


class _ExtraCounts(Struct, gc=False):
    prompt_cache_hit_tokens: _Count | None = None
    reasoning_tokens: _Count | None = None
    cached_tokens: None = None
    num_cached_tokens: None = None

    def _to_usage(
        self,
        input_count: int,
        output_count: int,
        inputs: _InputDetails | None,
        outputs: _OutputDetails | None,
    ) -> Usage:
        return Usage(
            input_count,
            output_count,
            (inputs and inputs.cached_tokens) or self.prompt_cache_hit_tokens or 0,
            (inputs and inputs.cache_write_tokens) or 0,
            (outputs and outputs.reasoning_tokens) or self.reasoning_tokens or 0,
            audio_input=(inputs and inputs.audio_tokens) or 0,
            audio_output=(outputs and outputs.audio_tokens) or 0,
        )


class PlainUsage(_ExtraCounts, gc=False, kw_only=True):
    """A `usage` object in its documented form; decoding any other form fails."""

    prompt_tokens: _Sum
    completion_tokens: _Count
    prompt_tokens_details: _InputDetails | None = None
    completion_tokens_details: _OutputDetails | None = None
    output_tokens: None = None
    input_tokens_details: None = None
    output_tokens_details: None = None

    @property
    def tokens(self) -> Usage:
        """The counts as `Usage`."""
        inputs, outputs = self.prompt_tokens_details, self.completion_tokens_details
        return self._to_usage(self.prompt_tokens, self.completion_tokens, inputs, outputs)


class ResponsesUsage(_ExtraCounts, gc=False, kw_only=True):
    """A `usage` object with the names of the Responses wire."""

    input_tokens: _Sum
    output_tokens: _Count
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None
    completion_tokens: None = None
    prompt_tokens_details: None = None
    completion_tokens_details: None = None

    @property
    def tokens(self) -> Usage:
        """The counts as `Usage`."""
        inputs, outputs = self.input_tokens_details, self.output_tokens_details
        return self._to_usage(self.input_tokens, self.output_tokens, inputs, outputs)


def parse_usage(raw: Mapping[str, object]) -> Usage:
    """Return the token counts of a `usage` object of any provider; missing or invalid numbers count as 0.

    >>> parse_usage({"prompt_tokens": 9, "completion_tokens": None}).total
    9
    """
    form: type[PlainUsage | ResponsesUsage]
    form = PlainUsage if "prompt_tokens" in raw else ResponsesUsage
    try:
        return msgspec.convert(raw, form).tokens
    except msgspec.ValidationError:
        return _parse_loose_usage(raw)


def _parse_loose_usage(raw: Mapping[str, object]) -> Usage:
    inputs = _find_details(raw, "prompt_tokens_details", "input_tokens_details")
    outputs = _find_details(raw, "completion_tokens_details", "output_tokens_details")
    return Usage(
        input=read_count(raw, "prompt_tokens", "input_tokens"),
        output=read_count(raw, "completion_tokens", "output_tokens"),
        cached_input=read_count(inputs, "cached_tokens")
        or read_count(raw, "prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens"),
        cache_write=read_count(inputs, "cache_write_tokens", "cache_creation_tokens"),
        reasoning=read_count(outputs, "reasoning_tokens") or read_count(raw, "reasoning_tokens"),
        audio_input=read_count(inputs, "audio_tokens"),
        audio_output=read_count(outputs, "audio_tokens"),
    )


def _find_details(raw: Mapping[str, object], *names: str) -> Mapping[str, object]:
    for name in names:
        value = raw.get(name)
        if isinstance(value, dict):
            return value
    return {}
