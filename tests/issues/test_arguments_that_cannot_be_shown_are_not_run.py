"""A call with `1e400` in an untyped argument was shown as `{}`, or as null, and ran with infinity."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel
from tests.wire.raw_calls import WAYS, result_of, turn

from holdfast import Agent, Approved, Middleware, ToolPermission, tool
from holdfast.core.messages import ToolCall
from holdfast.core.questions import PermissionQuestion, Question
from holdfast.testing import ScriptedModel

got: list[Any] = []


class Options(BaseModel):
    limit: float = 1.0


@tool(effect="write")
def note(text: Any, options: Options | None = None, more: dict[str, Any] | None = None) -> str:
    """Write a note."""
    got.append((text, options, more))
    return "written"


class Watch(Middleware):
    def __init__(self) -> None:
        self.seen: list[object] = []

    async def before_tool(self, moment: Any) -> None:
        self.seen.append(moment.arguments)

    async def after_tool(self, moment: Any) -> None:
        self.seen.append((moment.valid, moment.arguments, moment.result.is_error))


@pytest.fixture(autouse=True)
def _nothing_got() -> None:
    got.clear()


UNSHOWABLE = [
    '{"text": 1e400}',
    '{"text": -1e400}',
    '{"text": [{"a": [1e309]}]}',
    '{"text": NaN}',
    '{"text": Infinity}',
    '{"text": "a", "options": {"limit": 1e400}}',
    '{"text": "a", "more": {"x": {"y": -1e999}}}',
    '{"text": ' + "9" * 5000 + "}",
]


@pytest.mark.parametrize("arguments", UNSHOWABLE, ids=range(len(UNSHOWABLE)))
async def test_nobody_is_asked_and_nothing_runs(arguments: str) -> None:
    asked: list[Question[Any]] = []

    async def yes(request: Question[Any]) -> object:
        asked.append(request)
        assert isinstance(request, PermissionQuestion)
        return request.answer(Approved())

    watch = Watch()
    agent = Agent(
        ScriptedModel(ToolCall("1", "note", arguments), "Sorry."),
        tools=[note],
        middleware=[ToolPermission(ask=["note"]), watch],
        on_question=yes,
    )
    result = await agent.run("Note it.")
    assert (got, asked) == ([], [])
    assert watch.seen == [(False, None, True)]
    assert "was not run" in result_of(result).text


@pytest.mark.parametrize("arguments", UNSHOWABLE, ids=range(len(UNSHOWABLE)))
async def test_nothing_runs_where_nobody_looks(arguments: str) -> None:
    agent = Agent(ScriptedModel(ToolCall("1", "note", arguments), "Sorry."), tools=[note])
    result = await agent.run("Note it.")
    assert got == []
    assert "Send the whole call again" in result_of(result).text


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
@pytest.mark.parametrize("number", [b"1e400", b"-1e400", b"NaN", b"Infinity"])
async def test_no_wire_makes_null_of_it(way: tuple[str, str], number: bytes) -> None:
    result = await turn(way, b'{"text":{"limit":[%b]}}' % number, note)
    assert got == []
    assert result_of(result).text.startswith("Error: Function 'note' was not run: its arg")


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
async def test_what_can_be_shown_runs_as_it_was_sent(way: tuple[str, str]) -> None:
    text = {"a": [None, 1.5, 2**63 + 1, 2**70 + 1, -0.0, "null"], "b": {"c": True}}
    await turn(way, b'{"text":%b}' % json.dumps(text).encode(), note)
    assert got == [(text, None, None)]


async def test_a_default_that_json_cannot_hold_is_left_out() -> None:
    @tool(effect="read")
    def look(place: str, at_most: float = float("inf")) -> str:
        """Look."""
        got.append((place, at_most))
        return "seen"

    watch = Watch()
    call = ToolCall("1", "look", '{"place": "Porto"}')
    agent = Agent(ScriptedModel(call, "Done."), tools=[look], middleware=[watch])
    await agent.run("Look.")
    assert got == [("Porto", float("inf"))]
    assert watch.seen[0] == {"place": "Porto"}
