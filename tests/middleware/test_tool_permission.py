"""Which tools run: by rule, by remembered answer or by asking, and never without a yes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given as given_any
from hypothesis import strategies as st
from tests.tool_results import results_in_history

from holdfast import Agent, tool
from holdfast.core.errors import AnswerTypeError, ConfigurationError
from holdfast.core.messages import ToolCall
from holdfast.core.questions import Approved, Denied, PermissionQuestion, Question
from holdfast.journal.memory import MemoryJournal
from holdfast.middleware.permission_rules import Rule, RuleTable
from holdfast.middleware.tool_permission import ToolPermission
from holdfast.testing import FakeClock, ScriptedModel

paid: list[int] = []
asked: list[PermissionQuestion] = []


@pytest.fixture(autouse=True)
def _clear() -> None:
    paid.clear()
    asked.clear()


@tool(effect="write")
async def pay(euros: int) -> str:
    """Send money."""
    paid.append(euros)
    return f"paid {euros}"


@tool(effect="read")
async def read_file(path: str) -> str:
    """Read."""
    return path


def call(name: str = "pay", **arguments: object) -> ToolCall:
    return ToolCall("c1", name, json.dumps(arguments))


def answers(*values: object) -> Callable[[Question[Any]], Any]:
    left = list(values)

    async def handler(request: Question[Any]) -> object:
        assert isinstance(request, PermissionQuestion)
        asked.append(request)
        return left.pop(0)

    return handler


def agent(
    permission: ToolPermission, *calls: ToolCall | tuple[ToolCall, ...], **options: Any
) -> Agent[str]:
    script: list[Any] = []
    for one in calls:
        script += [one, "done"]
    options.setdefault("clock", FakeClock(auto=False))
    return Agent(ScriptedModel(*script), tools=[pay, read_file], middleware=[permission], **options)


async def test_rules_allow_deny_and_ask() -> None:
    permission = ToolPermission(allow=["read_*"], ask=["pay"])
    calls = (call("read_file", path="a"), call(euros=3))
    result = await agent(permission, calls, on_question=answers(Approved())).run("go")
    assert results_in_history(result) == ["a", "paid 3"]
    assert [(request.tool, request.arguments) for request in asked] == [("pay", {"euros": 3})]
    assert asked[0].description == "Send money."
    assert asked[0].call_id == "c1"
    assert asked[0].key == "t1.i0.tool.1.ask.0"


async def test_a_tool_without_a_rule_is_denied() -> None:
    result = await agent(ToolPermission(), call(euros=3)).run("go")
    assert results_in_history(result) == ["Execution of 'pay' was denied: no rule allows it."]
    assert paid == []


async def test_a_rule_denies_without_a_question() -> None:
    permission = ToolPermission(ask=["pay"], deny=[Rule("pay", {"euros": "10*"})])
    handler = answers(Approved())
    result = await agent(permission, call(euros=1000), on_question=handler).run("go")
    assert results_in_history(result) == ["Execution of 'pay' was denied by a rule."]
    assert asked == []


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Denied(), "Permission denied by user."),
        (Denied(reason="Too much."), "Too much."),
    ],
)
async def test_the_model_reads_the_reason_of_a_denial_word_for_word(
    answer: Denied, text: str
) -> None:
    permission = ToolPermission(ask=["*"])
    result = await agent(permission, call(euros=3), on_question=answers(answer)).run("go")
    assert results_in_history(result) == [text]
    assert paid == []


async def test_a_timeout_a_cancellation_and_no_handler_are_three_denials() -> None:
    permission = ToolPermission(ask=["*"])

    async def end(act: Callable[[Any, Any], object]) -> str:
        async with agent(permission, call(euros=3), clock=FakeClock()).stream("go") as run:
            async for item in run:
                if isinstance(item, PermissionQuestion):
                    act(run, item)
        return results_in_history(run.result)[0]

    timed_out = "Permission request timed out. Please respond to permission requests promptly."
    assert await end(lambda run, item: None) == timed_out
    assert await end(lambda run, item: run.dismiss(item)) == "Permission request was cancelled."
    nobody = await agent(permission, call(euros=3)).run("go")
    assert results_in_history(nobody)[0].startswith("Nobody is there to answer.")
    assert paid == []


async def test_the_default_timeout_is_five_minutes_and_another_can_be_given() -> None:
    for permission, seconds in (
        (ToolPermission(ask=["*"]), 300.0),
        (ToolPermission(ask=["*"], timeout=5), 5),
    ):
        clock = FakeClock()
        async with agent(permission, call(euros=3), clock=clock).stream("go") as run:
            async for _ in run:
                pass
        assert clock.sleeps == [seconds]


async def test_an_approval_of_a_tool_applies_to_this_session_only() -> None:
    permission = ToolPermission(ask=["pay"])
    handler = answers(Approved(remember="tool"), Denied())
    asking_agent = agent(
        permission, call(euros=1), call(euros=2), call(euros=3), on_question=handler
    )
    await asking_agent.run("a", session="ann")
    await asking_agent.run("b", session="ann")
    await asking_agent.run("c", session="bob")
    assert paid == [1, 2]
    assert len(asked) == 2


async def test_a_denial_is_remembered_too() -> None:
    permission = ToolPermission(ask=["pay"])
    handler = answers(Denied(remember="tool"))
    asking_agent = agent(permission, call(euros=1), call(euros=2), on_question=handler)
    await asking_agent.run("a", session="ann")
    result = await asking_agent.run("b", session="ann")
    assert (
        results_in_history(result)[-1]
        == "Execution of 'pay' was denied by a stored user preference."
    )
    assert len(asked) == 1


async def test_an_answer_for_the_call_applies_to_these_arguments_only() -> None:
    permission = ToolPermission(ask=["pay"])
    handler = answers(Approved(remember="call"), Denied())
    asking_agent = agent(
        permission, call(euros=1), call(euros=1), call(euros=1000), on_question=handler
    )
    for prompt in "abc":
        await asking_agent.run(prompt, session="ann")
    assert paid == [1, 1]
    assert [request.arguments for request in asked] == [{"euros": 1}, {"euros": 1000}]


async def test_an_approval_for_once_applies_once() -> None:
    permission = ToolPermission(ask=["pay"])
    handler = answers(Approved(), Approved())
    asking_agent = agent(permission, call(euros=1), call(euros=1), on_question=handler)
    await asking_agent.run("a", session="ann")
    await asking_agent.run("b", session="ann")
    assert len(asked) == 2


async def test_another_process_remembers_by_the_journal() -> None:
    journal = MemoryJournal()
    options = {"journal": journal}
    first = agent(
        ToolPermission(ask=["pay"]),
        call(euros=1),
        on_question=answers(Approved(remember="tool")),
        **options,
    )
    await first.run("a", session="ann")
    second = agent(ToolPermission(ask=["pay"]), call(euros=2), **options)
    await second.run("b", session="ann")
    assert paid == [1, 2]


async def test_edited_arguments_replace_the_models_once() -> None:
    permission = ToolPermission(ask=["pay"])
    handler = answers(Approved(arguments={"euros": 5}), Approved())
    asking_agent = agent(permission, call(euros=500), call(euros=500), on_question=handler)
    await asking_agent.run("a", session="ann")
    await asking_agent.run("b", session="ann")
    assert paid == [5, 500]


async def test_two_calls_of_one_tool_are_two_questions() -> None:
    permission = ToolPermission(ask=["pay"])
    calls = (call(euros=1), call(euros=1000))

    async def small(request: Question[Any]) -> object:
        assert isinstance(request, PermissionQuestion)
        return request.approve() if request.arguments["euros"] == 1 else request.deny("no")

    result = await agent(permission, calls, on_question=small).run("go")
    assert results_in_history(result) == ["paid 1", "no"]
    assert paid == [1]


@pytest.mark.parametrize("arguments", ["{euros", '{"euros": "many"}', '{"euros": 1e400}'])
async def test_no_question_is_asked_about_invalid_arguments(arguments: str) -> None:
    for permission in (ToolPermission(ask=["pay"]), ToolPermission(default="allow")):
        broken = ToolCall("c1", "pay", arguments)
        result = await agent(permission, broken, on_question=answers(Approved())).run("go")
        assert "Function 'pay' was not run: its arguments are" in results_in_history(result)[0]
    assert (asked, paid) == ([], [])


async def test_a_yes_with_other_arguments_is_remembered_for_those() -> None:
    permission = ToolPermission(ask=["pay"])
    handler = answers(Approved(arguments={"euros": 5}, remember="call"), Denied(reason="No."))
    calls = (call(euros=500), call(euros=5), call(euros=500))
    asking_agent = agent(permission, *calls, on_question=handler)
    for prompt in "abc":
        result = await asking_agent.run(prompt, session="ann")
    assert paid == [5, 5]
    assert results_in_history(result)[-1] == "No."


async def test_an_answer_with_a_number_that_json_cannot_hold_is_refused() -> None:
    permission = ToolPermission(ask=["pay"])
    async with agent(permission, call(euros=3)).stream("go") as run:
        async for item in run:
            if isinstance(item, PermissionQuestion):
                with pytest.raises(AnswerTypeError):
                    run.answer(item.approve(arguments={"euros": float("inf")}))
                run.answer(item.deny("no"))
    assert results_in_history(run.result) == ["no"]


@pytest.mark.slow  # takes half a second or more
async def test_a_person_may_take_longer_than_a_hook() -> None:
    permission = ToolPermission(ask=["pay"]).only(hook_timeout=0.5)
    import asyncio

    async with agent(permission, call(euros=3)).stream("go") as run:
        async for item in run:
            if isinstance(item, PermissionQuestion):
                asyncio.get_running_loop().call_later(0.7, run.answer, item.approve())
    assert results_in_history(run.result) == ["paid 3"]


@pytest.mark.parametrize(
    ("rules", "named"),
    [
        ({"allow": ["pay"], "deny": ["pay"]}, '"pay" contradicts deny "pay"'),
        ({"allow": ["read_file"], "ask": ["read_*"]}, '"read_file" contradicts ask "read_*"'),
        ({"ask": ["pay"], "deny": ["*"]}, '"pay" contradicts deny "*"'),
        (
            {"allow": [Rule("pay", {"euros": "1"})], "deny": [Rule("pay", {"euros": "?"})]},
            '"pay(euros=1)" contradicts deny "pay(euros=?)"',
        ),
    ],
)
def test_contradicting_rules_are_refused_and_both_named(rules: Any, named: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ToolPermission(**rules)
    assert named in str(caught.value)


@pytest.mark.parametrize(
    "rules",
    [
        {"allow": ["read_*"], "deny": ["read_secret"]},
        {"allow": ["pay"], "deny": [Rule("pay", {"euros": "10*"})]},
        {"ask": ["*"], "deny": ["drop_*"]},
    ],
)
def test_an_exception_from_a_wider_rule_is_not_a_contradiction(rules: Any) -> None:
    ToolPermission(**rules)


def test_the_cache_of_tool_names_is_bounded() -> None:
    permission = ToolPermission(allow=["read_*"])
    for number in range(1000):
        assert permission.permission_for(f"read_{number}", {}) == "allow"
        assert permission.permission_for(f"drop_{number}", {}) == "deny"
    assert isinstance(permission.source, RuleTable)
    assert len(permission.source._by_tool) <= 256


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"allow": "pay"}, "allow: must be a list, got str. Write allow="),
        ({"ask": [3]}, r"ask\[0\]: must be a text or Rule, got int"),
        ({"deny": [""]}, r"deny\[0\]: must be a text that is not empty"),
        ({"default": "maybe"}, "default: must be"),
        ({"timeout": 0}, "timeout: must be a finite number above 0"),
    ],
)
def test_bad_settings_name_the_argument(options: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        ToolPermission(**options)


def test_it_describes_its_rules() -> None:
    permission = ToolPermission(allow=["read_*"], ask=[Rule("pay", {"euros": "?"})])
    assert permission.describe() == {
        "ask": "pay(euros=?)",
        "allow": "read_*",
        "default": "deny",
        "timeout": "default",
    }


NAMES = st.sampled_from(["pay", "read_a", "read_b", "drop", "x"])
PATTERNS = st.lists(st.sampled_from(["pay", "read_*", "read_a", "dr?p", "*", "x"]), max_size=3)


@given_any(PATTERNS, PATTERNS, PATTERNS, NAMES)
def test_the_strictest_rule_always_wins(
    allow: list[str], ask: list[str], deny: list[str], name: str
) -> None:
    try:
        permission = ToolPermission(allow=allow, ask=ask, deny=deny)
    except ConfigurationError:
        return
    verdict = permission.permission_for(name, {})
    if any(Rule(one).matches(name, {}) for one in deny):
        assert verdict == "deny"
    elif any(Rule(one).matches(name, {}) for one in ask):
        assert verdict == "ask"
    else:
        assert verdict == ("allow" if any(Rule(r).matches(name, {}) for r in allow) else "deny")
