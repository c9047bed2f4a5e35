"""Vercel's `ai` 7, as `useChat` drives it, against a service in a process of its own."""

from __future__ import annotations

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
    happened: dict[str, Any] = run_node("vercel.mjs", scenario, service.url)
    return happened


def last_parts(happened: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for part in happened["messages"][-1]["parts"] if part["type"] != "step-start"]


def text_of(happened: dict[str, Any]) -> str:
    return "".join(part["text"] for part in last_parts(happened) if part["type"] == "text")


def test_a_text(service: ChatProcess) -> None:
    happened = drive(service, "text")
    assert (happened["status"], text_of(happened)) == ("ready", "You said: hello")
    metadata = happened["messages"][-1]["metadata"]
    assert (metadata["session"], metadata["turn"], metadata["status"]) == ("ada", 1, "completed")


@pytest.mark.parametrize("scenario", ["tool", "read"])
def test_a_tool(service: ChatProcess, scenario: str) -> None:
    intro, tool, text = last_parts(drive(service, scenario))
    assert (tool["type"], tool["state"]) == ("tool-weather", "output-available")
    assert tool["output"] == {"city": "Porto", "degrees": 18}
    assert (intro["text"], text["state"]) == ("I look.", "done")


def test_an_attempt_that_breaks_off_leaves_no_trace(tmp_path: Path) -> None:
    with ChatProcess(tmp_path, [DropAfter(20)]) as service:
        happened = drive(service, "drop")
        assert text_of(happened) == LONG
        assert service.requests == 2
    (tmp_path / "other").mkdir()
    with ChatProcess(tmp_path / "other", [DropAfter(3), DropAfter(4)]) as service:
        happened = drive(service, "tool")
    assert [part["type"] for part in last_parts(happened)] == ["text", "tool-weather", "text"]
    retries = [event for event in happened["events"] if event.get("type") == "data-retry_scheduled"]
    assert 1 <= len(retries) <= 2  # the first may come before the page listens


def test_an_approval(service: ChatProcess) -> None:
    happened = drive(service, "approve")
    intro, tool, text = last_parts(happened)
    assert (tool["state"], tool["output"]) == ("output-available", "paid 3")
    assert tool["approval"]["approved"] is True
    assert text["text"].startswith("Done")
    assert len(happened["messages"]) == 2
    assert intro["text"] == "I ask first."


def test_a_denial(service: ChatProcess) -> None:
    _, tool, text = last_parts(drive(service, "deny"))
    assert tool["state"] == "output-denied"
    assert "Too much." in text["text"]


def test_two_approvals_at_once(service: ChatProcess) -> None:
    first, second, text = last_parts(drive(service, "twoApprovals"))
    assert [first["state"], second["state"]] == ["output-available", "output-denied"]
    assert text["text"].startswith("Done")


def test_a_question_with_an_answer_in_words(service: ChatProcess) -> None:
    book, asked, text = last_parts(drive(service, "question"))
    assert (asked["output"], book["output"]) == ("Faro", "2 nights in Faro")
    assert text["text"] == "Done: 2 nights in Faro"


def test_a_tool_of_the_page(service: ChatProcess) -> None:
    happened = drive(service, "clientTool")
    call, text = last_parts(happened)
    assert (call["type"], call["output"]) == ("tool-get_location", {"city": "Porto"})
    assert text["text"] == 'Done: {"city":"Porto"}'
    assert {"toolCall": "get_location"} in happened["events"]


def test_a_tool_of_the_provider_and_its_source(service: ChatProcess) -> None:
    intro, search, text, source = last_parts(drive(service, "search"))
    assert (search["type"], search["toolName"], search["state"]) == (
        "dynamic-tool",
        "web_search",
        "output-available",
    )
    assert (search["input"], search["output"]) == ({"query": "Faro"}, "https://faro.pt")
    assert search["providerExecuted"] is True
    assert (intro["text"], text["text"]) == ("I look.", "Rain.")
    assert (source["type"], source["url"]) == ("source-url", "https://faro.pt")


def test_an_agent_in_a_tool_shows_its_text_while_it_works(service: ChatProcess) -> None:
    happened = drive(service, "ask")
    assert "Sun." in [part["output"] for part in happened["events"]]
    tool, text = last_parts(happened)
    assert (tool["output"], "preliminary" in tool) == ("Sun.", False)
    assert text["text"] == "It says: Sun."


def test_a_file(service: ChatProcess) -> None:
    assert text_of(drive(service, "file")) == "You said: look"


def test_another_answer_replaces_the_first(service: ChatProcess) -> None:
    happened = drive(service, "regenerate")
    assert [message["id"] for message in happened["messages"][1:]] == ["ada.t3"]
    assert text_of(happened) == "You said: hello"


def test_an_edited_message_replaces_what_followed(service: ChatProcess) -> None:
    happened = drive(service, "edit")
    assert len(happened["messages"]) == 2
    assert text_of(happened) == "You said: good morning"


def test_a_dropped_connection_is_resumed_with_the_exact_text(service: ChatProcess) -> None:
    happened = drive(service, "drop")
    (before,) = [event for event in happened["events"] if "shown" in event]
    assert LONG.startswith(before["shown"])
    assert 0 < len(before["shown"]) < len(LONG)
    assert text_of(happened) == LONG
    assert len(happened["messages"]) == 2
    assert service.requests == 1


def test_nothing_to_resume(service: ChatProcess) -> None:
    happened = drive(service, "idle")
    assert (happened["status"], happened["messages"]) == ("ready", [])


def test_a_reloaded_page_continues(service: ChatProcess) -> None:
    _, tool, text = last_parts(drive(service, "reload"))
    assert (tool["output"], text["text"][:4]) == ("paid 3", "Done")


def test_two_tabs_answer_one_question(service: ChatProcess) -> None:
    happened = drive(service, "twoTabs")
    (shown,) = [event for event in happened["events"] if "first" in event]
    states = {name: [part.get("state") for part in shown[name]] for name in shown}
    assert states["first"] == states["second"]
    texts = [part["text"] for part in shown["first"] if part["type"] == "text"]
    assert texts[-1].startswith("Done")


def test_a_message_while_a_question_waits_is_refused(service: ChatProcess) -> None:
    happened = drive(service, "error")
    (refused,) = [event for event in happened["events"] if "error" in event]
    assert refused["status"] == 409
    assert "waits for an answer" in refused["error"]


def test_a_killed_server_goes_on_with_the_exact_text(service: ChatProcess) -> None:
    drive(service, "leave")
    service.kill()
    service.start()
    happened = drive(service, "comeBack")
    assert text_of(happened) == LONG
