"""Every kind of output type over real HTTP: each wire takes its schema, and the value comes back."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import json
import uuid
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, get_origin

import annotated_types as at
import msgspec
import pytest
from pydantic import BaseModel, Field
from tests.wire.test_structured_output import agent_for, said
from typing_extensions import TypedDict

from holdfast import Agent, OutputError, StructuredOutput
from holdfast.errors import ConfigurationError
from holdfast.testing import ScriptedModel
from holdfast.testing.emulator import EmulatedRequest, Emulator
from holdfast.testing.emulator.script import ReplyLike
from holdfast.testing.emulator.wires.emulator_wire import WIRES

every_wire = pytest.mark.parametrize("wire", WIRES)

UserId = NewType("UserId", int)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Options(TypedDict):
    size: int
    note: NotRequired[str]


@dataclass
class Order:
    when: dt.date
    price: decimal.Decimal
    id: uuid.UUID
    color: Color
    note: str | None = None


class Visit(BaseModel):
    at: dt.datetime
    tags: list[dict[str, int]]
    guests: Annotated[int, Field(gt=0, le=5, description="how many people")]


class Point(NamedTuple):
    x: int
    y: str


ID = "12345678-1234-5678-1234-567812345678"
ORDER = {"when": "2024-01-02", "price": "1.10", "id": ID, "color": "red", "note": None}
AN_ORDER = Order(dt.date(2024, 1, 2), decimal.Decimal("1.10"), uuid.UUID(ID), Color.RED)
VISIT = {"at": "2024-01-02T03:04:05Z", "tags": [{"a": 1}], "guests": 3}

KINDS: list[tuple[Any, Any, Any]] = [
    (int | str, "a", "a"),
    (int | None, None, None),
    (Order | None, ORDER, AN_ORDER),
    (Literal["a", "b", 3], 3, 3),
    (UserId, 5, 5),
    (list[UserId], [5], [5]),
    (Annotated[int, at.Gt(0)], 5, 5),
    (Annotated[str, at.MinLen(2)], "ab", "ab"),
    (Annotated[list[int], at.Len(1, 2)], [1], [1]),
    (Annotated[int, Field(ge=1, description="nights")], 1, 1),
    (Annotated[int, msgspec.Meta(gt=0)], 5, 5),
    (list[Annotated[str, msgspec.Meta(pattern="^a+$")]], ["aa"], ["aa"]),
    (Annotated[int, "a number of days"], 5, 5),
    (Options, {"size": 1}, {"size": 1}),
    (Order, ORDER, AN_ORDER),
    (Visit, VISIT, Visit.model_validate(VISIT)),
    (Color, "red", Color.RED),
    (Level, 2, Level.HIGH),
    (dt.date, "2024-01-02", dt.date(2024, 1, 2)),
    (dt.datetime, "2024-01-02T03:04:05Z", dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC)),
    (dt.time, "10:00:00", dt.time(10)),
    (dt.timedelta, "PT3S", dt.timedelta(seconds=3)),
    (decimal.Decimal, "1.10", decimal.Decimal("1.10")),
    (uuid.UUID, ID, uuid.UUID(ID)),
    (dict[str, list[Order]], {"a": [ORDER]}, {"a": [AN_ORDER]}),
    (list[dict[str, Order | None]], [{"a": None}], [{"a": None}]),
    (tuple[int, str], [1, "a"], (1, "a")),
    (Point, [1, "a"], Point(1, "a")),
    (set[int], [1], {1}),
    (bool, True, True),
    (float, 1.5, 1.5),
    (Any, {"a": [1]}, {"a": [1]}),
]


def name_of(kind: Any) -> str:
    return str(getattr(kind, "__name__", kind)).replace("typing.", "")


def write(request: EmulatedRequest, value: Any, kind: Any) -> ReplyLike:
    """The value as a model writes it: inside of an envelope if its schema is no object."""
    is_object = kind in (Order, Visit, Options) or get_origin(kind) is dict
    reply = said(request, value)
    if isinstance(reply, str) and not is_object:
        return json.dumps({"answer": value})
    return reply


# More than 40 cases: a type and a wire are a conversation of their own over HTTP.
@every_wire
@pytest.mark.parametrize(
    ("kind", "written", "value"), KINDS, ids=[name_of(one[0]) for one in KINDS]
)
async def test_every_wire_takes_the_schema_and_gives_the_value(
    wire: str, kind: Any, written: Any, value: Any
) -> None:
    async with Emulator(lambda request: write(request, written, kind)) as emulator:
        for mode in ("auto", "tool"):
            agent = agent_for(wire, emulator, StructuredOutput[object](kind, mode=mode))  # type: ignore[arg-type]
            result = await agent.run("Go")
            assert result.output == value
            assert type(result.output) is type(value)
            assert result.parsed_by == "strict"
        assert [entry.problem for entry in emulator.requests] == ["", ""]


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        (Annotated[int, at.Gt(0)], 0),
        (Annotated[str, at.MinLen(2)], "a"),
        (Annotated[int, Field(ge=1)], 0),
        (Annotated[int, msgspec.Meta(gt=0)], 0),
        (Annotated[int, msgspec.Meta(ge=1, lt=3)], 3),
        (Annotated[float, msgspec.Meta(multiple_of=0.5)], 0.7),
        (Annotated[str, msgspec.Meta(max_length=1)], "ab"),
        (list[Annotated[str, msgspec.Meta(pattern="^a+$")]], ["b"]),
        (Annotated[int, msgspec.Meta(gt=0)] | None, 0),
        (dict[str, Annotated[int, msgspec.Meta(gt=0)]], {"a": 0}),
        (Literal["a"], "b"),
        (Color, "green"),
        (dt.date, "2024-13-02"),
        (Visit, {**VISIT, "guests": 0}),
    ],
)
async def test_a_value_outside_of_its_constraints_is_not_taken(kind: Any, bad: Any) -> None:
    agent = Agent(ScriptedModel(json.dumps(bad)), output=StructuredOutput[object](kind, attempts=1))
    with pytest.raises(OutputError):
        await agent.run("Go")


def test_a_constraint_that_pydantic_would_ignore_is_refused() -> None:
    @dataclass
    class Inner:
        size: Annotated[int, msgspec.Meta(gt=0)]

    @dataclass
    class Outer:
        inner: list[Inner]

    hints = {"inner": list[Inner]}
    Outer.__annotations__ = hints
    Inner.__annotations__ = {"size": Annotated[int, msgspec.Meta(gt=0)]}
    for kind in (Inner, Outer, list[Outer]):
        with pytest.raises(
            ConfigurationError, match=r"output: the field Inner\.size has a msgspec"
        ):
            Agent("ollama:a", output=kind)


class TestOutputFunctions:
    @every_wire
    @pytest.mark.parametrize("mode", ["native", "tool", "prompt"])
    async def test_every_wire_writes_the_arguments(self, wire: str, mode: Any) -> None:
        def order(
            color: Color, days: Annotated[int, msgspec.Meta(ge=1)], note: str | None = None
        ) -> list[object]:
            """Order something.

            Args:
                color: the colour.
                days: how long.
            """
            return [color, days, note]

        def choose_reply(request: EmulatedRequest) -> ReplyLike:
            right = request.text.startswith("The answer does not")
            arguments = {"color": "red", "days": 2 if right else 0}
            if mode == "tool":
                (offered,) = request.tools
                assert offered.name == "order"
                return call_order(arguments)
            return json.dumps(arguments)

        async with Emulator(choose_reply) as emulator:
            agent = agent_for(wire, emulator, StructuredOutput(order, mode=mode))
            result = await agent.run("Go", session="s")
            again = await agent.run("Go", session="s")
            assert [entry.problem for entry in emulator.requests] == [""] * 4
        assert result.output == again.output == [Color.RED, 2, None]

    @every_wire
    async def test_a_turn_in_doubt_can_be_followed_by_another(self, wire: str) -> None:
        def fail(color: str) -> str:
            if color == "red":
                raise OSError("lost")
            return color

        def choose_reply(request: EmulatedRequest) -> ReplyLike:
            return json.dumps({"color": "blue" if request.text == "Again" else "red"})

        async with Emulator(choose_reply) as emulator:
            agent = agent_for(wire, emulator, StructuredOutput(fail, mode="native"))
            with pytest.raises(Exception, match="OSError"):
                await agent.run("Go", session="s")
            assert (await agent.run("Again", session="s")).output == "blue"
            assert [entry.problem for entry in emulator.requests] == ["", ""]


def call_order(arguments: dict[str, Any]) -> ReplyLike:
    from holdfast.testing.emulator import call

    return call("order", arguments)
