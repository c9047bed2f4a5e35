"""How answers were checked before the check was an effect: for turns whose flags say nothing.

Old journals are replayed by this, so it must never change what it finds: a text that it calls
invalid was followed by another model call, and the journal holds that.
"""

from __future__ import annotations

import re

from holdfast.core.output import OutputType, ParseResult, Valid

_FENCE = re.compile(r"```(?:json|JSON)?[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)


def _find_embedded_json(text: str) -> str | None:
    """The one JSON value inside prose, when there is exactly one fence or one outer bracket pair."""
    fences = _FENCE.findall(text)
    if len(fences) == 1:
        return str(fences[0]).strip()
    if fences:
        return None
    starts = [at for at in (text.find("{"), text.find("[")) if at >= 0]
    if not starts:
        return None
    start = min(starts)
    end = text.rfind("}" if text[start] == "{" else "]")
    return text[start : end + 1] if end > start else None


def parse_legacy_output(text: str, output_type: OutputType) -> ParseResult:
    """Parse an answer: strict JSON, then one fenced or embedded value.

    Args:
        text: the whole text of the reply.
        output_type: the type's schema and check.
    """
    strict = output_type.check(text.strip())
    if isinstance(strict, Valid):
        return strict
    inner = _find_embedded_json(text)
    if inner is not None and inner != text.strip():
        embedded = output_type.check(inner)
        if isinstance(embedded, Valid):
            return Valid(embedded.value, parsed_by="embedded")
        return embedded
    return strict
