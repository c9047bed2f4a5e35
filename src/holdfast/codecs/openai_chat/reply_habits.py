"""Reads what some endpoints write into a reply in their own way: thinking in tags, calls in the text, repetitions.

A profile names each of these habits, and nothing is read that it does not name. The deltas of a decoder go
in, and the deltas of a reply without the habits come out, at once as far as they are certain. This module
guesses nothing: what can be read in two ways is refused or stays text. A profile without a habit costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from msgspec.structs import replace

from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.json_text import UNREADABLE, read_strict_json
from holdfast.codecs.openai_chat.call_scans import LONGEST_GAP, TextCall, count_prefix
from holdfast.codecs.openai_chat.text_calls import TextCallReader
from holdfast.codecs.openai_chat.vocabulary import THINKING_TAG
from holdfast.core.deltas import (
    CharactersReplaced,
    Decoder,
    Delta,
    EndMissing,
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
    ToolCallDelta,
    UsageReceived,
)
from holdfast.core.json_strict import SUBSTITUTE
from holdfast.core.messages import FinishReason
from holdfast.core.model_request import ModelRequest

_CLOSINGS: Final[Mapping[str, str]] = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<reasoning>": "</reasoning>",
    "[THINK]": "[/THINK]",
}
_CLOSING_TAGS: Final = frozenset(_CLOSINGS.values())
_FIRST_CHARACTERS: Final = frozenset(tag[0] for tag in _CLOSINGS)
# Kinds are compared as types, because `isinstance` costs much more for a class that it does not fit.
_CUTS: Final[frozenset[type]] = frozenset({EndMissing, ErrorReceived, NotAReply})
_ENDS: Final = _CUTS | {StreamEnded, NoChoices}
_WITHOUT_CONTENT: Final = _ENDS | {CharactersReplaced, ReplyFinished, ReplyStarted, UsageReceived}


class ThinkingReader:
    """Separates the thinking at the beginning of a text from the rest.

    Args:
        tags: the opening tags; a closing tag among them means that replies begin inside of the tag.

    >>> reader = ThinkingReader(("<think>",))
    >>> reader.feed(" <think>Hm"), reader.feed(".</thi"), reader.feed("nk> Yes")
    (('Hm', ''), ('.', ''), ('', 'Yes'))
    """

    __slots__ = ("_closings", "_held", "_state", "_tags", "tag")

    def __init__(self, tags: tuple[str, ...]) -> None:
        self._tags = tags
        self._closings: tuple[str, ...] = ()
        self._held = ""
        self._state = "begin"
        self.tag = ""

    @property
    def is_over(self) -> bool:
        """Whether all that follows is text."""
        return self._state == "text"

    @property
    def holds_back(self) -> bool:
        """Whether text is held back because a tag may begin in it."""
        return bool(self._held)

    def feed(self, text: str) -> tuple[str, str]:
        """Return the thinking and the text that this text adds."""
        text, self._held = self._held + text, ""
        if self._state == "begin":
            rest = self._begin(text)
            if rest is None:
                return "", ""
            text = rest
        thought = ""
        if self._state in ("opened", "thinking"):
            thought, text = self._think(text)
        if self._state == "gap" and (text := text.lstrip()):
            self._state = "text"
        return thought, text

    def end_beginning(self) -> str:
        """Other content came: no tag follows. Return the text that was held back."""
        if self._state != "begin":
            return ""
        self._state = "text"
        text, self._held = self._held, ""
        return text

    def close(self, *, cut: bool) -> str:
        """End the text, and return what was held back, without the piece of a tag that was cut."""
        text, self._held = self._held, ""
        if self._state != "begin" or (cut and text.strip()):
            return ""
        return text

    def _begin(self, text: str) -> str | None:
        """Decide whether the text begins with thinking; return the rest, or None if that is not known."""
        rest = text.lstrip()
        gap = len(text) - len(rest)
        if gap <= LONGEST_GAP and (not rest or rest[0] in _FIRST_CHARACTERS):
            openings = [
                (opening, closing)
                for opening, closing in _CLOSINGS.items()
                if opening in self._tags or closing in self._tags
            ]
            for opening, closing in openings:
                if rest.startswith(opening):
                    self._state, self.tag, self._closings = "opened", opening, (closing,)
                    return rest[len(opening) :]
            if any(opening.startswith(rest) for opening, _ in openings):
                self._held = text
                return None
        if _CLOSING_TAGS.isdisjoint(self._tags):
            self._state = "text"
            return text
        implied = tuple(closing for closing in _CLOSINGS.values() if closing in self._tags)
        self._state, self.tag, self._closings = "opened", implied[0], implied
        return text

    def _think(self, text: str) -> tuple[str, str]:
        ends = [(at, tag) for tag in self._closings if (at := text.find(tag)) >= 0]
        if ends:
            at, tag = min(ends)
            thought, rest = text[:at], text[at + len(tag) :]
        else:
            held = count_prefix(text, self._closings)
            thought, rest = text[: len(text) - held], ""
            self._held = text[len(text) - held :]
        if self._state == "opened":
            thought = thought.lstrip()
        if ends:
            self._state = "gap"
        elif thought:
            self._state = "thinking"
        return thought, rest


class ArgumentReader:
    """Drops what repeats in the streamed arguments of the calls of one reply.

    A piece that begins with all that came before it adds only its rest.

    >>> reader = ArgumentReader()
    >>> [reader.read_delta(ToolCallDelta(0, arguments=text)).arguments for text in ('{"a', '{"a": 1}', '{"a": 1}')]
    ['{"a', '": 1}', '']
    """

    __slots__ = ("_pieces", "_sizes")

    def __init__(self) -> None:
        self._pieces: dict[int, list[str]] = {}
        self._sizes: dict[int, int] = {}

    def read_delta(self, delta: ToolCallDelta) -> ToolCallDelta:
        """Return the delta without the part of its arguments that came before."""
        text, index = delta.arguments, delta.index
        if not text:
            return delta
        pieces, size = self._pieces.setdefault(index, []), self._sizes.get(index, 0)
        # The pieces are joined only if this one is at least as long, so the work stays linear.
        if 0 < size <= len(text) and text[0] == pieces[0][0]:
            before = "".join(pieces)
            if text.startswith(before):
                self._pieces[index], self._sizes[index] = [text], len(text)
                return replace(delta, arguments=text[size:])
        pieces.append(text)
        self._sizes[index] = size + len(text)
        return delta


class HabitReader:
    """Reads the deltas of one reply.

    Args:
        profile: the habits.
        request: the request, if it is known: the schemas of its tools, and whether the reply continues another.

    >>> reader = HabitReader(EndpointProfile(thinking_tags=("<think>",)))
    >>> reader.read_deltas([TextDelta("<think>Hm.</think>"), TextDelta("Yes.")])[-1]
    TextDelta(text='Yes.', index=0)
    """

    __slots__ = (
        "_arguments",
        "_calls",
        "_finish",
        "_has_call_habits",
        "_has_replaced",
        "_index",
        "_is_cut",
        "_native",
        "_next_call",
        "_reply_id",
        "_thinking",
    )

    def __init__(self, profile: EndpointProfile, request: ModelRequest | None = None) -> None:
        continues = request is not None and bool(request.prefill)
        tags = () if continues else profile.thinking_tags
        self._thinking = ThinkingReader(tags) if tags else None
        self._calls = _make_call_reader(profile, request) if profile.text_calls else None
        self._arguments = ArgumentReader() if profile.repeats_arguments else None
        self._has_call_habits = bool(profile.text_calls) or profile.repeats_arguments
        self._index: int | None = None
        self._finish: ReplyFinished | None = None
        self._is_cut = True
        self._has_replaced = False
        self._reply_id = ""
        self._next_call = 0
        self._native: dict[int, list[str]] = {}

    def read_deltas(self, deltas: list[Delta]) -> list[Delta]:
        """Return the deltas without the habits; what is not certain yet comes later."""
        out: list[Delta] = []
        for at, delta in enumerate(deltas):
            if self._thinking is None and not self._has_call_habits:
                return out + deltas[at:]
            if type(delta) is TextDelta:
                self._read_text(delta, out)
            elif type(delta) is ToolCallDelta:
                self._read_call(delta, out)
            elif type(delta) is ReplyFinished:
                self._take_finish(delta, out)
            else:
                self._read_other(delta, out)
        return out

    def close(self) -> list[Delta]:
        """End the reply, and return the remaining deltas."""
        out: list[Delta] = []
        self._release(out, cut=self._is_cut)
        return out

    def _read_text(self, delta: TextDelta, out: list[Delta]) -> None:
        if self._index is None:
            self._index = delta.index
        if delta.index != self._index:  # the transcript of a sound
            out.append(delta)
            return
        self._pass_finish(out)
        self._add_text(delta.text, out)

    def _add_text(self, text: str, out: list[Delta]) -> None:
        thinking = self._thinking
        if thinking is not None:
            thought, text = thinking.feed(text)
            if thought:
                out.append(ReasoningDelta(thought, extra={THINKING_TAG: thinking.tag}))
            if thinking.is_over:
                self._thinking = None
        self._show_text(text, out)

    def _show_text(self, text: str, out: list[Delta]) -> None:
        if text and self._calls is not None:
            text = self._calls.feed(text)
        if text:
            out.append(TextDelta(text, self._index or 0))

    def _read_call(self, delta: ToolCallDelta, out: list[Delta]) -> None:
        self._end_beginning(out)
        if self._calls is not None:
            self._next_call = max(self._next_call, delta.index + 1)
            self._native.setdefault(delta.index, []).extend((delta.name, delta.arguments))
        if self._arguments is not None:
            before, delta = delta, self._arguments.read_delta(delta)
            if delta is not before and not (
                delta.arguments or delta.id or delta.name or delta.extra
            ):
                return
        out.append(delta)

    def _read_other(self, delta: Delta, out: list[Delta]) -> None:
        if type(delta) in _ENDS:
            self._release(out, cut=self._is_cut or type(delta) in _CUTS)
        elif type(delta) is ReplyStarted:
            self._reply_id = self._reply_id or delta.id
        elif type(delta) is CharactersReplaced:
            self._has_replaced = True
        elif type(delta) is PartReceived:
            if not delta.note:
                self._end_beginning(out)
        elif type(delta) is ReasoningDelta or type(delta) is RefusalDelta:
            self._end_beginning(out)
        out.append(delta)

    def _end_beginning(self, out: list[Delta]) -> None:
        """Other content came, so that no thinking in tags follows."""
        self._pass_finish(out)
        thinking = self._thinking
        if thinking is not None:
            if text := thinking.end_beginning():
                self._show_text(text, out)
            if thinking.is_over:
                self._thinking = None

    def _take_finish(self, delta: ReplyFinished, out: list[Delta]) -> None:
        """Keep the finish reason back while something is to come before it."""
        self._is_cut = delta.reason is FinishReason.LENGTH
        thinking, calls = self._thinking, self._calls
        if (thinking and thinking.holds_back) or (calls and calls.holds_back):
            self._finish = delta
        else:
            out.append(delta)

    def _pass_finish(self, out: list[Delta]) -> None:
        """Content follows a finish reason, which makes it void."""
        if self._finish is not None:
            out.append(self._finish)
            self._finish, self._is_cut = None, True

    def _release(self, out: list[Delta], *, cut: bool) -> None:
        """Add what was held back, and then the finish reason."""
        if self._thinking is not None and (text := self._thinking.close(cut=cut)):
            self._show_text(text, out)
        if self._calls is not None:
            if text := self._calls.close(cut=cut):
                out.append(TextDelta(text, self._index or 0))
            self._add_calls(self._calls, out)
        if self._finish is not None:
            out.append(self._finish)
            self._finish = None

    def _add_calls(self, reader: TextCallReader, out: list[Delta]) -> None:
        known = [_to_comparable(pieces[::2], pieces[1::2]) for pieces in self._native.values()]
        for call in reader.calls:
            same = _to_comparable([call.name], [call.arguments])
            if same is not None and same in known:
                continue  # the server has read it too, and sent it in its own field
            number, self._next_call = self._next_call, self._next_call + 1
            out.append(
                ToolCallDelta(number, self._make_id(number), call.name, self._arguments_of(call))
            )
        reader.calls = []

    def _make_id(self, number: int) -> str:
        digest = blake2b(f"{self._reply_id}#{number}".encode("utf-8", "replace"), digest_size=12)
        return f"call_{digest.hexdigest()}"

    def _arguments_of(self, call: TextCall) -> str:
        """Return the arguments, as invalid JSON if a character of them was replaced."""
        if self._has_replaced:
            return call.arguments.replace("\ufffd", SUBSTITUTE)
        return call.arguments


def _make_call_reader(profile: EndpointProfile, request: ModelRequest | None) -> TextCallReader:
    schemas = None if request is None else {tool.name: tool.schema for tool in request.tools}
    return TextCallReader(profile.text_calls, schemas)


def _to_comparable(names: list[str], arguments: list[str]) -> tuple[str, str] | None:
    value = read_strict_json("".join(arguments))
    return None if value is UNREADABLE else ("".join(names), repr(value))


class HabitDecoder:
    """A decoder whose deltas are read by a `HabitReader`.

    Where the only habit is that a reply may begin with thinking, a reply that begins otherwise has no reader.

    Args:
        inner: decodes the body.
        profile: the habits.
        request: as for the reader.
    """

    __slots__ = ("_has_begun", "_inner", "_profile", "_reader", "_request")

    def __init__(
        self, inner: Decoder, profile: EndpointProfile, request: ModelRequest | None
    ) -> None:
        self._inner = inner
        self._profile = profile
        self._request = request
        self._reader: HabitReader | None = None
        self._has_begun = False

    def feed(self, data: bytes) -> list[Delta]:
        """Return the deltas that these bytes complete."""
        return self._read(self._inner.feed(data))

    def close(self) -> list[Delta]:
        """End the body, and return the remaining deltas."""
        deltas = self._read(self._inner.close())
        return deltas if self._reader is None else deltas + self._reader.close()

    def _read(self, deltas: list[Delta]) -> list[Delta]:
        if not self._has_begun and deltas:
            needs_reader = _needs_reader(self._profile, deltas)
            self._has_begun = needs_reader is not None
            if needs_reader:
                self._reader = HabitReader(self._profile, self._request)
        return deltas if self._reader is None else self._reader.read_deltas(deltas)


def _needs_reader(profile: EndpointProfile, deltas: list[Delta]) -> bool | None:
    """Whether a reply that begins with these deltas may have a habit; None if that is not known yet."""
    if profile.text_calls or profile.repeats_arguments:
        return True
    for delta in deltas:
        if type(delta) is TextDelta:
            if delta.text:
                first = delta.text[0]
                may_think = first in _FIRST_CHARACTERS or first.isspace()
                return may_think or not _CLOSING_TAGS.isdisjoint(profile.thinking_tags)
        elif type(delta) not in _WITHOUT_CONTENT and not (
            type(delta) is PartReceived and delta.note
        ):
            return not _CLOSING_TAGS.isdisjoint(profile.thinking_tags)
    return None
