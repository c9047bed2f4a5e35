"""The texts about wrong values: each names the place, the constraint that is broken, and the value.

The tables have a row for each kind of constraint. The same value as an argument of a tool and as a field of an output
gets the same text.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args
from uuid import UUID

import annotated_types as at
import msgspec
import pydantic.dataclasses
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    UUID4,
    AfterValidator,
    AliasChoices,
    AliasPath,
    AnyUrl,
    AwareDatetime,
    Base64Str,
    BaseModel,
    ByteSize,
    ConfigDict,
    DirectoryPath,
    Discriminator,
    Field,
    FilePath,
    FutureDate,
    FutureDatetime,
    HttpUrl,
    IPvAnyAddress,
    Json,
    NaiveDatetime,
    NewPath,
    PastDate,
    PastDatetime,
    SecretStr,
    StringConstraints,
    Tag,
    UrlConstraints,
    create_model,
    model_validator,
)
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import ErrorType
from typing_extensions import TypedDict

from holdfast import Agent, ConfigurationError, ToolCall, tool
from holdfast.core import error_words
from holdfast.core.json_schema import JsonSchema
from holdfast.core.output import Invalid
from holdfast.core.problem_wording import word_msgspec_error
from holdfast.core.schema_checks.schema_limits import StepBudget
from holdfast.output.pydantic_output import pydantic_output
from holdfast.output.structured_output import compile_output
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.tools.tool_failures import RefusedCall

NOON = dt.datetime(2026, 11, 29, 12).astimezone()
NOW = NOON.timestamp()
NOW_TEXT = NOON.isoformat(timespec="seconds")


class Cat(BaseModel):
    kind: Literal["cat"]
    claws: int = Field(ge=0)
    cat: dict[str, int] = {}


class Dog(BaseModel):
    kind: Literal["dog"]
    bark: str


def kind_of(value: Any) -> Any:
    return value.get("k") if isinstance(value, dict) else None


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]
Call = Annotated[
    Annotated[Cat, Tag("c")] | Annotated[Dog, Tag("d")],
    Discriminator(kind_of),
]


@dataclass
class Point:
    x: int
    y: int


@pydantic.dataclasses.dataclass(config=ConfigDict(extra="forbid"))
class Span:
    first: int
    last: int

    def __post_init__(self) -> None:
        if self.first > self.last:
            raise ValueError("first is after last")


class Pair(NamedTuple):
    a: int
    b: str = ""


class Keys(TypedDict):
    a: int


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int


class Renamed(BaseModel):
    a: int = Field(alias="$a")
    b: int = Field(0, validation_alias=AliasChoices("b1", "b2"))
    c: int = Field(0, validation_alias=AliasPath("c", 0))


class Ordered(BaseModel):
    low: int
    high: int

    @model_validator(mode="after")
    def check_order(self) -> Ordered:
        if self.low > self.high:
            raise ValueError("low is above high, password=hunter2")
        return self


class Color(Enum):
    RED = "red"
    BLUE = "blue"


def even(number: int) -> int:
    if number % 2:
        raise AssertionError(f"{number} is odd")
    return number


def known_user(name: str) -> str:
    raise PydanticCustomError("no_such_user", "there is no user of that name")


Code = Annotated[str, Field(pattern="^[A-Z]{3}$")]
Positive = Annotated[int, Field(ge=1)]
META = msgspec.Meta

ROWS: list[tuple[object, object, str]] = [
    # Numbers
    (int, "x", 'it: must be an integer; got "x"'),
    (int, 1.5, "it: must be an integer; got 1.5"),
    (Annotated[int, Field(ge=1, le=5)], "x", 'it: must be an integer, at least 1, at most 5; got "x"'),
    (float, [], "it: must be a number; got []"),
    (bool, 3, "it: must be true or false; got 3"),
    (Annotated[int, Field(gt=1)], 1, "it: must be more than 1; got 1"),
    (Positive, 0, "it: must be at least 1; got 0"),
    (Annotated[float, Field(gt=0)], 0, "it: must be more than 0; got 0"),
    (Annotated[float, Field(lt=0.5)], 0.5, "it: must be less than 0.5; got 0.5"),
    (Annotated[int, Field(le=1)], 2, "it: must be at most 1; got 2"),
    (Annotated[int, Field(multiple_of=5)], 7, "it: must be a multiple of 5; got 7"),
    (Annotated[int, at.Interval(gt=1, lt=5)], 9, "it: must be less than 5; got 9"),
    (float, float("inf"), "it: must be a finite number; got Infinity"),
    (Decimal, "x", 'it: must be a decimal number (such as 12.50); got "x"'),
    (Annotated[Decimal, Field(gt=0)], "-1", 'it: must be more than 0; got "-1"'),
    (Annotated[Decimal, Field(decimal_places=2)], "1.234", 'it: must have at most 2 decimals; got "1.234"'),
    (Annotated[Decimal, Field(max_digits=3)], "1234", 'it: must have at most 3 digits; got "1234"'),
    (
        Annotated[Decimal, Field(max_digits=4, decimal_places=2)],
        123.4,
        "it: must have at most 2 digits before the decimal point; got 123.4",
    ),
    (Fraction, "x", 'it: must be a fraction (such as 3/4); got "x"'),
    (ByteSize, "x", 'it: must be a size in bytes (such as 1.5MB); got "x"'),
    # Texts
    (str, 3, "it: must be a string; got 3"),
    (Annotated[str, Field(min_length=3)], "ab", 'it: must have at least 3 characters; got "ab", 2 characters'),
    (Annotated[str, Field(max_length=1)], "ab", 'it: must have at most 1 character; got "ab", 2 characters'),
    (Code, "eur", 'it: must match the pattern ^[A-Z]{3}$; got "eur"'),
    (Annotated[str, StringConstraints(to_upper=True, max_length=1)], "ab", 'it: must have at most 1 character; got "ab", 2 characters'),
    (Annotated[str, at.Predicate(str.islower)], "A", 'it: must be in lower case; got "A"'),
    (Annotated[bytes, Field(max_length=3)], "éé", 'it: must have at most 3 bytes; got "éé", 4 bytes'),
    (Base64Str, "ab", 'it: must be valid base64; got "ab", Incorrect padding'),
    (Annotated[SecretStr, Field(min_length=5)], "abc", 'it: must have at least 5 characters; got "abc", 3 characters'),
    (Literal["a", "b"], "c", 'it: must be one of "a", "b"; got "c"'),
    (Literal["a"], "c", 'it: must be "a"; got "c"'),
    (Color, "green", 'it: must be one of "red", "blue"; got "green"'),
    (UUID, 3, "it: must be a UUID; got 3"),
    (
        UUID4,
        "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        'it: must be a UUID of version 4; got "6ba7b810-9dad-11d1-80b4-00c04fd430c8", version 1',
    ),
    (HttpUrl, "ftp://x.org", 'it: must be a URL that begins with http:// or https://; got "ftp://x.org"'),
    (
        HttpUrl,
        "foo",
        'it: must be a URL (such as https://example.org/page); got "foo", relative URL without a base',
    ),
    (
        Annotated[AnyUrl, UrlConstraints(max_length=10)],
        "http://abcdefghij.org",
        'it: must have at most 10 characters; got "http://abcdefghij.org", 21 characters',
    ),
    (IPv4Address, "x", 'it: must be an IPv4 address; got "x"'),
    (IPv6Address, "1.2.3.4", 'it: must be an IPv6 address; got "1.2.3.4"'),
    (IPv4Network, "x", 'it: must be an IPv4 network; got "x"'),
    (IPv4Interface, "x", 'it: must be an IPv4 interface; got "x"'),
    (IPvAnyAddress, "x", 'it: must be an IPv4 or IPv6 address; got "x"'),
    (Path, 3, "it: must be a path; got 3"),
    (FilePath, "/no", 'it: must be the path of a file that exists; got "/no"'),
    (DirectoryPath, "/no", 'it: must be the path of a folder that exists; got "/no"'),
    (NewPath, "/", 'it: must be a path that does not exist yet; got "/"'),
    (re.Pattern[str], "(", 'it: must be a valid regular expression; got "("'),
    # Dates and times
    (FutureDate, "2001-01-01", "it: must be a date in the future; got 2001-01-01, today is 2026-11-29"),
    (PastDate, "2101-01-01", "it: must be a date in the past; got 2101-01-01, today is 2026-11-29"),
    (
        FutureDatetime,
        "2001-01-01T00:00:00Z",
        f"it: must be a date and time in the future; got 2001-01-01T00:00:00Z, now is {NOW_TEXT}",
    ),
    (
        PastDatetime,
        "2101-01-01T00:00:00",
        f"it: must be a date and time in the past; got 2101-01-01T00:00:00, now is {NOW_TEXT}",
    ),
    (
        AwareDatetime,
        "2026-01-01T10:00:00",
        'it: must have a time zone (such as 2026-11-29T10:00:00Z); got "2026-01-01T10:00:00"',
    ),
    (NaiveDatetime, "2026-01-01T10:00:00Z", 'it: must have no time zone; got "2026-01-01T10:00:00Z"'),
    (Annotated[dt.date, Field(ge=dt.date(2026, 1, 1))], "2020-01-01", 'it: must be at least 2026-01-01; got "2020-01-01"'),
    (Annotated[dt.timedelta, Field(le=dt.timedelta(hours=1))], "PT2H", 'it: must be at most 1 hour; got "PT2H"'),
    (dt.date, "2026-01-01T10:00:00", 'it: must be a date without a time; got "2026-01-01T10:00:00"'),
    (
        dt.date,
        "2024-02-31",
        'it: must be a date (YYYY-MM-DD); got "2024-02-31", day value is outside expected range',
    ),
    (dt.date, [], "it: must be a date (YYYY-MM-DD); got []"),
    (
        dt.datetime,
        "soon",
        'it: must be a date and time (such as 2026-11-29T10:00:00Z); got "soon", input is too short',
    ),
    (
        dt.time,
        "25:00",
        'it: must be a time (such as 10:30:00); got "25:00", hour value is outside expected range of 0-23',
    ),
    (dt.timedelta, "x", 'it: must be a duration (such as PT1H30M); got "x", invalid digit in duration'),
    # Lists and tuples
    (list[int], 3, "it: must be an array of integers; got 3"),
    (list[int], [1, "x"], 'it[1]: must be an integer; got "x"'),
    (Annotated[list[int], Field(min_length=2)], [1], "it: must have at least 2 items; got [1], 1 item"),
    (Annotated[list[int], at.Len(0, 1)], [1, 2], "it: must have at most 1 item; got [1,2], 2 items"),
    (Annotated[set[int], Field(min_length=2)], [1, 1], "it: must have at least 2 items; got [1,1], 1 different item"),
    (tuple[int, str], [1], "it[1]: is required (a string)"),
    (tuple[int, str], [1, "a", 3], 'it: must have at most 2 items; got [1,"a",3], 3 items'),
    (Sequence[int], {}, "it: must be an array of integers; got {}"),
    (Pair, ["x"], 'it[0]: must be an integer; got "x"'),
    # Objects
    (Annotated[dict[str, int], Field(max_length=1)], {"a": 1, "b": 2}, 'it: must have at most 1 key; got {"a":1,"b":2}, 2 keys'),
    (Annotated[dict[str, int], Field(min_length=1)], {}, "it: must have at least 1 key; got {}, 0 keys"),
    (dict[Code, int], {"eur": 1}, 'the key "eur" of it: must match the pattern ^[A-Z]{3}$; got "eur"'),
    (dict[Code, int], {"EUR": "x"}, 'it.EUR: must be an integer; got "x"'),
    (dict[int, int], {"a b": 1}, 'the key "a b" of it: must be an integer; got "a b"'),
    (dict[Color, int], {"green": 1}, 'the key "green" of it: must be one of "red", "blue"; got "green"'),
    (Mapping[str, list[int]], {"a b": ["x"]}, 'it["a b"][0]: must be an integer; got "x"'),
    (Point, {"x": 1}, "it.y: is required (an integer)"),
    (Point, 3, "it: must be an object with x, y; got 3"),
    (Span, {"first": 1, "last": 2, "step": 3}, "it.step: is not a known name; the names are: first, last"),
    (Span, {"first": 2, "last": 1}, 'it: first is after last; got {"first":2,"last":1}'),
    (Keys, {}, "it.a: is required (an integer)"),
    (Closed, {"a": 1, "b": 2}, "it.b: is not a known name; the names are: a"),
    (Ordered, {"low": 2, "high": 1}, 'it: low is above high, password=[redacted]; got {"low":2,"high":1}'),
    (Renamed, {"$a": "x"}, 'it["$a"]: must be an integer; got "x"'),
    (Renamed, {"$a": 1, "b2": "x"}, 'it.b2: must be an integer; got "x"'),
    (Renamed, {"$a": 1, "c": ["x"]}, 'it.c[0]: must be an integer; got "x"'),
    # Unions
    (int | str, None, "it: must be an integer or a string; got null"),
    (Positive | None, 0, "it: must be at least 1 or null; got 0"),
    (Positive | Literal["all"], 0, 'it: must be at least 1 or "all"; got 0'),
    (None, 3, "it: must be null; got 3"),
    (Cat | Dog, {"kind": "cat", "claws": -1}, "it.claws: must be at least 0; got -1"),
    (Pet, {"kind": "cow"}, 'it.kind: must be one of "cat", "dog"; got "cow"'),
    (Pet, {"claws": 1}, 'it.kind: is required ("cat" or "dog")'),
    (Pet | None, 3, "it: must be an object with kind, claws, or an object with kind, bark, or null; got 3"),
    (Pet, {"kind": "cat", "claws": 1, "cat": {"a": "x"}}, 'it.cat.a: must be an integer; got "x"'),
    (Call, {"k": "e"}, 'it: must be one of the kinds "c", "d"; got {"k":"e"}, of the kind e'),
    (Call, {"k": "c", "kind": "cat", "claws": "x"}, 'it.claws: must be an integer, at least 0; got "x"'),
    # JSON in a text
    (Json[list[int]], '[1, "x"]', '[1] in the JSON text of it: must be an integer; got "x"'),
    (Json[int], '"x"', 'the JSON text of it: must be an integer; got "x"'),
    (Json[dict[str, Pet]], '{"a": {"kind": "cow"}}', 'a.kind in the JSON text of it: must be one of "cat", "dog"; got "cow"'),
    (Json[int], "{nope", 'it: must be valid JSON text; got "{nope", key must be a string at line 1 column 2'),
    (Json[int], 3, "it: must be a string of JSON text; got 3"),
    # Constraints of msgspec
    (Annotated[int, META(ge=1)], 0, "it: must be at least 1; got 0"),
    (Annotated[int, META(gt=1)], 1, "it: must be more than 1; got 1"),
    (Annotated[int, META(le=1)], 2, "it: must be at most 1; got 2"),
    (Annotated[int, META(lt=1)], 1, "it: must be less than 1; got 1"),
    (Annotated[int, META(multiple_of=2)], 3, "it: must be a multiple of 2; got 3"),
    (Annotated[str, META(pattern="^a")], "b", 'it: must match the pattern ^a; got "b"'),
    (Annotated[str, META(min_length=2)], "b", 'it: must have at least 2 characters; got "b", 1 character'),
    (Annotated[list[int], META(max_length=1)], [1, 2], "it: must have at most 1 item; got [1,2], 2 items"),
    (
        Annotated[dt.datetime, META(tz=True)],
        "2026-01-01T10:00:00",
        'it: must have a time zone (such as 2026-11-29T10:00:00Z); got "2026-01-01T10:00:00"',
    ),
    (Annotated[dt.datetime, META(tz=False)], "2026-01-01T10:00:00Z", 'it: must have no time zone; got "2026-01-01T10:00:00Z"'),
    # Validators
    (Annotated[int, AfterValidator(even)], 3, "it: 3 is odd; got 3"),
    (Annotated[str, AfterValidator(known_user)], "bob", 'it: there is no user of that name; got "bob"'),
    (Annotated[int, at.Predicate(lambda n: n > 3)], 1, "it: does not pass a check that has no description; got 1"),
]  # fmt: skip


def words_for_argument(kind: object, value: object) -> list[str]:
    """Return the texts about a wrong argument `it`."""

    def function(it: Any) -> None: ...

    function.__annotations__["it"] = kind
    found = tool(function).signature.check(json.dumps({"it": value}), now=NOW)
    assert isinstance(found, RefusedCall), f"{value!r} fits {kind!r}"
    first, *lines, last = found.text.splitlines()
    assert first == "its arguments are invalid:"
    assert last == "Correct them and call it again."
    return [line.removeprefix("- ") for line in lines]


def words_for_output(kind: object, value: object) -> list[str]:
    """Return the texts about a wrong field `it` of an output."""
    config = ConfigDict(allow_inf_nan=False)
    output: Any = create_model("Output", __config__=config, it=(kind, ...))
    checked = pydantic_output(output).check(json.dumps({"it": value}), StepBudget(9), NOW)
    assert isinstance(checked, Invalid), f"{value!r} fits {kind!r}"
    return [str(problem) for problem in checked.problems]


def says_it_is_so(text: str, value: object) -> bool:
    """Whether a text asks for a type that the value has, and for nothing else."""
    found = re.search(r": must be (.+?); got ", text)
    if found is None:
        return False
    types: dict[str, type | tuple[type, ...]] = {
        "a string": str, "an integer": int, "a number": (int, float), "true or false": bool,
        "null": type(None), "an object": dict, "an array": list,
    }  # fmt: skip
    return any(isinstance(value, types[word]) for word in found[1].split(" or ") if word in types)


def test_each_text_names_the_place_the_broken_constraint_and_the_value() -> None:
    assert len(ROWS) >= 100
    for kind, value, text in ROWS:
        assert words_for_argument(kind, value) == [text], (kind, value)
        inner = value
        for step in re.findall(r"\[(\d+)\]", text.partition(":")[0]):
            inner = inner[int(step)] if isinstance(inner, list) and int(step) < len(inner) else ""
        assert inner == "" or not says_it_is_so(text, inner), text


def test_an_output_gets_the_words_of_an_argument() -> None:
    for kind, value, text in ROWS:
        if "msgspec" not in repr(kind):  # in a field of a class, such a constraint is refused
            assert words_for_output(kind, value) == [text], (kind, value)
    parsed = compile_output(Positive).check("0")
    assert isinstance(parsed, Invalid)
    assert str(parsed.problems[0]) == "the answer: must be at least 1; got 0"


def test_each_type_of_error_has_its_words() -> None:
    special = {"union_tag_invalid", "union_tag_not_found", "value_error", "assertion_error"}
    never_from_json = {
        "ellipsis_error", "frozen_field", "frozen_instance", "get_attribute_error", "invalid_key",
        "iteration_error", "missing_sentinel_error", "needs_python_object", "no_such_attribute",
        "set_item_not_hashable",
    }  # fmt: skip
    tables = (
        error_words.BROKEN_CONSTRAINTS,
        error_words.WRONG_TYPES,
        error_words.FACTS,
        error_words.MISSING_NAMES,
        error_words.UNKNOWN_NAMES,
        error_words.CONSEQUENCES,
    )
    known = special.union(never_from_json, *tables)
    assert set(get_args(ErrorType)) - known == set()


async def test_today_is_the_day_of_the_clock_of_the_agent() -> None:
    def plan(day: FutureDate) -> None: ...

    call = ToolCall("1", "plan", '{"day": "2001-01-01"}')
    model = ScriptedModel(call, '"2001-01-01"', '"2101-01-01"')
    clock = FakeClock(now=NOW)
    agent = Agent(model, tools=[plan], output=FutureDate, clock=clock)
    assert (await agent.run("Go")).output == dt.date(2101, 1, 1)
    of_tool, of_output = (request.messages[-1] for request in model.requests[1:])
    wanted = "must be a date in the future; got 2001-01-01, today is 2026-11-29"
    assert f"- day: {wanted}\n" in of_tool.parts[0].text
    assert wanted in of_output.text


def test_a_problem_of_the_likeliest_member_of_a_union_is_named() -> None:
    cat = {"kind": "cat", "claws": -1, "cat": {"a": "x", "b": "y"}}
    assert words_for_argument(Cat | Dog, cat) == [
        "it.claws: must be at least 0; got -1",
        'it.cat.a: must be an integer; got "x"',
        'it.cat.b: must be an integer; got "y"',
    ]


def test_a_clock_that_disagrees_is_not_quoted() -> None:
    def plan(day: FutureDate) -> None: ...

    signature = tool(plan).signature
    for now in (0.0, 1e30, None):  # pydantic has a clock of its own
        found = signature.check('{"day": "2001-01-01"}', now=now)
        assert isinstance(found, RefusedCall)
        assert "day: must be a date in the future; got 2001-01-01\n" in found.text


def test_an_item_that_is_validated_when_it_is_read_has_the_words() -> None:
    def add(numbers: Annotated[Iterable[Positive], Field(alias="n")]) -> None: ...

    found = tool(add).signature.check('{"n": [1, 0]}')
    assert isinstance(found, RefusedCall)
    assert "\n- n[1]: must be at least 1; got 0\n" in found.text


def test_a_time_zone_of_msgspec_is_for_datetime_alone() -> None:
    def meet(at: Annotated[dt.time, META(tz=True)]) -> None: ...

    with pytest.raises(ConfigurationError, match=r"'at': has a msgspec.Meta\(tz=...\)"):
        _ = tool(meet).signature


SCHEMA_ROWS: list[tuple[dict[str, Any], object, str]] = [
    ({"type": "integer"}, "x", 'must be an integer; got "x"'),
    ({"type": ["integer", "null"]}, "x", 'must be an integer or null; got "x"'),
    ({"enum": ["a", 1]}, 2, 'must be one of "a", 1; got 2'),
    ({"const": {"a": 1}}, 2, 'must be {"a":1}; got 2'),
    ({"minimum": 1}, 0, "must be at least 1; got 0"),
    ({"maximum": 1.5}, 2, "must be at most 1.5; got 2"),
    ({"exclusiveMinimum": 1}, 1, "must be more than 1; got 1"),
    ({"exclusiveMaximum": 1}, 1, "must be less than 1; got 1"),
    ({"multipleOf": 0.5}, 0.3, "must be a multiple of 0.5; got 0.3"),
    ({"minLength": 1}, "", 'must have at least 1 character; got "", 0 characters'),
    ({"maxLength": 1}, "ab", 'must have at most 1 character; got "ab", 2 characters'),
    ({"pattern": "^a"}, "b", 'must match the pattern ^a; got "b"'),
    ({"minItems": 2}, [1], "must have at least 2 items; got [1], 1 item"),
    ({"maxItems": 0}, [1], "must have at most 0 items; got [1], 1 item"),
    ({"uniqueItems": True}, [1, 1], "must have no item twice; got [1,1]"),
    ({"contains": {"type": "integer"}}, ["a"], "must have at least 1 of the items in the schema of 'contains'; got [\"a\"]"),
    ({"minProperties": 1}, {}, "must have at least 1 key; got {}, 0 keys"),
    ({"maxProperties": 1}, {"a": 1, "b": 2}, 'must have at most 1 key; got {"a":1,"b":2}, 2 keys'),
    ({"required": ["a"], "properties": {"a": {"type": "integer"}}}, {}, ".a: is required (an integer)"),
    ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, ".b: is required beside 'a'"),
    ({"properties": {"a": {}}, "additionalProperties": False}, {"b": 1}, ".b: is not a known name; the names are: a"),
    ({"additionalProperties": {"type": "integer"}}, {"a b": "x"}, '["a b"]: must be an integer; got "x"'),
    ({"patternProperties": {"^a": {"maximum": 1}}}, {"ab": 2}, ".ab: must be at most 1; got 2"),
    ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, 'the key "ab": must have at most 1 character; got "ab", 2 characters'),
    ({"items": {"type": "integer"}}, [1, "x"], '[1]: must be an integer; got "x"'),
    ({"prefixItems": [{"type": "integer"}], "items": False}, [1, 2], "must have at most 1 item; got [1,2], 2 items"),
    ({"properties": {"a": False}}, {"a": 1}, ".a: must not be there; got 1"),
    ({"not": {"type": "integer"}}, 1, "must not fit the schema of 'not'; got 1"),
    ({"oneOf": [{"type": "integer"}, {"minimum": 1}]}, 2, "must fit only one of the schemas of 'oneOf'; got 2"),
    ({"if": {"minimum": 5}, "then": {"multipleOf": 5}}, 7, "must be a multiple of 5; got 7"),
    ({"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]}}}, 0, "must be an integer, at least 1, or null; got 0"),
    (
        {"anyOf": [{"type": "object", "properties": {"a": {"type": "integer"}}}, {"type": "null"}]},
        {"a": "x"},
        '.a: must be an integer; got "x"',
    ),
    (
        {"oneOf": [
            {"properties": {"k": {"const": "a"}, "v": {"type": "integer"}, "w": {"type": "integer"}}},
            {"properties": {"k": {"const": "b"}, "v": {"type": "integer"}}},
        ]},
        {"k": "a", "v": "x", "w": 1},
        '.v: must be an integer; got "x"',
    ),
    (
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {},
        "must be an object with a or an object with b; got {}",
    ),
    (
        {"anyOf": [{"type": "object", "not": {"required": ["a"]}}, {"type": "null"}]},
        {"a": 1},
        'must fit one of the alternatives or be null; got {"a":1}',
    ),
]  # fmt: skip


def test_a_value_of_a_written_schema_has_the_same_words() -> None:
    for schema, value, text in SCHEMA_ROWS:
        parsed = compile_output(
            JsonSchema(
                {"type": "object", "properties": {"it": schema}, "$defs": schema.get("$defs", {})}
            )
        ).check(json.dumps({"it": value}))
        assert isinstance(parsed, Invalid), (schema, value)
        place = (
            text
            if text.startswith("the key")
            else f"it{text}"
            if text[0] in ".["
            else f"it: {text}"
        )
        place = place.replace('the key "ab":', 'the key "ab" of it:')
        assert [str(problem) for problem in parsed.problems] == [place], schema


class Wanted(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One field for each constraint of msgspec."""

    number: Annotated[int, META(ge=1)] | None = None
    half: Annotated[float, META(gt=0, lt=1)] | None = None
    fives: Annotated[int, META(multiple_of=5)] = 5
    code: Annotated[str, META(pattern="^a")] | None = None
    names: Annotated[
        list[Annotated[str, META(min_length=1, max_length=2)]], META(max_length=2)
    ] = []
    table: Annotated[dict[Annotated[str, META(max_length=1)], int], META(max_length=2)] = {}
    pair: tuple[int, int] = (0, 0)
    color: Color = Color.RED
    word: Literal["a", "b"] = "a"
    when: Annotated[dt.datetime, META(tz=True)] | None = None
    local: Annotated[dt.datetime, META(tz=False)] | None = None
    day: dt.date | None = None
    hour: dt.time | None = None
    wait: dt.timedelta | None = None
    uid: UUID | None = None
    raw: bytes | None = None
    cost: Decimal | None = None
    yes: bool = True
    point: Point | None = None


MSGSPEC_ROWS: list[tuple[object, str]] = [
    ({"number": 0}, "number: must be at least 1; got 0"),
    ({"number": "x"}, 'number: must be an integer or null; got "x"'),
    ({"half": 1.5}, "half: must be less than 1.0; got 1.5"),
    ({"half": 0}, "half: must be more than 0.0; got 0"),
    ({"fives": 7}, "fives: must be a multiple of 5; got 7"),
    ({"code": "b"}, 'code: must match the pattern ^a; got "b"'),
    ({"names": ["a", ""]}, 'names[1]: must have at least 1 character; got ""'),
    ({"names": ["abc"]}, 'names[0]: must have at most 2 characters; got "abc"'),
    ({"names": ["a", "b", "c"]}, 'names: must have at most 2 items; got ["a","b","c"]'),
    ({"table": {"a": "x"}}, "table[...]: must be an integer"),
    ({"table": {"abc": 1}}, "a key of table: must have at most 1 character"),
    ({"table": {"a": 1, "b": 2, "c": 3}}, 'table: must have at most 2 keys; got {"a":1,"b":2,"c":3}'),
    ({"pair": [1]}, "pair: must have 2 items; got [1]"),
    ({"color": "green"}, 'color: must be one of the values in the schema; got "green"'),
    ({"word": "c"}, 'word: must be one of the values in the schema; got "c"'),
    ({"when": "2026-01-01T10:00:00"}, 'when: must have a time zone (such as 2026-11-29T10:00:00Z); got "2026-01-01T10:00:00"'),
    ({"local": "2026-01-01T10:00:00Z"}, 'local: must have no time zone; got "2026-01-01T10:00:00Z"'),
    ({"when": "soon"}, 'when: must be a date and time (such as 2026-11-29T10:00:00Z); got "soon"'),
    ({"day": "2026-02-31"}, 'day: must be a date (YYYY-MM-DD); got "2026-02-31"'),
    ({"hour": "25:00"}, 'hour: must be a time (such as 10:30:00); got "25:00"'),
    ({"wait": "x"}, 'wait: must be a duration (such as PT1H30M); got "x"'),
    ({"uid": "x"}, 'uid: must be a UUID; got "x"'),
    ({"raw": "?"}, 'raw: must be valid base64; got "?"'),
    ({"cost": "x"}, 'cost: must be a decimal number (such as 12.50); got "x"'),
    ({"yes": 1}, "yes: must be true or false; got 1"),
    ({"point": {"x": 1}}, "point.y: is required"),
    ({"point": 3}, "point: must be an object or null; got 3"),
    ({"other": 1}, "other: is not a known name"),
    ([], "must be an object; got []"),
]  # fmt: skip


def test_the_errors_of_msgspec_have_the_same_words() -> None:
    for value, text in MSGSPEC_ROWS:
        with pytest.raises(msgspec.ValidationError) as caught:
            msgspec.json.decode(json.dumps(value), type=Wanted)
        assert str(word_msgspec_error(str(caught.value), value)) == text, caught.value


def test_an_unknown_error_of_msgspec_is_quoted_redacted() -> None:
    problem = word_msgspec_error("password=hunter2 is bad - at `$.a`", {"a": 1})
    assert str(problem) == "a: password=[redacted] is bad; got 1"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["a", "kind", "x", "[key]", "it"]) | st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
KINDS = [kind for kind, _, _ in ROWS if "Path" not in repr(kind)]


@given(st.sampled_from(range(len(KINDS))), json_values, st.booleans())
def test_no_value_gets_a_long_text_or_one_that_is_already_so(
    at: int, value: object, nested: bool
) -> None:
    def function(it: Any) -> None: ...

    function.__annotations__["it"] = KINDS[at]
    text = json.dumps({"it": json.dumps(value) if nested else value})
    found = tool(function).signature.check(text, now=NOW)
    if isinstance(found, RefusedCall) and found.code == "invalid_arguments":
        assert len(found.text) < 8000
        lines = found.text.splitlines()[1:-1]
        whole = [line for line in lines if line.startswith("- it: must")]
        shown = json.loads(text)["it"]
        assert not any(says_it_is_so(line, shown) for line in whole)


def test_texts_are_bounded_for_hostile_values() -> None:
    deep: Any = "x"
    for _ in range(150):
        deep = {"a" * 100: deep}
    for value in (deep, {"b" * 100_000: "x"}, "x" * 1_000_000, ["x" * 1000] * 3000):
        text = "\n".join(words_for_argument(dict[str, dict[str, int]], value))
        assert len(text) < 5000
