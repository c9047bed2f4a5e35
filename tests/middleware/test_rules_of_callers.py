"""The rules of a calling agent hold for the agents that it uses as tools."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import (
    Agent,
    Approved,
    MemoryJournal,
    Middleware,
    PermissionQuestion,
    Question,
    ToolPermission,
    tool,
)
from holdfast.core.messages import ToolCall, ToolResult
from holdfast.middleware import Rule
from holdfast.testing import ScriptedModel

paid: list[int] = []
asked: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    paid.clear()
    asked.clear()


@tool(effect="write")
def pay(euros: int) -> str:
    """Send money."""
    paid.append(euros)
    return f"paid {euros}"


CALL = ToolCall("1", "pay", '{"euros": "500"}')


def read_by(model: ScriptedModel) -> list[str]:
    return [
        part.text
        for message in model.requests[-1].messages
        for part in message.parts
        if isinstance(part, ToolResult)
    ]


def clerk(*own: Middleware[Any], call: ToolCall = CALL) -> tuple[Agent[str], ScriptedModel]:
    model = ScriptedModel(call, "Done.")
    return Agent(model, name="clerk", tools=[pay], middleware=own), model


def boss(inner: Agent[str], *rules: Middleware[Any], **options: Any) -> Agent[str]:
    task = ToolCall("b", inner.as_tool().name, '{"task": "Pay."}')
    options.setdefault("name", "boss")
    return Agent(ScriptedModel(task, "Done."), tools=[inner.as_tool()], middleware=rules, **options)


async def yes(question: Question[Any]) -> object:
    assert isinstance(question, PermissionQuestion)
    asked.append(question.tool)
    return Approved()


DENY = ToolPermission(deny=[Rule("pay", {"euros": "500"})], default="allow")
ALLOW = ToolPermission(allow=["*"])


@pytest.mark.parametrize("own", [(), (ALLOW,)])
@pytest.mark.parametrize("journal", [None, MemoryJournal()])
async def test_a_denied_tool_stays_denied_in_an_agent(
    own: tuple[Middleware[Any], ...], journal: Any
) -> None:
    inner, model = clerk(*own)
    await boss(inner, DENY, journal=journal).run("Pay.")
    assert paid == []
    assert read_by(model) == ["Execution of 'pay' was denied by a rule."]


async def test_it_stays_denied_in_an_agent_of_an_agent() -> None:
    inner, model = clerk(ALLOW)
    middle = boss(inner, ALLOW, name="middle")
    await boss(middle, DENY).run("Pay.")
    assert paid == []
    assert read_by(model) == ["Execution of 'pay' was denied by a rule."]


async def test_the_same_rules_may_stand_in_both_agents() -> None:
    inner, _ = clerk(DENY)
    await boss(inner, DENY).run("Pay.")
    assert paid == []


async def test_a_denied_tool_stays_denied_when_a_hook_changes_the_call() -> None:
    class Rename(Middleware):
        async def wrap_tool(self, context: Any, call_next: Any) -> ToolResult:
            import msgspec

            call = msgspec.structs.replace(context.call, arguments='{"euros": 500}')
            result: ToolResult = await call_next(msgspec.structs.replace(context, call=call))
            return result

    inner, _ = clerk(Rename(), call=ToolCall("1", "pay", '{"euros": 1}'))
    await boss(inner, DENY).run("Pay.")
    assert paid == []


async def test_an_agent_without_rules_of_its_own_asks_as_its_caller_does() -> None:
    inner, _ = clerk()
    rules = ToolPermission(ask=["pay"], allow=["clerk"])
    await boss(inner, rules, on_question=yes).run("Pay.")
    assert (asked, paid) == (["pay"], [500])
    paid.clear()
    result = await boss(clerk()[0], rules).run("Pay.")
    assert paid == []
    assert result.text == "Done."


async def test_an_agent_with_rules_of_its_own_is_not_asked_about_by_its_caller() -> None:
    inner, _ = clerk(ALLOW)
    await boss(inner, ToolPermission(ask=["pay"], allow=["clerk"]), on_question=yes).run("Pay.")
    assert (asked, paid) == ([], [500])


async def test_a_caller_does_not_allow_what_an_agent_denies_or_asks() -> None:
    for own in (ToolPermission(deny=["pay"]), ToolPermission()):
        inner, _ = clerk(own)
        await boss(inner, ALLOW).run("Pay.")
    assert paid == []
    inner, _ = clerk(ToolPermission(ask=["pay"]))
    await boss(inner, ALLOW, on_question=yes).run("Pay.")
    assert (asked, paid) == (["pay"], [500])


async def test_the_default_of_a_caller_is_for_its_own_tools() -> None:
    inner, _ = clerk()
    await boss(inner, ToolPermission(allow=["clerk"])).run("Pay.")
    assert paid == [500]


async def test_a_condition_of_a_caller_holds_as_well() -> None:
    for condition, expected in ((True, []), (False, [500])):
        paid.clear()
        inner, _ = clerk()
        await boss(inner, DENY.only(enabled=lambda _hook, _facts, on=condition: on)).run("Pay.")
        assert paid == expected


async def test_a_suspended_question_of_a_caller_is_answered_once() -> None:
    journal = MemoryJournal()

    def worker() -> Agent[str]:
        inner, _ = clerk()
        rules = ToolPermission(ask=["pay"], allow=["clerk"])
        return boss(inner, rules, journal=journal, on_wait="suspend")

    first = worker()
    (question,) = (await first.run("Pay.", session="ada")).questions
    assert isinstance(question, PermissionQuestion)
    assert question.arguments == {"euros": 500}
    assert await first.answer("ada", question.approve(arguments={"euros": 5}))
    assert (await first.resume("ada")).text == "Done."
    assert paid == [5]


@pytest.mark.parametrize("rules", [ToolPermission(ask=["*"]), ToolPermission(default="ask")])
async def test_nobody_is_asked_about_a_tool_that_does_not_exist(rules: ToolPermission) -> None:
    model = ScriptedModel(ToolCall("1", "pya", '{"euros": 5}'), "Done.")
    await Agent(model, tools=[pay], middleware=[rules], on_question=yes).run("Pay.")
    assert asked == []
    (text,) = read_by(model)
    assert text.startswith("Error: Function 'pya' was not run: there is no such function.")
    assert "Did you mean 'pay'?" in text


async def test_nobody_is_asked_about_a_tool_that_an_agent_does_not_have() -> None:
    inner, model = clerk(call=ToolCall("1", "wire", '{"euros": 5}'))
    await boss(inner, ToolPermission(ask=["*"], allow=[]), on_question=yes).run("Pay.")
    assert asked == ["clerk"]
    assert "there is no such function" in read_by(model)[0]


async def test_a_tool_that_only_a_hook_provides_needs_a_rule_that_allows_it() -> None:
    class Virtual(Middleware):
        async def wrap_tool(self, context: Any, _call_next: Any) -> ToolResult:
            paid.append(1)
            return ToolResult(context.call.id, context.call.name, ())

    for rules, expected in ((ToolPermission(ask=["*"]), []), (ALLOW, [1])):
        model = ScriptedModel(ToolCall("1", "virtual", "{}"), "Done.")
        middleware = [rules, Virtual()]
        await Agent(model, tools=[pay], middleware=middleware, on_question=yes).run("Pay.")
        assert paid == expected
    assert asked == []
