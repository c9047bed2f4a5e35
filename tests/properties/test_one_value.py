"""For any arguments and any signature, hooks, rules, people and the tool see one value, or none does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter

from holdfast import Agent, Middleware, PermissionQuestion, ToolPermission, tool
from holdfast.core.messages import ToolCall, ToolResult
from holdfast.middleware.permission_rules import Rule, RuleTable
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.tools.json_data import json_data
from holdfast.tools.tool import Tool


class Size(Enum):
    SMALL = 1
    LARGE = "large"


class Options(BaseModel):
    recursive: bool = True
    depth: float = Field(default=1.0, alias="d")


got: list[dict[str, Any]] = []


@tool(effect="write")
def plain(a: int, b: bool = True, c: str | None = None) -> str:
    """Plain types."""
    got.append({"a": a, "b": b, "c": c})
    return "ran"


@tool(effect="write")
def loose(a: Any, b: list[Any] | dict[str, Any] | None = None) -> str:
    """No types at all."""
    got.append({"a": a, "b": b})
    return "ran"


@tool(effect="write")
def rich(
    a: Options, b: set[int] | Size = Size.LARGE, c: Annotated[float, Field(alias="x")] = 0.5
) -> str:
    """Types that convert."""
    got.append({"a": a, "b": b, "c": c})
    return "ran"


@tool(effect="write")
def choice(a: Literal["x", 1] | float | dict[int, bool]) -> str:
    """A union."""
    got.append({"a": a})
    return "ran"


TOOLS = (plain, loose, rich, choice)
KEYS = st.sampled_from(("a", "b", "c", "x", "d", "recursive", "depth", "1"))
NUMBERS = st.one_of(
    st.sampled_from(
        ("1e400", "-1e999", "NaN", "Infinity", "1", "0", "1.0", "-0.0", "2e0", "1e308")
    ),
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)
TEXTS = st.one_of(
    st.sampled_from(
        ('"yes"', '"on"', '"1"', '"x"', '"large"', '"\\ud83d"', '"\x1a"', '"\\ud83d\\ude00"')
    ),
    st.text(max_size=5).map(json.dumps),
)


def _list(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]")


def _object(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(st.tuples(KEYS, inner), max_size=3).map(
        lambda pairs: "{" + ",".join(f'"{key}":{value}' for key, value in pairs) + "}"
    )


VALUES = st.recursive(
    st.one_of(NUMBERS, TEXTS, st.sampled_from(("true", "false", "null"))),
    lambda inner: st.one_of(_list(inner), _object(inner)),
    max_leaves=6,
)


BOOLEANS = st.sampled_from(("true", "false", "1", "0", '"yes"', '"off"', '"T"', "1.0"))
WHOLE = st.one_of(st.integers().map(str), st.sampled_from(("1.0", '"2"', "-0", '"007"', "1e3")))
REAL = st.one_of(NUMBERS, st.sampled_from(('"1.5"', '"1e400"', '"-3"')))
SETS = st.one_of(_list(WHOLE), st.sampled_from(('"large"', "1", '["3", 10, 2, 1]')))


def _written(
    needed: dict[str, st.SearchStrategy[str]], others: dict[str, st.SearchStrategy[str]]
) -> st.SearchStrategy[str]:
    """An object of these members, of which the others may be absent."""
    return st.fixed_dictionaries(needed, optional=others).map(
        lambda pairs: "{" + ",".join(f'"{key}":{value}' for key, value in pairs.items()) + "}"
    )


FITTING = {
    "plain": _written({"a": WHOLE}, {"b": BOOLEANS, "c": TEXTS}),
    "loose": _written({"a": VALUES}, {"b": _list(VALUES)}),
    "rich": _written(
        {"a": _written({}, {"recursive": BOOLEANS, "d": REAL})}, {"b": SETS, "x": REAL}
    ),
    "choice": _written({"a": st.one_of(REAL, TEXTS, st.just('{"1": "yes", "2": 0}'))}, {}),
}
CALLS = st.sampled_from(TOOLS).flatmap(
    lambda used: st.tuples(st.just(used), st.one_of(FITTING[used.name], _object(VALUES)))
)


class Watch(Middleware):
    def __init__(self, note: Callable[[str, object], None]) -> None:
        self.note = note

    async def before_tool(self, moment: Any) -> None:
        self.note("before", moment.arguments)

    async def wrap_tool(self, moment: Any, call_next: Any) -> ToolResult:
        self.note("wrap", json.loads(moment.call.arguments))
        result: ToolResult = await call_next(moment)
        return result

    async def after_tool(self, moment: Any) -> None:
        self.note("after", moment.arguments)


class NotingTable(RuleTable):
    """Notes what the rules judge."""

    def __init__(self, note: Callable[[str, object], None]) -> None:
        super().__init__(ask=(Rule("*"),))
        self.note = note

    def find_permission(self, tool: str, arguments: Any) -> Any:
        self.note("rule", arguments)
        return super().find_permission(tool, arguments)


def judge(note: Callable[[str, object], None]) -> ToolPermission:
    """Rules that ask about every call, and note what they judge."""
    return ToolPermission(source=NotingTable(note))


async def _turn(used: Tool, arguments: str) -> tuple[dict[str, object], str]:
    seen: dict[str, object] = {}

    async def yes(request: Any) -> object:
        assert isinstance(request, PermissionQuestion)
        seen["person"] = request.arguments
        return request.approve()

    agent = Agent(
        ScriptedModel(ToolCall("1", used.name, arguments), "Done."),
        tools=TOOLS,
        middleware=[judge(seen.__setitem__), Watch(seen.__setitem__)],
        on_question=yes,
        clock=FakeClock(),
    )
    result = await agent.run("Go.")
    (told,) = [
        part.text
        for message in result.messages
        for part in message.parts
        if isinstance(part, ToolResult)
    ]
    return seen, told


def _same(one: object) -> bytes:
    return msgspec.json.encode(one, order="deterministic")


@pytest.mark.slow  # takes half a second or more
@given(CALLS)
@settings(max_examples=150, deadline=None)
def test_all_see_one_value_or_the_tool_does_not_run(call: tuple[Tool, str]) -> None:
    used, arguments = call
    got.clear()
    seen, told = asyncio.run(_turn(used, arguments))
    if not got:
        assert seen == {"after": None}
        assert "was not run: its arguments" in told or "was not run: its argument " in told
        return
    ran = TypeAdapter(dict[str, Any]).validate_python(got[0])
    shown = {_same(value) for value in seen.values()}
    assert set(seen) == {"rule", "person", "before", "wrap", "after"}
    assert shown == {_same(json_data(ran))}
