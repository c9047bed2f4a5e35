"""The objects of this wire, chunk or whole, as deltas: one reading for both.

A chunk has `delta` where a whole reply has `message`; the rest is the same, and so are the deltas.
This module must never raise on any JSON, and must pass safely over what it does not know.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.codecs.json_text import dump_json, json_kind
from holdfast.codecs.openai_chat.calls import CallTracker
from holdfast.codecs.openai_chat.media import AudioCollector, read_image
from holdfast.codecs.openai_chat.reasoning import FIELDS as REASONING
from holdfast.codecs.openai_chat.reasoning import ReasoningState, read_thought
from holdfast.codecs.openai_chat.vocabulary import (
    ABOUT,
    BLOCKS,
    EXECUTED,
    WIRE,
    finish_reason,
    parse_usage,
)
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
)
from holdfast.core.errors import ErrorInfo
from holdfast.core.messages import FinishReason, Opaque

_Object = dict[str, object]


class OpenAIChatChunkReader:
    """Reads the objects of one reply in order.

    Attributes:
        calls: tells the tool calls of this reply apart.
        finished: a finish reason has come, and no content after it.
        other_choices: pieces of choices other than the first, dropped.
        unknown_counts: how often each unknown field of a message came.
        reasoning: collects the state of this reply's reasoning.
    """

    __slots__ = (
        "_audio",
        "_choice_seen",
        "_classify",
        "_failed",
        "_message_seen",
        "_metadata",
        "_provider",
        "_saw_known",
        "_saw_unknown",
        "_started",
        "calls",
        "finished",
        "other_choices",
        "reasoning",
        "unknown_counts",
    )  # fmt: skip

    def __init__(self, classify: Callable[[Failure], ErrorInfo], provider: str) -> None:
        self._classify = classify
        self._provider = provider
        self.calls = CallTracker()
        self.reasoning = ReasoningState()
        self._audio = AudioCollector()
        self._metadata: _Object = {}
        self._started = False
        self._choice_seen = False
        self._message_seen = False
        self._saw_known = False
        self._saw_unknown = False
        self._failed = False
        self.finished = False
        self.other_choices = 0
        self.unknown_counts: dict[str, int] = {}

    @property
    def has_read_nothing(self) -> bool:
        """Whether no object has come at all."""
        return not (self._saw_known or self._saw_unknown or self._failed)

    @property
    def allows_quick_read(self) -> bool:
        """Whether a chunk of mere text, reasoning or arguments changes nothing here."""
        started = self._started and self._message_seen
        return started and not self.finished and not self.reasoning.has_pending

    def read_object(
        self, chunk: _Object, out: list[Delta], *, failed: bool = False, whole: bool = False
    ) -> None:
        """One object of the body.

        Args:
            chunk: the object.
            out: where the deltas go.
            failed: it came under the name of an error.
            whole: it is the whole body. Some providers send `delta` and `message` in both forms,
                and in a stream the message repeats what was said before.
        """
        if failed or _is_error(chunk):
            self._report_error(chunk, out)
        elif isinstance(own := chunk.get("x_groq"), dict) and own.get("error"):
            self._report_error({"error": own["error"]}, out)
        choices = chunk.get("choices")
        if "choices" not in chunk:
            self._saw_unknown = True
        elif choices is None or isinstance(choices, list):
            self._saw_known = True
            self._read_start(chunk, bool(choices), out)
            # The only choice of a whole reply is the first, whatever number it has.
            only = whole and choices is not None and len(choices) == 1
            for choice in choices or ():
                self._read_choice(choice, whole, only, out)
        else:
            out.append(NotAReply("choices list", json_kind(choices)))
            self._failed = True
        self._metadata.update((name, chunk[name]) for name in ABOUT if chunk.get(name))
        self._read_usage(chunk, out)

    def end_reply(self, out: list[Delta], *, whole: bool = False) -> None:
        """The wire's end marker came, or the end of a whole body."""
        self.close(out)
        if self._failed:
            out.append(StreamEnded(whole))
            return
        if self._saw_known and not self._choice_seen:
            out.append(NoChoices())
        elif self._saw_known and not (self._message_seen or self.finished):
            out.append(NotAReply("message attribute", "missing"))
        out.append(StreamEnded(whole))

    def close(self, out: list[Delta]) -> None:
        """Nothing more comes: give what was collected."""
        self._flush_reasoning(out)
        self._give_sound(out)
        if self._metadata:
            about, self._metadata = self._metadata, {}
            out.append(PartReceived(Opaque(WIRE, about), note=True))
        if self._saw_unknown and not self._saw_known and not self._failed:
            out.append(NotAReply(CHOICES, "missing"))

    def _read_start(self, chunk: _Object, has_choice: bool, out: list[Delta]) -> None:
        if self._started:
            return
        reply_id, model = _string_or_empty(chunk.get("id")), _string_or_empty(chunk.get("model"))
        if reply_id or model:
            out.append(ReplyStarted(reply_id, model))
        # A first chunk that only reports on the prompt may come without either, or with half.
        self._started = has_choice and (bool(reply_id or model) or self._message_seen)

    def _report_error(self, chunk: _Object, out: list[Delta]) -> None:
        self._failed = True
        failure = Failure(provider=self._provider, body=dump_json(chunk).encode())
        out.append(ErrorReceived(self._classify(failure)))

    def _read_usage(self, holder: _Object, out: list[Delta]) -> None:
        usage = holder.get("usage")
        if usage is None and isinstance(own := holder.get("x_groq"), dict):
            usage = own.get("usage")
        if isinstance(usage, dict) and usage:
            out.append(UsageReceived(parse_usage(usage)))

    def _read_choice(self, choice: object, whole: bool, only: bool, out: list[Delta]) -> None:
        if not isinstance(choice, dict):
            self._report_invalid("choice object", choice, out)
            return
        if not only and choice.get("index") not in _FIRST:
            self.other_choices += 1
            return
        if whole and self._choice_seen:
            # Two choices that both claim to be the first.
            self.other_choices += 1
            return
        whole = "message" in choice if whole else "delta" not in choice
        message = choice.get("message" if whole else "delta")
        self._choice_seen = True
        before = len(out)
        finish = choice.get("finish_reason")
        if isinstance(message, dict):
            self._read_message(message, whole, out)
        elif message is not None:
            self._report_invalid("message object", message, out)
        elif isinstance(text := choice.get("text"), str):
            # A completion of the older kind.
            self._message_seen = True
            self._emit_text(text, out)
        if len(out) > before:
            self.finished = False
        if choice.get("error"):
            self._report_error({"error": choice["error"]}, out)
        self._read_usage(choice, out)
        if isinstance(finish, str) and finish:
            self._finish(finish, choice.get("native_finish_reason"), out)

    def _finish(self, word: str, native: object, out: list[Delta]) -> None:
        self._flush_reasoning(out)
        self._give_sound(out)
        self.finished = True
        reason = finish_reason(word)
        if isinstance(native, str) and finish_reason(native) is FinishReason.LENGTH:
            # A gateway may call a reply that was cut inside a call a finished one.
            reason = FinishReason.LENGTH
        out.append(ReplyFinished(reason, word))

    def _read_message(self, message: _Object, whole: bool, out: list[Delta]) -> None:
        self._message_seen = True
        if told := self.reasoning.read_message(message, whole=whole):
            out.append(ReasoningDelta(told))
        content = message.get("content")
        if isinstance(content, str):
            self._emit_text(content, out)
        elif isinstance(content, list):
            self._read_content(content, out)
        elif isinstance(content, dict):
            # The shape that was asked for, not written as text.
            self._emit_text(dump_json(content), out)
        elif content is not None:
            self._report_invalid("content text", content, out)
        if isinstance(refusal := message.get("refusal"), str):
            self._emit_refusal(refusal, out)
        self._read_tool_calls(message, whole, out)
        if not _RARE.isdisjoint(message):
            self._read_rare_fields(message, out)
        if rest := message.keys() - _KNOWN:
            self._count_unknown(rest)

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
        """Content as a list of typed blocks, some of which are thoughts."""
        for item in items:
            if isinstance(item, str):
                self._emit_text(item, out)
            elif not isinstance(item, dict):
                self._report_invalid("content block", item, out)
            elif item.get("type") in ("thinking", "reasoning"):
                if (told := read_thought(item)) is not None:
                    out.append(told)
            elif isinstance(text := item.get("text"), str):
                self._emit_text(text, out)
            elif (picture := read_image(item)) is not None:
                self._flush_reasoning(out)
                out.append(PartReceived(picture))
            elif isinstance(refusal := item.get("refusal"), str):
                self._emit_refusal(refusal, out)
            elif item.get("type") != "text":
                # A reference, a citation, a block that is not known today: about the text.
                self._flush_reasoning(out)
                out.append(PartReceived(Opaque(WIRE, {BLOCKS: [item]})))

    def _emit_text(self, text: str, out: list[Delta]) -> None:
        if text:
            self._flush_reasoning(out)
            out.append(TextDelta(text))

    def _emit_refusal(self, words: str, out: list[Delta]) -> None:
        if words:
            self._flush_reasoning(out)
            out.append(RefusalDelta(words))

    def _read_rare_fields(self, message: _Object, out: list[Delta]) -> None:
        if isinstance(audio := message.get("audio"), dict):
            self._audio.add(audio)
        images = message.get("images")
        for item in images if isinstance(images, list) else ():
            if isinstance(item, dict) and (picture := read_image(item)) is not None:
                self._flush_reasoning(out)
                out.append(PartReceived(picture))
        if isinstance(notes := message.get("annotations"), list) and notes:
            self._flush_reasoning(out)
            out.append(PartReceived(Opaque(WIRE, {"annotations": notes}), note=True))

        told, before = message.get(EXECUTED), self._metadata.get(EXECUTED)
        if isinstance(told, list) and told:
            self._metadata[EXECUTED] = [*(before if isinstance(before, list) else ()), *told]

    def _count_unknown(self, fields: set[str]) -> None:
        # A hostile server can name as many as it likes; a few are enough to see that.
        for field in fields:
            if field in self.unknown_counts or len(self.unknown_counts) < 64:
                self.unknown_counts[field[:80]] = self.unknown_counts.get(field[:80], 0) + 1

    def _flush_reasoning(self, out: list[Delta]) -> None:
        """State of the reasoning goes before whatever follows it, so that it joins its text."""
        if self.reasoning.has_pending:
            out.append(self.reasoning.take_delta())

    def _give_sound(self, out: list[Delta]) -> None:
        if (part := self._audio.take_audio()) is not None:
            out.append(PartReceived(part))

    def _report_invalid(self, expected: str, got: object, out: list[Delta]) -> None:
        self._failed = True
        out.append(NotAReply(expected, json_kind(got)))


_SAID = ("message", "detail", "msg", "error_msg", "errors")
_FIRST = (None, 0, "0")
_RARE = frozenset(("audio", "images", "annotations", EXECUTED))
_KNOWN = _RARE | {"role", "content", "tool_calls", "function_call", "refusal", *REASONING}


def _is_error(chunk: _Object) -> bool:
    """Whether an object says that something went wrong, in any of the forms in use."""
    if chunk.get("error") or chunk.get("object") == "error":
        return True
    if isinstance(outcome := chunk.get("base_resp"), dict) and outcome.get("status_code"):
        return True
    if "choices" in chunk:
        return False
    said = next((chunk[name] for name in _SAID if chunk.get(name)), None)
    return isinstance(said, str | list)


def _string_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""
