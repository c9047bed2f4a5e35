"""Output functions: called once with validated arguments, journaled like a tool, typed, resumable."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from holdfast import (
    Agent,
    HoldfastError,
    MemoryJournal,
    OutputError,
    OutputRejected,
    StructuredOutput,
    Text,
    ToolCall,
    ToolContext,
    ToolError,
    tool,
)
from holdfast.compat import AgentBuilder
from holdfast.core.effects import tool_key
from holdfast.core.machine import SessionMachine
from holdfast.core.session_state import Phase
from holdfast.errors import ConfigurationError
from holdfast.events import OutputChecked, ToolFinished, ToolsBegun
from holdfast.journal.encoding import decode, encode, record_of, to_line
from holdfast.middleware import Deny, Middleware, Replace, ToolPermission
from holdfast.testing import CrashAt, ScriptedModel, SimulatedCrash

ROOM = '{"room": "blue", "nights": 2}'
BIG = '{"room": "blue", "nights": 9}'


@dataclass
class Booking:
    number: int
    room: str


@dataclass
class Refusal:
    reason: str


class Hotel:
    """What was booked, across all processes."""

    def __init__(self) -> None:
        self.booked: list[str] = []

    async def book(self, room: str, nights: int) -> Booking:
        """Book a room.

        Args:
            room: the colour of the door.
            nights: at most 3.
        """
        if nights > 3:
            raise OutputRejected("At most 3 nights.")
        self.booked.append(room)
        return Booking(len(self.booked), room)


async def events_of(journal: MemoryJournal, run: str = "s") -> list[Any]:
    return [record.event for record in await journal.read(run)]


async def test_the_return_value_is_the_output() -> None:
    hotel, journal = Hotel(), MemoryJournal()
    agent = Agent(ScriptedModel(ROOM), output=hotel.book, journal=journal)
    result = await agent.run("Book", session="s")
    assert (result.output, result.text, result.parsed_by) == (Booking(1, "blue"), ROOM, "strict")
    assert [type(event).__name__ for event in await events_of(journal)] == [
        "TurnOpened", "ModelReplied", "OutputChecked", "ToolsBegun", "ToolFinished", "TurnClosed",
    ]  # fmt: skip
    again = await agent.resume("s")
    assert (again.output, hotel.booked) == (Booking(1, "blue"), ["blue"])


async def test_another_process_reads_the_value_from_the_journal() -> None:
    hotel, journal = Hotel(), MemoryJournal()
    await Agent(ScriptedModel(ROOM), output=hotel.book, journal=journal).run("Book", request="r")
    other = Agent(ScriptedModel(), output=hotel.book, journal=journal)
    assert (await other.run("Book", request="r")).output == Booking(1, "blue")
    assert hotel.booked == ["blue"]


async def test_a_sync_function_runs_in_a_thread_and_sees_the_context() -> None:
    def greet(context: ToolContext[dict[str, str]], name: str) -> str:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return f"{context.deps['word']} {name} ({context.key})"

    agent = Agent(ScriptedModel('{"name": "Ana"}'), output=greet, deps_type=dict[str, str])
    result = await agent.run("Hi", deps={"word": "Hello"})
    assert result.output == "Hello Ana (t1.i0.tool.0)"


async def test_a_value_without_a_json_form_is_returned_and_a_resume_says_that_it_is_lost() -> None:
    thing, journal = object(), MemoryJournal()

    def make(size: int) -> Any:
        return thing if size else None

    agent = Agent(ScriptedModel('{"size": 1}'), output=make, journal=journal)
    assert (await agent.run("Make", request="r")).output is thing
    with pytest.raises(OutputError, match="without a JSON form"):
        await Agent(ScriptedModel(), output=make, journal=journal).run("Make", request="r")


async def test_a_large_value_is_saved_whole() -> None:
    def repeat(times: int) -> str:
        return "x" * times

    journal = MemoryJournal()
    agent = Agent(ScriptedModel('{"times": 300000}'), output=repeat, journal=journal)
    assert len((await agent.run("Go", request="r")).output) == 300_000
    other = Agent(ScriptedModel(), output=repeat, journal=journal)
    assert len((await other.run("Go", request="r")).output) == 300_000


@pytest.mark.parametrize("mode", ["native", "tool", "prompt"])
@pytest.mark.parametrize("error", [OutputRejected, ToolError])
async def test_a_rejection_lets_the_model_correct_its_arguments(mode: Any, error: Any) -> None:
    def book(room: str, nights: int) -> str:
        if nights > 3:
            raise error("At most 3 nights.")
        return room

    script = (
        [ToolCall("a", "book", text) for text in (BIG, ROOM)] if mode == "tool" else [BIG, ROOM]
    )
    model = ScriptedModel(*script)
    agent = Agent(model, output=StructuredOutput(book, mode=mode))
    result = await agent.run("Book")
    assert result.output == "blue"
    assert "At most 3 nights." in model.requests[1].messages[-1].text


async def test_rejections_are_limited_like_outputs_that_do_not_fit() -> None:
    def book(room: str) -> str:
        raise OutputRejected(f"No {room} room.")

    agent = Agent(
        ScriptedModel(*['{"room": "red"}'] * 3), output=StructuredOutput(book, attempts=3)
    )
    with pytest.raises(OutputError, match="3 tries: No red room"):
        await agent.run("Book")


async def test_arguments_that_do_not_fit_never_reach_the_function() -> None:
    hotel = Hotel()
    model = ScriptedModel('{"room": "blue"}', '{"room": "blue", "nights": "many"}', "Sure!", ROOM)
    output = StructuredOutput(hotel.book, attempts=4)
    assert (await Agent(model, output=output).run("Book")).output == Booking(1, "blue")
    assert hotel.booked == ["blue"]


async def test_an_exception_fails_the_turn_and_it_is_not_tried_again() -> None:
    calls: list[str] = []

    def book(room: str) -> str:
        calls.append(room)
        raise ValueError("a secret of the hotel")

    journal = MemoryJournal()
    agent = Agent(ScriptedModel(*['{"room": "blue"}'] * 3), output=book, journal=journal)
    with pytest.raises(HoldfastError) as caught:
        await agent.run("Book", session="s")
    assert "a secret" not in str(caught.value)
    with pytest.raises(HoldfastError):
        await agent.resume("s")
    assert calls == ["blue"]


@pytest.mark.slow  # takes half a second or more
async def test_a_failure_before_anything_happened_may_be_tried_again() -> None:
    calls: list[str] = []

    async def book(room: str) -> str:
        calls.append(room)
        if len(calls) == 1:
            raise ConnectionRefusedError("not sent")
        return room

    agent = Agent(ScriptedModel('{"room": "blue"}'), output=book)
    assert (await agent.run("Book")).output == "blue"
    assert calls == ["blue", "blue"]


async def test_a_timeout_is_in_doubt_and_the_next_turn_knows() -> None:
    calls: list[str] = []

    @tool(timeout=0.02)
    async def book(room: str) -> str:
        calls.append(room)
        await asyncio.sleep(5)
        return room

    model = ScriptedModel('{"room": "blue"}', '{"room": "red"}')
    agent = Agent(model, output=book, journal=MemoryJournal())
    with pytest.raises(HoldfastError):
        await agent.run("Book", session="s")
    assert calls == ["blue"]
    with pytest.raises(HoldfastError):
        await agent.run("Again?", session="s")
    said = [message.text for message in model.requests[1].messages]
    assert (said[0], said[-1]) == ("Book", "Again?")
    assert "may have taken effect" in said[-2]


class TestLists:
    async def test_the_model_chooses_a_function_or_a_type(self) -> None:
        hotel = Hotel()
        chosen = ScriptedModel('{"book": {"room": "blue", "nights": 2}}', '{"reason": "full"}')
        agent = Agent[Booking | Refusal](chosen, output=[hotel.book, Refusal])
        assert (await agent.run("Book")).output == Booking(1, "blue")
        assert (await agent.run("Book")).output == Refusal("full")

    async def test_each_function_is_a_tool_by_its_own_name(self) -> None:
        def cancel(number: int) -> str:
            """Cancel a booking."""
            return f"cancelled {number}"

        model = ScriptedModel(ToolCall("a", "cancel", '{"number": 7}'))
        output = StructuredOutput[object]([Hotel().book, cancel, Refusal], mode="tool")
        result = await Agent(model, output=output).run("Cancel 7")
        assert result.output == "cancelled 7"
        tools = {one.name: one.description for one in model.requests[0].tools}
        assert list(tools) == ["book", "cancel", "final_answer_Refusal"]
        assert tools["cancel"].endswith("Cancel a booking.")

    def test_two_functions_of_one_name_are_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="two functions are named 'book'"):
            Agent("ollama:a", output=[Hotel().book, Hotel().book])

    def test_a_tool_of_the_same_name_is_refused(self) -> None:
        def book(room: str) -> str:
            return room

        with pytest.raises(ConfigurationError, match="'book' is the name by which"):
            Agent("ollama:a", output=book, tools=[book])


class TestWrongFunctions:
    def test_a_generator(self) -> None:
        def count(to: int) -> Any:
            yield to

        with pytest.raises(ConfigurationError, match="is a generator"):
            Agent("ollama:a", output=count)

    def test_a_lambda_has_no_name(self) -> None:
        with pytest.raises(ConfigurationError, match="lambda"):
            Agent("ollama:a", output=lambda a: a)

    def test_an_argument_without_an_annotation(self) -> None:
        def book(room) -> str:  # type: ignore[no-untyped-def]
            return str(room)

        with pytest.raises(ConfigurationError, match="argument 'room'"):
            Agent("ollama:a", output=book)


async def test_a_call_by_name_that_was_not_offered_is_the_output_and_not_a_tool() -> None:
    hotel = Hotel()
    model = ScriptedModel(ToolCall("a", "book", ROOM))
    result = await Agent(model, output=hotel.book).run("Book")
    assert (result.output, hotel.booked) == (Booking(1, "blue"), ["blue"])


async def test_a_validator_sees_the_call_before_the_function_runs() -> None:
    hotel, seen = Hotel(), list[ToolCall]()

    def check(call: ToolCall) -> None:
        seen.append(call)
        if len(seen) == 1:
            raise OutputRejected("Choose again.")

    output = StructuredOutput(hotel.book, validators=[check])
    result = await Agent(ScriptedModel(ROOM, ROOM), output=output).run("Book")
    assert (result.output, hotel.booked) == (Booking(1, "blue"), ["blue"])
    assert [call.name for call in seen] == ["book", "book"]


class TestCrashes:
    """Opened, replied, checked, begun, called, closed: a crash at each of them."""

    @pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
    @pytest.mark.parametrize("moment", range(1, 7))
    async def test_a_write_is_never_called_twice(self, moment: int, before: bool) -> None:
        hotel, journal = Hotel(), MemoryJournal()

        def agent(where: Any) -> Agent[Booking]:
            return Agent(ScriptedModel(ROOM, ROOM), output=hotel.book, journal=where)

        with pytest.raises(SimulatedCrash):
            await agent(CrashAt(journal, moment, before=before)).run("Book", session="s")
        in_doubt = hotel.booked == ["blue"] and not any(
            isinstance(event, ToolFinished) for event in await events_of(journal)
        )
        begun = any(isinstance(event, ToolsBegun) for event in await events_of(journal))
        if not await journal.read("s"):
            await agent(journal).run("Book", session="s")
        elif in_doubt or (begun and not hotel.booked):
            for _ in range(2):  # its error is raised again, and nothing is called
                with pytest.raises(HoldfastError, match="Whether it took effect is unknown"):
                    await agent(journal).resume("s")
            assert len(hotel.booked) == in_doubt
            return
        else:
            assert (await agent(journal).resume("s")).output == Booking(1, "blue")
        assert hotel.booked == ["blue"]

    async def test_an_idempotent_function_in_doubt_is_called_again(self) -> None:
        hotel, journal = Hotel(), MemoryJournal()
        book = tool(effect="idempotent")(hotel.book)
        dying = Agent(ScriptedModel(ROOM), output=book, journal=CrashAt(journal, 5, before=True))
        with pytest.raises(SimulatedCrash):
            await dying.run("Go", session="s")
        result = await Agent(ScriptedModel(), output=book, journal=journal).resume("s")
        assert (result.output, hotel.booked) == (Booking(2, "blue"), ["blue", "blue"])

    async def test_a_recovery_closes_the_turn_in_doubt_once(self) -> None:
        hotel, journal = Hotel(), MemoryJournal()
        crashing = CrashAt(journal, 5, before=True)
        dying = Agent(ScriptedModel(ROOM), output=hotel.book, journal=crashing)
        with pytest.raises(SimulatedCrash):
            await dying.run("Go", session="s")
        agent = Agent(ScriptedModel(), output=hotel.book, journal=journal)
        (recovered,) = await agent.recover()
        assert (recovered.status, hotel.booked) == ("failed", ["blue"])
        assert await agent.recover() == []


class TestCancellation:
    async def test_a_cancelled_call_is_in_doubt_and_is_not_tried_again(self) -> None:
        started = asyncio.Event()

        async def book(room: str) -> str:
            started.set()
            await asyncio.sleep(5)
            return room

        journal = MemoryJournal()
        model = ScriptedModel('{"room": "blue"}', '{"room": "red"}')
        agent = Agent(model, output=book, journal=journal)
        task = asyncio.create_task(agent.run("Book", session="s"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(HoldfastError, match="cancelled"):
            await agent.resume("s")
        assert len(model.requests) == 1
        history = (await journal.read("s"))[-2].event
        assert history.started == (tool_key(1, 0, 0),)


class TestHooks:
    async def test_a_rule_asks_before_the_function_and_a_denial_is_read_by_the_model(self) -> None:
        hotel = Hotel()

        class NoBlue(Middleware):
            async def before_tool(self, context: Any) -> Deny | None:
                assert context.call.name == "book"
                return Deny("Not the blue room.") if "blue" in context.call.arguments else None

        model = ScriptedModel(ROOM, '{"room": "red", "nights": 1}')
        result = await Agent(model, output=hotel.book, middleware=[NoBlue()]).run("Book")
        assert result.output == Booking(1, "red")
        assert "Not the blue room." in model.requests[1].messages[-1].text

    async def test_a_permission_is_asked_and_an_answer_after_a_restart_counts(self) -> None:
        hotel, journal = Hotel(), MemoryJournal()

        def agent(*script: str) -> Agent[Booking]:
            rules = ToolPermission(ask=["book"])
            return Agent(
                ScriptedModel(*script),
                output=hotel.book,
                middleware=[rules],
                journal=journal,
                on_wait="suspend",
            )

        waiting = await agent(ROOM).run("Book", session="s")
        assert (waiting.status, hotel.booked) == ("waiting", [])
        other = agent()
        (question,) = await other.questions("s")
        assert await other.answer("s", question.approve())
        assert (await other.resume("s")).output == Booking(1, "blue")

    @pytest.mark.parametrize("hook", ["before_tool", "after_tool", "wrap_tool", "wrap_attempt"])
    async def test_a_hook_may_replace_the_value(self, hook: str) -> None:
        masked = '{"number": 0, "room": "hidden"}'

        async def replace(_: Any, context: Any, call_next: Any = None) -> Any:
            if call_next is None:
                return Replace(masked)
            done = await (call_next() if hook == "wrap_attempt" else call_next(context))
            return structs.replace(done, content=(Text(masked),))

        mask = type("Mask", (Middleware,), {hook: replace})()
        hotel = Hotel()
        result = await Agent(ScriptedModel(ROOM), output=hotel.book, middleware=[mask]).run("Go")
        assert result.output == Booking(0, "hidden")

    async def test_hooks_before_tools_and_after_the_iteration_see_the_call(self) -> None:
        seen: list[Any] = []

        class Watch(Middleware):
            async def before_tools(self, context: Any) -> None:
                seen.append([call.name for call in context.calls])

            async def after_iteration(self, context: Any) -> None:
                seen.append((len(context.results), context.is_final_iteration))

        hotel = Hotel()
        await Agent(ScriptedModel(ROOM), output=hotel.book, middleware=[Watch()]).run("Book")
        assert seen == [["book"], (1, True)]


async def test_tools_run_first_and_the_stream_shows_the_call() -> None:
    hotel = Hotel()

    def free(room: str) -> bool:
        return bool(room)

    model = ScriptedModel(ToolCall("a", "free", '{"room": "blue"}'), ROOM)
    async with Agent(model, output=hotel.book, tools=[free]).stream("Book") as run:
        items = [item async for item in run]
    assert run.result.output == Booking(1, "blue")
    (checked,) = [item for item in items if isinstance(item, OutputChecked)]
    assert checked.call == ToolCall("output", "book", ROOM)
    assert [item.key for item in items if isinstance(item, ToolFinished)] == [
        "t1.i0.tool.0", "t1.i1.tool.0",
    ]  # fmt: skip


async def test_an_agent_hands_over_to_another_agent_as_its_output() -> None:
    expert = Agent(ScriptedModel("The answer of the expert."), name="expert")
    model = ScriptedModel('{"task": "Explain."}')
    result = await Agent(model, output=expert.as_tool(), journal=MemoryJournal()).run("Why?")
    assert result.output == "The answer of the expert."


async def test_the_fold_of_the_journal_gives_the_same_state_with_an_output_function() -> None:
    hotel, journal = Hotel(), MemoryJournal()
    agent = Agent(ScriptedModel(BIG, ROOM), output=hotel.book, journal=journal)
    await agent.run("Book", session="s")
    machine = SessionMachine()
    for number, record in enumerate(await journal.read("s"), 1):
        line = encode(to_line("s", number, record))
        machine.apply(record_of(decode(line)).event)
    assert machine.phase is Phase.IDLE
    assert [message.role for message in machine.transcript] == ["user", "assistant"] * 2
    assert machine.take_snapshot() is not None


async def test_a_file_and_the_builder_take_a_function(tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text(
        'model = "ollama:a"\noutput = "tests.runtime.test_output_functions:double"\n'
    )
    assert "double" in Agent.from_file(tmp_path / "agent.toml").describe()
    built = AgentBuilder().with_model(ScriptedModel('{"number": 4}')).with_output(double).build()
    assert (await built.run("Go")).output == 8


def double(number: int) -> int:
    return number * 2
