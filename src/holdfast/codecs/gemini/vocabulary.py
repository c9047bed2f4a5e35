"""The wire's words for how a reply ended and what it cost, in our vocabulary.

This module must never fail on a strange value: what it does not know is UNKNOWN, or zero.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.messages import FinishReason, Usage

WIRE = "gemini"
"""The name of this wire on parts that only it understands."""

METADATA = "gemini.metadata"
"""The name on what belongs to a reply and is no part of it: grounding, citations. Never sent back."""

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
"""What the model did wrong: another sample may pass."""

_FAILED = (*MISTAKES, "OTHER", "IMAGE_OTHER")
_FINISH = {
    "STOP": FinishReason.STOP,
    "MAX_TOKENS": FinishReason.LENGTH,
    "CONTINUATION": FinishReason.LENGTH,
    **dict.fromkeys(_FILTERED, FinishReason.CONTENT_FILTER),
    **dict.fromkeys(_FAILED, FinishReason.ERROR),
}

# Clients of the gRPC kind ask for enums as numbers. From 6 on, the two services number differently.
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
    """A finish reason, word or number, as its word; "" when the reply has not ended.

    >>> finish_word(1), finish_word("MAX_TOKENS"), finish_word(None), finish_word(99)
    ('STOP', 'MAX_TOKENS', '', '99')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value == 0:
        return ""
    words = _NUMBERING.get(provider, _NUMBERS)
    return words[value] if 0 < value < len(words) else str(value)


def finish_reason(word: str, *, has_calls: bool = False) -> FinishReason:
    """The neutral reason for a finish word.

    Args:
        word: as `finish_word` gives it.
        has_calls: whether the reply holds function calls: the wire says STOP for these too.

    >>> finish_reason("STOP", has_calls=True).value, finish_reason("moon_phase").value
    ('tool_calls', 'unknown')
    """
    reason = _FINISH.get(word) or _FINISH.get(word.upper(), FinishReason.UNKNOWN)
    return FinishReason.TOOL_CALLS if has_calls and reason is FinishReason.STOP else reason


def block_word(value: object) -> str:
    """Why a prompt was blocked, as a word; "" when it was not.

    >>> block_word("MODEL_ARMOR"), block_word("BLOCK_REASON_UNSPECIFIED"), block_word(1)
    ('MODEL_ARMOR', '', 'SAFETY')
    """
    if isinstance(value, str):
        return "" if value.endswith("_UNSPECIFIED") else value
    if isinstance(value, bool) or not isinstance(value, int) or value == 0:
        return ""
    return _BLOCKS[value] if 0 < value < len(_BLOCKS) else str(value)


def parse_usage(raw: Mapping[str, object]) -> Usage:
    """Tokens from a `usageMetadata`; absent or strange numbers count as zero.

    The wire counts thoughts beside the candidates, and the results of its own tools beside the
    prompt; here output includes thoughts, and input all that was read, so that the two add up to
    the wire's total.

    >>> usage = parse_usage({"promptTokenCount": 7, "candidatesTokenCount": 2, "thoughtsTokenCount": 30})
    >>> usage.input, usage.output, usage.reasoning
    (7, 32, 30)
    """
    thoughts = _read_count(raw, "thoughtsTokenCount")
    return Usage(
        input=_read_count(raw, "promptTokenCount") + _read_count(raw, "toolUsePromptTokenCount"),
        output=_read_count(raw, "candidatesTokenCount") + thoughts,
        cached_input=_read_count(raw, "cachedContentTokenCount"),
        reasoning=thoughts,
    )


def _read_count(raw: Mapping[str, object], name: str) -> int:
    value = raw.get(name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return min(value, 2**53)
    return 0
