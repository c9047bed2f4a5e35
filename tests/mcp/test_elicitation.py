"""A server that asks a person for input: a durable question of the call, and one payment whatever dies."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast import Agent, MemoryJournal
from holdfast.core.messages import ToolCall, ToolResult
from holdfast.mcp import ElicitationQuestion, Elicited, McpServer
from holdfast.mcp.elicitation import make_response
from holdfast.testing import CrashAt, ScriptedModel, SimulatedCrash
from holdfast.testing.mcp_emulator import McpEmulator
from holdfast.tools import ToolError

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "card": {"type": "string", "enum": ["visa", "other"]},
        "tip": {"type": "integer"},
    },
    "required": ["card"],
}
ORDER: dict[str, Any] = {
    "name": "order",
    "description": "Order.",
    "inputSchema": {"type": "object"},
    "form": FORM,
}


def order(n: int = 1) -> ToolCall:
    return ToolCall(f"c{n}", "order", json.dumps({"n": n}))


def results(result: Any) -> list[ToolResult]:
    return [
        one for message in result.messages for one in message.parts if isinstance(one, ToolResult)
    ]


def make(emulator: McpEmulator, journal: Any, *replies: Any, **keywords: Any) -> Agent[Any, str]:
    server = McpServer("shop", command=emulator.command)
    return Agent(ScriptedModel(*replies), toolsets=[server], journal=journal, **keywords)


@pytest.mark.slow  # it starts servers
async def test_a_question_of_a_server_is_asked_and_answered(tmp_path: Path) -> None:
    emulator = McpEmulator(tmp_path, tools=[ORDER])
    asked: list[ElicitationQuestion] = []

    async def answer(question: Any) -> Any:
        asked.append(question)
        return question.accept(card="visa") if len(asked) == 1 else question.decline()

    agent = make(emulator, MemoryJournal(), order(1), order(2), "done", on_question=answer)
    found = results(await agent.run("Order."))
    assert (asked[0].server, asked[0].tool, asked[0].message) == ("shop", "order", "How?")
    assert asked[0].form == FORM
    assert [one.text for one in found] == ['order {"n": 1}', "no input: decline"]
    answers = [one["answer"] for one in emulator.log if one["kind"] == "answer"]
    assert answers == [{"action": "accept", "content": {"card": "visa"}}, {"action": "decline"}]


@pytest.mark.slow  # it starts servers
async def test_an_answer_in_another_process_pays_once(tmp_path: Path) -> None:
    """The turn is suspended, its process and that of the server are gone, and another one goes on."""
    emulator = McpEmulator(tmp_path, tools=[ORDER])
    journal = MemoryJournal()
    first = await make(emulator, journal, order(), on_wait="suspend").run("Order.", session="s")
    (question,) = first.questions
    assert isinstance(question, ElicitationQuestion)
    assert emulator.effects == []
    agent = make(emulator, journal, "done", on_wait="suspend")
    await agent.answer("s", question, Elicited(content={"card": "visa"}))
    result = await agent.resume("s")
    assert result.output == "done"
    assert [one.text for one in results(result)] == ['order {"n": 1}']
    assert emulator.effects == [{"n": 1}]
    # The server was asked for input once: the second process went on with the saved state.
    assert len([one for one in emulator.log if one["kind"] == "call"]) == 2


@pytest.mark.slow  # it starts servers
async def test_a_crash_at_any_save_pays_at_most_once_and_tells_a_doubt(tmp_path: Path) -> None:
    wrong = []
    for place in range(1, 12):
        folder = tmp_path / str(place)
        folder.mkdir()
        emulator = McpEmulator(folder, tools=[ORDER])
        journal = MemoryJournal()

        async def answer(question: Any) -> Any:
            return question.accept(card="visa")

        try:
            crashing = CrashAt(journal, place)
            await make(emulator, crashing, order(), "done", on_question=answer).run(
                "Order.", session="s"
            )
        except SimulatedCrash:
            agent = make(emulator, journal, order(), "done", "done", on_question=answer)
            try:
                result = await agent.resume("s")
            except Exception as error:  # noqa: BLE001  # REASON: nothing was saved before the crash
                wrong += [] if place == 1 else [(place, repr(error))]
                continue
            outcomes = {one.outcome for one in results(result)}
            paid = len(emulator.effects)
            if paid > 1 or (paid == 0 and "done" in outcomes):
                wrong.append((place, outcomes, paid))
    assert not wrong, wrong


@pytest.mark.slow  # it starts servers
@pytest.mark.parametrize(
    ("effect", "outcome", "count"), [("write", "in_doubt", 0), ("read", "done", 1)]
)
async def test_a_state_that_a_server_forgot_leaves_a_write_in_doubt(
    tmp_path: Path, effect: Any, outcome: str, count: int
) -> None:
    emulator, journal = McpEmulator(tmp_path, tools=[ORDER]), MemoryJournal()

    def make_waiting(*replies: Any) -> Agent[Any, str]:
        server = McpServer("shop", command=emulator.command, effects={"order": effect})
        model = ScriptedModel(*replies)
        return Agent(model, toolsets=[server], journal=journal, on_wait="suspend")

    (question,) = (await make_waiting(order()).run("Order.", session="s")).questions
    # The server has used the state already, as if another process had sent the answer.
    with (tmp_path / "log.jsonl").open("a", encoding="utf-8") as log:
        log.write(json.dumps({"kind": "answer", "state": question.state}) + "\n")
    agent = make_waiting("done")
    await agent.answer("s", question, Elicited(content={"card": "visa"}))
    result = await agent.resume("s")
    if effect == "read":
        # It is called anew, and asks anew.
        (again,) = result.questions
        (tmp_path / "log.jsonl").write_text("", "utf-8")
        await agent.answer("s", again, Elicited(content={"card": "other"}))
        result = await agent.resume("s")
    assert [one.outcome for one in results(result)] == [outcome]
    assert len(emulator.effects) == count


def test_an_answer_that_does_not_fit_the_form_is_refused() -> None:
    question = ElicitationQuestion(
        server="shop", tool="order", message="How?", form=FORM, name="form"
    )
    good = Elicited(content={"card": "other", "tip": 2})
    assert make_response(question, good) == {
        "action": "accept",
        "content": {"card": "other", "tip": 2},
    }
    assert make_response(question, Elicited(action="cancel")) == {"action": "cancel"}
    for content in (
        {},
        {"card": "amex"},
        {"card": 3},
        {"card": "visa", "tip": True},
        {"card": "visa", "x": 1},
    ):
        with pytest.raises(ToolError, match="does not fit the form"):
            make_response(question, Elicited(content=content))  # type: ignore[arg-type]
    page = ElicitationQuestion(server="s", tool="t", message="m", url="https://x.example/a")
    assert make_response(page, Elicited()) == {"action": "accept"}


def test_a_nested_form_is_refused() -> None:
    from holdfast.mcp.elicitation import _read_questions

    def ask(schema: object, method: str = "elicitation/create") -> SimpleNamespace:
        params = SimpleNamespace(mode="form", message="m", requested_schema=schema)
        request = SimpleNamespace(method=method, params=params)
        return SimpleNamespace(input_requests={"a": request}, request_state="s")

    nested = {"type": "object", "properties": {"a": {"type": "object"}}}
    with pytest.raises(ToolError, match="not flat"):
        _read_questions("shop", "order", ask(nested))
    with pytest.raises(ToolError, match="not supported"):
        _read_questions("shop", "order", ask(FORM, "sampling/createMessage"))
    (question,) = _read_questions("shop", "order", ask(FORM))
    assert (question.form, question.state) == (FORM, "s")
