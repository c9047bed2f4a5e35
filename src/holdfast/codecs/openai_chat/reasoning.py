"""Reads the reasoning of a model, in the forms of the providers of this wire.

The text is in one of several fields. Other fields hold data that the provider expects back
unchanged (`reasoning_details`, an opaque value, a signature). A stream sends these in fragments,
which are joined here, so that a stream and a whole reply give the same part.
"""

from __future__ import annotations

from holdfast.codecs.json_text import string_or_empty
from holdfast.core.deltas import ReasoningDelta

_TEXT_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")
_STATE_FIELDS = frozenset(
    (
        "extra_content",
        "reasoning_id",
        "reasoning_opaque",
        "reasoning_signature",
        "thought_signature",
    )
)
_GROWING = ("text", "summary")
FIELDS = frozenset({*_TEXT_FIELDS, *_STATE_FIELDS, "reasoning_details"})
"""The fields of a message that this module reads."""


class ReasoningState:
    """Collects the vendor fields of one reply's reasoning.

    Attributes:
        has_text: text came in a text field, so the text in `reasoning_details` is a repetition.
    """

    __slots__ = ("_details", "_fields", "_texts", "has_text")

    def __init__(self) -> None:
        self._details: list[dict[str, object]] = []
        self._texts: list[dict[str, list[str]]] = []
        self._fields: dict[str, object] = {}
        self.has_text = False

    @property
    def has_pending(self) -> bool:
        """Whether there are fields to take."""
        return bool(self._details or self._fields)

    def take_delta(self) -> ReasoningDelta:
        """Return the fields that were collected since the last call."""
        extra = self._fields
        if self._details:
            for detail, texts in zip(self._details, self._texts, strict=True):
                detail.update({field: "".join(pieces) for field, pieces in texts.items()})
            extra["reasoning_details"] = self._details
        self._details, self._texts, self._fields = [], [], {}
        return ReasoningDelta(extra=extra)

    def read_message(self, message: dict[str, object], *, whole: bool) -> str:
        """Return the reasoning text of a message or delta, and collect its vendor fields."""
        if not _STATE_FIELDS.isdisjoint(message):
            for field in _STATE_FIELDS:
                value = message.get(field)
                if isinstance(value, str | dict) and value:
                    self._fields[field] = value
        details = message.get("reasoning_details")
        details_text = self._read_details(details, whole=whole) if isinstance(details, list) else ""
        for field in _TEXT_FIELDS:
            value = message.get(field)
            if isinstance(value, str) and value:
                self.has_text = True
                return value
        # Details may come at the end, after the text came in pieces.
        return "" if self.has_text else details_text

    def _read_details(self, details: list[object], *, whole: bool) -> str:
        texts = []
        for detail in details:
            if isinstance(detail, dict):
                self._add_detail(detail, whole=whole)
                texts += [detail[field] for field in _GROWING if isinstance(detail.get(field), str)]
        return "".join(texts)

    def _add_detail(self, detail: dict[str, object], *, whole: bool) -> None:
        texts = {field: value for field in _GROWING if isinstance(value := detail.get(field), str)}
        if whole or not self._continues_last(detail):
            self._details.append(dict(detail))
            self._texts.append({field: [value] for field, value in texts.items()})
            return
        self._details[-1].update({key: val for key, val in detail.items() if val is not None})
        for field, value in texts.items():
            self._texts[-1].setdefault(field, []).append(value)

    def _continues_last(self, detail: dict[str, object]) -> bool:
        """Whether a detail continues the last one, which is a text."""
        if not self._details or not self._texts[-1]:
            return False
        last = self._details[-1]
        same = last.get("type") == detail.get("type") and last.get("index") == detail.get("index")
        return same and not last.get("signature")


def read_thought(part: dict[str, object]) -> ReasoningDelta | None:
    """Read a thinking block of a content list; None if it is empty."""
    signature = part.get("signature")
    pieces: list[str] = []
    for field in ("thinking", "summary", "text"):
        inner = part.get(field)
        if isinstance(inner, str):
            pieces.append(inner)
        for item in inner if isinstance(inner, list) else ():
            if isinstance(item, dict):
                pieces.append(string_or_empty(item.get("text")))
                signature = item.get("signature") or signature
    text = "".join(pieces)
    signature = signature if isinstance(signature, str) and signature else None
    return ReasoningDelta(text, signature=signature) if text or signature else None
