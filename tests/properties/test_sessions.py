"""Whatever is done with sessions in whatever order: a model is sent what a list of histories says.

Turns of every ending, rewinds, compactions, forks, exports and imports, agents that begin anew: after
each of them the next model call is compared with plain lists, and its history is encoded for all four
wires and read as strictly as their servers do.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from holdfast import Agent, MemoryJournal, SqliteJournal, tool
from holdfast.codecs.anthropic.codec import AnthropicCodec
from holdfast.codecs.gemini.codec import Gemini
from holdfast.codecs.openai_chat.codec import OpenAIChat
from holdfast.codecs.openai_responses.codec import ResponsesCodec
from holdfast.core.errors import ErrorCategory, ErrorInfo, HoldfastError, ProviderError
from holdfast.core.messages import Message, Reply, Text, ToolCall
from holdfast.core.model_request import ModelRequest
from holdfast.core.turn_history import ASK_SUMMARY
from holdfast.journal.port import Journal
from holdfast.runtime.sessions import session_pool
from holdfast.sessions.sessions import Sessions
from holdfast.testing import ScriptedModel
from holdfast.testing.emulator.wires.emulator_wire import get_wire

Said: TypeAlias = tuple[str, str]
"""Role and text; "call" and "result" stand for those of tools."""

CODECS = {
    "/v1/chat/completions": OpenAIChat(),
    "/v1/responses": ResponsesCodec(),
    "/v1/messages": AnthropicCodec(),
    "/v1beta/models/m:generateContent": Gemini(),
}
HEADERS = {
    "authorization": "Bearer k",
    "x-api-key": "k",
    "x-goog-api-key": "k",
    "anthropic-version": "2023-06-01",
    "content-type": "application/json",
}
REFUSED = ErrorInfo(category=ErrorCategory.AUTH_ERROR, safe="401")
ENDINGS = ("plain", "tools", "failed", "failed after tools")


@tool(effect="read")
def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is sunny"


def in_short(messages: Sequence[Message]) -> list[Said]:
    shown: list[Said] = []
    for message in messages:
        if message.role == "tool":
            shown.append(("result", str(len(message.parts))))
        elif message.calls:
            shown.append(("call", str(len(message.calls))))
        else:
            shown.append((message.role, message.text))
    return shown


def check_wires(request: ModelRequest) -> None:
    """Every wire takes the history, and its server would."""
    for path, codec in CODECS.items():
        encoded = codec.encode(request)
        get_wire(codec.name).parse_request(path, HEADERS, encoded.body)


def calls(number: int) -> Reply:
    places = ("Porto", "Faro")[:number]
    return Reply(
        (
            Text("Looking."),
            *(ToolCall(f"c{at}", "look", f'{{"place": "{one}"}}') for at, one in enumerate(places)),
        )
    )


class Talks(RuleBasedStateMachine):
    """Sessions beside lists: for each session its history after each of its numbers."""

    journal: Journal

    def __init__(self) -> None:
        super().__init__()
        self.wanted: dict[str, list[list[Said]]] = {}
        self.made = 0
        self.turns = 0
        self.answers: list[Callable[[ModelRequest], Reply | str]] = []

    @initialize()
    def begin(self) -> None:
        self.journal = MemoryJournal()
        self.agent = self.new_agent()

    def new_agent(self) -> Agent[str]:
        def answer(request: ModelRequest) -> Reply | str:
            return self.answers.pop(0)(request)

        return Agent(ScriptedModel(*[answer] * 99), tools=[look], journal=self.journal)

    @rule(
        ending=st.sampled_from(ENDINGS),
        pick=st.integers(0, 9),
        pin=st.booleans(),
        again=st.booleans(),
    )
    def turn(self, ending: str, pick: int, pin: bool, again: bool) -> None:
        """A turn of some session; of a new one at first. `again` is for a process that knows nothing."""
        if again:
            self.agent = self.new_agent()
        name, two = self.named(pick) if self.wanted else "", pin
        if not name or (pick == 9 and len(self.wanted) < 3):
            self.made += 1
            name = f"s{self.made}"
            self.wanted[name] = [[]]
        self.turns += 1
        said = f"{'PIN ' if pin else ''}{self.turns}"
        before = [*self.wanted[name][-1], ("user", said)]

        def first(request: ModelRequest) -> Reply | str:
            assert in_short(request.messages) == before
            check_wires(request)
            if ending == "failed":
                raise ProviderError("401", info=REFUSED)
            return f"re {said}" if ending == "plain" else calls(1 + two)

        def second(request: ModelRequest) -> str:
            check_wires(request)
            if ending == "failed after tools":
                raise ProviderError("401", info=REFUSED)
            return f"re {said}"

        self.answers = [first, second]
        if ending in ("plain", "tools"):
            asyncio.run(self.agent.run(said, session=name))
        else:
            with pytest.raises(HoldfastError, match="401"):
                asyncio.run(self.agent.run(said, session=name))
        used = [("call", str(1 + two)), ("result", str(1 + two))]
        after = {
            "plain": [*before, ("assistant", f"re {said}")],
            "tools": [*before, *used, ("assistant", f"re {said}")],
            "failed": before,
            "failed after tools": [*before, *used],
        }
        self.wanted[name].append(after[ending])

    def named(self, pick: int) -> str:
        names = sorted(self.wanted)
        return names[pick % len(names)]

    def sessions(self, *, bare: bool) -> Sessions:
        return Sessions(self.journal) if bare else self.agent.sessions

    @precondition(lambda self: self.wanted)
    @rule(pick=st.integers(0, 9), to=st.integers(0, 9), bare=st.booleans())
    def rewind(self, pick: int, to: int, bare: bool) -> None:
        name = self.named(pick)
        points = self.wanted[name]
        to %= len(points)
        assert asyncio.run(self.sessions(bare=bare).rewind(name, to)) == len(points)
        points.append(points[to])

    @precondition(lambda self: self.wanted)
    @rule(
        pick=st.integers(0, 9),
        keep=st.integers(0, 3),
        summary=st.sampled_from(["", "so far"]),
        bare=st.booleans(),
    )
    def compact(self, pick: int, keep: int, summary: str, bare: bool) -> None:
        name = self.named(pick)
        points = self.wanted[name]
        turns: list[list[Said]] = []
        for role, text in points[-1]:
            if role == "user":
                turns.append([])
            turns[-1].append((role, text))
        older = turns[: max(len(turns) - keep, 0)]
        stay = [turn for turn in older if turn[0][1].startswith("PIN")]
        number = asyncio.run(
            self.sessions(bare=bare).compact(
                name,
                keep=keep,
                summary=summary,
                pinned=lambda message: message.text.startswith("PIN"),
            )
        )
        if len(stay) == len(older):
            assert number is None
            return
        assert number == len(points)
        head = [("user", ASK_SUMMARY), ("assistant", summary)] if summary else []
        points.append(head + [one for turn in [*stay, *turns[len(older) :]] for one in turn])

    @precondition(lambda self: self.wanted and len(self.wanted) < 4)
    @rule(pick=st.integers(0, 9), at=st.integers(0, 9), bare=st.booleans())
    def fork(self, pick: int, at: int, bare: bool) -> None:
        name = self.named(pick)
        points = self.wanted[name]
        at = 1 + at % (len(points) - 1)
        self.made += 1
        other = asyncio.run(self.sessions(bare=bare).fork(name, at, to=f"s{self.made}"))
        self.wanted[other] = points[: at + 1]

    @precondition(lambda self: self.wanted)
    @rule(pick=st.integers(0, 9), replace=st.booleans(), bare=st.booleans())
    def move(self, pick: int, replace: bool, bare: bool) -> None:
        """Out and in again: in its own place, or beside it."""
        name = self.named(pick)
        self.made += 1
        other = f"s{self.made}"

        async def move() -> None:
            kept = self.sessions(bare=bare)
            lines = [line async for line in kept.export(name)]
            if replace:
                await kept.delete(name)
                await kept.import_(lines)
            else:
                await kept.import_(lines, session=other)

        asyncio.run(move())
        if not replace:
            self.wanted[other] = list(self.wanted[name])

    @precondition(lambda self: len(self.wanted) > 1)
    @rule(pick=st.integers(0, 9))
    def forget(self, pick: int) -> None:
        name = self.named(pick)
        asyncio.run(self.sessions(bare=False).delete(name))
        del self.wanted[name]

    @precondition(lambda self: self.wanted)
    @rule(pick=st.integers(0, 9))
    def read(self, pick: int) -> None:
        name = self.named(pick)
        points = self.wanted[name]
        history = asyncio.run(Sessions(self.journal).read(name))
        assert in_short(history.messages) == points[-1]
        assert len(history.points) == len(points) - 1
        listed = {info.session: info for info in asyncio.run(Sessions(self.journal).list())}
        counting = [point for point in history.points if point.counts and point.kind == "turn"]
        assert listed[name].turns == len(counting)


class TalksInFile(Talks):
    """The same in a file, where agents open sessions from snapshots."""

    @initialize()
    def begin(self) -> None:
        self.least, session_pool.LEAST_RECORDS = session_pool.LEAST_RECORDS, 3
        self.folder = tempfile.TemporaryDirectory()
        self.journal = SqliteJournal(Path(self.folder.name) / "talk.db")
        self.agent = self.new_agent()

    def teardown(self) -> None:
        session_pool.LEAST_RECORDS = self.least
        self.journal.close()  # type: ignore[attr-defined]
        self.folder.cleanup()


Talks.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TalksInFile.TestCase.settings = settings(max_examples=15, stateful_step_count=30, deadline=None)
TestTalks = Talks.TestCase
TestTalksInFile = TalksInFile.TestCase
