"""The client of AG-UI 1.0 against a service in a process of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conformance.node_clients import needs_node, run_node
from tests.server.protocols.chat_processes import ChatProcess
from tests.server.protocols.chat_program import LONG

from holdfast.testing.emulator import DropAfter

pytestmark = needs_node


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ChatProcess]:
    with ChatProcess(tmp_path) as running:
        yield running


def drive(service: ChatProcess, scenario: str) -> dict[str, Any]:
    """Return what a page shows at the end of a scenario."""
    happened: dict[str, Any] = run_node("agui.mjs", scenario, service.url)
    return happened


def contents(happened: dict[str, Any], role: str) -> list[Any]:
    return [one.get("content") for one in happened["messages"] if one["role"] == role]


def event_types(happened: dict[str, Any]) -> list[str]:
    return [event["type"] for event in happened["events"]]


def test_a_text(service: ChatProcess) -> None:
    happened = drive(service, "text")
    assert contents(happened, "assistant") == ["You said: hello"]
    types = event_types(happened)
    assert (types[0], types[-1]) == ("RUN_STARTED", "RUN_FINISHED")
    assert happened["outcomes"][0]["outcome"] == "success"
    assert happened["events"][-1]["usage"][0]["outputTokens"] > 0


def test_a_tool(service: ChatProcess) -> None:
    happened = drive(service, "tool")
    _, calling, result, text = happened["messages"]
    assert calling["toolCalls"][0]["function"]["name"] == "weather"
    assert json.loads(result["content"]) == {"city": "Porto", "degrees": 18}
    assert text["content"].startswith("Done")


def test_an_attempt_that_breaks_off_leaves_no_trace(tmp_path: Path) -> None:
    with ChatProcess(tmp_path, [DropAfter(20), DropAfter(30)]) as service:
        happened = drive(service, "long")
    assert "MESSAGES_SNAPSHOT" in event_types(happened)
    assert contents(happened, "assistant") == [LONG]
    assert [one["role"] for one in happened["messages"]] == ["user", "assistant"]


@pytest.mark.parametrize(("scenario", "paid"), [("approve", "paid 3"), ("edit", "paid 5")])
def test_an_approval(service: ChatProcess, scenario: str, paid: str) -> None:
    happened = drive(service, scenario)
    (waited, ended) = happened["outcomes"]
    (interrupt,) = waited["interrupts"]
    assert (interrupt["reason"], interrupt["toolCallId"]) == ("tool_call", "t1.i0.tool.0")
    assert interrupt["metadata"]["arguments"] == {"amount": 3}
    assert ended["outcome"] == "success"
    assert contents(happened, "tool") == [paid]
    assert contents(happened, "assistant") == ["I ask first.", f"Done: {paid}"]


def test_a_denial(service: ChatProcess) -> None:
    assert contents(drive(service, "deny"), "tool") == ["Too much."]


def test_two_approvals_at_once(service: ChatProcess) -> None:
    happened = drive(service, "twoApprovals")
    assert len(happened["outcomes"][0]["interrupts"]) == 2
    assert sorted(contents(happened, "tool")) == ["paid 3", "paid 4"]


def test_a_question_with_an_answer_in_words(service: ChatProcess) -> None:
    happened = drive(service, "question")
    (interrupt,) = happened["outcomes"][0]["interrupts"]
    assert interrupt["message"] == "Where?"
    assert interrupt["responseSchema"] == {"type": "string", "examples": ["Porto", "Faro"]}
    assert contents(happened, "tool") == ["2 nights in Faro"]


def test_a_question_that_is_given_up_cancels_the_run(service: ChatProcess) -> None:
    assert drive(service, "giveUp")["outcomes"][-1]["outcome"] == "cancelled"


def test_a_tool_of_the_page(service: ChatProcess) -> None:
    happened = drive(service, "pageTool")
    assert happened["outcomes"][0]["pendingToolCallIds"] == ["t1.i0.tool.0"]
    assert contents(happened, "assistant")[-1] == 'Done: {"city":"Porto"}'


def test_a_tool_of_the_provider_and_its_source_are_activities(service: ChatProcess) -> None:
    happened = drive(service, "search")
    _, text, search, sources = happened["messages"]
    assert text["content"] == "I look.Rain."
    assert search["activityType"] == "hosted_tool"
    assert (search["content"]["name"], search["content"]["result"]) == (
        "web_search",
        "https://faro.pt",
    )
    assert sources["content"]["sources"][0]["url"] == "https://faro.pt"
    (other,) = [one["messages"] for one in happened["events"] if one["type"] == "other"]
    assert other == happened["messages"]


def test_an_agent_in_a_tool_is_a_subagent(service: ChatProcess) -> None:
    happened = drive(service, "ask")
    mine = [one for one in happened["events"] if "subagentRunId" in one]
    assert [one["type"] for one in (mine[0], mine[-1])] == ["SUBAGENT_STARTED", "SUBAGENT_FINISHED"]
    assert "".join(one["value"]["text"] for one in mine[1:-1]) == "Sun."
    assert contents(happened, "assistant")[-1] == "It says: Sun."


def test_the_context_of_the_application(service: ChatProcess) -> None:
    (said,) = contents(drive(service, "context"), "assistant")
    assert "The page: the cart" in said


def test_a_repeated_message_starts_no_second_turn(service: ChatProcess) -> None:
    happened = drive(service, "twice")
    assert contents(happened, "assistant") == ["You said: hello"]
    assert service.requests == 1
    assert contents(drive(service, "comeBack"), "user") == ["hello"]


def test_another_answer_replaces_the_first(service: ChatProcess) -> None:
    happened = drive(service, "regenerate")
    assert service.requests == 2
    assert [one["id"] for one in happened["messages"]] == ["m1", "ada.t3.i0"]


def test_a_dropped_connection_is_attached_again_with_the_exact_text(service: ChatProcess) -> None:
    happened = drive(service, "drop")
    (shown,) = [event["text"] for event in happened["events"] if event["type"] == "shown"]
    assert LONG.startswith(shown)
    assert 0 < len(shown) < len(LONG)
    assert contents(happened, "assistant") == [LONG]
    assert contents(happened, "user") == ["long"]
    assert service.requests == 1


def test_a_killed_server_goes_on_with_the_exact_text(service: ChatProcess) -> None:
    drive(service, "leave")
    service.kill()
    service.start()
    happened = drive(service, "comeBack")
    assert (contents(happened, "user"), contents(happened, "assistant")) == (["long"], [LONG])


def test_two_tabs_answer_one_question(service: ChatProcess) -> None:
    happened = drive(service, "twoTabs")
    (tabs,) = [event for event in happened["events"] if event["type"] == "tabs"]
    assert tabs["first"] == tabs["second"]
    assert [one["role"] for one in tabs["first"]] == ["user", "assistant", "tool", "assistant"]


def test_a_client_that_lies_about_the_history_is_told_the_truth(service: ChatProcess) -> None:
    happened = drive(service, "lie")
    assert contents(happened, "user") == ["hello", "and now"]
    assert contents(happened, "assistant") == ["You said: hello", "You said: and now"]


def test_a_message_while_a_question_waits_is_refused(service: ChatProcess) -> None:
    (refused,) = [one for one in drive(service, "waiting")["events"] if one["type"] == "refused"]
    assert refused["status"] == 409
    assert refused["payload"]["type"] == "RUN_ERROR"
    assert "waits for an answer" in refused["payload"]["message"]
