"""Makes a value of a JSON Schema, the same one each time.

It knows what providers accept in schemas of tools and outputs. A `pattern` is not read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress

Schema = Mapping[str, object]

_DEEPEST = 16
_FORMATS = {
    "date": "2025-01-31",
    "date-time": "2025-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "email": "ada@example.org",
    "hostname": "example.org",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.org/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def make_value(schema: Schema) -> object:
    """Make a value that a JSON Schema allows.

    Args:
        schema: the schema; references lead to its own `$defs`.

    Raises:
        ValueError: the schema is recursive without an end, or a reference leads nowhere.

    >>> make_value({"type": "object", "properties": {"city": {"type": "string"}}})
    {'city': 'city'}
    """
    return _make(schema, "text", schema, 0)


def _make(schema: Schema, name: str, root: Schema, depth: int) -> object:
    """Make a value; a text of no format is the name of its property."""
    if depth > _DEEPEST:
        raise ValueError("the schema is nested too deeply, or requires itself")
    if "$ref" in schema:
        return _make(_resolve(str(schema["$ref"]), root), name, root, depth + 1)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    options = schema.get("enum")
    if isinstance(options, list) and options:
        return options[0]
    for key in ("anyOf", "oneOf", "allOf"):
        parts = schema.get(key)
        if isinstance(parts, list) and parts:
            return _make_one_of(parts, name, root, depth)
    return _make_of_type(schema, name, root, depth)


def _make_one_of(parts: list[Schema], name: str, root: Schema, depth: int) -> object:
    """Make a value of the first part that ends; null is the last choice."""
    ordered = sorted(parts, key=lambda part: part.get("type") == "null")
    for part in ordered[:-1]:
        with suppress(ValueError):
            return _make(part, name, root, depth + 1)
    return _make(ordered[-1], name, root, depth + 1)


def _make_of_type(schema: Schema, name: str, root: Schema, depth: int) -> object:
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    kind = str(kind).lower()  # Gemini's own schemas spell types in capitals
    if kind == "object":
        return _make_object(schema, root, depth)
    if kind == "array":
        return _make_array(schema, name, root, depth)
    if kind in ("integer", "number"):
        return _make_number(schema, whole=kind == "integer")
    if kind == "string":
        return _make_text(schema, name)
    return True if kind == "boolean" else None


def _make_object(schema: Schema, root: Schema, depth: int) -> dict[str, object]:
    """Make an object with all its properties; an optional one that does not end is left out."""
    properties, required = schema.get("properties"), schema.get("required")
    made: dict[str, object] = {}
    if not isinstance(properties, Mapping):
        return made
    for name, inner in properties.items():
        try:
            made[name] = _make(inner, name, root, depth + 1)
        except ValueError:
            if isinstance(required, list) and name in required:
                raise
    return made


def _make_array(schema: Schema, name: str, root: Schema, depth: int) -> list[object]:
    first = schema.get("prefixItems")
    made = (
        [_make(inner, name, root, depth + 1) for inner in first] if isinstance(first, list) else []
    )
    items = schema.get("items")
    fewest = max(int(_number(schema, "minItems") or 0), 0)
    wanted = max(fewest, 0 if made or schema.get("maxItems") == 0 else 1)
    if isinstance(items, Mapping):
        try:
            made += [_make(items, name, root, depth + 1) for _ in range(wanted - len(made))]
        except ValueError:
            if fewest:
                raise
    return made


def _make_number(schema: Schema, *, whole: bool) -> float:
    """Make the smallest number that is allowed, from 1 if that is allowed."""
    least, above = _number(schema, "minimum"), _number(schema, "exclusiveMinimum")
    most, below = _number(schema, "maximum"), _number(schema, "exclusiveMaximum")
    step = _number(schema, "multipleOf") or (1.0 if whole else 0.5)
    lowest = max((bound for bound in (least, above) if bound is not None), default=-math.inf)
    highest = min((bound for bound in (most, below) if bound is not None), default=math.inf)
    value = min(max(1.0, lowest), highest)
    value = math.ceil(value / step) * step
    if above is not None and value <= above:
        value += step
    if value > highest or (below is not None and value >= below):
        value = math.floor(highest / step) * step
        value -= step if below is not None and value >= below else 0
    return int(value) if whole else value


def _make_text(schema: Schema, name: str) -> str:
    value = _FORMATS.get(str(schema.get("format")), name)
    fewest, most = _number(schema, "minLength"), _number(schema, "maxLength")
    if fewest is not None:
        value = value.ljust(int(fewest), "x")
    return value if most is None else value[: int(most)]


def _number(schema: Schema, key: str) -> float | None:
    value = schema.get(key)
    return float(value) if isinstance(value, int | float | str) and value != "" else None


def _resolve(reference: str, root: Schema) -> Schema:
    """Find the schema that a reference such as `#/$defs/City` leads to."""
    found: object = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        if part:
            name = part.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping):
        raise ValueError(f"{reference} leads nowhere")  # noqa: TRY004  # REASON: the schema is wrong
    return found
