"""The wire's words for how a reply ended and what it cost, in our vocabulary.

This module must never fail on a strange value: what it does not know is UNKNOWN, or zero.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.messages import FinishReason, Usage

_FINISH = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "tool_use": FinishReason.TOOL_CALLS,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    # The server did a part of the work and wants the same history again, this reply included.
    "pause_turn": FinishReason.PAUSE,
    "compaction": FinishReason.PAUSE,
    "refusal": FinishReason.REFUSAL,
}


def finish_reason(raw: str) -> FinishReason:
    """The neutral reason for a wire's word.

    >>> finish_reason("pause_turn").value, finish_reason("moon_phase").value
    ('pause', 'unknown')
    """
    return _FINISH.get(raw, FinishReason.UNKNOWN)


def parse_usage(raw: Mapping[str, object]) -> Usage:
    """Tokens from a `usage` object; absent or strange numbers count as zero.

    The wire counts cached input apart; here `input` is everything that was sent.

    >>> parse_usage({"input_tokens": 3, "cache_read_input_tokens": 7, "output_tokens": None})
    Usage(input=10, output=0, cached_input=7, cache_write=0, reasoning=0)
    """
    read, written = (
        _read_count(raw, "cache_read_input_tokens"),
        _read_count(raw, "cache_creation_input_tokens"),
    )
    details = raw.get("output_tokens_details")
    return Usage(
        input=_read_count(raw, "input_tokens") + read + written,
        output=_read_count(raw, "output_tokens"),
        cached_input=read,
        cache_write=written,
        reasoning=_read_count(details, "thinking_tokens") if isinstance(details, dict) else 0,
    )


def _read_count(raw: Mapping[str, object], name: str) -> int:
    value = raw.get(name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return min(value, 2**53)
    return 0
