"""Translates the statuses of this wire into finish reasons, and knows the types of its events."""

from __future__ import annotations

from holdfast.core.messages import FinishReason

WIRE = "openai_responses"
"""The name of this wire on parts that hold its data."""

COMPLETED = frozenset({"completed", "complete"})
"""The statuses of a complete response; the second is an older spelling."""

_INCOMPLETE = {
    "max_output_tokens": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "length": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
    "safety": FinishReason.CONTENT_FILTER,
    "guardrail_intervened": FinishReason.REFUSAL,
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
    """Return why a response is incomplete; an unknown reason counts as LENGTH.

    >>> incomplete_reason("content_filter").value, incomplete_reason("moon_phase").value
    ('content_filter', 'length')
    """
    return _INCOMPLETE.get(raw, FinishReason.LENGTH)


def is_progress(kind: str) -> bool:
    """Whether an event only reports the progress of an item, which comes whole at its end.

    >>> is_progress("response.web_search_call.searching"), is_progress("response.new_thing")
    (True, False)
    """
    return kind in ("keepalive", "ping") or kind.startswith(_PROGRESS)
