"""Words the tokens of a run. This module is pure."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.messages import Usage


def word_usage(usage: Mapping[str, Usage]) -> dict[str, object]:
    """Return the field `usage` of the last event of a run; nothing if there are no tokens.

    >>> word_usage({"m": Usage(10, 5)})
    {'usage': [{'inputTokens': 10, 'outputTokens': 5, 'totalTokens': 15, 'model': 'm'}]}
    """
    entries = []
    for model, tokens in usage.items():
        entry: dict[str, object] = {
            "inputTokens": tokens.input,
            "outputTokens": tokens.output,
            "totalTokens": tokens.total,
        }
        parts = {
            "reasoningTokens": tokens.reasoning,
            "cachedInputTokens": tokens.cached_input,
            "cacheWriteInputTokens": tokens.cache_write,
        }
        entry |= {name: count for name, count in parts.items() if count}
        entries.append({**entry, "model": model} if model else entry)
    return {"usage": entries} if entries else {}
