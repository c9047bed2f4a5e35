"""Tools that the caller of a turn runs: saved with the turn, asked as questions, answered from anywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast import Agent, Status, ToolPermission, assistant, user
from holdfast.core.messages import Message, ToolCall
from holdfast.core.model_request import ModelRequest
from holdfast.core.questions import PermissionQuestion
from holdfast.errors import ConfigurationError
from holdfast.journal import MemoryJournal, SqliteJournal
from holdfast.testing import ScriptedModel
from holdfast.tools import ClientTool, ClientToolQuestion, JsonSchema

WHERE = ClientTool(
    "locate",
    "Where the user is.",
    {"type": "object", "properties": {"exact": {"type": "boolean"}}, "required": ["exact"]},
)
TRIP = JsonSchema(
    {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    name="trip",
)


def call(name: str = "locate", arguments: str = '{"exact": true}', at: str = "c1") -> ToolCall:
    return ToolCall(at, name, arguments)


def last_result(request: ModelRequest) -> tuple[str, bool]:
    results = request.messages[-1].parts
    return results[0].text, results[0].is_error  # type: ignore[union-attr]


async def test_a_call_waits_for_its_caller_and_goes_on_in_another_process(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "a.db")
    first = Agent(ScriptedModel(call()), journal=journal, on_wait="suspend")
    waiting = await first.run("Where am I?", session="ada", tools=[WHERE])
    assert waiting.status is Status.WAITING
    journal.close()
    model = ScriptedModel("You are in Porto.")
    second = Agent(model, journal=SqliteJournal(tmp_path / "a.db"), on_wait="suspend")
    (question,) = await second.questions("ada")
    assert isinstance(question, ClientToolQuestion)
    assert (question.tool, question.arguments, question.call_id) == (
        "locate",
        {"exact": True},
        "c1",
    )
    assert await second.answer("ada", question.give("Porto", by="page"))
    done = await second.resume("ada")
    assert done.output == "You are in Porto."
    assert last_result(model.requests[0]) == ("Porto", False)
    assert [tool.name for tool in model.requests[0].tools] == ["locate"]


async def test_a_reader_of_the_stream_answers() -> None:
    agent = Agent(ScriptedModel(call(), "Porto it is."))
    async with agent.stream("Where am I?", tools=[WHERE]) as run:
        async for item in run:
            if isinstance(item, ClientToolQuestion):
                assert run.answer(item.give("Porto"))
    assert run.result.output == "Porto it is."


async def test_the_error_of_a_client_is_an_error_for_the_model() -> None:
    model = ScriptedModel(call(), "I cannot know.")
    agent = Agent(model, journal=MemoryJournal(), on_wait="suspend")
    await agent.run("Where am I?", session="ada", tools=[WHERE])
    (question,) = await agent.questions("ada")
    await agent.answer("ada", question.give("no permission", is_error=True))
    await agent.resume("ada")
    text, is_error = last_result(model.requests[1])
    assert is_error
    assert "no permission" in text


@pytest.mark.parametrize("arguments", ["", "[1]", "{", "{}", '{"exact": 1, "exact": 2}'])
async def test_wrong_arguments_go_back_to_the_model_and_nobody_is_asked(arguments: str) -> None:
    model = ScriptedModel(call(arguments=arguments), "Sorry.")
    agent = Agent(model, journal=MemoryJournal(), on_wait="suspend")
    assert (await agent.run("Where?", tools=[WHERE])).output == "Sorry."
    text, is_error = last_result(model.requests[1])
    assert is_error
    assert "exact" in text or "JSON" in text


PICK = ClientTool(
    "pick",
    "Pick a seat.",
    {
        "$defs": {"row": {"type": "integer", "minimum": 1, "maximum": 30}},
        "type": "object",
        "properties": {
            "row": {"$ref": "#/$defs/row"},
            "seat": {"enum": ["A", "B"]},
            "notes": {"type": "array", "items": {"type": "string", "maxLength": 3}},
            "mail": {"type": "string", "pattern": "^(?!x)"},
        },
        "required": ["row"],
        "additionalProperties": False,
    },
)
"""A pattern that looks ahead is not checked here: the caller's tool does that."""


async def test_a_call_is_checked_by_the_schema_in_the_words_of_a_tool_before_anybody_is_asked() -> (
    None
):
    wrong = '{"row": "3", "seat": "C", "notes": ["long", 1], "exit": true}'
    right = '{"row": 3, "seat": "A", "notes": ["ok"], "mail": "x@example.org"}'
    model = ScriptedModel(call("pick", wrong), call("pick", right), "Done.")
    agent = Agent(model, journal=MemoryJournal(), on_wait="suspend")
    assert (await agent.run("Sit.", session="ada", tools=[PICK])).status is Status.WAITING
    text, is_error = last_result(model.requests[1])
    assert is_error
    assert text == (
        "Error: Function 'pick' was not run: its arguments are invalid:\n"
        '- row: must be an integer, at least 1, at most 30; got "3"\n'
        '- seat: must be one of "A", "B"; got "C"\n'
        '- notes[0]: must have at most 3 characters; got "long", 4 characters\n'
        "- notes[1]: must be a string, at most 3 characters; got 1\n"
        "- exit: is not a known name; the names are: row, seat, notes, mail\n"
        "Correct them and call it again."
    )
    (question,) = await agent.questions("ada")
    assert isinstance(question, ClientToolQuestion)
    assert question.arguments == json.loads(right)


@pytest.mark.slow  # takes half a second or more
async def test_the_check_of_a_call_ends_after_a_number_of_steps() -> None:
    many = {"type": "array", "items": {"anyOf": [{"const": at} for at in range(900)]}}
    tool = ClientTool("pick", "", {"type": "object", "properties": {"a": many}})
    written = json.dumps({"a": [*range(1000, 2000)]})
    model = ScriptedModel(call("pick", written), "Sorry.")
    assert (await Agent(model).run("Go.", tools=[tool])).output == "Sorry."
    assert (
        "cannot be checked against its schema in 250,000 steps" in last_result(model.requests[1])[0]
    )


async def test_arguments_that_a_person_writes_are_checked_by_the_schema() -> None:
    model = ScriptedModel(call("pick", '{"row": 3}'), "Done.")
    agent = Agent(
        model,
        middleware=[ToolPermission(ask=["pick"])],
        journal=MemoryJournal(),
        on_wait="suspend",
    )
    await agent.run("Sit.", session="ada", tools=[PICK])
    (question,) = await agent.questions("ada")
    assert isinstance(question, PermissionQuestion)
    await agent.answer("ada", question.approve(arguments={"row": 31}))
    assert (await agent.resume("ada")).output == "Done."
    assert "- row: must be at most 30; got 31" in last_result(model.requests[1])[0]


async def test_client_tools_stand_beside_those_of_the_agent_and_of_the_run() -> None:
    def weather(city: str) -> str:
        return f"sun in {city}"

    def clock() -> str:
        return "noon"

    calls = [call(), call("weather", '{"city": "Porto"}', "c2"), call("clock", "{}", "c3")]
    model = ScriptedModel(calls, "Done.")
    agent = Agent(model, tools=[weather], journal=MemoryJournal(), on_wait="suspend")
    await agent.run("Go.", session="ada", tools=[WHERE, clock])
    (question,) = await agent.questions("ada")
    await agent.answer("ada", question.give("Porto"))
    with pytest.raises(ConfigurationError, match="tools: is missing"):
        await agent.resume("ada")
    assert (await agent.resume("ada", tools=[clock])).output == "Done."
    results = model.requests[1].messages[-1].parts
    assert [part.text for part in results] == ["Porto", "sun in Porto", "noon"]  # type: ignore[union-attr]


async def test_a_name_that_the_agent_has_is_refused() -> None:
    def locate() -> str:
        return ""

    agent = Agent(ScriptedModel("no"), tools=[locate])
    with pytest.raises(ConfigurationError, match="two tools are named 'locate'"):
        await agent.run("Go.", tools=[WHERE])


@pytest.mark.parametrize(
    ("field", "tool"),
    [
        ("name", {"name": "a b"}),
        ("parameters", {"name": "a", "parameters": {"type": "array"}}),
        ("description", {"name": "a", "description": 3}),
    ],
)
def test_a_wrong_client_tool_names_the_field(field: str, tool: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=f"ClientTool.{field}"):
        ClientTool(**tool)  # type: ignore[arg-type]


async def test_an_agent_may_have_client_tools_itself() -> None:
    agent = Agent(ScriptedModel(call(), "Porto."), tools=[WHERE])
    async with agent.stream("Where?") as run:
        async for item in run:
            if isinstance(item, ClientToolQuestion):
                run.answer(item.give("Porto"))
    assert run.result.output == "Porto."


async def test_an_output_schema_is_saved_checked_and_restored() -> None:
    model = ScriptedModel(call(), '{"town": 1}', '{"city": "Porto"}')
    agent = Agent(model, journal=MemoryJournal(), on_wait="suspend")
    await agent.run("Where?", session="ada", tools=[WHERE], output=TRIP)
    (question,) = await agent.questions("ada")
    await agent.answer("ada", question.give("Porto"))
    done = await agent.resume("ada")
    assert done.output == {"city": "Porto"}  # type: ignore[comparison-overlap]
    assert model.requests[1].output is not None
    assert model.requests[1].output.name == "trip"


def test_a_schema_that_allows_anything_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="allows any answer"):
        JsonSchema({})


async def test_instructions_of_a_run_follow_those_of_the_agent_also_after_a_restart() -> None:
    model = ScriptedModel(call(), "Yes.", "No.")
    agent = Agent(model, instructions="Be brief.", journal=MemoryJournal(), on_wait="suspend")
    await agent.run("Where?", session="ada", tools=[WHERE], instructions="Speak Portuguese.")
    (question,) = await agent.questions("ada")
    await agent.answer("ada", question.give("Porto"))
    await agent.resume("ada")
    await agent.run("And now?", session="ada")
    assert [request.instructions for request in model.requests] == [
        "Be brief.\n\nSpeak Portuguese.",
        "Be brief.\n\nSpeak Portuguese.",
        "Be brief.",
    ]


async def test_a_new_session_may_begin_with_a_history() -> None:
    model = ScriptedModel("Ada.", "Still Ada.")
    agent = Agent(model, journal=MemoryJournal())
    history = (user("I am Ada."), assistant("Hello!"))
    await agent.run("Who am I?", session="ada", history=history)
    await agent.run("And now?", session="ada")
    assert texts(model.requests[1].messages) == [
        "I am Ada.",
        "Hello!",
        "Who am I?",
        "Ada.",
        "And now?",
    ]
    with pytest.raises(
        ConfigurationError, match="history: was passed for a session that has turns"
    ):
        await agent.run("Again.", session="ada", history=history)


async def test_a_session_with_a_history_is_read_by_another_process(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "a.db")
    agent = Agent(ScriptedModel("Ada."), journal=journal)
    await agent.run("Who am I?", session="ada", history=(user("I am Ada."), assistant("Hello!")))
    journal.close()
    model = ScriptedModel("Still Ada.")
    other = Agent(model, journal=SqliteJournal(tmp_path / "a.db"))
    await other.run("And now?", session="ada")
    assert texts(model.requests[0].messages)[:2] == ["I am Ada.", "Hello!"]


def texts(messages: object) -> list[str]:
    assert isinstance(messages, tuple)
    kept: tuple[Message, ...] = messages
    return [message.text for message in kept]
