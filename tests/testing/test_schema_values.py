"""A value made of a schema is valid for it."""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Literal, NamedTuple

import pytest
from annotated_types import Ge, Gt, Le, Len, Lt, MultipleOf
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter

from holdfast.testing.emulator.script_file import make_value


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Tree(BaseModel):
    name: str
    children: list[Tree] = []
    parent: Tree | None = None


class Pair(NamedTuple):
    left: int
    right: str


@dataclass
class Trip:
    city: str
    days: Annotated[int, Ge(2), Le(9)]
    tags: Annotated[list[str], Len(2, 3)]
    colour: Colour = Colour.RED
    at: dt.date | None = None
    stops: list[Pair] = field(default_factory=list)


TYPES = [
    *(int, float, str, bool, None, Colour, Tree, Trip, Pair),
    *(dt.date, dt.datetime, dt.time, dt.timedelta, uuid.UUID),
    *(Literal["a", 2], int | None, list[Trip], dict[str, int], tuple[int, str], set[int]),
]


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_a_value_of_a_type_is_valid(kind: object) -> None:
    adapter = TypeAdapter(kind)
    adapter.validate_json(TypeAdapter(object).dump_json(make_value(adapter.json_schema())))


@given(low=st.integers(-50, 50), size=st.integers(2, 40), step=st.integers(1, 3), data=st.data())
def test_a_number_keeps_its_bounds(low: int, size: int, step: int, data: st.DataObject) -> None:
    lower, upper = data.draw(st.sampled_from([Ge, Gt])), data.draw(st.sampled_from([Le, Lt]))
    size = max(size, 2 * step)
    kind = Annotated[int, lower(low), upper(low + size), MultipleOf(step)]
    adapter = TypeAdapter(kind)
    adapter.validate_python(make_value(adapter.json_schema()))


def test_a_schema_without_an_end_is_refused() -> None:
    endless = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    with pytest.raises(ValueError, match="nested too deeply"):
        make_value(endless)


def test_a_reference_that_leads_nowhere_is_refused() -> None:
    with pytest.raises(ValueError, match="leads nowhere"):
        make_value({"$ref": "#/$defs/None"})
