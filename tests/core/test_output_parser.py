"""The output parser: what it finds, what it refuses, and that no text breaks it or makes it slow."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.core.json_strict import NotJson, read_strict_json
from holdfast.core.model_request import OutputSchema
from holdfast.core.output import Invalid, ParseResult, Valid
from holdfast.core.output_parser import find_fenced_values, find_prose_values, parse_output
from holdfast.core.problems import Problem
from holdfast.core.schema_checks.schema_limits import StepBudget


class Anything:
    """An output type that accepts every JSON value of some types."""

    schema = OutputSchema("any", {})

    def __init__(self, *kinds: type) -> None:
        self.kinds = kinds or (object,)

    def check(
        self, json_text: str, steps: StepBudget, now: float | None = None
    ) -> ParseResult:  # REASON: any type fits
        value = json.loads(json_text)
        if isinstance(value, self.kinds):
            return Valid(value)
        return Invalid((Problem("", f"is {type(value).__name__}"),))


ANY = Anything()
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
VALUES = st.recursive(
    SCALARS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
CONTAINERS = VALUES.filter(lambda value: isinstance(value, dict | list))
PROSE = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters='{}[]`~"'), max_size=30
)
INDENT = st.sampled_from([None, 2])


def written(value: object, indent: int | None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


@given(VALUES, INDENT, st.sampled_from(["", " ", "\n", "\ufeff", "\t\n"]))
def test_a_whole_value_is_strict(value: object, indent: int | None, space: str) -> None:
    assert parse_output(space + written(value, indent) + space.strip("\ufeff"), ANY) == Valid(
        value, "strict"
    )


@given(
    VALUES, INDENT, PROSE, PROSE, st.sampled_from(["```", "```json", "```JSON", "~~~", "````json"])
)
@example("```\n```", None, "", "", "```")
def test_any_value_in_a_fence_is_found(
    value: object, indent: int | None, before: str, after: str, fence: str
) -> None:
    mark = fence.rstrip("jsonJSON")
    text = f"Here: {before}\n{fence}\n{written(value, indent)}\n{mark}\n{after}"
    assert parse_output(text, ANY) == Valid(value, "embedded")


@given(CONTAINERS, INDENT, PROSE, PROSE)
def test_any_object_or_list_in_prose_is_found(
    value: object, indent: int | None, before: str, after: str
) -> None:
    text = f"So {before} {written(value, indent)} {after} ."
    assert parse_output(text, ANY) == Valid(value, "embedded")


@given(CONTAINERS, CONTAINERS, PROSE)
def test_of_two_fitting_values_neither_is_used(one: object, other: object, between: str) -> None:
    first, second = json.dumps(one), json.dumps(other)
    for text in (
        f"Either {first} {between} or {second} .",
        f"```json\n{first}\n```\n{between}\n```json\n{second}\n```",
    ):
        found = parse_output(text, ANY)
        if first == second:
            assert found == Valid(one, "embedded")
        else:
            assert isinstance(found, Invalid)
            assert "there are 2" in str(found.problems[0])


@given(st.text(max_size=200) | st.text(alphabet='[]{}":,`\\ \n1ae-', max_size=120))
def test_no_text_makes_the_parser_raise(text: str) -> None:
    for lenient in (False, True):
        found = parse_output(text, ANY, lenient=lenient)
        assert isinstance(found, Valid) or found.problems


def test_the_only_fitting_value_is_used() -> None:
    text = 'As [1] says: {"a": 1}. See also [2].'
    assert parse_output(text, Anything(dict)) == Valid({"a": 1}, "embedded")


def test_a_fenced_value_is_preferred() -> None:
    text = 'Like {"a": 0} but:\n```json\n{"a": 1}\n```\n```python\nprint({})\n```'
    assert parse_output(text, ANY) == Valid({"a": 1}, "embedded")


def test_a_value_inside_a_broken_value_is_not_used() -> None:
    text = 'So: {"broken" "rows": [1, 2], "sum": 3}'
    assert isinstance(parse_output(text, Anything(list)), Invalid)


def test_json_inside_a_json_string_is_parsed() -> None:
    assert parse_output('"{\\"a\\": 1}"', Anything(dict)) == Valid({"a": 1}, "embedded")
    assert parse_output('"{\\"a\\": 1}"', ANY) == Valid('{"a": 1}', "strict")


@pytest.mark.parametrize(
    "text", ["```7\n```", "```json 7```", "```\n7\n```", "```json\n7", "~~~\n7\n~~~"]
)
def test_fences_of_every_form(text: str) -> None:
    assert find_fenced_values(text) == ["7"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": NaN}', "NaN is not a JSON value"),
        ('{"a": -Infinity}', "-Infinity is not a JSON value"),
        ('{"a": 1e999}', "a number is too large"),
        ('{"a": ' + "9" * 5000 + "}", "a number has too many digits"),
        ('{"a": 1, "b": 2, "a": 3}', "the key 'a' is given twice"),
        ('["\ud800"]', "invalid Unicode"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ("", "is not JSON"),
        ("42 and more", "followed by 'and more'"),
    ],
)
def test_ambiguous_json_is_refused(text: str, said: str) -> None:
    for lenient in (False, True):
        found = parse_output(text, ANY, lenient=lenient)
        assert isinstance(found, Invalid)
        assert said in str(found.problems[0])
    with pytest.raises(NotJson):
        read_strict_json(text)


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize(
    "text",
    [
        "[" * 5_000_000,
        '{"a":' * 1_000_000,
        "[1" * 2_000_000,
        '["' * 2_000_000,
        "```" * 1_500_000,
        "```json\n{" * 500_000,
        "{\n" * 2_000_000,
        '{"a" ' * 1_000_000 + "}" * 1_000_000,
        "x [1, {] " * 500_000,
        '"' * 5_000_000,
        "\\" * 5_000_000,
        "[1,2] " * 500_000,
        "'" * 2_000_000 + "{'a'",
    ],
    ids=lambda text: text[:8],
)
@pytest.mark.parametrize("lenient", [False, True])
def test_five_megabytes_of_hostile_text_are_parsed_in_seconds(text: str, lenient: bool) -> None:
    begin = time.process_time()
    assert isinstance(parse_output(text, Anything(dict), lenient=lenient), Invalid)
    assert time.process_time() - begin < 10


def test_the_search_in_prose_is_bounded() -> None:
    assert find_prose_values("[1 " * 100) == []


def test_all_values_of_a_reply_are_checked_in_one_budget() -> None:
    seen: list[StepBudget] = []

    class Counting:
        schema = OutputSchema("any", {})

        def check(
            self, json_text: str, steps: StepBudget, now: float | None = None
        ) -> ParseResult:  # REASON: any type fits
            seen.append(steps)
            return Invalid((Problem("", "no"),))

    parse_output("As in [1], it is [2] or [3].", Counting())
    assert len(seen) == 3
    assert all(budget is seen[0] for budget in seen)
