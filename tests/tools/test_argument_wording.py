"""What a schema wants, in words."""

from typing import Any

import pytest

from holdfast.tools.argument_wording import describe_wanted, known_names


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ({"type": "string"}, "string"),
        ({"type": "string", "format": "date"}, "string (date)"),
        ({"type": "string", "minLength": 1}, "string, at least 1 characters"),
        ({"type": "number", "exclusiveMinimum": 0}, "number, more than 0"),
        ({"enum": ["a", 1]}, 'one of "a", 1'),
        ({"enum": ["a"]}, '"a"'),
        ({"enum": list(range(30))}, f"one of {', '.join(map(str, range(20)))} and 10 more"),
        ({"const": True}, "true"),
        ({"type": "array", "items": {"type": "integer"}}, "array of integers"),
        ({"type": "array"}, "array"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string or null"),
        ({"oneOf": [{"$ref": "#/$defs/A"}, {"type": "integer"}]}, "object or integer"),
        ({"allOf": [{"$ref": "#/$defs/A"}]}, "object"),
        ({"$ref": "#/$defs/Round"}, ""),
        ({"$ref": "#/$defs/Nowhere"}, ""),
        ({}, ""),
    ],
)
def test_words(node: dict[str, Any], words: str) -> None:
    definitions = {
        "A": {"type": "object", "properties": {"x": {"type": "integer"}}},
        "Round": {"$ref": "#/$defs/Round"},
    }
    assert describe_wanted({"properties": {"it": node}, "$defs": definitions}, ["it"]) == words


def test_places_inside() -> None:
    schema = {
        "properties": {
            "pair": {"prefixItems": [{"type": "integer"}, {"type": "string"}]},
            "table": {"additionalProperties": {"type": "boolean"}},
            "pet": {"anyOf": [{"properties": {"a": {}, "b": {}}}, {"properties": {"c": {}}}]},
        }
    }
    assert describe_wanted(schema, ["pair", 1]) == "string"
    assert describe_wanted(schema, ["pair", 5]) == ""
    assert describe_wanted(schema, ["table", "any"]) == "boolean"
    assert known_names(schema, ["pet"]) == ["a", "b", "c"]
