"""The wire's words for how a response ended, in our vocabulary, and the kinds of its events.

This module must never fail on a strange value: what it does not know is UNKNOWN.
"""

from __future__ import annotations

from holdfast.core.messages import FinishReason

WIRE = "openai_responses"
"""The name of this wire on parts that only it understands."""

COMPLETED = frozenset({"completed", "complete"})
"""The statuses of a response that is whole; the second is an older spelling."""

_INCOMPLETE = {
    "max_output_tokens": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "length": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
    "safety": FinishReason.CONTENT_FILTER,
}

_PROGRESS = (
    "response.audio.",
    "response.code_interpreter_call",
    "response.compaction.",
    "response.file_search_call.",
    "response.image_generation_call.",
    "response.mcp_",
    "response.shell_call_",
    "response.apply_patch_call_",
    "response.web_search_call.",
    "response.output_text.annotation.",
    "response.content_part.",
    "response.reasoning_summary_part.",
)


def incomplete_reason(raw: str) -> FinishReason:
    """Why a response is incomplete; one that gives no known reason was cut all the same.

    >>> incomplete_reason("content_filter").value, incomplete_reason("moon_phase").value
    ('content_filter', 'length')
    """
    return _INCOMPLETE.get(raw, FinishReason.LENGTH)


def is_progress(kind: str) -> bool:
    """Whether an event only tells how far an item is, which comes whole at its end.

    >>> is_progress("response.web_search_call.searching"), is_progress("response.new_thing")
    (True, False)
    """
    return kind in ("keepalive", "ping") or kind.startswith(_PROGRESS)
