"""Whether all values of a signature are of the types that JSON itself has, as validation leaves them.

Nearly all tools take only such, and then their arguments are written as JSON by one call of the
encoder. A kind of schema that is not known here counts as not plain: that only costs time.
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
    """Whether a core schema of pydantic gives only what JSON has.

    Args:
        schema: of the model of a signature, or a part of it.
        level: how deep the part lies.

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
        return [one[0] if isinstance(one, tuple) else one for one in schema["choices"]]
    return [schema[name] for name in _INNER[kind] if name in schema]


def _is_plain_default(schema: Mapping[str, Any]) -> bool:
    """A default is not validated, so that it may be of any type."""
    value = schema.get("default", schema)
    if type(value) is float:
        return isfinite(value)
    if type(value) in (list, dict):
        return not value
    return value is None or type(value) in (str, int, bool)
