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


_Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
_Sum: TypeAlias = Annotated[int, Meta(ge=1, le=2**53)]


class _InputDetails(Struct, gc=False):
    cached_tokens: _Count | None = None
    cache_write_tokens: _Count | None = None
    cache_creation_tokens: None = None


class _OutputDetails(Struct, gc=False):
    reasoning_tokens: _Count | None = None


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
    )


def _find_details(raw: Mapping[str, object], *names: str) -> Mapping[str, object]:
    for name in names:
        value = raw.get(name)
        if isinstance(value, dict):
            return value
    return {}
