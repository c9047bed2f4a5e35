"""Turns the objects of this wire into deltas, whether they are chunks or a whole reply.

A chunk has `delta` where a whole reply has `message`; the rest is the same. Audio comes in fragments
of base64, together with a transcript, which is the text of the reply. The text of the reasoning is in
one of several fields, and data that the provider expects back in others (`reasoning_details`, an opaque
value, a signature), whose fragments are joined here. This module never raises on any JSON or invalid
base64, and skips parts that it does not know.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable

from holdfast.codecs.error_body import holds_message
from holdfast.codecs.json_text import dump_json, json_kind, read_tier, string_or_empty
from holdfast.codecs.openai_chat.calls import CallTracker
from holdfast.codecs.openai_chat.vocabulary import (
    ABOUT,
    BLOCKS,
    EXECUTED,
    MISTAKES,
    TRANSCRIPT,
    TRANSCRIPT_INDEX,
    WIRE,
    ChosenFinish,
    choose_finish,
    parse_usage,
)
from holdfast.codecs.reply_reader import ReplyReader
from holdfast.codecs.wire import CHOICES, Failure
from holdfast.core.deltas import (
    Delta,
    ErrorReceived,
    NoChoices,
    NotAReply,
    PartReceived,
    ReasoningDelta,
    RefusalDelta,
    ReplyFinished,
    ReplyStarted,
    StreamEnded,
    TextDelta,
    UsageReceived,
    holds_content,
)
from holdfast.core.errors import ErrorCategory, ErrorInfo
from holdfast.core.messages import FinishReason, Media, Opaque, Text

_Object = dict[str, object]
_ABOUT = frozenset(ABOUT)

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
REASONING = frozenset({*_TEXT_FIELDS, *_STATE_FIELDS, "reasoning_details"})
"""The fields of a message that have reasoning."""

_SOUNDS = (
    (b"RIFF", "audio/wav"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
)


class OpenAIChatChunkReader(ReplyReader):
    """Reads the objects of one reply in order.

    Attributes:
        calls: separates the tool calls of this reply.
        finished: a finish reason came, and no content after it.
        has_text: the reply has a text besides the transcript of its audio.
        other_choices: the number of dropped chunks of choices other than the first.
        unknown_counts: the number of messages with each unknown field.
        reasoning: collects the state of this reply's reasoning.
    """

    __slots__ = (
        "_audio",
        "_choice_seen",
        "_delta_seen",
        "_has_transcript",
        "_id",
        "_message_seen",
        "_metadata",
        "_started",
        "_tail",
        "_usage_seen",
        "calls",
        "finished",
        "has_text",
        "other_choices",
        "reasoning",
    )  # fmt: skip

    def __init__(self, classify: Callable[[Failure], ErrorInfo], provider: str) -> None:
        super().__init__(classify, provider)
        self.calls = CallTracker()
        self.reasoning = ReasoningState()
        self._audio = AudioCollector()
        self._metadata: _Object = {}
        self._started = False
        self._choice_seen = False
        self._delta_seen = False
        self._tail = _CONTENT
        self._usage_seen = False
        self._message_seen = False
        self._id = ""
        self._has_transcript = False
        self.has_text = False
        self.finished = False
        self.other_choices = 0

    @property
    def allows_quick_read(self) -> bool:
        """Whether a chunk with only text, reasoning or arguments can be read without this reader."""
        started = self._started and self._message_seen
        if self.finished or self._tail:
            return False
        return started and not self.reasoning.has_pending

    def read_object(
        self, chunk: _Object, out: list[Delta], *, failed: bool = False, whole: bool = False
    ) -> None:
        """Read one object of the body.

        Args:
            chunk: the object.
            out: the list that the deltas are appended to.
            failed: the object came in an event named `error`.
            whole: the object is the whole body. Some providers send `delta` and `message` in both
                forms; in a stream, the message repeats earlier chunks.
        """
        if failed or _is_error(chunk):
            self._report_error(chunk, out)
        elif isinstance(groq := chunk.get("x_groq"), dict) and groq.get("error"):
            self._report_error({"error": groq["error"]}, out)
        choices = chunk.get("choices")
        before, had_usage = len(out), self._usage_seen
        if "choices" not in chunk:
            self._saw_unknown = True
        elif choices is None or isinstance(choices, list):
            self._saw_known = True
            self._read_start(chunk, bool(choices), out)
            # The only choice of a whole reply counts as the first, whatever its index is.
            only = whole and choices is not None and len(choices) == 1
            begin, was_finished = len(out), self.finished
            for choice in choices or ():
                self._read_choice(choice, whole, only, out)
            if was_finished and holds_content(out[begin:]):
                self._refuse_second_reply(chunk, out)
        else:
            out.append(NotAReply("choices list", json_kind(choices)))
            self._failed = True
        if not _ABOUT.isdisjoint(chunk):
            self._metadata.update((name, chunk[name]) for name in ABOUT if chunk.get(name))
        self._read_usage(chunk, out)
        if holds_content(out[before:]):
            self._tail = _CONTENT
        else:
            self._note_tail(choices, has_first_usage=self._usage_seen and not had_usage)

    def end_reply(self, out: list[Delta], *, whole: bool = False) -> None:
        """End the reply, at the end marker or at the end of a whole body."""
        self.close(out)
        if self._failed:
            out.append(StreamEnded(whole))
            return
        if self._saw_known and not self._choice_seen:
            out.append(NoChoices())
        elif self._saw_known and not (self._message_seen or self.finished):
            out.append(NotAReply("message attribute", "missing"))
        elif self._tail == _CLOSED and not self.finished:
            out.append(ReplyFinished(FinishReason.UNKNOWN, ""))
        out.append(StreamEnded(whole))

    def close(self, out: list[Delta]) -> None:
        """Add the collected deltas."""
        self._flush_reasoning(out)
        self._emit_audio(out)
        if self._metadata:
            about, self._metadata = self._metadata, {}
            out.append(PartReceived(Opaque(WIRE, about), note=True))
        self._report_missing(CHOICES, out)

    def _read_start(self, chunk: _Object, has_choice: bool, out: list[Delta]) -> None:
        if self._started:
            return
        reply_id, model = string_or_empty(chunk.get("id")), string_or_empty(chunk.get("model"))
        if reply_id or model:
            out.append(ReplyStarted(reply_id, model))
        # A first chunk that only reports on the prompt may lack the id, the model or both.
        self._id = self._id or reply_id
        self._started = has_choice and (bool(reply_id or model) or self._message_seen)

    def _read_usage(self, holder: _Object, out: list[Delta]) -> None:
        usage = holder.get("usage")
        if usage is None and isinstance(groq := holder.get("x_groq"), dict):
            usage = groq.get("usage")
        if isinstance(usage, dict) and usage:
            self._usage_seen = True
            tier = read_tier(holder.get("service_tier"), usage.get("service_tier"))
            out.append(UsageReceived(parse_usage(usage), tier))

    def _read_choice(self, choice: object, whole: bool, only: bool, out: list[Delta]) -> None:
        if not isinstance(choice, dict):
            self._report_invalid("choice object", choice, out)
            return
        if not only and choice.get("index") not in _FIRST:
            self.other_choices += 1
            return
        if whole and self._choice_seen:
            # Two choices have the first index.
            self.other_choices += 1
            return
        message, whole = self._choose_message(choice, whole)
        self._choice_seen = True
        before = len(out)
        finish = choose_finish(choice.get("finish_reason"), choice.get("native_finish_reason"))
        if isinstance(message, dict):
            self._read_message(message, whole, out)
        elif message is not None:
            self._report_invalid("message object", message, out)
        elif isinstance(text := choice.get("text"), str):
            # A completion in the older format.
            self._message_seen = True
            self._emit_text(text, out)
        if len(out) > before:
            self.finished = False
        if choice.get("error"):
            self._report_error({"error": choice["error"]}, out)
        self._read_usage(choice, out)
        if finish is not None:
            self._finish(finish, out)

    def _note_tail(self, choices: object, *, has_first_usage: bool) -> None:
        """Note an object without content: it may be the last chunk of a server without finish reasons."""
        first = choices[0] if isinstance(choices, list) and choices else None
        if isinstance(first, dict):
            is_last = has_first_usage or first.get("finish_reason") == ""
            self._tail = _CLOSED if is_last or self._tail == _CLOSED else _EMPTY
        elif self._tail and has_first_usage:
            self._tail = _CLOSED

    def _refuse_second_reply(self, chunk: _Object, out: list[Delta]) -> None:
        """Report content after a finish reason if its id and role show that it begins another reply."""
        choices = chunk.get("choices")
        first = choices[0] if isinstance(choices, list) else None
        message = first.get("delta") if isinstance(first, dict) else None
        begins = isinstance(message, dict) and bool(message.get("role"))
        if begins and self._id and chunk.get("id") not in (None, "", self._id):
            self._report_second_reply(out)

    def _choose_message(self, choice: _Object, whole: bool) -> tuple[object, bool]:
        """Return the message or delta of a choice, and whether it is a whole message."""
        if whole:
            has_message = "message" in choice
            return choice.get("message" if has_message else "delta"), has_message
        if "delta" in choice:
            self._delta_seen = True
            return choice["delta"], False
        # After deltas, a whole message repeats them.
        return None if self._delta_seen else choice.get("message"), True

    def _finish(self, finish: ChosenFinish, out: list[Delta]) -> None:
        self._flush_reasoning(out)
        self._emit_audio(out)
        self.finished = True
        is_mistake = finish.word.lower() in MISTAKES
        if is_mistake or (finish.reason is FinishReason.ERROR and finish.word != finish.raw):
            out.append(ErrorReceived(_finish_error_info(finish.word, is_mistake=is_mistake)))
        out.append(ReplyFinished(finish.reason, finish.raw))

    def _read_message(self, message: _Object, whole: bool, out: list[Delta]) -> None:
        self._message_seen = True
        if reasoning := self.reasoning.read_message(message, whole=whole):
            out.append(ReasoningDelta(reasoning))
        content = message.get("content")
        if isinstance(content, str):
            self._emit_text(content, out)
        elif isinstance(content, list):
            self._read_content(content, out)
        elif isinstance(content, dict):
            # The typed output as an object instead of text.
            self._emit_text(dump_json(content), out)
        elif content is not None:
            self._report_invalid("content text", content, out)
        if isinstance(refusal := message.get("refusal"), str):
            self._emit_refusal(refusal, out)
        self._read_tool_calls(message, whole, out)
        if not _RARE.isdisjoint(message):
            self._read_rare_fields(message, out)
        for field in message.keys() - _KNOWN:
            self._count_unknown(field)

    def _read_tool_calls(self, message: _Object, whole: bool, out: list[Delta]) -> None:
        calls = message.get("tool_calls")
        legacy = message.get("function_call")
        if not calls and isinstance(legacy, dict) and any(legacy.values()):
            calls = [{"index": 0, "function": legacy}]
        if calls is None:
            return
        if isinstance(calls, dict):
            calls = [calls]
        if not isinstance(calls, list):
            self._report_invalid("tool_calls list", calls, out)
            return
        self.calls.open_list()
        for entry in calls:
            if isinstance(entry, dict):
                self._flush_reasoning(out)
                out.append(self.calls.read_entry(entry, distinct=whole))
            elif entry is not None:
                self._report_invalid("tool call object", entry, out)

    def _read_content(self, items: list[object], out: list[Delta]) -> None:
        """Read content that is a list of typed blocks, of which some are reasoning."""
        for item in items:
            if isinstance(item, str):
                self._emit_text(item, out)
            elif not isinstance(item, dict):
                self._report_invalid("content block", item, out)
            elif item.get("type") in ("thinking", "reasoning"):
                if (delta := read_thought(item)) is not None:
                    out.append(delta)
            elif isinstance(text := item.get("text"), str):
                self._emit_text(text, out)
            elif (image := read_image(item)) is not None:
                self._flush_reasoning(out)
                out.append(PartReceived(image))
            elif isinstance(refusal := item.get("refusal"), str):
                self._emit_refusal(refusal, out)
            elif item.get("type") != "text":
                # A reference, a citation or an unknown block.
                self._flush_reasoning(out)
                out.append(PartReceived(Opaque(WIRE, {BLOCKS: [item]})))

    def _emit_text(self, text: str, out: list[Delta]) -> None:
        if text:
            self.has_text = True
            self._flush_reasoning(out)
            out.append(TextDelta(text))

    def _emit_refusal(self, text: str, out: list[Delta]) -> None:
        if text:
            self._flush_reasoning(out)
            out.append(RefusalDelta(text))

    def _read_rare_fields(self, message: _Object, out: list[Delta]) -> None:
        if isinstance(audio := message.get("audio"), dict):
            self._read_audio(audio, out)
        images = message.get("images")
        for item in images if isinstance(images, list) else ():
            if isinstance(item, dict) and (image := read_image(item)) is not None:
                self._flush_reasoning(out)
                out.append(PartReceived(image))
        if isinstance(notes := message.get("annotations"), list) and notes:
            self._flush_reasoning(out)
            out.append(PartReceived(Opaque(WIRE, {"annotations": notes}), note=True))
        executed, before = message.get(EXECUTED), self._metadata.get(EXECUTED)
        if isinstance(executed, list) and executed:
            self._metadata[EXECUTED] = [*(before if isinstance(before, list) else ()), *executed]

    def _read_audio(self, audio: _Object, out: list[Delta]) -> None:
        transcript = self._audio.add(audio)
        # Beside a text of the model, the transcript would repeat it.
        if transcript and not self.has_text:
            self._flush_reasoning(out)
            out.append(TextDelta(transcript, TRANSCRIPT_INDEX))
            if not self._has_transcript:
                self._has_transcript = True
                # The mark is added to the text with the same index.
                out.append(PartReceived(Text("", extra={TRANSCRIPT: True}), TRANSCRIPT_INDEX))

    def _flush_reasoning(self, out: list[Delta]) -> None:
        """Emit the fields of the reasoning before any other part, so that they join its text."""
        if self.reasoning.has_pending:
            out.append(self.reasoning.take_delta())

    def _emit_audio(self, out: list[Delta]) -> None:
        if (part := self._audio.take_audio()) is not None:
            out.append(PartReceived(part))

    def _report_invalid(self, expected: str, value: object, out: list[Delta]) -> None:
        self._failed = True
        out.append(NotAReply(expected, json_kind(value)))


_FIRST = (None, 0, "0")

# How the reply ends so far: with content, with a chunk without content, or with such a chunk that has
# an empty finish reason, or with or after which the token counts came.
_CONTENT, _EMPTY, _CLOSED = "", "empty", "closed"

_RARE = frozenset(("audio", "images", "annotations", EXECUTED))
_KNOWN = _RARE | {"role", "content", "tool_calls", "function_call", "refusal", *REASONING}


def _is_error(chunk: _Object) -> bool:
    """Whether an object reports an error, in any of the known forms."""
    if chunk.get("error") or chunk.get("object") == "error":
        return True
    if isinstance(outcome := chunk.get("base_resp"), dict) and outcome.get("status_code"):
        return True
    return chunk.get("choices") is None and holds_message(chunk)


def read_image(item: dict[str, object]) -> Media | None:
    """Read an image block (`image_url`); None for any other block.

    >>> read_image({"image_url": {"url": "data:image/png;base64,iVA="}}).media_type
    'image/png'
    """
    holder = item.get("image_url")
    url = holder.get("url") if isinstance(holder, dict) else holder
    if not isinstance(url, str) or not url:
        return None
    if not url.startswith("data:"):
        return Media("image/*", url=url)
    head, _, payload = url[5:].partition(",")
    data = _decode_base64(payload)
    return Media(head.partition(";")[0] or "image/*", data=data) if data else None


class AudioCollector:
    """Joins the fragments of one reply's audio."""

    __slots__ = ("_data", "_fields", "_transcript")

    def __init__(self) -> None:
        self._data: list[str] = []
        self._transcript: list[str] = []
        self._fields: dict[str, object] = {}

    def add(self, audio: dict[str, object]) -> str:
        """Add one `audio` object of a message or delta, and return its piece of the transcript."""
        for name, pieces in (("data", self._data), ("transcript", self._transcript)):
            if isinstance(value := audio.get(name), str):
                pieces.append(value)
        for name in ("id", "expires_at"):
            if audio.get(name) is not None:
                self._fields[name] = audio[name]
        transcript = audio.get("transcript")
        return transcript if isinstance(transcript, str) else ""

    def take_audio(self) -> Media | None:
        """Return the whole audio, or None if there is none."""
        pieces = self._data
        if not pieces:
            return None
        if all(len(piece) % 4 == 0 for piece in pieces):
            # Each fragment may end in padding.
            data = b"".join(_decode_base64(piece) or b"" for piece in pieces) or None
        else:
            data = _decode_base64("".join(pieces))
        if data is None:
            return None
        extra = {**self._fields, "transcript": "".join(self._transcript)}
        self._data = []
        kind = next((kind for mark, kind in _SOUNDS if data.startswith(mark)), "audio/pcm")
        return Media(kind, data=data, extra=extra)


def _decode_base64(text: str) -> bytes | None:
    try:
        return binascii.a2b_base64(text) or None
    except ValueError:
        # binascii.Error is a ValueError, and text that is not ASCII raises one too.
        return None


def _finish_error_info(word: str, *, is_mistake: bool) -> ErrorInfo:
    """Return the error that a finish reason names: a mistake of the model, or a failure of the provider."""
    if is_mistake:
        safe = f"The model's reply cannot be used (finish reason {word})"
        category = ErrorCategory.INVALID_RESPONSE
    else:
        safe = f"The provider ended the reply with an error (finish reason {word})"
        category = ErrorCategory.SERVER_ERROR
    return ErrorInfo(category=category, safe=safe, code=word.lower())


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
