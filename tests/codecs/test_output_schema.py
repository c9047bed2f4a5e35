"""Which schemas strict mode takes, and that no schema is changed into another."""

from typing import Any

import pytest

from holdfast.codecs.output_schema import is_object_schema, schema_instruction, to_strict_schema

TEXT = {"type": "string"}


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def loose(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


@pytest.mark.parametrize(
    ("schema", "form"),
    [
        (closed(a=TEXT), closed(a=TEXT)),
        (loose(a=TEXT), closed(a=TEXT)),
        (loose(), closed()),
        (loose(a=loose(b=TEXT)), closed(a=closed(b=TEXT))),
        (loose(a={"type": "array", "items": loose(b=TEXT)}), closed(a={"type": "array", "items": closed(b=TEXT)})),
        (loose(a={"anyOf": [loose(b=TEXT), TEXT]}), closed(a={"anyOf": [closed(b=TEXT), TEXT]})),
        (
            {**loose(a={"$ref": "#/$defs/B"}), "$defs": {"B": loose(b=TEXT)}},
            {**closed(a={"$ref": "#/$defs/B"}), "$defs": {"B": closed(b=TEXT)}},
        ),
        (loose(a={"enum": ["x", None], "const": None}), closed(a={"enum": ["x", None], "const": None})),
        # Names of properties are not keywords.
        (loose(default=TEXT, oneOf=TEXT), closed(default=TEXT, oneOf=TEXT)),
    ],
)  # fmt: skip
def test_what_demands_everything_is_closed(schema: dict[str, Any], form: dict[str, Any]) -> None:
    before = repr(schema)
    assert to_strict_schema(schema) == form
    assert repr(schema) == before


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {"a": TEXT}},
        {"type": "object", "additionalProperties": TEXT},
        {**loose(a=TEXT), "additionalProperties": True},
        loose(a={"type": "object", "additionalProperties": TEXT}),
        loose(a={"oneOf": [TEXT]}),
        loose(a={**TEXT, "default": "x"}),
        loose(a={"type": "array", "items": {"type": "object"}}),
        loose(a={"anyOf": [TEXT, {"type": "object"}]}),
        {**loose(a={"$ref": "#/$defs/B"}), "$defs": {"B": {"type": "object"}}},
        loose(a=True),
    ],
)
def test_what_strict_mode_would_refuse(schema: dict[str, Any]) -> None:
    assert to_strict_schema(schema) is None


def test_objects_at_the_top() -> None:
    assert is_object_schema(loose())
    assert not is_object_schema({"type": ["object", "null"]})
    assert not is_object_schema({"anyOf": [loose()]})


def test_words_hold_the_schema() -> None:
    assert schema_instruction({"title": "é"}).endswith('\n{"title":"é"}')
