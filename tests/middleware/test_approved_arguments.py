"""The arguments that a person approved are those that run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from pydantic import AfterValidator, Field

from holdfast import (
    Agent,
    Approved,
    MemoryJournal,
    Middleware,
    PermissionQuestion,
    Question,
    SqliteJournal,
    ToolPermission,
    tool,
)
from holdfast.core.messages import ToolCall, ToolResult
from holdfast.middleware import Rule
from holdfast.testing import ScriptedModel

got: list[Any] = []
made: list[int] = []


def number() -> int:
    made.append(len(made))
    return made[-1]


def doubled(value: int) -> int:
    return 2 * value


@tool(effect="write")
def stamp(text: str, mark: Annotated[int, Field(default_factory=number)]) -> str:
    """Stamp."""
    got.append((text, mark))
    return "stamped"


@tool(effect="write")
def pay(euros: Annotated[int, AfterValidator(doubled)], note: str = "") -> str:
    """Pay."""
    got.append(euros)
    return "paid"


@tool(effect="write")
def wipe(path: str) -> str:
    """Wipe."""
    got.append(path)
    return "wiped"


@tool(effect="write")
def remove(path: str) -> str:
    """Remove."""
    got.append(path)
    return "removed"


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    got.clear()
    made.clear()


@pytest.fixture(params=["memory", "sqlite"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "memory":
        yield MemoryJournal()
        return
    with SqliteJournal(tmp_path / "runs.db") as opened:
        yield opened


def worker(journal: Any, *script: Any, rules: Any = None) -> Agent[str]:
    return Agent(
        ScriptedModel(*script),
        tools=[stamp, pay],
        middleware=[rules or ToolPermission(ask=["*"])],
        journal=journal,
        on_wait="suspend",
    )


STAMP = ToolCall("1", "stamp", '{"text": "a"}')


async def only_question(agent: Agent[str]) -> PermissionQuestion:
    (question,) = await agent.questions("ada")
    assert isinstance(question, PermissionQuestion)
    return question


async def test_a_suspended_call_runs_with_the_arguments_that_were_shown(journal: Any) -> None:
    await worker(journal, STAMP).run("Stamp it.", session="ada")
    question = await only_question(worker(journal))
    assert question.arguments == {"text": "a", "mark": 0}
    assert await worker(journal).answer("ada", question.approve())
    result = await worker(journal, "Done.").resume("ada")
    assert result.text == "Done."
    assert got == [("a", 0)]


async def test_a_suspended_call_is_not_asked_about_again_at_each_resume(journal: Any) -> None:
    await worker(journal, STAMP).run("Stamp it.", session="ada")
    first = await only_question(worker(journal))
    assert (await worker(journal).resume("ada")).status == "waiting"
    assert await only_question(worker(journal)) == first
    assert await worker(journal).answer("ada", first.deny("No."))
    result = await worker(journal, "Done.").resume("ada")
    assert result.messages[2].parts[0].text == "No."
    assert got == []


async def test_edited_arguments_are_saved_as_they_will_run(journal: Any) -> None:
    await worker(journal, STAMP).run("Stamp it.", session="ada")
    question = await only_question(worker(journal))
    assert await worker(journal).answer("ada", question.approve(arguments={"text": "b"}))
    records = await journal.read("ada")
    saved = records[-1].event.answer["arguments"]
    await worker(journal, "Done.").resume("ada")
    assert got == [("b", saved["mark"])]


async def test_a_deny_rule_holds_for_what_was_edited_before_a_resume(journal: Any) -> None:
    rules = ToolPermission(ask=["*"], deny=[Rule("stamp", {"text": "b"})])
    await worker(journal, STAMP, rules=rules).run("Stamp it.", session="ada")
    question = await only_question(worker(journal))
    assert await worker(journal).answer("ada", question.approve(arguments={"text": "b"}))
    result = await worker(journal, "Done.", rules=rules).resume("ada")
    assert result.messages[2].parts[0].text == "Execution of 'stamp' was denied by a rule."
    assert got == []


async def test_a_validator_that_changes_a_value_each_time_cannot_change_what_was_approved() -> None:
    """What would run is shown again, because the edited amount is doubled as well."""
    shown: list[object] = []

    async def edit(question: Question[Any]) -> object:
        assert isinstance(question, PermissionQuestion)
        shown.append(question.arguments["euros"])
        if len(shown) == 1:
            return Approved(arguments={**question.arguments, "note": "rent"})
        return question.deny("That is more.")

    model = ScriptedModel(ToolCall("1", "pay", '{"euros": 5}'), "Done.")
    rules = ToolPermission(ask=["pay"])
    result = await Agent(model, tools=[pay], middleware=[rules], on_question=edit).run("Pay.")
    assert got == []
    assert shown[0] == 10
    assert shown[1] != 10
    assert result.messages[2].parts[0].text == "That is more."


class Change(Middleware):
    """Passes on another call."""

    def __init__(self, name: str, arguments: str) -> None:
        self.call = (name, arguments)

    async def wrap_tool(self, context: Any, call_next: Any) -> ToolResult:
        name, arguments = self.call
        call = msgspec.structs.replace(context.call, name=name, arguments=arguments)
        result: ToolResult = await call_next(msgspec.structs.replace(context, call=call))
        return result


@pytest.mark.parametrize("rules_first", [True, False])
@pytest.mark.parametrize(
    ("change", "denied"),
    [
        (Change("wipe", '{"path": "/tmp"}'), "wipe"),
        (Change("remove", '{"path": "/"}'), "remove"),
        (Change("remove", '{"path":  "/" }'), "remove"),
    ],
)
async def test_a_call_that_a_hook_changes_or_renames_is_judged_again_in_either_order(
    change: Change, denied: str, rules_first: bool
) -> None:
    rules = ToolPermission(deny=["wipe", Rule("remove", {"path": "/"})], default="allow")
    middleware = [rules, change] if rules_first else [change, rules]
    model = ScriptedModel(ToolCall("1", "remove", '{"path": "/tmp"}'), "Done.")
    result = await Agent(model, tools=[remove, wipe], middleware=middleware).run("Remove it.")
    assert result.messages[2].parts[0].text == f"Execution of '{denied}' was denied by a rule."
    assert got == []


async def test_two_calls_that_a_hook_passes_on_at_once_are_judged_each() -> None:
    class Both(Middleware):
        async def wrap_tool(self, context: Any, call_next: Any) -> ToolResult:
            def changed(path: str) -> Any:
                arguments = msgspec.json.encode({"path": path}).decode()
                call = msgspec.structs.replace(context.call, arguments=arguments)
                return call_next(msgspec.structs.replace(context, call=call))

            found = await asyncio.gather(changed("/a"), changed("/b"), return_exceptions=True)
            result: ToolResult = next(one for one in found if isinstance(one, ToolResult))
            return result

    async def only_a(question: Question[Any]) -> object:
        assert isinstance(question, PermissionQuestion)
        await asyncio.sleep(0.01 if question.arguments["path"] == "/a" else 0)
        if question.arguments["path"] == "/b":
            return question.deny("Not b.")
        return question.approve()

    model = ScriptedModel(ToolCall("1", "remove", '{"path": "/tmp"}'), "Done.")
    middleware = [ToolPermission(ask=["remove"]), Both()]
    await Agent(model, tools=[remove], middleware=middleware, on_question=only_a).run("Remove.")
    assert got == ["/a"]
