"""Values that a JSON schema allows, for Hypothesis: enough of it for the types of our request bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

Schema: TypeAlias = Mapping[str, Any]
Likely: TypeAlias = Mapping[str, SearchStrategy[Any]]
"""Values of properties, by their names, that get further than any value of the type."""

_TEXTS = st.text(max_size=8) | st.sampled_from(["Hello.", "", "\x00", "é😀"])
_SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | _TEXTS
ANYTHING: SearchStrategy[Any] = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)
"""Any JSON, and a little more."""


def values(schema: Schema, likely: Likely, definitions: Schema) -> SearchStrategy[Any]:
    """Return the values of a schema.

    Args:
        schema: the schema.
        likely: likely values of properties.
        definitions: what its references name.
    """
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return st.deferred(lambda: values(definitions[name], likely, definitions))
    if "enum" in schema or "const" in schema:
        return st.sampled_from(schema.get("enum", [schema.get("const")]))
    if "anyOf" in schema:
        return st.one_of([values(one, likely, definitions) for one in schema["anyOf"]])
    kind = schema.get("type")
    if isinstance(kind, list):
        return st.one_of([values({**schema, "type": one}, likely, definitions) for one in kind])
    if kind == "object":
        return _objects(schema, likely, definitions)
    if kind == "array":
        one = values(schema.get("items", {}), likely, definitions)
        return st.lists(one, min_size=schema.get("minItems", 0), max_size=3)
    numbers = st.integers(schema.get("minimum", -3), schema.get("maximum", 2**40))
    known: dict[object, SearchStrategy[Any]] = {
        "string": _TEXTS,
        "integer": numbers,
        "number": numbers | st.floats(-10, 10),
        "boolean": st.booleans(),
        "null": st.none(),
    }
    return known.get(kind, ANYTHING)


def _objects(schema: Schema, likely: Likely, definitions: Schema) -> SearchStrategy[Any]:
    """Return objects with what is required, most of what is likely, and a little of the rest."""
    known: dict[str, SearchStrategy[Any]] = {}
    for name, one in schema.get("properties", {}).items():
        is_record = name == "text" and "properties" in _resolve(one, definitions)
        is_likely = name in likely and not is_record
        known[name] = likely[name] if is_likely else values(one, likely, definitions)
    if not known:
        return st.dictionaries(_TEXTS, ANYTHING, max_size=3)
    required = set(schema.get("required", ()))
    often = sorted(set(known) & set(likely) - required)
    rest = sorted(set(known) - set(likely) - required)

    @st.composite
    def objects(draw: st.DrawFn) -> Any:
        names = required | {name for name in often if draw(st.integers(0, 3))}
        if rest and not draw(st.integers(0, 2)):
            names |= set(draw(st.lists(st.sampled_from(rest), max_size=2)))
        return {name: draw(known[name]) for name in sorted(names)}

    return objects()


def _resolve(schema: Schema, definitions: Schema) -> Schema:
    """Return the object that a schema allows, if it allows one."""
    for one in (schema, *schema.get("anyOf", ())):
        if "$ref" in one:
            found: Schema = definitions[one["$ref"].rpartition("/")[2]]
            return found
    return schema


def damaged(sound: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """Return values of which one in eight has a field that is not as it should be."""

    @st.composite
    def damage(draw: st.DrawFn) -> Any:
        value = draw(sound)
        if isinstance(value, dict) and value and draw(st.integers(0, 7)) == 0:
            name = draw(st.sampled_from(sorted(value)))
            return {**value, name: draw(ANYTHING)}
        return value

    return damage()
