"""Turns the objects of this wire into deltas, whether they are chunks or a whole reply.

Every chunk has the form of a whole reply, so a stream is read as many small replies. Consecutive
parts of one kind are one block; a signature belongs to its part and ends the block. Parts are texts,
calls, hosted tools, and images, audio and files. This module never raises on any JSON, and skips parts
that it does not know.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping

import msgspec

from holdfast.codecs.error_body import holds_message
from holdfast.codecs.gemini.calls import CallReader
from holdfast.codecs.gemini.history import BESIDE, JOINED
from holdfast.codecs.gemini.hosted import read_block, read_metadata
from holdfast.codecs.gemini.vocabulary import (
    METADATA,
    MISTAKES,
    WIRE,
    block_word,
    finish_reason,
    finish_word,
    parse_usage,
)
from holdfast.codecs.json_text import json_kind, read_json, read_tier, string_or_empty
from holdfast.codecs.reply_reader import ReplyReader
from holdfast.codecs.wire import Failure
from holdfast.core.deltas import (
    Delta,
    ErrorReceived,
    HostedToolFinished,
    HostedToolStarted,
    NoChoices,
    NotAReply,
    PartReceived,
    ReasoningDelta,
    ReplyFinished,
    ReplyStarted,
    StreamEnded,
    TextDelta,
    UsageReceived,
    holds_content,
)
from holdfast.core.errors import ErrorCategory, ErrorInfo
from holdfast.core.messages import FinishReason, Media, Opaque, Text
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


class GeminiChunkReader(ReplyReader):
    """Reads the objects of one reply in order.

    Attributes:
        finished: a finish reason or a block reason came, and no content after it.
        other_candidates: the number of dropped chunks of candidates other than the first.
        unread_parts: the number of parts that are not objects.
        late_usage: the last `usageMetadata`, not decoded yet.
    """

    __slots__ = (
        "_block",
        "_block_kind",
        "_calls",
        "_candidate",
        "_content_seen",
        "_emitted_finish",
        "_has_total",
        "_hosted_names",
        "_id",
        "_metadata",
        "_runs_code",
        "_saw_unfinished",
        "_started",
        "_usage",
        "_usage_emitted",
        "finished",
        "late_usage",
        "other_candidates",
        "unread_parts",
    )  # fmt: skip

    def __init__(self, classify: Callable[[Failure], ErrorInfo], provider: str) -> None:
        super().__init__(classify, provider)
        self._calls = CallReader()
        self._block = -1
        self._block_kind = _NOTHING
        self._candidate: object = None
        self._metadata: _Object = {}
        self._hosted_names: frozenset[str] = frozenset()
        self._usage: _Object = {}
        self._usage_emitted = True
        self._emitted_finish: ReplyFinished | None = None
        self._started = self._content_seen = False
        self._id = ""
        self._saw_unfinished = self._runs_code = self._has_total = False
        self.finished = False
        self.late_usage: msgspec.Raw | None = None
        self.other_candidates = 0
        self.unread_parts = 0

    @property
    def open_text_block(self) -> int | None:
        """The block that a chunk with only text continues, or None if `read_object` must read the chunk."""
        return self._block if self._block_kind == _TEXT and not self.finished else None

    def read_object(self, chunk: _Object, out: list[Delta]) -> None:
        """Read one object of the body."""
        chunk = _unwrap_chunk(chunk)
        if error := chunk.get("error"):
            self._report_error({"error": error}, out)
        if _OURS.isdisjoint(chunk):
            self._saw_unknown = True
            return
        self._saw_known = True
        self._read_start(chunk, out)
        usage = chunk.get("usageMetadata")
        self._has_total = isinstance(usage, dict) and "totalTokenCount" in usage
        if isinstance(usage, dict):
            self._note_usage(usage)
        candidates = chunk.get("candidates")
        begin, was_finished = len(out), self.finished
        if isinstance(candidates, list):
            self._read_candidates(candidates, out)
            if was_finished and holds_content(out[begin:]):
                self._refuse_second_reply(chunk, out)
        elif candidates is not None:
            self._failed = True
            out.append(NotAReply("candidates list", json_kind(candidates)))
        feedback = chunk.get("promptFeedback")
        if isinstance(feedback, dict) and (reason := block_word(feedback.get("blockReason"))):
            self._emit_finish(ReplyFinished(FinishReason.CONTENT_FILTER, reason), out)

    def end_whole_body(self, out: list[Delta]) -> None:
        """End a whole body. It was one JSON text, so the reply is complete."""
        self._flush_pending(out)
        if self._saw_known and not (self._failed or self.finished):
            if self._candidate is None:
                out.append(NoChoices())
            elif not self._content_seen:
                out.append(NotAReply("content attribute", "missing"))
        out.append(StreamEnded(whole=True))

    def close(self, out: list[Delta]) -> None:
        """End a stream. The reply is complete only if a finish reason came."""
        self._flush_pending(out)
        if self.finished:
            out.append(StreamEnded())
        elif self._saw_known and self._candidate is None and not self._failed:
            out.append(NoChoices())

    def _flush_pending(self, out: list[Delta]) -> None:
        """Add the collected deltas."""
        self._calls.abort_call(out)
        if self._metadata:
            about, self._metadata = self._metadata, {}
            shown = self._hosted_names
            self._emit_hosted([one for one in read_metadata(about) if one.name not in shown], out)
            out.append(PartReceived(Opaque(METADATA, about), note=True))
        self._emit_usage(out)
        self._report_missing(CANDIDATES, out)

    def _emit_hosted(
        self, notices: list[HostedToolStarted | HostedToolFinished], out: list[Delta]
    ) -> None:
        self._hosted_names |= {notice.name for notice in notices}
        out += notices

    def _read_start(self, chunk: _Object, out: list[Delta]) -> None:
        if self._started:
            return
        reply_id, model = (
            string_or_empty(chunk.get("responseId")),
            string_or_empty(chunk.get("modelVersion")),
        )
        self._started = bool(reply_id and model)
        self._id = self._id or reply_id
        if reply_id or model:
            out.append(ReplyStarted(reply_id, model))

    def _refuse_second_reply(self, chunk: _Object, out: list[Delta]) -> None:
        """Report content after a finish reason if its id shows that it belongs to another reply."""
        if self._id and chunk.get("responseId") not in (None, "", self._id):
            self._report_second_reply(out)

    def _read_candidates(self, candidates: list[object], out: list[Delta]) -> None:
        numbered = any(isinstance(item, dict) and "index" in item for item in candidates)
        for at, candidate in enumerate(candidates):
            if not isinstance(candidate, dict):
                self._failed = True
                out.append(NotAReply("candidate object", json_kind(candidate)))
                continue
            # The wire omits an index of 0. If no candidate has an index, the position is used.
            index = (candidate.get("index") or 0) if numbered else at
            if self._candidate is None:
                self._candidate = index
            if index != self._candidate:
                self.other_candidates += 1
                continue
            self._read_candidate(candidate, out)

    def _read_candidate(self, candidate: _Object, out: list[Delta]) -> None:
        content = candidate.get("content")
        if isinstance(content, dict):
            self._content_seen = True
            parts = content.get("parts")
            parts = [parts] if isinstance(parts, dict) else parts
            for part in parts if isinstance(parts, list) else ():
                if isinstance(part, dict):
                    self._read_part(part, out)
                else:
                    self.unread_parts += 1
        for name in _ABOUT:
            if value := candidate.get(name):
                self._metadata[name] = value
        if raw_finish := finish_word(candidate.get("finishReason"), self._provider):
            self._calls.abort_call(out)
            reason = finish_reason(raw_finish, has_calls=self._calls.count > 0)
            message = string_or_empty(candidate.get("finishMessage"))
            if raw_finish in MISTAKES:
                self._failed = True
                out.append(ErrorReceived(_mistake_info(raw_finish, message)))
            elif message and reason in _WITH_A_MESSAGE:
                self._metadata["finishMessage"] = message
            self._emit_finish(ReplyFinished(reason, raw_finish, self._is_last_finish()), out)
        elif self._emitted_finish is None:
            self._saw_unfinished = True

    def _is_last_finish(self) -> bool:
        """Whether a finish reason proves the end of a stream.

        Some models send one in each chunk, and a server that runs code sends one before the result.
        """
        first = self._saw_unfinished and self._emitted_finish is None
        return first and self._has_total and not self._runs_code

    def _emit_finish(self, finish: ReplyFinished, out: list[Delta]) -> None:
        self._emit_usage(out)
        if finish != self._emitted_finish or not self.finished:
            self._emitted_finish, self.finished = finish, True
            out.append(finish)

    def _read_part(self, part: _Object, out: list[Delta]) -> None:
        text = part.get("text")
        thought = part.get("thought") is True
        call = part.get("functionCall")
        if isinstance(text, str) and thought:
            self._read_thought(part, text, out)
        elif isinstance(text, str):
            self._read_text(part, text, out)
        elif isinstance(call, dict):
            self._read_call(part, call, out)
        elif not thought and (media := read_media(part)) is not None:
            out.append(PartReceived(media, self._next_block(_NOTHING)))
        elif part.keys() - {"thought"}:
            self._runs_code = "executableCode" in part
            self._emit_hosted(read_block(part), out)
            out.append(PartReceived(Opaque(WIRE, part), self._next_block(_NOTHING)))

    def _read_text(self, part: _Object, text: str, out: list[Delta]) -> None:
        extra = {name: part[name] for name in part if name in BESIDE} if len(part) > 1 else None
        if not extra:
            if text:
                out.append(TextDelta(text, self._current_block(_TEXT)))
            return
        if text:
            # The text is shown at once. The signature follows in an empty text that is joined to it later.
            out.append(TextDelta(text, self._next_block(_TEXT)))
            extra[JOINED] = True
        out.append(PartReceived(Text("", extra=extra), self._next_block(_NOTHING)))

    def _read_thought(self, part: _Object, text: str, out: list[Delta]) -> None:
        signature = part.get("thoughtSignature")
        if not isinstance(signature, str) or not signature:
            if text:
                out.append(ReasoningDelta(text, self._current_block(_THOUGHT)))
            return
        out.append(ReasoningDelta(text, self._next_block(_THOUGHT), signature))
        self._block_kind = _NOTHING

    def _read_call(self, part: _Object, call: _Object, out: list[Delta]) -> None:
        extra = {name: part[name] for name in part if name in BESIDE}
        if self._calls.continues_call(call):
            self._calls.continue_call(call, extra or None, out)
        else:
            self._calls.begin_call(call, self._next_block(_NOTHING), extra or None, out)

    def _current_block(self, kind: str) -> int:
        """Return the open block if it is of this kind, or else a new one."""
        if self._block_kind != kind:
            return self._next_block(kind)
        self.finished = False
        return self._block

    def _next_block(self, kind: str) -> int:
        self._block_kind = kind
        self.finished = False
        self._block += 1
        return self._block

    def _note_usage(self, usage: _Object) -> None:
        """Store the counts; an object without counts (some chunks name only the traffic type) is ignored."""
        if not _COUNTS.isdisjoint(usage):
            # These counts are newer than those that were not decoded yet.
            self._usage, self._usage_emitted, self.late_usage = usage, False, None

    def _emit_usage(self, out: list[Delta]) -> None:
        if self.late_usage is not None:
            usage = read_json(bytes(self.late_usage))
            self.late_usage = None
            if isinstance(usage, dict):
                self._note_usage(usage)
        if self._usage and not self._usage_emitted:
            self._usage_emitted = True
            tier = read_tier(self._usage.get("serviceTier"), self._usage.get("trafficType"))
            out.append(UsageReceived(parse_usage(self._usage), tier))


def _unwrap_chunk(chunk: _Object) -> _Object:
    """Unwrap a reply that a Google service wraps, and turn a plain status object into an error."""
    if not any(map(chunk.get, _OURS)) and "error" not in chunk:
        inner = chunk.get("response")
        if isinstance(inner, dict):
            return inner
        if holds_message(chunk):
            return {"error": chunk}
    return chunk


def _mistake_info(raw_finish: str, message: str) -> ErrorInfo:
    safe = f"The model's reply cannot be used (finish reason {raw_finish})"
    if message:
        safe = f"{safe}: {redact(message[:300])}"
    return ErrorInfo(category=ErrorCategory.INVALID_RESPONSE, safe=safe, code=raw_finish.lower())


def read_media(part: Mapping[str, object]) -> Media | None:
    r"""Read an `inlineData` or `fileData` part; None if it is neither or cannot be read.

    >>> read_media({"inlineData": {"mimeType": "image/png", "data": "iVA="}}).data
    b'\x89P'
    """
    inline, file = part.get("inlineData"), part.get("fileData")
    extra = {name: value for name, value in part.items() if name not in ("inlineData", "fileData")}
    if isinstance(inline, dict):
        data = _decode_base64(inline.get("data"))
        return (
            Media(string_or_empty(inline.get("mimeType")), data=data, extra=extra or None)
            if data
            else None
        )
    if isinstance(file, dict) and (url := string_or_empty(file.get("fileUri"))):
        return Media(string_or_empty(file.get("mimeType")), url=url, extra=extra or None)
    return None


def _decode_base64(text: object) -> bytes | None:
    if not isinstance(text, str):
        return None
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        # binascii.Error is a ValueError, and text that is not ASCII raises one too.
        return None
