"""Translates the finish reasons and the token counts of this wire.

Unknown values never raise: an unknown reason is UNKNOWN, an invalid count is 0.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.codecs.json_text import read_count
from holdfast.core.messages import FinishReason, Usage

_FINISH = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "tool_use": FinishReason.TOOL_CALLS,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    # The server did part of the work and expects the same history again, including this reply.
    "pause_turn": FinishReason.PAUSE,
    "compaction": FinishReason.PAUSE,
    "refusal": FinishReason.REFUSAL,
    "guardrail_intervened": FinishReason.REFUSAL,
    # Words of other vendors, which gateways pass on.
    "stop": FinishReason.STOP,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "length": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
    "content_filtered": FinishReason.CONTENT_FILTER,
    "safety": FinishReason.CONTENT_FILTER,
    "error": FinishReason.ERROR,
}


def finish_reason(raw: str) -> FinishReason:
    """Return the finish reason for the wire's name of it.

    >>> finish_reason("pause_turn").value, finish_reason("moon_phase").value
    ('pause', 'unknown')
    """
    return _FINISH.get(raw) or _FINISH.get(raw.lower(), FinishReason.UNKNOWN)


def parse_usage(raw: Mapping[str, object]) -> Usage:
    """Return the token counts of a `usage` object; missing or invalid numbers count as 0.

    The wire counts cached input separately; here `input` includes it.

    >>> usage = parse_usage({"input_tokens": 3, "cache_read_input_tokens": 7, "output_tokens": None})
    >>> usage.input, usage.output, usage.cached_input
    (10, 0, 7)
    """
    cache_read, cache_write = (
        read_count(raw, "cache_read_input_tokens"),
        read_count(raw, "cache_creation_input_tokens"),
    )
    lifetimes = raw.get("cache_creation")
    for_an_hour = 0
    if isinstance(lifetimes, dict):
        for_an_hour = read_count(lifetimes, "ephemeral_1h_input_tokens")
        for_minutes = read_count(lifetimes, "ephemeral_5m_input_tokens")
        cache_write = cache_write or for_minutes + for_an_hour
    details = raw.get("output_tokens_details")
    return Usage(
        input=read_count(raw, "input_tokens") + cache_read + cache_write,
        output=read_count(raw, "output_tokens"),
        cached_input=cache_read,
        cache_write=cache_write,
        reasoning=read_count(details, "thinking_tokens") if isinstance(details, dict) else 0,
        cache_write_1h=min(for_an_hour, cache_write),
    )
