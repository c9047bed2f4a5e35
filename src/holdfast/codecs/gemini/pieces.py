"""The objects of this wire, chunk or whole, as deltas: one reading for both.

Every chunk has the shape of a whole reply, so a stream is read as many small replies. Parts of one
kind that follow each other are one block; a signature belongs to its own part and ends the block.
This module must never raise on any JSON, and must pass safely over what it does not know.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from holdfast.codecs.gemini.calls import CallReader
from holdfast.codecs.gemini.history import BESIDE, JOINED
from holdfast.codecs.gemini.media import media_of
from holdfast.codecs.gemini.vocabulary import (
    METADATA,
    MISTAKES,
    WIRE,
    block_word,
    finish_reason,
    finish_word,
    usage_of,
)
from holdfast.codecs.json_text import json_text, kind_of, read_json
from holdfast.codecs.wire import Failure
from holdfast.core.deltas import (
    Delta,
    Ended,
    ErrorSeen,
    Finished,
    NoChoices,
    NotAReply,
    PartSeen,
    ReasoningDelta,
    ReplyStarted,
    TextDelta,
    UsageSeen,
)
from holdfast.core.errors import ErrorCategory, ErrorInfo
from holdfast.core.messages import FinishReason, Opaque, Text
from holdfast.core.redaction import redact

_Object = dict[str, object]

CANDIDATES = "candidates attribute"
_OURS = frozenset({"candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId"})
_ABOUT = ("groundingMetadata", "citationMetadata", "urlContextMetadata")
_COUNTS = frozenset(
    {"promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "totalTokenCount"}
)
_WITH_A_MESSAGE = (FinishReason.CONTENT_FILTER, FinishReason.ERROR, FinishReason.UNKNOWN)
_TEXT, _THOUGHT, _NOTHING = "text", "thought", ""


class Pieces:
    """Reads the objects of one reply in order.

    Attributes:
        finished: a finish reason, or the reason of a block, has come, and no content after it.
        other_candidates: pieces of candidates other than the first, dropped.
        unread: parts that are no objects, and fields of a candidate that have no place here.
        late_usage: the text of the last `usageMetadata`, not read yet.
    """

    __slots__ = (
        "_about", "_block", "_calls", "_candidate", "_classify", "_content_seen", "_failed", "_goes_on",
        "_kind", "_provider", "_recognised", "_runs_code", "_said_finish", "_started", "_strange",
        "_totalled", "_usage", "_usage_told",
        "finished", "late_usage", "other_candidates", "unread",
    )  # fmt: skip

    def __init__(self, classify: Callable[[Failure], ErrorInfo], provider: str) -> None:
        self._classify = classify
        self._provider = provider
        self._calls = CallReader()
        self._block = -1
        self._kind = _NOTHING
        self._candidate: object = None
        self._about: _Object = {}
        self._usage: _Object = {}
        self._usage_told = True
        self._said_finish: Finished | None = None
        self._started = self._recognised = self._strange = self._failed = False
        self._content_seen = False
        self._goes_on = self._runs_code = self._totalled = False
        self.finished = False
        self.late_usage: msgspec.Raw | None = None
        self.other_candidates = 0
        self.unread = 0

    @property
    def untouched(self) -> bool:
        """Whether no object has come at all."""
        return not (self._recognised or self._strange or self._failed)

    @property
    def open_text(self) -> int | None:
        """The block that a chunk of nothing but text goes on with, when it needs nothing from here."""
        return self._block if self._kind == _TEXT and not self.finished else None

    def take(self, chunk: _Object, out: list[Delta]) -> None:
        """One object of the body."""
        chunk = _unwrapped(chunk)
        if error := chunk.get("error"):
            self._fail(error, out)
        if _OURS.isdisjoint(chunk):
            self._strange = True
            return
        self._recognised = True
        self._start(chunk, out)
        usage = chunk.get("usageMetadata")
        self._totalled = isinstance(usage, dict) and "totalTokenCount" in usage
        if isinstance(usage, dict):
            self._count(usage)
        candidates = chunk.get("candidates")
        if isinstance(candidates, list):
            self._candidates(candidates, out)
        elif candidates is not None:
            self._failed = True
            out.append(NotAReply("candidates list", kind_of(candidates)))
        feedback = chunk.get("promptFeedback")
        if isinstance(feedback, dict) and (word := block_word(feedback.get("blockReason"))):
            self._finish(Finished(FinishReason.CONTENT_FILTER, word), out)

    def end(self, out: list[Delta]) -> None:
        """The body of a whole reply was read: that it is whole needs no other proof."""
        self._settle(out)
        if self._recognised and not (self._failed or self.finished):
            if self._candidate is None:
                out.append(NoChoices())
            elif not self._content_seen:
                out.append(NotAReply("content attribute", "missing"))
        out.append(Ended(whole=True))

    def close(self, out: list[Delta]) -> None:
        """The body of a stream is over: whole only when it said why it ended."""
        self._settle(out)
        if self.finished:
            out.append(Ended())
        elif self._recognised and self._candidate is None and not self._failed:
            out.append(NoChoices())

    def _settle(self, out: list[Delta]) -> None:
        """Nothing more comes: give what was collected."""
        self._calls.cut(out)
        if self._about:
            about, self._about = self._about, {}
            out.append(PartSeen(Opaque(METADATA, about), note=True))
        self._tell_usage(out)
        if self._strange and not self._recognised and not self._failed:
            out.append(NotAReply(CANDIDATES, "missing"))
            self._failed = True

    def _start(self, chunk: _Object, out: list[Delta]) -> None:
        if self._started:
            return
        reply_id, model = _text(chunk.get("responseId")), _text(chunk.get("modelVersion"))
        self._started = bool(reply_id and model)
        if reply_id or model:
            out.append(ReplyStarted(reply_id, model))

    def _fail(self, error: object, out: list[Delta]) -> None:
        self._failed = True
        body = json_text({"error": error}).encode()
        out.append(ErrorSeen(self._classify(Failure(provider=self._provider, body=body))))

    def _candidates(self, candidates: list[object], out: list[Delta]) -> None:
        numbered = any(isinstance(one, dict) and "index" in one for one in candidates)
        for at, candidate in enumerate(candidates):
            if not isinstance(candidate, dict):
                self._failed = True
                out.append(NotAReply("candidate object", kind_of(candidate)))
                continue
            # A number of 0 is left out; where none has a number, the place is one.
            index = (candidate.get("index") or 0) if numbered else at
            if self._candidate is None:
                self._candidate = index
            if index != self._candidate:
                self.other_candidates += 1
                continue
            self._one(candidate, out)

    def _one(self, candidate: _Object, out: list[Delta]) -> None:
        content = candidate.get("content")
        if isinstance(content, dict):
            self._content_seen = True
            parts = content.get("parts")
            parts = [parts] if isinstance(parts, dict) else parts
            for part in parts if isinstance(parts, list) else ():
                if isinstance(part, dict):
                    self._part(part, out)
                else:
                    self.unread += 1
        for name in _ABOUT:
            if value := candidate.get(name):
                self._about[name] = value
        if word := finish_word(candidate.get("finishReason"), self._provider):
            self._calls.cut(out)
            reason = finish_reason(word, called=self._calls.count > 0)
            message = candidate.get("finishMessage")
            said = message if isinstance(message, str) else ""
            if word in MISTAKES:
                self._failed = True
                out.append(ErrorSeen(_mistake(word, said)))
            elif said and reason in _WITH_A_MESSAGE:
                self._about["finishMessage"] = said
            self._finish(Finished(reason, word, self._is_last()), out)
        elif self._said_finish is None:
            self._goes_on = True

    def _is_last(self) -> bool:
        """Whether a finish reason proves the end of a stream.

        Some models give one in each chunk, and a server that runs code one before its result.
        """
        first = self._goes_on and self._said_finish is None
        return first and self._totalled and not self._runs_code

    def _finish(self, said: Finished, out: list[Delta]) -> None:
        self._tell_usage(out)
        if said != self._said_finish or not self.finished:
            self._said_finish, self.finished = said, True
            out.append(said)

    def _part(self, part: _Object, out: list[Delta]) -> None:
        text = part.get("text")
        thought = part.get("thought") is True
        call = part.get("functionCall")
        if isinstance(text, str) and thought:
            self._think(part, text, out)
        elif isinstance(text, str):
            self._say(part, text, out)
        elif isinstance(call, dict):
            self._call(part, call, out)
        elif not thought and (media := media_of(part)) is not None:
            out.append(PartSeen(media, self._next(_NOTHING)))
        elif part.keys() - {"thought"}:
            self._runs_code = "executableCode" in part
            out.append(PartSeen(Opaque(WIRE, part), self._next(_NOTHING)))

    def _say(self, part: _Object, text: str, out: list[Delta]) -> None:
        beside = {name: part[name] for name in part if name in BESIDE} if len(part) > 1 else None
        if not beside:
            if text:
                out.append(TextDelta(text, self._same(_TEXT)))
            return
        if text:
            # Shown as it comes; the signature follows in an empty text that is joined to it again.
            out.append(TextDelta(text, self._next(_TEXT)))
            beside[JOINED] = True
        out.append(PartSeen(Text("", extra=beside), self._next(_NOTHING)))

    def _think(self, part: _Object, text: str, out: list[Delta]) -> None:
        signature = part.get("thoughtSignature")
        if not isinstance(signature, str) or not signature:
            if text:
                out.append(ReasoningDelta(text, self._same(_THOUGHT)))
            return
        out.append(ReasoningDelta(text, self._next(_THOUGHT), signature))
        self._kind = _NOTHING

    def _call(self, part: _Object, call: _Object, out: list[Delta]) -> None:
        extra = {name: part[name] for name in part if name in BESIDE}
        if self._calls.continues(call):
            self._calls.go_on(call, extra or None, out)
        else:
            self._calls.begin(call, self._next(_NOTHING), extra or None, out)

    def _same(self, kind: str) -> int:
        """The block under way when it is of this kind, or else a new one."""
        if self._kind != kind:
            return self._next(kind)
        self.finished = False
        return self._block

    def _next(self, kind: str) -> int:
        self._kind = kind
        self.finished = False
        self._block += 1
        return self._block

    def _count(self, usage: _Object) -> None:
        """A chunk may say only what kind of traffic it was: that must not wipe out the counts."""
        if not _COUNTS.isdisjoint(usage):
            # It is newer than the one that was put off.
            self._usage, self._usage_told, self.late_usage = usage, False, None

    def _tell_usage(self, out: list[Delta]) -> None:
        if self.late_usage is not None:
            usage = read_json(bytes(self.late_usage))
            self.late_usage = None
            if isinstance(usage, dict):
                self._count(usage)
        if self._usage and not self._usage_told:
            self._usage_told = True
            out.append(UsageSeen(usage_of(self._usage)))


def _unwrapped(chunk: _Object) -> _Object:
    """The reply itself, where a service of this vendor wraps it; a bare status as the error it is."""
    if _OURS.isdisjoint(chunk) and "error" not in chunk:
        inner = chunk.get("response")
        if isinstance(inner, dict):
            return inner
        if "message" in chunk and ("code" in chunk or "status" in chunk):
            return {"error": chunk}
    return chunk


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _mistake(word: str, message: str) -> ErrorInfo:
    said = f"The model's reply is of no use (finish reason {word})"
    if message:
        said = f"{said}: {redact(message[:300])}"
    return ErrorInfo(category=ErrorCategory.INVALID_RESPONSE, safe=said, code=word.lower())
