"""Whatever a user's code raises or returns: the session can be read again, and goes on."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast import Agent, HoldfastError, Middleware, Status, ToolError, tool
from holdfast.core import events as ev
from holdfast.core.errors import (
    ConfigurationError,
    ErrorCategory,
    ErrorInfo,
    LimitError,
    ProviderError,
    TransportError,
)
from holdfast.core.messages import Media, Message, Reply, Text, ToolCall, ToolResult, Usage
from holdfast.core.output import OutputRejected
from holdfast.core.questions import ClarificationQuestion
from holdfast.journal import MemoryJournal, SqliteJournal
from holdfast.journal.encoding import decode, encode, record_of, to_line
from holdfast.journal.port import Record
from holdfast.journal.readable_events import make_readable
from holdfast.middleware import Deny, Patch, Replace, Stop, UseReply
from holdfast.output.structured_output import StructuredOutput
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.tools import Toolset
from holdfast.tools.context import ToolContext

INFO = ErrorInfo(
    category=ErrorCategory.TIMEOUT, safe="no answer", private="key=sk-1234567890abcdef"
)
SECRET = "password=hunter2"


class Word(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError("no")


class Number(int):
    pass


class Color(enum.Enum):
    RED = object()


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


class Hostile(Exception):
    def __getattribute__(self, name: str) -> object:
        if name in ("__class__", "__dict__", "__traceback__", "with_traceback"):
            return super().__getattribute__(name)
        raise RuntimeError(name)


class Bare(HoldfastError):
    """It does not call the constructor of its base class."""

    def __init__(self) -> None:
        pass


class Lying(ProviderError):
    info = "gone"  # type: ignore[assignment]

    def __init__(self) -> None:
        pass


def circle() -> list[object]:
    ring: list[object] = []
    ring.append(ring)
    return ring


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


JUNK: dict[str, Any] = {
    "an ErrorInfo": INFO,
    "an exception": KeyError(SECRET),
    "bytes": b"\xff\x00abc",
    "a huge number": 10**400,
    "a number of too many digits": 10**5000,
    "not a number": float("nan"),
    "an infinite number": float("inf"),
    "a surrogate": "a\ud800b",
    "a subclass of str": Word(SECRET),
    "a subclass of int": Number(7),
    "an enum": Color.RED,
    "a mute object": Mute(),
    "a circle": circle(),
    "deep": nested(3_000),
    "a set": {1, "a"},
    "a key that is no text": {1: 2, (1, 2): object()},
    "a class": object,
    "a function": circle,
    "None": None,
}


def exceptions(junk: Any) -> list[BaseException]:
    """Errors with a value of a wrong type in each of their places, made by force."""

    def spoil(error: HoldfastError, **values: Any) -> HoldfastError:
        for name, value in values.items():
            setattr(error, name, value)
        return error

    def info(**values: Any) -> ErrorInfo:
        made = ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="x")
        for name, value in values.items():
            msgspec.structs.force_setattr(made, name, value)
        return made

    return [
        ValueError(junk),
        ExceptionGroup("x", [ValueError(junk)]),
        Bare(),
        Lying(),
        Hostile(),
        spoil(ProviderError("x"), info=junk),
        spoil(TransportError("x"), info=info(safe=junk)),
        spoil(TransportError("x"), info=info(code=junk, status=junk)),
        spoil(TransportError("x"), info=info(category=junk)),
        spoil(TransportError("x"), info=info(landed=junk, retry_after=junk)),
        spoil(LimitError("x"), args=(junk,)),
        spoil(HoldfastError("x"), partial=junk),
        spoil(HoldfastError("x"), partial=Reply((junk,))),
    ]


def values(junk: Any) -> list[Any]:
    """Values that a hook or a tool may return."""
    made: list[Any] = [junk, [junk], {"a": junk}]
    made += [
        Reply((Text(junk),)),
        Reply((junk,)),
        Reply(junk),
        Reply((Text("x", extra={"a": junk}),), model=junk, usage=Usage(input=junk)),
        Reply((ToolCall(junk, "act", "{}"),)),
        Reply((ToolCall("1", junk, "{}"),)),
        Reply((ToolCall("1", "act", junk),)),
        ToolResult(junk, "act", (Text("x"),)),
        ToolResult("1", junk, (Text("x"),)),
        ToolResult("1", "act", junk),
        ToolResult("1", "act", (Text(junk), junk)),
        Message("user", (Text(junk),)),
        Message(junk, junk),
    ]
    for decision in (UseReply, Replace, Deny):
        for value in tuple(made):
            with suppress(ConfigurationError):
                made.append(decision(value))
    for value in (junk, *made[3:]):
        with suppress(ConfigurationError):
            made.append(Patch(messages=(value,)))
    for names in ({"reason": junk, "message": "x"}, {"reason": "x", "message": junk}):
        with suppress(ConfigurationError):
            made.append(Stop(**names))
    with suppress(ConfigurationError):
        made.append(Patch(instructions=junk))
    return made


Play = Callable[[], Any]
"""Returns junk, or raises it."""


class Once:
    """Plays one value the first time, and returns None later."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.is_played = False

    def __call__(self) -> Any:
        if self.is_played:
            return None
        self.is_played = True
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value


def act_returning(play: Play) -> list[Any]:
    @tool
    def act() -> object:
        """Act."""
        return play()

    return [act]


def act_using(play: Play) -> list[Any]:
    @tool
    async def act(ctx: ToolContext) -> str:
        """Act."""
        ctx.add_usage(Usage(input=play()))
        return "done"

    return [act]


def act_asking(play: Play) -> list[Any]:
    @tool
    async def act(ctx: ToolContext) -> str:
        """Act."""
        await ctx.ask(ClarificationQuestion(play()))
        return "done"

    return [act]


def hook(name: str) -> Callable[[Play], Middleware[Any]]:
    async def play_hook(play: Play, *rest: Any) -> Any:
        answer = play()
        if answer is None and len(rest) == 2:
            return await rest[1](rest[0])
        return answer

    def make(play: Play) -> Middleware[Any]:
        async def called(_self: Any, context: Any) -> Any:
            return await play_hook(play, context)

        async def wrapped(_self: Any, context: Any, call_next: Any) -> Any:
            return await play_hook(play, context, call_next)

        body = wrapped if name.startswith("wrap") else called
        if name == "wrap_attempt":

            async def attempt(_self: Any, context: Any, call_next: Any) -> Any:
                answer = play()
                return await call_next() if answer is None else answer

            body = attempt
        kind = type("Junk", (Middleware,), {name: body})
        return kind()  # type: ignore[no-any-return]

    return make


HOOKS = (
    "before_turn", "before_iteration", "wrap_model", "after_reply", "before_tools", "before_tool",
    "wrap_tool", "wrap_attempt", "after_tool", "after_iteration", "on_error", "after_turn",
)  # fmt: skip
CALL = ToolCall("1", "act", "{}")


def plain() -> list[Any]:
    return act_returning(lambda: "done")


def make_agent(place: str, value: Any, journal: Any) -> Agent[Any]:
    play = Once(value)
    keywords: dict[str, Any] = {"tools": plain()}
    replies: list[Any] = [CALL, "done", "done", "done"]
    if place in HOOKS:
        keywords["middleware"] = [hook(place)(play)]
        if place == "on_error":
            keywords["tools"] = act_returning(Once(KeyError("x")))
    elif place == "tool":
        keywords["tools"] = act_returning(play)
    elif place == "usage":
        keywords["tools"] = act_using(play)
    elif place == "question":
        keywords |= {"tools": act_asking(play), "on_question": lambda question: play()}
    elif place == "instructions":
        keywords["instructions"] = lambda context: play()
    elif place == "toolset":
        keywords["toolsets"] = [Toolset("junk", lambda context: play())]
    elif place == "validator":
        wanted = StructuredOutput(int, validators=[lambda value: play() or value])
        return Agent(
            ScriptedModel("1", "1", "1"), output=wanted, journal=journal, clock=FakeClock()
        )
    else:
        replies = [lambda request: play(), *replies]
    return Agent(ScriptedModel(*replies), journal=journal, clock=FakeClock(), **keywords)


PLACES = (*HOOKS, "tool", "usage", "question", "instructions", "toolset", "validator", "model")
STEP = 1 if os.environ.get("HOLDFAST_FULL") else 17
"""Every 17th combination is tried; all 17,000 take a minute."""


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("place", PLACES)
async def test_the_session_is_read_again_and_goes_on(place: str) -> None:
    junk = [value for one in JUNK.values() for value in (*exceptions(one), *values(one))]
    for number in range(PLACES.index(place) % STEP, len(junk), STEP):
        value, journal, session = junk[number], MemoryJournal(), f"s{number}"
        with suppress(Exception):
            await make_agent(place, value, journal).run("go", session=session)
        for seq, record in enumerate(await journal.read(session), 1):
            line = encode(to_line(session, seq, record))
            assert record_of(decode(line)).event.key == record.event.key
            assert "hunter2" not in line.decode() or not isinstance(value, BaseException)
        later = Agent(ScriptedModel("fine"), tools=plain(), journal=journal, clock=FakeClock())
        result = await later.run("and now?", session=session)
        assert (result.status, result.output) == (Status.COMPLETED, "fine"), (place, value)


async def test_a_file_with_it_is_opened_again(tmp_path: Path) -> None:
    path, errors = tmp_path / "a.db", exceptions(INFO)
    journal = SqliteJournal(path)
    for number, error in enumerate(errors):
        for place in ("tool", "model"):
            with suppress(Exception):
                await make_agent(place, error, journal).run("go", session=f"{place}{number}")
    journal.close()
    journal = SqliteJournal(path)
    for run in [entry.run for entry in await journal.runs()]:
        agent = Agent(ScriptedModel("fine"), tools=plain(), journal=journal)
        assert (await agent.run("and now?", session=run)).output == "fine"
    assert len(await journal.runs()) == 2 * len(errors)
    journal.close()


def test_an_event_that_can_be_read_is_not_changed() -> None:
    odd = "a\ud800b"
    question = {"a": [1, 2.5, None, True, odd], "b": (1, 2)}
    for event in (
        ev.ToolFinished("t1.i0.tool.0", 1.0, ToolResult(odd, "act", (Text(odd),))),
        ev.QuestionAsked("t1.ask.0.asked", 1.0, "Question", question),
        ev.TurnOpened("t1", 1.0, Message("user", (Media("image/png", b"\xff\x00"),))),
    ):
        assert make_readable(event) is event


def test_what_is_wrong_is_replaced_by_its_text_without_secrets() -> None:
    result = ToolResult("1", "act", (Text(KeyError(SECRET)), b"raw"))  # type: ignore[arg-type]
    event = make_readable(ev.ToolFinished("t1.i0.tool.0", 1.0, result))
    assert isinstance(event, ev.ToolFinished)
    assert [part.text for part in event.result.content if isinstance(part, Text)] == [
        "'password=[redacted]",
        "raw",
    ]
    assert (event.result.call_id, event.result.name) == ("1", "act")


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
    | st.sampled_from(list(JUNK)).map(lambda name: JUNK[name]) | st.builds(Mute),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.integers() | st.text(), inner, max_size=3)
    | st.builds(Text, inner) | st.builds(ToolCall, inner, inner, inner)
    | st.builds(ToolResult, inner, inner, inner, inner),
    max_leaves=8,
)  # fmt: skip


@pytest.mark.slow  # takes half a second or more
@given(ANY, ANY, ANY)
def test_any_event_can_be_read_again(one: Any, two: Any, three: Any) -> None:
    for event in (
        ev.ToolFinished("t1.i0.tool.0", 1.0, one, attempts=two, usage=three),
        ev.ToolFinished("t1.i0.tool.0", 1.0, ToolResult(one, two, three), same_as=one),
        ev.ModelReplied("t1.i0.model", 1.0, one, two, three, offered=one, by=two),
        ev.ModelReplied("t1.i0.model", 1.0, Reply((one, two), kind=three, usage=Usage(one))),
        ev.TurnStopped("t1.stopped", 1.0, one, two, three),
        ev.QuestionAsked("t1.ask.0.asked", 1.0, one, two, three),
        ev.QuestionAnswered("t1.ask.0", 1.0, one, two, three),
        ev.TurnOpened("t1", 1.0, one, two, agent="a", instructions=three),
    ):
        saved = make_readable(event)
        found = record_of(decode(encode(to_line("s", 1, Record(saved))))).event
        assert (found.key, found.at) == (event.key, event.at)
        assert make_readable(saved) is saved


WRONG = [None, "7", 7, 1.5, float("nan"), float("inf"), b"x", [], {}, True, Mute()]
COUNTS = {"attempts", "flags", "hooks_called", "continued"}
FIELDS = [
    "at",
    "downtime",
    "attempts",
    "same_as",
    "by",
    "role",
    "flags",
    "hooks_called",
    "continued",
]


@pytest.mark.parametrize("field", FIELDS)
def test_one_wrong_value_of_an_event_is_replaced(field: str) -> None:
    result, reply = ToolResult("1", "act", (Text("done"),)), Reply((Text("done"),))
    events: tuple[Any, ...] = (
        ev.TurnOpened("t1", 1.0, Message("user", (Text("go"),))),
        ev.ModelReplied("t1.i0.model", 1.0, reply),
        ev.ToolFinished("t1.i0.tool.0", 1.0, result),
        ev.LimitExtended("t1.i0.extended", 1.0, 3),
        ev.ToolsBegun("t1.i0.begun", 1.0),
        ev.TurnClosed("t1.closed", 1.0, ev.Status.COMPLETED),
    )
    for plain, wrong in product(events, [*WRONG, *([2**70] if field in COUNTS else [])]):
        event = plain
        if field == "role" and isinstance(event, ev.TurnOpened):
            event = replace(event, message=replace(plain.message, role=wrong))
        elif field == "continued" and isinstance(event, ev.ModelReplied):
            event = replace(event, reply=replace(plain.reply, continued=wrong))
        elif field in event.__struct_fields__:
            event = replace(event, **{field: wrong})
        saved = make_readable(event)
        assert record_of(decode(encode(to_line("s", 1, Record(saved))))).event == saved


@pytest.mark.parametrize(
    "kind", [HoldfastError, ProviderError, TransportError, ToolError, OutputRejected]
)
def test_an_error_names_its_wrong_argument_and_the_fix(kind: Any) -> None:
    for wrong, fix in ((INFO, "info.safe"), (KeyError("x"), "str(error)"), (b"x", "what happened")):
        with pytest.raises(ConfigurationError, match="message: must be a text") as raised:
            kind(wrong)
        assert fix in raised.value.fix


def test_an_error_and_its_details_check_the_rest() -> None:
    with pytest.raises(ConfigurationError, match="info: must be an ErrorInfo, got str"):
        ProviderError("x", info="y")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="partial: must be a Reply, got str"):
        ProviderError("x", partial="y")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"ErrorInfo\.safe must be a text, got ErrorInfo"):
        ErrorInfo(category=ErrorCategory.TIMEOUT, safe=INFO)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"ErrorInfo\.category must be an ErrorCategory"):
        ErrorInfo(category="timeout", safe="x")  # type: ignore[arg-type]
