"""A declared type is the whole check of an argument: what it accepts, and what it says of the rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, Protocol, TypedDict

import pytest
from msgspec import Struct

from holdfast.core.argument_checks import check_arguments, check_fields, check_value
from holdfast.core.constraints import (
    NonEmptyText,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Share,
    at_least,
    between,
)
from holdfast.core.errors import ConfigurationError


class Colour(Enum):
    RED = "red"


class Sender(Protocol):
    def send(self, text: str) -> None: ...
    def close(self) -> None: ...


class Wire:
    def send(self, text: str) -> None: ...
    def close(self) -> None: ...


class Row(TypedDict):
    name: str


class Plain(Struct):
    name: str = ""


def problem(value: object, expected: object) -> str:
    """What is said against the value, without the name of the argument; "" when it is taken."""
    try:
        check_value("x", value, expected)
    except ConfigurationError as error:
        return str(error).removeprefix("x: ")
    return ""


ACCEPTED: list[tuple[object, Any]] = [
    (5, int),
    (5, float),
    (5.5, float),
    (True, bool),
    ("", str),
    (None, None),
    (None, int | None),
    (object(), object),
    (object(), Any),
    ("a", Literal["a", "b"]),
    (0, NonNegativeInt),
    (1, PositiveInt),
    (2**63 - 1, int),
    (0.0, NonNegativeFloat),
    (5e-324, PositiveFloat),
    (1, Share),
    (" x ", NonEmptyText),
    (3, Annotated[int, at_least(3)]),
    (3, Annotated[float, between(3, 3)]),
    ((), tuple[str, ...]),
    (["a"], tuple[str, ...]),
    (["a"], Sequence[str]),
    (("a",), list[str] | tuple[str, ...]),
    ((1, "a"), tuple[int, str]),
    ({"a"}, Iterable[str]),
    ({"a": 1}, Mapping[str, int]),
    ({1: 2}, dict),
    ({"name": "a"}, Row),
    (print, Callable),
    (print, Callable[[str], None]),
    (Wire(), Sender),
    (KeyError, type[Exception]),
    (KeyError, type),
    (Colour.RED, Colour),
    (Plain(), Plain),
]


@pytest.mark.parametrize(("value", "expected"), ACCEPTED)
def test_a_value_of_the_type_is_taken(value: object, expected: object) -> None:
    assert problem(value, expected) == ""


REFUSED: list[tuple[object, Any, str]] = [
    (True, int, "must be a whole number, got bool"),
    (1.5, int, "must be a whole number, got float"),
    (True, float, "must be a number, got bool"),
    (math.nan, float, "must be a finite number, got nan"),
    (math.inf, PositiveFloat, "must be a finite number, got inf"),
    (math.nan, PositiveFloat, "must be a finite number above 0, got nan"),
    (0, PositiveFloat, "must be a finite number above 0, got 0"),
    (-1, NonNegativeFloat | None, "must be a finite number from 0, got -1"),
    (0, PositiveInt, "must be at least 1, got 0"),
    (95, Share, "must be above 0 and at most 1, got 95"),
    (2, Annotated[int, at_least(3)], "must be at least 3, got 2"),
    (0, Annotated[float, between(0.1, 86_400)], "must be from 0.1 to 86400, got 0"),
    (" ", NonEmptyText, "must be a text that is not empty, got ' '"),
    (1, bool, "must be True or False, got int"),
    (int, int, "must be a whole number, got the class int. Write int(...)"),
    ("x", int | None, "must be a whole number or None, got str"),
    ("c", Literal["a", "b"], """must be "a" or "b", got 'c'"""),
    (1, Literal["a", "b"], 'must be "a" or "b", got int'),
    ("c", PositiveFloat | Literal["a"] | None, """must be a number, "a" or None; got 'c'"""),
    ("ab", Sequence[str], "must be a list, got str. Write x=[...]"),
    (print, Sequence[Callable[[], None]], "must be a list, got builtin_function_or_method. Write x=[...]"),
    (5, Sequence[str], "must be a list, got int"),
    (b"ab", Sequence[int], "must be a list, got bytes"),
    ("x", Mapping[str, str], "must be a mapping, got str"),
    (5, Callable, "must be a function, got int"),
    (5, Sender, "must be an object with send, close; got int"),
    (Wire, Sender | None, "must be an object with send, close, or None; got the class Wire. Write Wire(...)"),
    (KeyError(), type[Exception], "must be a subclass of Exception, got KeyError"),
    (int, type[Exception], "must be a subclass of Exception, got the class int. Write int(...)"),
    ("red", Colour, "must be Colour, got str"),
    ([], Row, "must be a mapping, got list"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected", "text"), REFUSED)
def test_any_other_value_is_refused_in_plain_words(
    value: object, expected: object, text: str
) -> None:
    assert problem(value, expected) == text


@pytest.mark.parametrize(
    ("value", "expected", "text"),
    [
        (["a", 5], Sequence[str], "x[1]: must be a text, got int"),
        ([1, 0], tuple[PositiveInt, ...], "x[1]: must be at least 1, got 0"),
        ([["a"], [5]], Sequence[Sequence[str]], "x[1][0]: must be a text, got int"),
        ({Colour.RED: -1}, Mapping[Colour, NonNegativeInt], "x[red]: must be at least 0, got -1"),
        ({"a": "b"}, Mapping[str, int], "x['a']: must be a whole number, got str"),
        ({5: 1}, Mapping[str, int], "a key of x: must be a text, got int"),
    ],
)
def test_an_item_is_named_by_its_place(value: object, expected: object, text: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        check_value("x", value, expected)
    assert str(raised.value) == text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("sk-secret", int | None),
        ("sk-secret", Mapping[str, str]),
        (["sk-secret"], Sequence[int]),
        ({"authorization: sk-secret": 5}, Mapping[str, str]),
        ({b"sk-secret": "x"}, Mapping[str, str]),
        ({"authorization": b"sk-secret"}, Mapping[str, str]),
    ],
)
def test_a_message_shows_no_text_that_may_be_a_secret(value: object, expected: object) -> None:
    with pytest.raises(ConfigurationError) as raised:
        check_value("x", value, expected)
    assert "secret" not in str(raised.value)


def test_an_iterator_is_not_read() -> None:
    rows = iter(["a", 5])
    check_value("x", rows, Iterable[str])
    assert list(rows) == ["a", 5]


class Options(Struct, frozen=True, kw_only=True):
    name: NonEmptyText = ""
    """The default is not checked, so a declared limit may be for given values only."""
    seconds: PositiveFloat | None = None

    def __post_init__(self) -> None:
        check_fields(self, "options.")


@dataclass(frozen=True)
class Place:
    street: str
    number: PositiveInt = 1

    def __post_init__(self) -> None:
        check_fields(self)


def test_the_fields_of_a_record_are_its_checks() -> None:
    assert Options(seconds=2).seconds == 2
    assert Options().name == ""
    with pytest.raises(ConfigurationError, match=r"^options\.seconds: must be a finite number"):
        Options(seconds=0)
    with pytest.raises(ConfigurationError, match=r"^options\.name: must be a text that is not"):
        Options(name=" ")
    with pytest.raises(ConfigurationError, match=r"^number: must be at least 1, got 0$"):
        Place("Main Street", 0)


@check_arguments
def post(*texts: str, to: NonEmptyText, copies: PositiveInt = 1, **rest: int) -> int:
    """Return how many are posted."""
    return len(texts) * copies + sum(rest.values())


def test_the_parameters_of_a_function_are_its_checks() -> None:
    assert post("a", "b", to="Ada", copies=2, extra=1) == 5
    with pytest.raises(ConfigurationError, match=r"^texts\[1\]: must be a text, got int$"):
        post("a", 5, to="Ada")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"^to: must be a text that is not empty"):
        post("a", to="")
    assert post.__doc__ == "Return how many are posted."


def test_arguments_that_do_not_fit_the_signature_are_a_type_error_as_always() -> None:
    with pytest.raises(TypeError, match=r"post\(\) missing 1 required keyword-only argument: 'to'"):
        post("a")  # type: ignore[call-arg]
