"""A rule judges the validated arguments, and the tool gets those."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from pydantic import BaseModel, Field, SecretStr
from tests.tool_results import results_in_history

from holdfast import Agent, Approved, Denied, Middleware, SqliteJournal, ToolPermission, tool
from holdfast.core.messages import ToolCall, ToolResult
from holdfast.core.questions import PermissionQuestion, Question
from holdfast.middleware import Deny, RepetitionGuard, Rule
from holdfast.testing import FakeClock, ScriptedModel

got: list[Any] = []


@tool(effect="write")
def remove(path: str, recursive: bool = False) -> str:
    """Remove a file or a folder."""
    got.append((path, recursive))
    return "removed"


@tool(effect="write")
def wipe(path: str, recursive: bool = True) -> str:
    """Remove a folder."""
    got.append((path, recursive))
    return "wiped"


@tool(effect="write")
def clear(path: str, recursive: Annotated[bool, Field(alias="r")] = False) -> str:
    """Remove a folder."""
    got.append((path, recursive))
    return "cleared"


@pytest.fixture(autouse=True)
def _nothing_got() -> None:
    got.clear()


DENY = ToolPermission(deny=[Rule("*", {"recursive": "true"})], default="allow")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("remove", '{"path": "/", "recursive": true}'),
        ("remove", '{"path": "/", "recursive": 1}'),
        ("remove", '{"path": "/", "recursive": "yes"}'),
        ("remove", '{"path": "/", "recursive": "on"}'),
        ("remove", '{"path": "/", "recursive": "TRUE"}'),
        ("wipe", '{"path": "/"}'),
        ("clear", '{"path": "/", "r": true}'),
        ("clear", '{"path": "/", "r": "t"}'),
    ],
)
async def test_no_spelling_slips_past_a_rule(name: str, arguments: str) -> None:
    agent = Agent(
        ScriptedModel(ToolCall("1", name, arguments), "Sorry."),
        tools=[remove, wipe, clear],
        middleware=[DENY],
    )
    result = await agent.run("Remove it.")
    assert got == []
    assert results_in_history(result) == [f"Execution of '{name}' was denied by a rule."]


async def test_a_whole_number_is_judged_in_both_spellings() -> None:
    @tool(effect="write")
    def pay(euros: float) -> str:
        """Pay."""
        got.append(euros)
        return "paid"

    for pattern in ("1000", "1000.0"):
        for written in ("1000", "1000.0", "1e3", '"1000"'):
            call = ToolCall("1", "pay", f'{{"euros": {written}}}')
            rules = ToolPermission(deny=[Rule("pay", {"euros": pattern})], default="allow")
            await Agent(ScriptedModel(call, "No."), tools=[pay], middleware=[rules]).run("Pay.")
    assert got == []


class Edit(Middleware):
    def __init__(self, arguments: str, name: str = "") -> None:
        self.arguments, self.name_after = arguments, name

    async def wrap_tool(self, moment: Any, call_next: Any) -> ToolResult:
        call = msgspec.structs.replace(moment.call, arguments=self.arguments)
        if self.name_after:
            call = msgspec.structs.replace(call, name=self.name_after)
        result: ToolResult = await call_next(msgspec.structs.replace(moment, call=call))
        return result


CALL = ToolCall("1", "remove", '{"path": "/tmp"}')


@pytest.mark.parametrize(
    "edited", ['{"path": "/", "recursive": 1}', '{"path":"/","recursive":true}']
)
@pytest.mark.parametrize("first", [True, False])
async def test_a_deny_rule_holds_for_what_a_hook_edited(edited: str, first: bool) -> None:
    middleware = [DENY, Edit(edited)] if first else [Edit(edited), DENY]
    agent = Agent(ScriptedModel(CALL, "No."), tools=[remove], middleware=middleware)
    result = await agent.run("Remove it.")
    assert (got, results_in_history(result)) == (
        [],
        ["Execution of 'remove' was denied by a rule."],
    )


async def test_a_deny_rule_holds_for_another_tool_that_a_hook_put_in() -> None:
    rules = ToolPermission(deny=["wipe"], default="allow")
    model = ScriptedModel(CALL, "No.")
    agent = Agent(model, tools=[remove, wipe], middleware=[rules, Edit('{"path": "/"}', "wipe")])
    result = await agent.run("Remove it.")
    assert (got, results_in_history(result)) == ([], ["Execution of 'wipe' was denied by a rule."])


async def test_a_deny_rule_holds_for_what_an_approver_edited() -> None:
    rules = ToolPermission(ask=["remove"], deny=[Rule("remove", {"recursive": "true"})])

    async def edit(request: Question[Any]) -> object:
        return request.answer(Approved(arguments={"path": "/", "recursive": "yes"}))

    agent = Agent(ScriptedModel(CALL, "No."), tools=[remove], middleware=[rules], on_question=edit)
    result = await agent.run("Remove it.")
    assert (got, results_in_history(result)) == (
        [],
        ["Execution of 'remove' was denied by a rule."],
    )


async def test_what_an_approver_edited_is_not_asked_about_again() -> None:
    asked: list[object] = []

    async def edit(request: Question[Any]) -> object:
        assert isinstance(request, PermissionQuestion)
        asked.append(request.arguments)
        return request.answer(Approved(arguments={**request.arguments, "path": "/var"}))

    agent = Agent(
        ScriptedModel(ToolCall("1", "clear", '{"path": "/", "r": "no"}'), "Done."),
        tools=[clear],
        middleware=[ToolPermission(ask=["clear"])],
        on_question=edit,
    )
    assert results_in_history(await agent.run("Clear it.")) == ["cleared"]
    assert asked == [{"path": "/", "recursive": False}]
    assert got == [("/var", False)]


async def test_a_yes_is_none_to_what_a_hook_made_of_it() -> None:
    asked: list[Any] = []

    async def decide(request: Question[Any]) -> object:
        assert isinstance(request, PermissionQuestion)
        asked.append(request.arguments)
        return request.answer(Approved() if len(asked) == 1 else Denied(reason="Not that."))

    agent = Agent(
        ScriptedModel(CALL, "No."),
        tools=[remove],
        middleware=[ToolPermission(ask=["remove"]), Edit('{"path": "/"}')],
        on_question=decide,
    )
    assert results_in_history(await agent.run("Remove it.")) == ["Not that."]
    assert asked == [{"path": "/tmp", "recursive": False}, {"path": "/", "recursive": False}]
    assert got == []


@pytest.mark.parametrize("edited", ['{"path": 1e400}', '{"path": 5}', "{", '{"pth": "a"}'])
async def test_edited_arguments_that_do_not_fit_are_not_run(edited: str) -> None:
    seen: list[object] = []

    class Watch(Middleware):
        async def before_tool(self, moment: Any) -> None:
            seen.append(moment.arguments)

        async def after_tool(self, moment: Any) -> None:
            seen.append((moment.valid, moment.arguments))

    agent = Agent(ScriptedModel(CALL, "No."), tools=[remove], middleware=[Watch(), Edit(edited)])
    (told,) = results_in_history(await agent.run("Remove it."))
    assert "Function 'remove' was not run" in told
    assert seen == [{"path": "/tmp", "recursive": False}, (False, None)]
    assert got == []


async def test_hooks_after_a_tool_see_what_ran() -> None:
    seen: list[object] = []

    class Watch(Middleware):
        async def after_tool(self, moment: Any) -> None:
            seen.append(moment.arguments)

    middleware = [Watch(), Edit('{"path": "/var", "recursive": "no"}')]
    await Agent(ScriptedModel(CALL, "Done."), tools=[remove], middleware=middleware).run("Go.")
    assert seen == [{"path": "/var", "recursive": False}]
    assert got == [("/var", False)]


async def test_whoever_is_asked_about_a_repetition_sees_what_would_run() -> None:
    asked: list[object] = []

    async def yes(request: Question[Any]) -> object:
        assert isinstance(request, PermissionQuestion)
        asked.append(request.arguments)
        return request.approve()

    call = ToolCall("1", "wipe", '{"path": "/tmp"}')
    broken = ToolCall("1", "wipe", '{"path": 1e400}')
    guard = RepetitionGuard(9, ask_at=2)
    model = ScriptedModel(call, call, broken, broken, "Done.")
    await Agent(model, tools=[wipe], middleware=[guard], on_question=yes).run("Wipe it.")
    assert asked == [{"path": "/tmp", "recursive": True}]


class Colour(Enum):
    RED = "red"


class Account(BaseModel):
    name: Annotated[str, Field(alias="n", exclude=True)]
    key: SecretStr = SecretStr("k")


async def test_nothing_is_hidden_by_how_a_type_is_written() -> None:
    seen: list[object] = []

    class Watch(Middleware):
        async def before_tool(self, moment: Any) -> None:
            seen.append(moment.arguments)

    @tool(effect="write")
    def mix(
        _at: date,
        colours: set[str],
        colour: Colour,
        account: Account,
        numbers: Iterable[int],
        raw: bytes,
    ) -> str:
        """Mix."""
        got.append((_at, colours, colour, account.key.get_secret_value(), list(numbers), raw))
        return "mixed"

    text = (
        '{"_at": "2026-01-02", "colours": ["b", "a"], "colour": "red", "raw": "x",'
        ' "account": {"n": "ann", "key": "hunter2"}, "numbers": ["1", 2]}'
    )
    model = ScriptedModel(ToolCall("1", "mix", text), "Done.")
    await Agent(model, tools=[mix], middleware=[Watch()]).run("Mix.")
    assert seen == [
        {
            "_at": "2026-01-02",
            "colours": ["a", "b"],
            "colour": "red",
            "account": {"name": "ann", "key": "hunter2"},
            "numbers": [1, 2],
            "raw": "x",
        }
    ]
    assert got == [(date(2026, 1, 2), {"a", "b"}, Colour.RED, "hunter2", [1, 2], b"x")]


async def test_a_turn_that_goes_on_runs_what_was_approved(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "talk.db")

    def worker(*script: Any) -> Agent[str]:
        return Agent(
            ScriptedModel(*script),
            tools=[wipe],
            middleware=[ToolPermission(ask=["wipe"])],
            journal=journal,
            on_wait="suspend",
        )

    call = ToolCall("1", "wipe", '{"path": "/tmp"}')
    waiting = await worker(call).run("Wipe it.", session="ada")
    (question,) = waiting.questions
    assert isinstance(question, PermissionQuestion)
    assert question.arguments == {"path": "/tmp", "recursive": True}
    approver = worker()
    (same,) = await approver.questions("ada")
    assert isinstance(same, PermissionQuestion)
    assert await approver.answer("ada", same.approve(arguments={"path": "/var", "recursive": "no"}))
    result = await worker("Done.").resume("ada")
    assert (results_in_history(result), got) == (["wiped"], [("/var", False)])


async def test_attempts_of_a_tool_get_the_same_value() -> None:
    class Watch(Middleware):
        async def before_tool(self, moment: Any) -> None:
            got.append(moment.arguments)

    @tool(effect="read")
    def gaze(items: list[str]) -> str:
        """Look."""
        got.append(list(items))
        items.append("more")
        if len(got) < 4:
            raise ConnectionError("lost")
        return "seen"

    call = ToolCall("1", "gaze", '{"items": ["a"]}')
    agent = Agent(
        ScriptedModel(call, "Done."), tools=[gaze], middleware=[Watch()], clock=FakeClock()
    )
    await agent.run("Look.")
    assert got == [{"items": ["a"]}, ["a"], ["a"], ["a"]]


async def test_a_default_that_is_made_anew_is_the_same_in_each_attempt() -> None:
    made: list[int] = []

    def number() -> int:
        made.append(len(made))
        return made[-1]

    class Watch(Middleware):
        async def before_tool(self, moment: Any) -> None:
            got.append(moment.arguments)

    @tool(effect="read")
    def look(mark: Annotated[int, Field(default_factory=number)]) -> str:
        """Look."""
        got.append({"mark": mark})
        if len(got) < 4:
            raise ConnectionError("lost")
        return "seen"

    agent = Agent(
        ScriptedModel(ToolCall("1", "look", "{}"), "Done."),
        tools=[look],
        middleware=[Watch()],
        clock=FakeClock(),
    )
    await agent.run("Look.")
    assert got == [{"mark": 0}] * 4


async def test_a_hook_that_runs_a_tool_twice_gives_it_the_same_value() -> None:
    @tool(effect="read")
    def gaze(items: list[str]) -> str:
        """Look."""
        got.append(list(items))
        items.append("more")
        return "seen"

    class Twice(Middleware):
        async def wrap_tool(self, moment: Any, call_next: Any) -> ToolResult:
            await call_next(moment)
            result: ToolResult = await call_next(moment)
            return result

    call = ToolCall("1", "gaze", '{"items": ["a"]}')
    agent = Agent(ScriptedModel(call, "Done."), tools=[gaze], middleware=[Twice()])
    await agent.run("Look.")
    assert got == [["a"], ["a"]]


async def test_a_question_about_edited_arguments_can_wait(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "talk.db")

    def worker(*script: Any) -> Agent[str]:
        return Agent(
            ScriptedModel(*script),
            tools=[remove],
            middleware=[ToolPermission(ask=["remove"]), Edit('{"path": "/"}')],
            journal=journal,
            on_wait="suspend",
        )

    shown: list[object] = []
    result = await worker(CALL).run("Remove it.", session="ada")
    while result.questions:
        (question,) = result.questions
        assert isinstance(question, PermissionQuestion)
        shown.append(question.arguments)
        assert await worker().answer("ada", question.approve())
        result = await worker("Done.").resume("ada")
    assert shown == [{"path": "/tmp", "recursive": False}, {"path": "/", "recursive": False}]
    assert (results_in_history(result), got) == (["removed"], [("/", False)])


async def test_arguments_that_are_edited_twice_are_not_run() -> None:
    async def edit(request: Question[Any]) -> object:
        return request.answer(Approved(arguments={"path": f"{request.arguments['path']}x"}))

    agent = Agent(
        ScriptedModel(CALL, "No."),
        tools=[remove],
        middleware=[ToolPermission(ask=["remove"]), Edit('{"path": "/"}')],
        on_question=edit,
    )
    result = await agent.run("Remove it.")
    assert results_in_history(result) == [
        "Execution of 'remove' was denied: its arguments were edited twice."
    ]
    assert got == []


@pytest.mark.parametrize("arguments", ["{}", '{"a": 1}', '{"a": 1e400}', "{"])
async def test_an_unknown_tool_is_shown_only_with_arguments_that_can_be_shown(
    arguments: str,
) -> None:
    seen: list[object] = []

    class Virtual(Middleware):
        async def wrap_tool(self, moment: Any, call_next: Any) -> ToolResult:
            seen.append(moment.arguments)
            return ToolResult(moment.call.id, moment.call.name, ())

    model = ScriptedModel(ToolCall("1", "other", arguments), "Done.")
    result = await Agent(model, tools=[remove], middleware=[Virtual()]).run("Go.")
    if arguments in ("{}", '{"a": 1}'):
        assert seen == [msgspec.json.decode(arguments)]
    else:
        assert seen == []
        assert "there is no such function" in results_in_history(result)[0]


# A wrap hook edits a call, and passes it on once more after a `before_tool` hook has denied it.

paid: list[int] = []


@tool(effect="write")
def pay(amount: int) -> str:
    """Pay."""
    paid.append(amount)
    return f"paid {amount}"


class NoMoreThanTen(Middleware):
    async def before_tool(self, context: Any) -> Deny | None:
        return Deny("too much") if context.arguments["amount"] > 10 else None


class FailsAboveTen(Middleware):
    async def before_tool(self, context: Any) -> None:
        assert context.arguments["amount"] <= 10


class Stubborn(Middleware):
    """Asks for more, and again after it was refused."""

    async def wrap_tool(self, context: Any, call_next: Any) -> Any:
        call = msgspec.structs.replace(context.call, arguments='{"amount":50}')
        edited = msgspec.structs.replace(context, call=call)
        try:
            return await call_next(edited)
        except Exception:  # noqa: BLE001  # REASON: whatever the rule raised
            return await call_next(edited)


@pytest.mark.parametrize("rule", [NoMoreThanTen, FailsAboveTen])
async def test_a_refused_call_is_judged_each_time(rule: type[Middleware]) -> None:
    paid.clear()
    model = ScriptedModel(ToolCall("1", "pay", '{"amount": 5}'), "done")
    agent = Agent(model, tools=[pay], middleware=[rule(), Stubborn()])
    result = await agent.run("go")
    assert paid == []
    text = "too much" if rule is NoMoreThanTen else "Error: Function 'pay' failed."
    assert result.messages[2].parts[0].text == text  # type: ignore[union-attr]
