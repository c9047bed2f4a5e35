"""Which signatures give JSON data as validation leaves it."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field
from typing_extensions import TypedDict

from holdfast import tool


class Colour(Enum):
    RED = "red"


class Inner(BaseModel):
    a: int = 1


class Row(TypedDict):
    a: int


class Chain(TypedDict):
    following: list[Chain]


@pytest.mark.parametrize(
    ("annotation", "plain"),
    [
        (str, True),
        (int | None, True),
        (Any, True),
        (list[dict[str, float]], True),
        (Literal["a", 1], True),
        (Annotated[str, Field(min_length=1)], True),
        (Row, True),
        (Annotated[list[int], Field(default_factory=list)], False),
        (bytes, False),
        (set[int], False),
        (dict[int, str], False),
        (Colour, False),
        (Literal[Colour.RED], False),
        (Inner, False),
        (list[Inner], False),
        (Chain, False),
        (Annotated[str, AfterValidator(str)], False),
        (Annotated[str, Field(alias="b")], True),
    ],
    ids=str,
)
def test_what_is_plain(annotation: Any, plain: bool) -> None:
    def f(a: Any) -> None: ...

    f.__annotations__["a"] = annotation
    assert tool(f).signature.is_plain is plain


@pytest.mark.parametrize(
    ("default", "plain"),
    [
        ("a", True),
        (None, True),
        (1.5, True),
        ([], True),
        (float("inf"), False),
        ([float("inf")], False),
        (Colour.RED, False),
        (b"a", False),
    ],
)
def test_a_default_is_of_any_type(default: object, plain: bool) -> None:
    def f(a: Any) -> None: ...

    f.__defaults__ = (default,)
    assert tool(f).signature.is_plain is plain


def test_a_name_that_pydantic_does_not_allow_is_not_plain() -> None:
    def f(_a: int) -> None: ...

    assert not tool(f).signature.is_plain
