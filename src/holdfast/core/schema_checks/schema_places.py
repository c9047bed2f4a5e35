"""Finds what the references of a schema name: places, anchors, and parts with an `$id`.

Everything is inside of the schema. This module must never compile a part.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from holdfast.core.schema_checks.schema_nodes import shorten
from holdfast.core.schema_checks.step_budget import StepBudget

Part: TypeAlias = dict[str, Any]

_DATA = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are data and hold no parts."""

_MAPS = frozenset(
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"]
)
"""Keywords whose values hold parts by names, which may be those of keywords."""

_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2})+")


class SchemaError(ValueError):
    """A schema cannot be used.

    Args:
        problem: what is wrong.
        fix: what to do.
    """

    def __init__(self, problem: str, fix: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.fix = fix


class SchemaPlaces:
    """The places of a schema that references can name.

    Args:
        schema: the schema.
        draft: the year or the number of its draft.
        budget: the steps that may be taken.
    """

    def __init__(self, schema: Part, draft: int, budget: StepBudget) -> None:
        self._draft = draft
        self._budget = budget
        self._id = "id" if draft == 4 else "$id"
        self._roots: dict[int, Part] = {}
        self._anchors: dict[tuple[int, str], Part] = {}
        self._named: dict[str, Part] = {}
        self._found: dict[tuple[int, str], Part | bool] = {}
        self._walk(schema)

    @property
    def has_inner_roots(self) -> bool:
        """Whether a part has an `$id` of its own, so that references in it start there."""
        return len({id(root) for root in self._roots.values()}) > 1

    def _walk(self, schema: Part) -> None:
        waiting: list[tuple[object, Part, bool]] = [(schema, schema, False)]
        while waiting:
            value, root, is_map = waiting.pop()
            self._budget.take()
            if isinstance(value, list):
                waiting.extend((inner, root, False) for inner in value)
            elif isinstance(value, dict) and is_map:
                waiting.extend((inner, root, False) for inner in value.values())
            elif isinstance(value, dict):
                root = self._note_part(value, root)
                waiting.extend(
                    (inner, root, name in _MAPS)
                    for name, inner in value.items()
                    if name not in _DATA
                )

    def _note_part(self, part: Part, root: Part) -> Part:
        """Note the names of a part; returns the root that its references start at."""
        name = part.get(self._id)
        if isinstance(name, str) and not (self._draft <= 7 and "$ref" in part):
            base, _, fragment = name.partition("#")
            if base:
                self._named.setdefault(base, part)
                root = part
            if fragment and self._draft <= 7:
                self._anchors[id(root), fragment] = part
        self._roots[id(part)] = root
        for keyword in ("$anchor", "$dynamicAnchor"):
            anchor = part.get(keyword)
            if isinstance(anchor, str) and self._draft > 7:
                self._anchors[id(root), anchor] = part
        return root

    def look_up(self, reference: str, part: Part) -> Part | bool:
        """Return what a reference in a part names. Raises SchemaError."""
        base, _, fragment = reference.partition("#")
        root = self._named.get(base) if base else self._roots.get(id(part))
        if root is None:
            raise _missing(reference)
        key = (id(root), fragment)
        if key not in self._found:
            self._found[key] = self._find(root, fragment, reference)
        return self._found[key]

    def _find(self, root: Part, fragment: str, reference: str) -> Part | bool:
        if fragment and not fragment.startswith("/"):
            anchor = self._anchors.get((id(root), fragment))
            if anchor is None:
                raise _missing(reference)
            return anchor
        found: object = root
        for step in fragment.split("/")[1:]:
            self._budget.take()
            found = _step_into(found, _decode(step))
        if isinstance(found, bool):
            return found
        if not isinstance(found, dict) or id(found) not in self._roots:
            raise _missing(reference)
        return found


def _step_into(value: object, name: str) -> object:
    if isinstance(value, dict):
        return value.get(name)
    if isinstance(value, list) and name.isascii() and name.isdigit() and len(name) < 7:
        return value[int(name)] if int(name) < len(value) else None
    return None


def _decode(step: str) -> str:
    """Return one step of a JSON pointer in a fragment.

    >>> _decode("a~1b%25")
    'a/b%'
    """
    plain = _PERCENT.sub(
        lambda found: bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "replace"), step
    )
    return plain.replace("~1", "/").replace("~0", "~")


def _missing(reference: str) -> SchemaError:
    problem = f"has a reference to {shorten(reference)}, which is not in it"
    return SchemaError(problem, "Put what it names into $defs")
