"""Translates the finish reasons and the token counts of this wire.

Unknown values never raise: an unknown reason is UNKNOWN, an invalid count is 0.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.codecs.json_text import read_count
from holdfast.core.messages import FinishReason, Usage

WIRE = "gemini"
"""The name of this wire on parts that hold its data."""

METADATA = "gemini.metadata"
"""The name on metadata of a reply (grounding, citations), which is never sent back."""

_FILTERED = (
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MODEL_ARMOR",
    "JAILBREAK",
    "ESCALATION",
    "PUP_LIMITED_DISABLED",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
)
MISTAKES = frozenset(
    {
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MISSING_THOUGHT_SIGNATURE",
        "NO_IMAGE",
    }
)
"""Mistakes of the model; another attempt may succeed."""

_FAILED = (*MISTAKES, "OTHER", "IMAGE_OTHER")
_FINISH = {
    "STOP": FinishReason.STOP,
    "MAX_TOKENS": FinishReason.LENGTH,
    "CONTINUATION": FinishReason.LENGTH,
    "GUARDRAIL_INTERVENED": FinishReason.REFUSAL,
    **dict.fromkeys(_FILTERED, FinishReason.CONTENT_FILTER),
    **dict.fromkeys(_FAILED, FinishReason.ERROR),
}

# gRPC-style clients get enums as numbers. From 6 on, the numbers of the two services differ.
_NUMBERS = (
    "FINISH_REASON_UNSPECIFIED",
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "OTHER",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
    "IMAGE_SAFETY",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
)
_VERTEX_NUMBERS = (
    *_NUMBERS[:6],
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
    "MODEL_ARMOR",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "IMAGE_OTHER",
    "UNEXPECTED_TOOL_CALL",
    "NO_IMAGE",
)
_NUMBERING = {"vertex": _VERTEX_NUMBERS, "vertex-express": _VERTEX_NUMBERS}
_BLOCKS = ("", "SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "IMAGE_SAFETY")


def finish_word(value: object, provider: str = "") -> str:
    """Return the name of a finish reason that is a name or a number; "" if the reply has not ended.

    >>> finish_word(1), finish_word("MAX_TOKENS"), finish_word(None), finish_word(99)
    ('STOP', 'MAX_TOKENS', '', '99')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value == 0:
        return ""
    names = _NUMBERING.get(provider, _NUMBERS)
    return names[value] if 0 < value < len(names) else str(value)


def finish_reason(word: str, *, has_calls: bool = False) -> FinishReason:
    """Return the finish reason for the wire's name of it.

    Args:
        word: the result of `finish_word`.
        has_calls: whether the reply holds function calls; the wire sends STOP for these too.

    >>> finish_reason("STOP", has_calls=True).value, finish_reason("moon_phase").value
    ('tool_calls', 'unknown')
    """
    reason = _FINISH.get(word) or _FINISH.get(word.upper(), FinishReason.UNKNOWN)
    return FinishReason.TOOL_CALLS if has_calls and reason is FinishReason.STOP else reason


def block_word(value: object) -> str:
    """Return the name of the reason why a prompt was blocked; "" if it was not blocked.

    >>> block_word("MODEL_ARMOR"), block_word("BLOCK_REASON_UNSPECIFIED"), block_word(1)
    ('MODEL_ARMOR', '', 'SAFETY')
    """
    if isinstance(value, str):
        return "" if value.endswith("_UNSPECIFIED") else value
    if isinstance(value, bool) or not isinstance(value, int) or value == 0:
        return ""
    return _BLOCKS[value] if 0 < value < len(_BLOCKS) else str(value)


def parse_usage(raw: Mapping[str, object]) -> Usage:
    """Return the token counts of a `usageMetadata` object; missing or invalid numbers count as 0.

    The wire counts thoughts and the results of its own tools separately. Here `output` includes the
    thoughts and `input` the results, so that their sum is the wire's total.

    >>> usage = parse_usage({"promptTokenCount": 7, "candidatesTokenCount": 2, "thoughtsTokenCount": 30})
    >>> usage.input, usage.output, usage.reasoning
    (7, 32, 30)
    """
    thoughts = read_count(raw, "thoughtsTokenCount")
    sent = ("promptTokensDetails", "toolUsePromptTokensDetails")
    audio = sum([_count_audio(raw.get(name)) for name in sent])
    return Usage(
        input=read_count(raw, "promptTokenCount") + read_count(raw, "toolUsePromptTokenCount"),
        output=read_count(raw, "candidatesTokenCount") + thoughts,
        cached_input=read_count(raw, "cachedContentTokenCount"),
        reasoning=thoughts,
        audio_input=max(0, audio - _count_audio(raw.get("cacheTokensDetails"))),
        audio_output=_count_audio(raw.get("candidatesTokensDetails")),
    )


_AUDIO = ("AUDIO", 4)
"""The modality of sound, as a name or a number."""


def _count_audio(details: object) -> int:
    """Return the tokens of sound in a list of counts by modality."""
    if not isinstance(details, list):
        return 0
    audio = [one for one in details if isinstance(one, dict) and one.get("modality") in _AUDIO]
    return sum([read_count(one, "tokenCount") for one in audio])
