"""`agent.sessions`: changes between the turns of an agent, and what the agent knows afterwards."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest

from holdfast import (
    Agent,
    Limits,
    Media,
    MemoryJournal,
    Middleware,
    SqliteJournal,
    Text,
    tool,
    user,
)
from holdfast.core.errors import (
    ConfigurationError,
    ErrorCategory,
    ErrorInfo,
    HoldfastError,
    NoTextError,
    ProviderError,
)
from holdfast.core.events import Event, HistoryCompacted, SessionRewound, Status, TurnOpened
from holdfast.core.messages import ToolCall
from holdfast.core.model_request import ModelRequest
from holdfast.core.turn_history import ASK_SUMMARY
from holdfast.middleware import UsageLimits
from holdfast.middleware.hook_contexts import BeforeIteration
from holdfast.sessions.sessions import Sessions
from holdfast.testing import FakeClock, ScriptedModel

pytestmark = pytest.mark.anyio


def echo(seen: list[list[str]]) -> ScriptedModel:
    """Answers `re TEXT`, and notes what it was sent."""

    def answer(request: ModelRequest) -> str:
        seen.append([message.text for message in request.messages])
        return f"re {request.messages[-1].text}"

    return ScriptedModel(*[answer] * 20)


async def test_the_agent_goes_on_from_where_its_session_was_rewound() -> None:
    seen: list[list[str]] = []
    agent = Agent(echo(seen))
    for text in ("one", "two", "three"):
        await agent.run(text, session="ada")
    await agent.sessions.rewind("ada", 1)
    result = await agent.run("four", session="ada")
    assert seen[-1] == ["one", "re one", "four"]
    assert [message.text for message in result.messages][-1] == "re four"
    await agent.sessions.rewind("ada", 3)
    await agent.run("five", session="ada")
    assert seen[-1] == ["one", "re one", "two", "re two", "three", "re three", "five"]


async def test_an_agent_in_another_process_sees_the_rewind_too() -> None:
    seen: list[list[str]] = []
    journal = MemoryJournal()
    agent, other = Agent(echo(seen), journal=journal), Agent(echo(seen), journal=journal)
    await agent.run("one", session="ada")
    await other.run("two", session="ada")
    await Sessions(journal).rewind("ada", 1)
    await agent.run("three", session="ada")
    assert seen[-1] == ["one", "re one", "three"]
    await other.run("four", session="ada")
    assert seen[-1] == ["one", "re one", "three", "re three", "four"]


async def test_a_change_waits_for_the_turn_that_is_under_way() -> None:
    going, go = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def wait() -> str:
        """Wait."""
        going.set()
        await go.wait()
        return "done"

    agent = Agent(ScriptedModel("hello", ToolCall("c", "wait"), "two"), tools=[wait])
    await agent.run("one", session="ada")
    turn = asyncio.ensure_future(agent.run("two", session="ada"))
    await going.wait()
    change = asyncio.ensure_future(agent.sessions.rewind("ada", 1))
    await agent.sessions.rename("ada", "a title needs no waiting")
    assert not change.done()
    go.set()
    assert (await turn).text == "two"
    assert await change == 3


async def test_two_changes_and_two_turns_at_once_all_happen_one_after_another() -> None:
    seen: list[list[str]] = []
    agent = Agent(echo(seen))
    await agent.run("one", session="ada")
    await asyncio.gather(
        agent.run("two", session="ada"),
        agent.sessions.rewind("ada", 1),
        agent.run("three", session="ada"),
        agent.sessions.compact("ada", keep=0, summary="all"),
    )
    assert [point.kind for point in (await agent.sessions.read("ada")).points] == [
        "turn",
        "turn",
        "rewind",
        "turn",
        "compaction",
    ]


async def test_the_model_of_the_agent_makes_the_summary_and_has_no_tools() -> None:
    asked: list[ModelRequest] = []

    @tool(effect="write")
    def pay() -> str:
        """Pay."""
        return "paid 5 to Bob"

    def summary(request: ModelRequest) -> str:
        asked.append(request)
        return "Bob was paid."

    def last(request: ModelRequest) -> str:
        asked.append(request)
        return "bye"

    model = ScriptedModel(ToolCall("c", "pay"), "paid", "two", summary, last)
    agent = Agent(model, instructions="Pay Bob.", tools=[pay])
    await agent.run("pay Bob", session="ada")
    await agent.run("and now?", session="ada")
    assert await agent.sessions.compact("ada", keep=1) == 3
    assert asked[0].tools == ()
    (message,) = asked[0].messages
    assert message.text.splitlines() == [
        "user: pay Bob",
        "assistant: [calls pay with {}]",
        "tool: [pay gave paid 5 to Bob]",
        "assistant: paid",
    ]
    await agent.run("bye", session="ada")
    sent = [message.text for message in asked[1].messages]
    assert sent[:5] == [ASK_SUMMARY, "Bob was paid.", "and now?", "two", "bye"]


@pytest.mark.parametrize("answer", [HoldfastError("down"), ""])
async def test_a_model_that_fails_to_sum_up_changes_nothing(answer: HoldfastError | str) -> None:
    journal = MemoryJournal()
    model = ScriptedModel("re", answer, answer, answer, answer)
    agent = Agent(model, journal=journal, clock=FakeClock())
    await agent.run("hi", session="ada")
    before = await journal.read("ada")
    with pytest.raises(HoldfastError) as caught:
        await agent.sessions.compact("ada", keep=0)
    assert isinstance(caught.value, NoTextError) or "down" in str(caught.value)
    assert await journal.read("ada") == before


async def test_a_compaction_that_is_cancelled_changes_nothing() -> None:
    started = asyncio.Event()

    async def slow(_: object) -> str:
        started.set()
        await asyncio.Event().wait()
        return ""

    agent = Agent(ScriptedModel("re", "re"))
    await agent.run("hi", session="ada")
    task = asyncio.ensure_future(agent.sessions.compact("ada", keep=0, summary=slow))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await agent.run("again", session="ada")).text == "re"


class Said(Middleware[tuple[str, ...]]):
    """Remembers what was said in the session, and shows it."""

    scope = "session"

    def __init__(self, *, rewinds: bool = True) -> None:
        self.rewinds = rewinds
        self.seen: list[tuple[str, ...]] = []

    @property
    def initial(self) -> tuple[str, ...]:
        return ()

    def fold(self, state: tuple[str, ...], event: Event) -> tuple[str, ...]:
        if isinstance(event, TurnOpened):
            return (*state, event.message.text)
        if isinstance(event, SessionRewound):
            return (*state, f"back to {event.to}")
        if isinstance(event, HistoryCompacted):
            return (*state, "compacted")
        return state

    async def before_iteration(self, context: BeforeIteration) -> None:
        self.seen.append(context.state_of(self))


async def rewound(journal: object, *middleware: Middleware[object]) -> None:
    """One, two, back to one, three, back to two, four: each with a new agent, which knows nothing."""

    def agent() -> Agent[str]:
        return Agent(ScriptedModel("re"), journal=journal, middleware=middleware)  # type: ignore[arg-type]

    kept = agent()
    for act in ("one", "two", 1, "three", 2, "four"):
        if isinstance(act, int):
            await kept.sessions.rewind("ada", act)
        else:
            await agent().run(act, session="ada")


async def test_what_a_middleware_remembers_goes_back_with_the_session() -> None:
    said, spent = Said(), Said(rewinds=False)
    await rewound(MemoryJournal(), said, spent)  # type: ignore[arg-type]
    assert said.seen == [
        ("one",),
        ("one", "two"),
        ("one", "back to 1", "three"),
        ("one", "two", "back to 2", "four"),
    ]
    assert spent.seen[-1] == ("one", "two", "back to 1", "three", "back to 2", "four")


async def test_an_agent_that_had_the_session_open_remembers_the_same() -> None:
    said = Said()
    agent = Agent(ScriptedModel(*["re"] * 4), middleware=[said])
    await agent.run("one", session="ada")
    await agent.run("two", session="ada")
    await agent.sessions.rewind("ada", 1)
    await agent.run("three", session="ada")
    await agent.sessions.compact("ada", keep=0, summary="x")
    await agent.run("four", session="ada")
    assert said.seen[2:] == [
        ("one", "back to 1", "three"),
        ("one", "back to 1", "three", "compacted", "four"),
    ]


async def test_what_was_spent_stays_spent() -> None:
    limits = UsageLimits(model_calls=2, per="session")
    agent = Agent(ScriptedModel(*["re"] * 4), middleware=[limits])
    await agent.run("one", session="ada")
    await agent.run("two", session="ada")
    await agent.sessions.rewind("ada", 0)
    result = await agent.run("three", session="ada")
    assert result.status is Status.STOPPED
    assert "model calls" in result.text


async def test_a_session_that_was_deleted_begins_anew(tmp_path: Path) -> None:
    seen: list[list[str]] = []
    with SqliteJournal(tmp_path / "talk.db") as journal:
        agent = Agent(echo(seen), journal=journal)
        await agent.run("my secret", session="ada")
        assert await agent.sessions.delete("ada") == 3
        await agent.run("hello", session="ada")
    assert seen[-1] == ["hello"]
    assert b"my secret" not in (tmp_path / "talk.db").read_bytes()


async def test_a_session_that_was_put_back_in_place_of_another_is_read_anew() -> None:
    """The agent still has the deleted one open, with as many records."""
    seen: list[list[str]] = []
    journal = MemoryJournal()
    agent = Agent(echo(seen), journal=journal)
    await agent.run("old", session="ada")
    await agent.run("new", session="bob")
    lines = [line async for line in agent.sessions.export("bob")]
    kept = Sessions(journal)
    await kept.delete("ada")
    await kept.import_(lines, session="ada")
    await agent.run("next", session="ada")
    assert seen[-1] == ["new", "re new", "next"]


async def test_a_failed_turn_can_be_gone_back_over() -> None:
    refused = ErrorInfo(category=ErrorCategory.AUTH_ERROR, safe="401")
    agent = Agent(ScriptedModel("re one", ProviderError("401", info=refused), "re three"))
    await agent.run("one", session="ada")
    with pytest.raises(HoldfastError):
        await agent.run("two", session="ada")
    await agent.sessions.rewind("ada", 1)
    result = await agent.run("three", session="ada", limits=Limits(iterations=3))
    assert [message.text for message in result.messages] == ["one", "re one", "three", "re three"]


async def test_nobody_speaks_in_the_titles_of_a_session() -> None:
    with pytest.raises(ConfigurationError, match="titles"):
        await Agent(ScriptedModel("x")).run("hi", session="ada/:title")


async def test_an_unknown_session_is_told_and_not_made() -> None:
    agent = Agent(ScriptedModel())
    with pytest.raises(ConfigurationError, match="no session"):
        await agent.sessions.rewind("nobody", 0)
    assert list(await agent.sessions.list()) == []


# Open sessions are bounded in bytes.


async def count_open(agent: Agent[str], *sessions: str, size: int) -> int:
    for session in sessions:
        picture = Media("image/png", data=bytes(size))
        await agent.run(user(Text("What is this?"), picture), session=session)
    return len(agent._engine.session_pool._open)


async def test_sessions_with_pictures_are_dropped_by_their_size() -> None:
    journal = MemoryJournal()
    model = ScriptedModel(*["A cat."] * 40)
    agent = Agent(model, journal=journal, session_cache=1_000_000)
    names = [f"s{number}" for number in range(12)]
    assert await count_open(agent, *names, size=100_000) in range(3, 10)
    assert list(agent._engine.session_pool._open)[-1] == "s11"
    assert await count_open(agent, *names, size=1_000) in range(3, 12)
    assert len((await agent.sessions.read("s0")).messages) == 4


async def test_a_session_that_is_larger_than_the_cache_is_not_kept() -> None:
    agent = Agent(ScriptedModel("A cat.", "A cat."), session_cache=0, journal=MemoryJournal())
    assert await count_open(agent, "ada", size=1) == 0
    result = await agent.run("And now?", session="ada")
    assert len(result.messages) == 4


async def test_a_thousand_small_sessions_fit() -> None:
    agent = Agent(ScriptedModel(*["Hi"] * 1100), journal=MemoryJournal())
    for number in range(1100):
        await agent.run("Hi", session=f"s{number}")
    assert len(agent._engine.session_pool._open) == 1100


def test_a_negative_session_cache_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="session_cache"):
        Agent(ScriptedModel("Hi"), session_cache=-1)


# A full cache of sessions is not copied at each turn.

TURNS = 100


async def count_collections(agent: Agent[str], first: int) -> int:
    """Count how often objects were collected during turns of new sessions: it follows their number."""
    before = gc.get_stats()[0]["collections"]
    for number in range(first, first + TURNS):
        await agent.run("Hello", session=str(number))
    return gc.get_stats()[0]["collections"] - before


@pytest.mark.slow  # takes half a second or more
async def test_a_turn_makes_no_more_objects_when_the_cache_is_full() -> None:
    model = ScriptedModel(*["Hi."] * 4200)
    agent = Agent(model, journal=MemoryJournal(), session_cache=32_000_000)
    few = await count_collections(agent, 0)
    for first in range(TURNS, 4100, TURNS):
        full = await count_collections(agent, first)
    assert full <= 2 * few + 20
