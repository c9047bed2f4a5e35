"""Histories of every kind that a machine can make, and of every kind that a program can give.

The replies are those of the emulator, read by the codecs, so that their parts have the ids, signatures and fields of
each wire. A machine makes most histories of them: with parallel calls, calls that are cut, tools that fail, turns that
are stopped or break off, and summaries. Others are lists of messages, as a program gives them with `history=`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, TypeAlias

import msgspec
from hypothesis import strategies as st
from tests.codecs.reading import assemble_deltas, read_deltas

from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.wire import Codec
from holdfast.core import effects as ef
from holdfast.core import events as ev
from holdfast.core.errors import ErrorCategory, ErrorInfo
from holdfast.core.limits import Limits
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import (
    Media,
    Message,
    Opaque,
    Part,
    Reasoning,
    Refusal,
    Reply,
    ReplyKind,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    system,
)
from holdfast.core.session_state import Phase
from holdfast.models.resolve import load_codec
from holdfast.testing.emulator import cited, hosted_call
from holdfast.testing.emulator.script import Hosted, expand_hosted
from holdfast.testing.emulator.wires.emulator_wire import WIRES, Rendering, get_wire

PNG = b"\x89PNG\r\n\x1a\n rest"
PDF = b"%PDF-1.7 rest"
FAILURE = ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="down")

TEXTS = (
    "Hi.",
    "",
    " ",
    "\n",
    "é\u2028\ud800🙂",
    '{"a": [1, 1e400]}',
    '{"a": 1}',
    "null",
    "[" * 200,
    "\x00",
)
NAMES = ("look", "pay", "browser.tabs.open", "naïve tool", "9lives", "", "a" * 130)
ARGUMENTS = ("{}", '{"city": "Porto"}', '{"city": "Por', "", "[1]", "null", '{"a": 1e999}', '{"a": "\ud800"}', '{"a":' * 150 + "1" + "}" * 150)  # fmt: skip
IDS = (
    "call_1",
    "call_1",
    "toolu_2",
    "",
    "functions.look:0",
    "ü\ud800",
    "x" * 90,
    "a b",
    "123456789",
)
DEEP_RESULT = '{"a":' * 150 + "1" + "}" * 150

PICTURE = Media("image/png", data=PNG)
TAKEN_MEDIA = (PICTURE, Media("image/jpeg", data=b"\xff\xd8\xff rest", name="a.jpg"))
"""Media that every wire takes."""

OTHER_MEDIA = (
    Media("application/pdf", data=PDF, name="a.pdf"),
    Media("image/gif", data=b"GIF89a rest"),
    Media("image/*", url="https://example.org/a"),
    Media("audio/wav", data=b"RIFF rest"),
    Media("text/plain", data="é".encode()),
    Media("video/mp4", data=b"0"),
    Media("image/png", data=b"no picture"),
    Media("application/json", data=b"{}"),
    Media("text/csv", url="https://example.org/a.csv"),
    Media("image/png", url="file:///a.png"),
)
"""Media that a wire may be unable to send."""


def pick(values: Sequence[Any]) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


texts = pick(TEXTS)
calls = st.builds(ToolCall, pick(IDS), pick(NAMES), pick(ARGUMENTS))

HOSTED: dict[str, tuple[Hosted, ...]] = {
    "openai_chat": (),
    "openai_responses": (
        hosted_call("web_search", {"query": "Porto"}, pages=["https://porto.pt"]),
        hosted_call("code_execution", {"code": "1"}, result="1"),
        cited("Sunny.", "https://porto.pt"),
    ),
    "anthropic": (
        hosted_call("web_search", {"query": "Porto"}, pages=["https://porto.pt"]),
        hosted_call("code_execution", {"code": "1"}, error="unavailable"),
        cited("Sunny.", "https://porto.pt"),
    ),
    "gemini": (
        hosted_call("web_search", {"query": "Porto"}, pages=["https://porto.pt"]),
        hosted_call("code_execution", {"code": "1"}, result="1"),
        cited("Sunny.", "https://porto.pt"),
    ),
}

UNUSUAL: tuple[Part, ...] = (
    Reasoning("Hm."),
    Reasoning("Hm.", "sig", "openai_chat", {"reasoning_details": [{"type": "reasoning.text", "text": "Hm."}], "extra_content": {"google": {"thought_signature": "c2ln"}}}),
    Reasoning("Hm.", "c2ln", "gemini", {"thoughtSignature": "c2ln"}),
    Reasoning("Hm.", None, "anthropic"),
    Reasoning("", None, "anthropic", {"type": "redacted_thinking", "data": "x"}),
    Reasoning("", None, "openai_responses", {"type": "reasoning", "id": "rs_{n}", "summary": []}),
    ToolCall("call_9", "look", "{}", "openai_chat", {"extra_content": {"google": {"thought_signature": "c2ln"}}}),
    Opaque("openai_chat", {"annotations": [{"type": "url_citation"}]}),
    Opaque("openai_chat", {"executed_tools": [{"type": "search"}]}),
    Opaque("anthropic", {"type": "server_tool_use", "id": "srvtoolu_cut{n}", "name": "web_search", "input": '{"que'}),
    Opaque("gemini", {"executableCode": {"language": "PYTHON", "code": "1"}}),
    Media("image/png", data=PNG, extra={"wire": "openai_responses", "item": {"type": "image_generation_call", "id": "ig_{n}", "status": "completed"}}),
    Media("audio/wav", data=b"RIFF rest", extra={"id": "audio_1", "transcript": "Hi."}),
    Text("Hi.", {"transcript": True}),
    Text("", {"wire": "openai_responses", "item": {"type": "message", "id": "msg_e{n}", "status": "completed"}}),
)  # fmt: skip
"""Parts that no reply of the emulator has: of other providers, and of replies that were cut."""


@cache
def codec_of(wire: str) -> Codec:
    return load_codec(wire, EndpointProfile())


@st.composite
def reply_parts(draw: st.DrawFn, number: int = 1) -> tuple[Part, ...]:
    """The parts of a reply as the codec of one wire reads them.

    Args:
        draw: draws values.
        number: the number of the reply, which is part of its ids.
    """
    wire = draw(pick(WIRES))
    thought = st.builds(Reasoning, pick(["Hm.", "é"]))
    kinds: Any = [thought, st.builds(Text, texts), calls, calls, st.builds(Refusal, pick(["No."]))]
    if HOSTED[wire]:
        kinds.append(pick(HOSTED[wire]))
    drawn = draw(st.lists(st.one_of(kinds), min_size=1, max_size=4))
    sayable = tuple(part for part in drawn if is_sayable(part))
    unusual = [number_part(part, number) for part in draw(st.lists(pick(UNUSUAL), max_size=1))]
    strange = [part for part in drawn if not is_sayable(part)]
    return (*unusual, *read_reply(wire, sayable, number), *strange) or (Text("Hi."),)


def number_part(part: Part, number: int) -> Part:
    """Return a part whose ids are those of this reply: no provider gives one twice."""
    text = msgspec.json.encode(part).replace(b"{n}", str(number).encode())
    return msgspec.json.decode(text, type=Part)  # type: ignore[arg-type]  # REASON: a union of types is one for it


def is_sayable(part: Part | Hosted) -> bool:
    """Whether the emulator can send such a part on every wire."""
    if isinstance(part, ToolCall):
        return part.arguments in ARGUMENTS[:2] and "\ud800" not in part.id
    return not isinstance(part, Text) or "\ud800" not in part.text


def read_reply(wire: str, parts: tuple[Part | Hosted, ...], number: int) -> tuple[Part, ...]:
    """Return the parts of a reply that was sent on a wire."""
    if not parts:
        return ()
    rendering = Rendering(model="m", number=number, chunking="whole")
    reply = Reply(expand_hosted(parts, wire, number))
    body = get_wire(wire).render_whole(reply, rendering)
    deltas = read_deltas(codec_of(wire), body, "application/json")
    return assemble_deltas(deltas, wire, EndpointProfile()).reply.parts


def result_content(media: Sequence[Media]) -> st.SearchStrategy[tuple[Text | Media, ...]]:
    said = st.builds(Text, texts | st.just(DEEP_RESULT))
    return st.lists(st.one_of(said, said, said, pick(media)), max_size=2).map(tuple)


def user_messages(media: Sequence[Media]) -> st.SearchStrategy[Message]:
    said = st.builds(Text, texts)
    parts = st.lists(st.one_of(said, said, said, pick(media)), min_size=1, max_size=2)
    return parts.map(lambda drawn: Message("user", tuple(drawn)))


Make: TypeAlias = Callable[[], ev.Event | None]


class Driver:
    """A machine, and somebody who tells it what happens next."""

    def __init__(self, draw: st.DrawFn, media: Sequence[Media]) -> None:
        self.draw = draw
        self.media = media
        self.machine = SessionMachine()
        self.at = 0.0

    def apply(self, event: ev.Event) -> None:
        self.machine.apply(event)

    def play(self, most: int) -> Sequence[Message]:
        """Play some steps, then go on until the model is to be asked; return what it is asked."""
        self.open_turn()
        for _ in range(self.draw(st.integers(0, most))):
            self.step()
        while not self.asks_model():
            self.finish()
        return tuple(self.machine.transcript)

    def asks_model(self) -> bool:
        return self.machine.phase is Phase.MODEL

    def open_turn(self) -> None:
        machine = self.machine
        message = None
        if not machine.can_try_again or self.draw(st.booleans()):
            message = self.draw(user_messages(self.media))
        key = ef.turn_key(machine.turn + 1)
        limits = Limits(iterations=3, tool_calls=5)
        self.apply(ev.TurnOpened(key, self.at, message, limits))

    def step(self) -> None:
        """Let something happen: what usually does, or one of what rarely does."""
        machine = self.machine
        if machine.phase is Phase.MODEL:
            self.draw(
                pick([self.reply, self.reply, self.reply, self.fail, self.stop, self.interrupt])
            )()
        elif machine.phase is Phase.TOOLS:
            self.draw(pick([self.run_tool, self.run_tool, self.stop, self.interrupt]))()
        elif machine.phase is Phase.IDLE:
            self.draw(pick([self.open_turn, self.open_turn, self.compact, self.rewind]))()
        else:
            self.finish()

    def finish(self) -> None:
        """Let what usually happens happen."""
        machine = self.machine
        if machine.phase is Phase.TOOLS:
            self.run_tool()
        elif machine.phase is Phase.IDLE:
            self.open_turn()
        else:
            (effect,) = machine.pending_effects()
            assert isinstance(effect, ef.CloseTurn), effect
            self.apply(ev.TurnClosed(effect.key, self.at, effect.status, effect.error))

    def pending(self) -> ef.Effect:
        effects = self.machine.pending_effects()
        return self.draw(pick(effects)) if len(effects) > 1 else effects[0]

    def reply(self) -> None:
        parts = self.draw(reply_parts(self.machine.event_count))
        kind = self.draw(
            pick([ReplyKind.COMPLETE, ReplyKind.COMPLETE, ReplyKind.TRUNCATED, ReplyKind.PAUSED])
        )
        self.apply(ev.ModelReplied(self.pending().key, self.at, Reply(parts, kind)))

    def fail(self) -> None:
        partial = self.partial()
        self.apply(ev.ModelFailed(self.pending().key, self.at, FAILURE, partial))

    def partial(self) -> Reply | None:
        return self.draw(st.none() | reply_parts().map(Reply))

    def stop(self) -> None:
        key = ef.stopped_key(self.machine.turn)
        self.apply(ev.TurnStopped(key, self.at, "enough", self.draw(texts)))

    def interrupt(self) -> None:
        started = tuple(
            one.key for one in self.machine.pending_effects() if self.machine.has_begun_tools
        )
        key = ef.interrupted_key(self.machine.turn)
        partial = self.partial() if self.machine.phase is Phase.MODEL else None
        self.apply(ev.TurnInterrupted(key, self.at, "cancelled", started, partial))

    def run_tool(self) -> None:
        machine = self.machine
        if not machine.has_begun_tools and isinstance(self.pending(), ef.RunTool):
            self.apply(ev.ToolsBegun(ef.begun_key(machine.turn, machine.iteration), self.at))
        effect = self.pending()
        if isinstance(effect, ef.RunTool):
            content = self.draw(result_content(self.media))
            failed = self.draw(st.booleans())
            result = ToolResult(effect.call.id, effect.call.name, content, is_error=failed)
            self.apply(ev.ToolFinished(effect.key, self.at, result))
        elif isinstance(effect, ef.CopyResult):
            copied = ev.ToolFinished(effect.key, self.at, effect.result, same_as=effect.same_as)
            self.apply(copied)

    def compact(self) -> None:
        messages = self.machine.transcript
        starts = [at for at, one in enumerate(messages) if one.role in ("user", "system")]
        kept = ((starts[-1], len(messages)),) if starts else ()
        key = ef.turn_key(self.machine.turn + 1)
        self.apply(ev.HistoryCompacted(key, self.at, kept, "They met."))

    def rewind(self) -> None:
        to = self.draw(st.integers(0, self.machine.turn))
        self.apply(ev.SessionRewound(ef.turn_key(self.machine.turn + 1), self.at, to))


@st.composite
def machine_histories(
    draw: st.DrawFn, media: Sequence[Media] = TAKEN_MEDIA, most: int = 10
) -> Sequence[Message]:
    """The messages of a request to a model, of a session that a machine made."""
    return Driver(draw, media).play(most)


@st.composite
def given_histories(draw: st.DrawFn, media: Sequence[Media] = TAKEN_MEDIA) -> Sequence[Message]:
    """The messages that a program gives, in which calls have results, and little else is as usual."""
    messages: list[Message] = []
    for kind in draw(st.lists(pick(["user", "system", "assistant", "assistant"]), max_size=4)):
        if kind == "user":
            messages.append(draw(user_messages(media)))
        elif kind == "system":
            messages.append(system(draw(texts)))
        else:
            said = assistant(*draw(reply_parts(len(messages))))
            messages += [said, *answer_calls(draw, said, media)]
    return [*messages, draw(user_messages(media))]


def answer_calls(draw: st.DrawFn, said: Message, media: Sequence[Media]) -> Iterator[Message]:
    """The results of calls: in any order, in one message or in several, and under any name."""
    results = [
        ToolResult(
            call.id,
            draw(pick([call.name, call.name, "", "other"])),
            draw(result_content(media)),
            is_error=draw(st.booleans()),
        )
        for call in said.calls
    ]
    results = draw(st.permutations(results))
    if len(results) > 1 and draw(st.booleans()):
        yield Message("tool", tuple(results[:1]))
        results = results[1:]
    if results:
        yield Message("tool", tuple(results))
