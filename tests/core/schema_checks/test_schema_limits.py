"""A schema of a caller has a size, which is checked before anything reads it."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.schema_checks.pattern_weight import weigh_pattern
from holdfast.errors import ConfigurationError
from holdfast.tools import ClientTool, JsonSchema

NESTED: dict[str, Any] = {"type": "object"}
for _ in range(40):
    NESTED = {"type": "object", "properties": {"a": NESTED}}
CYCLE: dict[str, Any] = {"type": "object"}
CYCLE["properties"] = {"a": CYCLE}
DOUBLED: dict[str, Any] = {"type": "object"}
for _ in range(40):
    DOUBLED = {"type": "object", "allOf": [DOUBLED, DOUBLED]}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "object", "title": "a" * 300_000}, "at most {bytes} bytes"),
        ({"type": "object", "enum": [*range(60_000)]}, "at most {nodes} JSON values"),
        (
            {"type": "object", "allOf": [{"$ref": "#/$defs/a"}] * 2001},
            "at most {references} references",
        ),
        (NESTED, "at most 64 levels of nesting"),
        (CYCLE, "at most 64 levels of nesting"),
        (DOUBLED, "is too large"),
        ({"type": "object", "minLength": 10**400}, "holds a number that is too large"),
        ({"type": "object", "multipleOf": float("inf")}, "holds a number that is too large"),
        ({"type": "object", "title": "\ud800"}, "cannot be written as JSON"),
        ({"type": "object", "default": object()}, "cannot be written as JSON"),
    ],
)
def test_a_schema_that_is_too_large_is_refused(schema: dict[str, Any], problem: str) -> None:
    sizes = {"bytes": "262,144", "nodes": "50,000", "references": "2,000"}
    with pytest.raises(ConfigurationError) as raised:
        JsonSchema(schema)
    assert raised.value.argument == "JsonSchema.schema"
    assert problem.format(**sizes) in raised.value.problem
    sizes = {"bytes": "65,536", "nodes": "2,000", "references": "500"}
    with pytest.raises(ConfigurationError) as raised:
        ClientTool("a", parameters=schema)
    assert raised.value.argument == "ClientTool.parameters"
    assert raised.value.problem.startswith(("is too large", problem.format(**sizes)))


def test_a_schema_of_a_usual_size_is_accepted() -> None:
    flat = {f"p{at}": {"type": "integer"} for at in range(8000)}
    assert len(JsonSchema({"type": "object", "properties": flat}).schema["properties"]) == 8000  # type: ignore[arg-type]  # REASON: an object
    wanted = JsonSchema({"type": "object", "required": ("a",)})
    assert wanted.schema["required"] == ["a"]  # plain JSON, and not changed with what was passed


@pytest.mark.parametrize("required", ["a", [1], [[]], {"a": 1}, None])
def test_names_that_cannot_be_read_are_refused(required: object) -> None:
    with pytest.raises(ConfigurationError, match="'required' that is not a list of names"):
        ClientTool("a", parameters={"type": "object", "required": required})
    with pytest.raises(ConfigurationError, match="'properties' that are not an object"):
        ClientTool("a", parameters={"type": "object", "properties": [1]})


@pytest.mark.parametrize(
    ("pattern", "positions"),
    [("a{3}{3}{3}", 27), ("(((a{9}){9}){9})", 820), ("[]a]{5}x", 6), ("a{,3}", 5), ("((", 0)],
)
def test_a_pattern_weighs_what_its_repetitions_make_of_it(pattern: str, positions: int) -> None:
    assert weigh_pattern(pattern).positions == positions
    assert weigh_pattern("(" * 5000 + "a" + "){9}" * 5000).size >= 10**12


@pytest.mark.parametrize(
    "pattern", [r"\p{L}{20}", r"\pL{20}", r"[\p{L}]{20}", r"\P{Greek}{20}", r"(?x)\w {20}"]
)
def test_a_count_repeats_the_whole_class_before_it(pattern: str) -> None:
    assert weigh_pattern(pattern).size >= 20 * 700
    assert weigh_pattern(r"\x{41}{20}").size == 20
