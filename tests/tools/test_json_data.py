"""Validated values as JSON data: nothing is hidden, and what JSON cannot hold is refused."""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from ipaddress import ip_address
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from pydantic import AnyUrl, BaseModel, ConfigDict, Field, RootModel, SecretStr, field_serializer

from holdfast.tools.json_data import NotShowableError, UnknownKindError, json_data


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Box:
    width: float
    most: float = float("inf")
    area: float = field(default=0.0, init=False)


class Secret(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str = Field(alias="n", exclude=True)
    key: SecretStr
    limit: float = float("inf")

    @field_serializer("name")
    def hide(self, value: str) -> str:
        return "hidden"


class Names(RootModel[list[str]]):
    pass


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a", "a"),
        (Text("a"), "a"),
        (True, True),
        (None, None),
        (2**70, 2**70),
        (1.5, 1.5),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Point(1, 2), [1, 2]),
        (deque([1.5]), [1.5]),
        ({"b", "a", "c"}, ["a", "b", "c"]),
        (frozenset({3, 1}), [1, 3]),
        ({1: {Colour.RED: ()}}, {"1": {"red": []}}),
        (OrderedDict(a=Decimal("1.50")), {"a": "1.50"}),
        (Box(1.0), {"width": 1.0}),
        (Names(["a"]), ["a"]),
        (
            Secret.model_validate({"n": "ann", "key": "hunter2", "more": 1}),
            {"name": "ann", "key": "hunter2", "more": 1},
        ),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"),
        (timedelta(seconds=90), "PT1M30S"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("a/b"), "a/b"),
        (AnyUrl("https://a.example/"), "https://a.example/"),
        (ip_address("::1"), "::1"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_is_converted_unchanged(value: object, shown: object) -> None:
    found = json_data(value)
    assert found == shown
    assert json.loads(json.dumps(found)) == shown


INF = float("inf")


@pytest.mark.parametrize(
    "value",
    [
        INF,
        -INF,
        float("nan"),
        [1, [INF]],
        {"a": {"b": INF}},
        {INF: 1},
        Box(INF, 2.0),
        Secret.model_validate({"n": "a", "key": "b", "limit": INF}),
        Decimal("NaN"),
        {1: "a", "1": "b"},
    ],
    ids=range(10),
)
def test_what_json_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(NotShowableError):
        json_data(value)


@pytest.mark.parametrize("value", [b"a", object(), [object()], iter([1])], ids=range(4))
def test_an_object_of_no_known_form_is_not_guessed(value: Any) -> None:
    with pytest.raises(UnknownKindError):
        json_data(value)
