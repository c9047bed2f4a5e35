"""What a schema wants, in words."""

from typing import Any

import pytest

from holdfast.core.value_wording import SchemaWords


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ({"type": "string"}, "a string"),
        ({"type": "string", "format": "date"}, "a date (YYYY-MM-DD)"),
        ({"type": "string", "minLength": 1}, "a string, at least 1 character"),
        ({"type": "number", "exclusiveMinimum": 0}, "a number, more than 0"),
        ({"enum": ["a", 1]}, 'one of "a", 1'),
        ({"enum": ["a"]}, '"a"'),
        ({"enum": list(range(30))}, f"one of {', '.join(map(str, range(20)))} and 10 more"),
        ({"const": True}, "true"),
        ({"type": "array", "items": {"type": "integer"}}, "an array of integers"),
        ({"type": "array"}, "an array"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "a string or null"),
        ({"oneOf": [{"$ref": "#/$defs/A"}, {"type": "integer"}]}, "an object or an integer"),
        ({"allOf": [{"$ref": "#/$defs/A"}]}, "an object"),
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
    schema = {"properties": {"it": node}, "$defs": definitions}
    assert SchemaWords(schema).describe_wanted(["it"]) == words


def test_places_inside() -> None:
    schema = {
        "properties": {
            "pair": {"prefixItems": [{"type": "integer"}, {"type": "string"}]},
            "table": {"additionalProperties": {"type": "boolean"}},
            "pet": {"anyOf": [{"properties": {"a": {}, "b": {}}}, {"properties": {"c": {}}}]},
        }
    }
    words = SchemaWords(schema)
    assert words.describe_wanted(["pair", 1]) == "a string"
    assert words.describe_wanted(["pair", 5]) == ""
    assert words.describe_wanted(["table", "any"]) == "true or false"
    assert words.known_names(["pet"]) == ["a", "b", "c"]
