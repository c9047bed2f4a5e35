"""The forms in which providers of this wire show what a model thought.

The text stands in one of several fields, and beside it may stand state that the provider wants
back untouched (`reasoning_details`, an opaque blob, a signature). In a stream the state comes in
fragments; here they are put together, so that a stream and a whole reply give the same part. This
module must never change what it does not merge.
"""

from __future__ import annotations

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
    """Collects the state of one reply's reasoning until it is taken.

    Attributes:
        has_text: text has come in a field of its own, so that the text of details is a repetition.
    """

    __slots__ = ("_details", "_fields", "_texts", "has_text")

    def __init__(self) -> None:
        self._details: list[dict[str, object]] = []
        self._texts: list[dict[str, list[str]]] = []
        self._fields: dict[str, object] = {}
        self.has_text = False

    @property
    def has_pending(self) -> bool:
        """Whether there is something to take."""
        return bool(self._details or self._fields)

    def take_delta(self) -> ReasoningDelta:
        """All state since the last time, as the fields of a message."""
        extra = self._fields
        if self._details:
            for detail, texts in zip(self._details, self._texts, strict=True):
                detail.update({field: "".join(pieces) for field, pieces in texts.items()})
            extra["reasoning_details"] = self._details
        self._details, self._texts, self._fields = [], [], {}
        return ReasoningDelta(extra=extra)

    def read_message(self, message: dict[str, object], *, whole: bool) -> str:
        """The reasoning text of a message or delta; its state is kept here."""
        if not _STATE_FIELDS.isdisjoint(message):
            for field in _STATE_FIELDS:
                value = message.get(field)
                if isinstance(value, str | dict) and value:
                    self._fields[field] = value
        details = message.get("reasoning_details")
        told = self._read_details(details, whole=whole) if isinstance(details, list) else ""
        for field in _TEXT_FIELDS:
            value = message.get(field)
            if isinstance(value, str) and value:
                self.has_text = True
                return value
        # Details may come at the end, after their text was told piece by piece.
        return "" if self.has_text else told

    def _read_details(self, details: list[object], *, whole: bool) -> str:
        told = []
        for detail in details:
            if isinstance(detail, dict):
                self._add_detail(detail, whole=whole)
                told += [detail[field] for field in _GROWING if isinstance(detail.get(field), str)]
        return "".join(told)

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
        """Whether a detail is more of the last one, and that one is text that can grow."""
        if not self._details or not self._texts[-1]:
            return False
        last = self._details[-1]
        same = last.get("type") == detail.get("type") and last.get("index") == detail.get("index")
        return same and not last.get("signature")


def read_thought(part: dict[str, object]) -> ReasoningDelta | None:
    """A thinking block inside a list of content, or None when there is nothing in it."""
    signature = part.get("signature")
    pieces: list[str] = []
    for field in ("thinking", "summary", "text"):
        inner = part.get(field)
        if isinstance(inner, str):
            pieces.append(inner)
        for item in inner if isinstance(inner, list) else ():
            if isinstance(item, dict):
                text = item.get("text")
                pieces.append(text if isinstance(text, str) else "")
                signature = item.get("signature") or signature
    told = "".join(pieces)
    mark = signature if isinstance(signature, str) and signature else None
    return ReasoningDelta(told, signature=mark) if told or mark else None
