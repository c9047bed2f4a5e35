"""What one turn is given besides what its agent has: model, settings, output, tools, metadata."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import (
    Agent,
    Limits,
    MemoryJournal,
    Middleware,
    ModelAt,
    ModelSettings,
    OutputRejected,
    PermissionQuestion,
    ProviderError,
    RecoveryStatus,
    RetryOptions,
    StructuredOutput,
    ToolContext,
    ToolPermission,
    tool,
)
from holdfast.core.errors import ConfigurationError, ErrorCategory, ErrorInfo, OutputError
from holdfast.core.events import TurnOpened
from holdfast.core.messages import ToolCall
from holdfast.journal import InterruptedRun
from holdfast.middleware import AfterTurn, BeforeTurn
from holdfast.telemetry.observers import Observation
from holdfast.testing import CrashAt, ScriptedModel, SimulatedCrash


@dataclass
class Trip:
    city: str


@dataclass
class Hotel:
    name: str


@tool(effect="read")
def find(name: str) -> str:
    """Find a place."""
    return f"found {name}"


@tool(effect="read")
def book(city: str) -> str:
    """Book a trip."""
    return f"booked {city}"


TRIP = '{"city": "Porto"}'
CALL_BOOK = ToolCall("a", "book", '{"city": "Porto"}')


async def crash_at(
    append: int, journal: MemoryJournal, agent: dict[str, Any], run: dict[str, Any]
) -> None:
    """Run a turn of session "s" in a process that dies."""
    with pytest.raises(SimulatedCrash):
        await Agent(**agent, journal=CrashAt(journal, append)).run("Hi", session="s", **run)


async def test_a_turn_has_its_own_model_and_the_next_one_has_not() -> None:
    own, other = ScriptedModel("own", "own"), ScriptedModel("other")
    agent = Agent(own)
    assert (await agent.run("Hi", model=other)).output == "other"
    assert (await agent.run("Hi")).output == "own"


async def test_the_fallbacks_of_the_agent_hold_for_the_model_of_a_turn() -> None:
    down = ProviderError(
        "down", info=ErrorInfo(category=ErrorCategory.MODEL_NOT_FOUND, safe="down")
    )
    agent = Agent(ScriptedModel(), fallback=[ScriptedModel("rescued", "first", name="x:other")])
    result = await agent.run("Hi", model=ScriptedModel(down, name="x:broken"))
    assert (result.output, [one.target for one in result.tried]) == ("rescued", ["x:broken"])
    # A fallback may also be the first model of a turn.
    first = await agent.run("Hi", model=agent._engine.plan.models[1])
    assert first.output == "first"


async def test_settings_of_a_turn_replace_those_of_the_agent_field_by_field() -> None:
    model = ScriptedModel("a", "b")
    agent = Agent(model, settings=ModelSettings(max_tokens=50, temperature=1.0))
    await agent.run("Hi", settings=ModelSettings(temperature=0.0, seed=1))
    await agent.run("Hi")
    assert [one.settings for one in model.requests] == [
        ModelSettings(max_tokens=50, temperature=0.0, seed=1),
        ModelSettings(max_tokens=50, temperature=1.0),
    ]


async def test_a_turn_has_an_output_type_of_its_own() -> None:
    agent = Agent(ScriptedModel(TRIP, "text", '{"name": "Ritz"}'), output=Hotel)
    assert (await agent.run("Hi", output=Trip)).output == Trip("Porto")
    assert (await agent.run("Hi", output=str)).output == "text"
    assert (await agent.run("Hi")).output == Hotel("Ritz")


async def test_the_output_of_a_turn_is_repaired_under_its_own_limits() -> None:
    def never(_trip: Trip) -> None:
        raise OutputRejected("No.")

    agent = Agent(ScriptedModel(TRIP, TRIP, TRIP, TRIP))
    output = StructuredOutput(Trip, attempts=2, validators=[never])
    with pytest.raises(OutputError) as caught:
        await agent.run("Hi", output=output)
    assert getattr(caught.value.result, "iterations", 0) == 2
    repaired = Agent(ScriptedModel("{", TRIP))
    assert (await repaired.run("Hi", output=Trip)).output == Trip("Porto")


async def test_a_stream_shows_partials_of_the_output_of_its_turn() -> None:
    agent = Agent(ScriptedModel(TRIP))
    async with agent.stream("Hi", output=Trip) as run:
        partials = [partial async for partial in run.partials()]
        assert (await run.wait()).output == Trip("Porto")
    assert partials[-1] == {"city": "Porto"}


async def test_tools_of_a_turn_are_besides_those_of_the_agent() -> None:
    model = ScriptedModel(CALL_BOOK, "done", CALL_BOOK, "done")
    agent = Agent(model, tools=[find])
    with_book = await agent.run("Hi", tools=[book])
    without = await agent.run("Hi")
    names = [[spec.name for spec in one.tools] for one in model.requests]
    assert names == [["find", "book"], ["find", "book"], ["find"], ["find"]]
    assert with_book.messages[2].parts[0].text == "booked Porto"  # type: ignore[union-attr]
    assert "no such function" in without.messages[2].parts[0].text  # type: ignore[union-attr]


async def test_two_tools_of_one_name_are_refused_with_both_places() -> None:
    with pytest.raises(ConfigurationError) as caught:
        await Agent(ScriptedModel(), tools=[find]).run("Hi", tools=[find])
    assert str(caught.value) == (
        "toolsets: two tools are named 'find', in the tools of the agent and in tools=. "
        'Use prefixed("...") or renamed({...}) of one toolset'
    )


async def test_turns_of_a_session_may_differ() -> None:
    model = ScriptedModel(CALL_BOOK, "booked", TRIP, "bye")
    agent = Agent(model, journal=MemoryJournal())
    await agent.run("Book", session="s", tools=[book])
    assert (await agent.run("Where?", session="s", output=Trip)).output == Trip("Porto")
    last = await agent.run("Bye", session="s")
    assert (last.output, len(last.messages)) == ("bye", 8)
    assert [len(one.tools) for one in model.requests] == [1, 1, 0, 0]


async def test_equal_keywords_are_compiled_once() -> None:
    model = ScriptedModel(*["x"] * 4)
    agent = Agent(ScriptedModel())
    plans = agent._engine._plans  # REASON: a plan is not visible from outside
    for _ in range(2):
        await agent.run("Hi", model=model, tools=[find])
    await agent.run("Hi", model=model, tools=[book])
    assert len(plans._plans) == 2
    for number in range(100):
        await Agent.run(agent, "Hi", model=ScriptedModel(str(number)))
    assert len(plans._plans) == 16


async def test_runs_of_one_agent_at_once_do_not_share_their_keywords() -> None:
    agent = Agent(ScriptedModel())
    models = [ScriptedModel(ToolCall("a", "find", '{"name": "x"}'), str(n)) for n in range(20)]
    results = await asyncio.gather(*(agent.run("Hi", model=one, tools=[find]) for one in models))
    assert [one.output for one in results] == [str(n) for n in range(20)]


# --- metadata


async def test_metadata_reaches_hooks_tools_observers_and_the_result() -> None:
    seen: dict[str, object] = {}

    class Sees(Middleware):
        async def before_turn(self, context: BeforeTurn) -> None:
            seen["before_turn"] = context.metadata

        async def after_turn(self, context: AfterTurn) -> None:
            seen["after_turn"] = context.metadata

    @tool(effect="read")
    def look(context: ToolContext) -> str:
        """Look."""
        seen["tool"] = context.metadata
        return "ok"

    def observe(item: Observation) -> None:
        seen["observer"] = item.metadata

    inner = Agent(ScriptedModel(ToolCall("b", "look", "{}"), "in"), name="inner", tools=[look])
    model = ScriptedModel(ToolCall("a", "inner", '{"task": "go"}'), "done")
    agent = Agent(model, tools=[inner.as_tool()], middleware=[Sees()], observers=[observe])
    result = await agent.run("Hi", metadata={"user": "ann", "tags": ("a",)})
    wanted = {"user": "ann", "tags": ["a"]}
    assert seen == dict.fromkeys(("before_turn", "after_turn", "tool", "observer"), wanted)
    assert result.metadata == wanted


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ("ann", "metadata: must be a mapping, got str"),
        ({1: "x"}, "metadata: has a key that is int, not a text"),
        ({"a": {"b": object()}}, "metadata['a']['b']: JSON cannot express this object."),
        ({"a": [float("nan")]}, "metadata['a'][0]: JSON cannot express this float."),
        ({"a": 2**70}, "metadata['a']: JSON cannot express this int."),
        ({"a": "x" * 20_000}, "metadata: takes 20,008 bytes of at most 16,384."),
        ({"a": "\ud800"}, "metadata: has a text that is not valid Unicode"),
    ],
)
async def test_wrong_metadata_is_refused_before_anything_is_saved(
    metadata: Any, message: str
) -> None:
    journal, model = MemoryJournal(), ScriptedModel()
    with pytest.raises(ConfigurationError) as caught:
        await Agent(model, journal=journal).run("Hi", session="s", metadata=metadata)
    assert str(caught.value).startswith(message)
    assert (list(await journal.read("s")), model.requests) == ([], [])


async def test_metadata_that_contains_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    with pytest.raises(ConfigurationError, match="nested more than 16 levels deep"):
        await Agent(ScriptedModel()).run("Hi", metadata=loop)


# --- after a crash


async def test_a_resumed_turn_finds_what_can_be_saved() -> None:
    journal, seen = MemoryJournal(), []
    settings, limits = ModelSettings(temperature=0.0), Limits(iterations=3)
    given = {"settings": settings, "limits": limits, "metadata": {"user": "ann"}}
    await crash_at(1, journal, {"model": ScriptedModel("x")}, given)

    class Sees(Middleware):
        async def after_turn(self, context: AfterTurn) -> None:
            seen.append(context.metadata)

    model = ScriptedModel("done")
    result = await Agent(model, middleware=[Sees()], journal=journal).resume("s")
    assert model.requests[0].settings == settings
    assert result.metadata == {"user": "ann"}
    assert seen == [{"user": "ann"}]


async def test_a_model_by_name_is_found_again() -> None:
    journal = MemoryJournal()
    agent = Agent("ollama:one", base_url="http://127.0.0.1:9", journal=CrashAt(journal, 1))
    with pytest.raises(SimulatedCrash):
        await agent.run("Hi", session="s", model="ollama:two")
    opened = (await journal.read("s"))[0].event
    assert isinstance(opened, TurnOpened)
    assert opened.options is not None
    assert opened.options.model == "ollama:two"
    again = Agent("ollama:one", base_url="http://127.0.0.1:9", journal=journal, retry=None)
    plan = again._engine._plans.restore_plan(opened.options, _changes())
    assert plan.model.name == "ollama:two"
    assert plan.model.describe()["base_url"] == "http://127.0.0.1:9"
    for wrong in ("ollama:three", ScriptedModel()):
        with pytest.raises(ConfigurationError, match="this turn began with ollama:two"):
            await again.resume("s", model=wrong)  # type: ignore[arg-type]


def _changes() -> Any:
    from holdfast.runtime.turn_state.turn_input import NO_CHANGES

    return NO_CHANGES


KEYWORDS: list[tuple[str, Any, Any, str, str]] = [
    ("tools", [book], [find], "book", "find"),
    ("output", Trip, Hotel, "Trip", "Hotel"),
    ("model", ScriptedModel(name="x:one"), ScriptedModel(name="x:two"), "x:one", "x:two"),
    ("model", ModelAt("ollama:one"), ModelAt("ollama:two"), "ollama:one", "ollama:two"),
]


@pytest.mark.parametrize(("name", "given", "other", "shown", "shown_other"), KEYWORDS)
async def test_what_cannot_be_saved_must_be_passed_again(
    name: str, given: Any, other: Any, shown: str, shown_other: str
) -> None:
    journal = MemoryJournal()
    await crash_at(1, journal, {"model": ScriptedModel("x")}, {name: given})
    agent = Agent(ScriptedModel("done"), journal=journal)
    fix = f"Pass the same {name}= as when the turn began"
    with pytest.raises(ConfigurationError) as missing:
        await agent.resume("s")
    assert str(missing.value) == (
        f"{name}: is missing: this turn began with {shown}, which a journal cannot save. {fix}"
    )
    with pytest.raises(ConfigurationError) as different:
        await agent.resume("s", **{name: other})
    assert str(different.value) == (
        f"{name}: this turn began with {shown}, and now it is {shown_other}. {fix}"
    )
    (recovered,) = await agent.recover()
    assert recovered.status is RecoveryStatus.LEFT_OPEN
    assert str(recovered.error) == str(missing.value)
    assert len(await journal.read("s")) == 1  # the turn is still open


async def test_what_a_turn_did_not_begin_with_is_refused() -> None:
    journal = MemoryJournal()
    await crash_at(1, journal, {"model": ScriptedModel("x")}, {})
    agent = Agent(ScriptedModel("done"), journal=journal)
    with pytest.raises(ConfigurationError) as caught:
        await agent.resume("s", tools=[book])
    assert str(caught.value) == (
        "tools: was not passed when this turn began, and now is book. Leave it out"
    )
    assert (await agent.resume("s")).output == "done"


async def test_another_schema_of_the_same_name_is_another_tool() -> None:
    def make(kind: type, text: str) -> Any:
        def pay(amount: Any) -> str:
            return "paid"

        pay.__annotations__["amount"] = kind
        pay.__doc__ = text
        return tool(pay)

    journal = MemoryJournal()
    await crash_at(1, journal, {"model": ScriptedModel("x")}, {"tools": [make(int, "Pay.")]})
    agent = Agent(ScriptedModel("done"), journal=journal)
    with pytest.raises(ConfigurationError, match="with another schema"):
        await agent.resume("s", tools=[make(str, "Pay.")])
    # A better description does not keep a turn from continuing.
    assert (await agent.resume("s", tools=[make(int, "Pay an amount.")])).output == "done"


@pytest.mark.parametrize("append", range(1, 8))
@pytest.mark.parametrize("before", [False, True])
async def test_every_crash_point_ends_with_the_same_output(append: int, before: bool) -> None:
    def answer(request: Any) -> Any:
        said = sum(message.role == "assistant" for message in request.messages)
        return [CALL_BOOK, "{", TRIP][said]

    keywords: dict[str, Any] = {"tools": [book], "output": Trip}
    journal = MemoryJournal()
    died = CrashAt(journal, append, before=before)
    with contextlib.suppress(SimulatedCrash):
        await Agent(ScriptedModel(*[answer] * 9), journal=died).run("Hi", session="s", **keywords)
    agent = Agent(ScriptedModel(*[answer] * 9), journal=journal)
    if not await journal.read("s"):
        return
    result = await agent.resume("s", **keywords)
    assert result.output == Trip("Porto")
    assert [message.role for message in result.messages] == [
        "user", "assistant", "tool", "assistant", "user", "assistant",
    ]  # fmt: skip
    # A turn that has ended is read with its type, too.
    assert (await agent.resume("s", **keywords)).output == Trip("Porto")


async def test_a_repeated_request_needs_its_keywords_and_gives_its_output() -> None:
    journal = MemoryJournal()
    agent = Agent(ScriptedModel(TRIP, "bye"), journal=journal)
    first = await agent.run("Hi", session="s", request="r", output=Trip, metadata={"n": 1})
    await agent.run("Bye", session="s")
    again = await agent.run("Hi", session="s", request="r", output=Trip)
    assert (again.output, again.metadata) == (first.output, {"n": 1})
    with pytest.raises(ConfigurationError, match="output: is missing"):
        await agent.run("Hi", session="s", request="r")


async def test_a_turn_that_is_tried_again_has_the_same_options() -> None:
    journal = MemoryJournal()
    agent = Agent(ScriptedModel("{", "{", "{"), journal=journal, retry=RetryOptions())
    options = {"output": Trip, "settings": ModelSettings(seed=3), "metadata": {"n": 1}}
    with pytest.raises(OutputError):
        await agent.run("Hi", session="s", **options)  # type: ignore[call-overload]
    model = ScriptedModel(TRIP)
    again = Agent(model, journal=journal)
    result = await again.resume("s", output=Trip)
    assert (result.output, result.metadata) == (Trip("Porto"), {"n": 1})
    assert model.requests[0].settings.seed == 3
    opened = [one.event for one in await journal.read("s") if isinstance(one.event, TurnOpened)]
    assert opened[0].options == opened[1].options is not None


async def test_a_fork_and_a_new_turn_do_not_need_the_keywords_of_earlier_turns() -> None:
    agent = Agent(ScriptedModel(TRIP, "plain", "forked"), journal=MemoryJournal())
    await agent.run("Hi", session="s", output=Trip)
    assert (await agent.run("Hi", session="s")).output == "plain"
    await agent.sessions.fork("s", 1, to="f")
    assert (await agent.run("Hi", session="f")).output == "forked"


async def test_an_interrupted_turn_can_be_given_up_or_left_without_its_keywords() -> None:
    journal = MemoryJournal()
    await crash_at(1, journal, {"model": ScriptedModel("x")}, {"tools": [book]})
    agent = Agent(ScriptedModel("next"), journal=journal)
    assert (await agent.abandon("s")).status == "cancelled"
    await crash_at(1, journal, {"model": ScriptedModel("x")}, {"tools": [book]})
    assert (await agent.run("Hi", session="s")).output == "next"


async def test_recover_gives_each_run_what_it_began_with() -> None:
    journal = MemoryJournal()
    plain, typed = Agent(ScriptedModel("x"), journal=CrashAt(journal, 1)), None
    with pytest.raises(SimulatedCrash):
        await plain.run("Hi", session="plain")
    typed = Agent(ScriptedModel("x"), journal=CrashAt(journal, 1))
    with pytest.raises(SimulatedCrash):
        await typed.run("Hi", session="typed", output=Trip)
    agent = Agent(ScriptedModel(TRIP, TRIP), journal=journal)
    recovered = {one.run_id: one.result for one in await agent.recover(output=Trip)}
    assert recovered["plain"] is not None
    assert recovered["plain"].output == TRIP
    assert recovered["typed"] is not None
    assert recovered["typed"].output == Trip("Porto")


# --- deps of a run that continues


class Db:
    def __init__(self, user: object) -> None:
        self.user = user


@tool(effect="read")
def who(context: ToolContext[Db]) -> str:
    """Who is asking?"""
    return str(context.deps.user)


async def test_deps_may_be_a_function_of_the_run() -> None:
    journal = MemoryJournal()
    for user in ("ann", "bob"):
        agent = Agent(ScriptedModel("x"), deps_type=Db, tools=[who], journal=CrashAt(journal, 1))
        with pytest.raises(SimulatedCrash):
            await agent.run("Hi", session=user, deps=Db(user), metadata={"user": user})

    async def open_db(run: InterruptedRun) -> Db:
        await asyncio.sleep(0)
        assert run.run_id == run.metadata["user"]
        return Db(run.metadata["user"])

    def answer(request: Any) -> Any:
        last = request.messages[-1]
        return last.parts[0].text if last.role == "tool" else ToolCall("a", "who", "{}")

    agent = Agent(ScriptedModel(*[answer] * 4), deps_type=Db, tools=[who], journal=journal)
    recovered = await agent.recover(deps=open_db)
    assert {one.run_id: one.result and one.result.output for one in recovered} == {
        "ann": "ann",
        "bob": "bob",
    }


async def test_a_function_for_deps_that_returns_something_else_leaves_the_run_open() -> None:
    journal = MemoryJournal()
    await crash_at(1, journal, {"model": ScriptedModel("x"), "deps_type": Db}, {"deps": Db("a")})
    agent = Agent(ScriptedModel("done"), deps_type=Db, journal=journal)
    (wrong,) = await agent.recover(deps=lambda run: "db")  # type: ignore[arg-type, return-value]
    assert (wrong.status, str(wrong.error)) == ("left_open", "deps: must be Db, got str")

    def fails(_run: InterruptedRun) -> Db:
        raise OSError("no database")

    (failed,) = await agent.recover(deps=fails)
    assert (failed.status, type(failed.error)) == ("left_open", OSError)
    assert (await agent.resume("s", deps=lambda run: Db(run.run_id))).output == "done"


async def test_a_waiting_call_of_a_tool_of_the_turn_is_answered_by_another_process() -> None:
    @tool(effect="write")
    def pay(amount: int, to: str = "Ana") -> str:
        """Pay somebody."""
        return f"paid {amount} to {to}"

    def make(*script: Any) -> Agent[str, None]:
        return Agent(
            ScriptedModel(*script),
            middleware=[ToolPermission(ask=["pay"])],
            on_wait="suspend",
            journal=journal,
        )

    journal = MemoryJournal()
    first = make(ToolCall("a", "pay", '{"amount": 5}'))
    waiting = await first.run("Pay.", session="s", tools=[pay])
    assert waiting.status == "waiting"
    (question,) = await make().questions("s")
    assert isinstance(question, PermissionQuestion)
    # Nobody here can say what the tool would receive.
    with pytest.raises(ConfigurationError, match="arguments: cannot be checked: 'pay' is a tool"):
        await make().answer("s", question.approve(arguments={"amount": 7}))
    assert await make().answer("s", question.approve())
    result = await make("done").resume("s", tools=[pay])
    assert result.messages[2].parts[0].text == "paid 5 to Ana"  # type: ignore[union-attr]
    assert result.output == "done"
