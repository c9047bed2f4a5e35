"""Checks whether all validated values of a signature have JSON's own types.

This holds for nearly all tools, whose arguments are then encoded by one call of the encoder. An
unknown kind of schema counts as not plain, which only takes more time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, Final

_LEAVES: Final = frozenset({"any", "bool", "float", "int", "none", "str"})
_INNER: Final = {
    "default": ("schema",),
    "dict": ("keys_schema", "values_schema"),
    "list": ("items_schema",),
    "model-field": ("schema",),
    "nullable": ("schema",),
    "typed-dict-field": ("schema",),
}
_MOST_LEVELS: Final = 50


def is_plain(schema: Mapping[str, Any], level: int = 0) -> bool:
    """Whether a core schema of pydantic produces only JSON's own types.

    Args:
        schema: the core schema of a signature's model, or a part of it.
        level: the nesting level of the part.

    >>> is_plain({"type": "list", "items_schema": {"type": "int"}}), is_plain({"type": "bytes"})
    (True, False)
    """
    kind = schema["type"]
    if level > _MOST_LEVELS or (kind == "default" and not _is_plain_default(schema)):
        return False
    if kind in _LEAVES:
        return True
    if kind == "literal":
        return all(type(value) in (str, int, bool) for value in schema["expected"])
    if kind == "dict" and schema.get("keys_schema", {}).get("type") != "str":
        return False
    if kind == "model" and level > 0:
        return False
    return kind in _BRANCHES and all(is_plain(inner, level + 1) for inner in _inner_of(schema))


_BRANCHES: Final = frozenset({*_INNER, "model", "model-fields", "typed-dict", "union"})


def _inner_of(schema: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    kind = schema["type"]
    if kind == "model":
        return (schema["schema"],)
    if kind in ("model-fields", "typed-dict"):
        inner: Iterable[Mapping[str, Any]] = schema["fields"].values()
        return inner
    if kind == "union":
        return [choice[0] if isinstance(choice, tuple) else choice for choice in schema["choices"]]
    return [schema[name] for name in _INNER[kind] if name in schema]


def _is_plain_default(schema: Mapping[str, Any]) -> bool:
    """Whether a default has a JSON type. Defaults are not validated, so they may have any type."""
    value = schema.get("default", schema)
    if type(value) is float:
        return isfinite(value)
    if type(value) in (list, dict):
        return not value
    return value is None or type(value) in (str, int, bool)
