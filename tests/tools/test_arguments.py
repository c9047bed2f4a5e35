"""Valid and invalid arguments of a model, and the messages for invalid ones."""

from __future__ import annotations

import datetime as dt
import json
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field
from pydantic_core import PydanticCustomError
from typing_extensions import TypeAliasType

from holdfast import Agent, OutputError, ToolCall, tool
from holdfast.testing import ScriptedModel
from holdfast.tools.tool_failures import RefusedCall, refuse_unfinished


class Cat(BaseModel):
    kind: Literal["cat"]
    claws: int


class Dog(BaseModel):
    kind: Literal["dog"]
    bark: str


NESTED = TypeAliasType("NESTED", "list[NESTED]")


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Leaf(BaseModel):
    child: Leaf | Branch | None = None


class Branch(BaseModel):
    child: Leaf | Branch | None = None
    n: int = 0


def weekday(day: int) -> int:
    if day > 5:
        raise ValueError(f"{day} is no weekday, password=hunter2")
    return day


def custom(name: str) -> str:
    raise PydanticCustomError("no_such_user", "there is no user of that name")


@tool
def book(
    city: str,
    days: Annotated[int, Field(ge=1, le=14)] = 3,
    *,
    unit: Literal["C", "F"] = "C",
    pet: Cat | Dog | None = None,
    when: dt.date | None = None,
    ids: list[int | str] = [],  # noqa: B006
    tree: Tree | None = None,
    day: Annotated[int, AfterValidator(weekday)] = 1,
    user: Annotated[str, AfterValidator(custom)] = "",
    rate: float = 0.0,
    extra: Any = None,
) -> None: ...


@tool
def optional(n: int = 1) -> None: ...


@tool
def nothing() -> None: ...


def parse(text: str, made: Any = book) -> dict[str, Any] | str:
    found = made.signature.parse_arguments(text)
    return found.text if isinstance(found, RefusedCall) else dict(found.__dict__)


def problems(**arguments: Any) -> list[str]:
    found = parse(json.dumps(arguments))
    assert isinstance(found, str)
    assert found.startswith("its arguments are invalid:\n- ")
    assert found.endswith("\nCorrect them and call it again.")
    return [line.removeprefix("- ") for line in found.splitlines()[1:-1]]


def test_values_are_those_of_the_annotations() -> None:
    found = parse('{"city": "Porto", "pet": {"kind": "cat", "claws": 3}, "when": "2024-02-29"}')
    assert isinstance(found, dict)
    assert (found["city"], found["days"]) == ("Porto", 3)
    assert found["pet"] == Cat(kind="cat", claws=3)
    assert found["when"] == dt.date(2024, 2, 29)


def test_lax_values_are_converted_as_pydantic_does() -> None:
    found = parse('{"city": "Porto", "days": "4"}')
    assert isinstance(found, dict)
    assert found["days"] == 4


@pytest.mark.parametrize("text", ["", " \n", "{}"])
def test_empty_text_means_no_arguments(text: str) -> None:
    assert parse(text, optional) == {"n": 1}
    assert parse(text, nothing) == {}


def test_empty_text_is_refused_where_something_is_required() -> None:
    assert parse("") == (
        "its arguments are empty. It needs: city. "
        "Send the whole call again, with its arguments as one complete JSON object."
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"city": "Por', 'EOF while parsing a string at line 1 column 13, near `{"city": "Por`'),
        ('{"city": "é"', "EOF while parsing an object at line 1 column 12, near"),
        ('{"city":\n "é" "x"}', "expected `,` or `}` at line 2 column 6, near"),
        ('{"city": "a"} and so on', "trailing characters at line 1 column 15"),
        ('{"city": "a"}{"city": "b"}', "trailing characters"),
        ("{'city': 'a'}", "key must be a string at line 1 column 2"),
        ('{"city": "a",}', "trailing comma"),
        ('```json\n{"city": "a"}\n```', "expected value at line 1 column 1"),
        ('{"city": "\\ud800"}', "not valid JSON"),
        ("[" * 10_000, "recursion limit exceeded"),
        ('{"city": "a", "city": "b"}', 'the name "city" twice'),
        ('{"city": "a", "extra": {"x": 1, "x": 2}}', 'the name "x" twice'),
        ('{"city": "a", "extra": NaN}', "hold NaN, which is not a JSON number"),
        ('{"city": "a", "extra": [-Infinity]}', "hold -Infinity"),
        ('{"city": "\ud800"}', "not valid Unicode"),
        ("[]", "must be one JSON object, and are an array"),
        ("null", "and are null"),
        ("true", "and are a boolean"),
        ("3", "and are a number"),
        ('"{}"', "and are a string. Do not quote the object"),
    ],
)
def test_text_that_is_not_one_json_object_is_refused(text: str, said: str) -> None:
    found = book.signature.parse_arguments(text)
    assert isinstance(found, RefusedCall)
    assert said in found.text
    assert found.text.endswith("as one complete JSON object.")
    assert found.code == "malformed_arguments"


def test_a_number_that_is_not_finite_is_refused_for_a_float() -> None:
    assert parse('{"city":"a","rate":1e400}') == (
        "its arguments are invalid:\n- rate: must be a finite number; got Infinity\n"
        "Correct them and call it again."
    )


def test_every_problem_is_named() -> None:
    assert problems(days=99, unit="K", foo=1) == [
        "city: is required (a string)",
        "days: must be at most 14; got 99",
        'unit: must be one of "C", "F"; got "K"',
        f"foo: is not a known name; the names are: {', '.join(book.spec.schema['properties'])}",
    ]


def test_nested_places_are_paths() -> None:
    assert problems(city="a", tree={"value": 1, "children": [{"value": "x"}]}) == [
        'tree.children[0].value: must be an integer; got "x"'
    ]


def test_a_union_is_one_line_by_its_likeliest_member() -> None:
    assert problems(city="a", pet=3) == [
        "pet: must be an object with kind, claws, or an object with kind, bark, or null; got 3"
    ]
    assert problems(city="a", pet={"kind": "cat"}) == ["pet.claws: is required (an integer)"]
    assert problems(city="a", ids=[1, None, "x"]) == [
        "ids[1]: must be an integer or a string; got null"
    ]


def test_what_the_model_wrote_is_cut() -> None:
    (line,) = problems(city="a", days="x" * 10_000)
    assert len(line) < 200
    assert line.endswith("... [cut]")


def test_a_date_says_why_it_is_none() -> None:
    assert problems(city="a", when="2024-02-31") == [
        'when: must be a date (YYYY-MM-DD) or null; got "2024-02-31", day value is outside expected range'
    ]


def test_a_validator_is_heard_redacted() -> None:
    assert problems(city="a", day=6) == ["day: 6 is no weekday, password=[redacted]; got 6"]
    assert problems(city="a", user="bob") == ['user: there is no user of that name; got "bob"']


def test_many_problems_are_counted() -> None:
    lines = problems(city="a", ids=[None] * 30)
    assert len(lines) == 11
    assert lines[-1] == "and 20 more"


def test_a_tool_without_arguments_says_so() -> None:
    assert parse('{"a": 1}', nothing) == (
        "its arguments are invalid:\n- a: is not a known name; there are none\n"
        "Correct them and call it again."
    )


def test_the_words_are_always_the_same() -> None:
    text = '{"days": 0, "pet": {"kind": "cow"}, "x": [1]}'
    assert len({str(parse(text)) for _ in range(20)}) == 1


def test_a_recursive_union_is_read_to_its_depth() -> None:
    @tool
    def deep(root: Leaf | Branch) -> None: ...

    value: Any = "wrong"
    for _ in range(8):
        value = {"child": value}
    found = parse(json.dumps({"root": value}), deep)
    assert isinstance(found, str)
    assert 'got "wrong"' in found


def test_an_array_of_arrays_without_end_is_described() -> None:
    @tool
    def nest(lists: NESTED) -> None: ...

    assert parse('{"lists": 1}', nest) == (
        "its arguments are invalid:\n- lists: must be an array of arrays of arrays; got 1\n"
        "Correct them and call it again."
    )


def test_the_result_of_a_cut_call_asks_for_the_whole_call() -> None:
    assert refuse_unfinished('{"text": "once upon').text.startswith(
        'its arguments were cut off by the output limit, after `{"text": "once upon`. Send'
    )


arguments = st.fixed_dictionaries(
    {"city": st.text(max_size=10)},
    optional={
        "days": st.integers(1, 14),
        "unit": st.sampled_from(["C", "F"]),
        "pet": st.builds(lambda n: {"kind": "cat", "claws": n}, st.integers(0, 20)),
        "ids": st.lists(st.integers() | st.text(max_size=5), max_size=3),
        "extra": st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text(max_size=3), inner, max_size=3)
            ),
            max_leaves=5,
        ),
    },
)


@given(arguments, st.booleans(), st.data())
def test_no_prefix_of_valid_arguments_is_accepted(
    written: dict[str, Any], ascii_only: bool, data: st.DataObject
) -> None:
    text = json.dumps(written, ensure_ascii=ascii_only)
    assert isinstance(parse(text), dict)
    end = data.draw(st.integers(0, len(text) - 1))
    assert isinstance(parse(text[:end]), str)
    assert isinstance(parse(text[:end], nothing), str) or not text[:end]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["city", "days", "pet", "tree", "children", "value", "kind", "ids", "day"]
            )
            | st.text(max_size=3),
            inner,
            max_size=5,
        )
    ),
    max_leaves=15,
)


@given(json_values)
def test_any_json_is_accepted_or_rejected_with_a_reason(value: Any) -> None:
    found = parse(json.dumps(value))
    assert isinstance(found, dict) or found.startswith("its arguments ")


@given(st.text(max_size=60))
def test_any_text_is_accepted_or_rejected_with_a_reason(text: str) -> None:
    found = parse(text)
    assert isinstance(found, dict) or found.startswith("its arguments ")


# Constraints of msgspec, which pydantic does not know.

Nights = Annotated[int, msgspec.Meta(ge=1, description="how many nights")]


async def test_an_output_outside_of_a_constraint_of_msgspec_is_refused() -> None:
    agent = Agent(ScriptedModel("0", "0", "0"), output=Nights)
    with pytest.raises(OutputError, match="must be at least 1; got 0"):
        await agent.run("Go")


async def test_an_argument_outside_of_a_constraint_of_msgspec_does_not_reach_the_tool() -> None:
    booked: list[int] = []

    def book(nights: Nights) -> str:
        booked.append(nights)
        return "booked"

    model = ScriptedModel(ToolCall("1", "book", '{"nights": 0}'), "done")
    await Agent(model, tools=[book]).run("Go")
    assert booked == []
    (spec,) = model.requests[0].tools
    assert spec.schema["properties"] == {
        "nights": {"type": "integer", "minimum": 1, "description": "how many nights"}
    }
