"""Finds the parts that the references of a schema name: places, anchors, and parts with an `$id`.

A reference and an `$id` may be relative to the `$id` of the part that they stand in, as RFC 3986 says. Everything
is inside of the schema: a reference that leads out of it is refused. This module must never compile a part.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

from holdfast.core.schema_checks.schema_limits import StepBudget
from holdfast.core.schema_checks.schema_nodes import shorten

Part: TypeAlias = dict[str, Any]

_DRAFTS: Final = {
    "https://json-schema.org/draft/2020-12/schema": 2020,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "http://json-schema.org/draft-07/schema": 7,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-04/schema": 4,
}

_DATA = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are data and hold no parts."""

_MAPS = frozenset(
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"]
)
"""Keywords whose values hold parts by names, which may be those of keywords."""

_ADDRESS = re.compile(r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?", re.DOTALL)
_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2})+")


class SchemaError(ValueError):
    """A schema cannot be used.

    Args:
        problem: the fault, in words.
        fix: the way to correct it.
    """

    def __init__(self, problem: str, fix: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.fix = fix


def find_draft(schema: Part) -> int | None:
    """Return the year or the number of the draft of a schema; None if its `$schema` is not known."""
    draft = str(schema.get("$schema", "https://json-schema.org/draft/2020-12/schema"))
    return _DRAFTS.get(draft.rstrip("#"))


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
        self._addresses = {id(schema): ""}
        """The absolute address of each root, as far as the schema says it."""
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
                address = self._resolve(base, root)
                self._named.setdefault(address, part)
                self._addresses[id(part)] = address
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
        """Return the target of a reference in a part. Raises SchemaError."""
        base, _, fragment = reference.partition("#")
        root = self._roots.get(id(part))
        if root is not None and base:
            root = self._named.get(self._resolve(base, root))
        if root is None:
            raise _missing(reference)
        key = (id(root), fragment)
        if key not in self._found:
            self._found[key] = self._find(root, fragment, reference)
        return self._found[key]

    def _resolve(self, reference: str, root: Part) -> str:
        """Return the absolute address of a reference in a part that starts at a root."""
        base = self._addresses[id(root)]
        self._budget.take((len(base) + len(reference)) // 16)
        return _resolve_address(base, reference)

    def _find(self, root: Part, fragment: str, reference: str) -> Part | bool:
        if fragment and not fragment.startswith("/"):
            anchor = self._anchors.get((id(root), fragment))
            if anchor is None:
                raise _missing(reference)
            return anchor
        found: object = root
        for step in fragment.split("/")[1:]:
            self._budget.take()
            found = step_into(found, decode_step(step))
        if isinstance(found, bool):
            return found
        if not isinstance(found, dict) or id(found) not in self._roots:
            raise _missing(reference)
        return found


def _resolve_address(base: str, reference: str) -> str:
    """Return the address of a reference that is relative to another address.

    >>> _resolve_address("https://acme.example/orders/order.json", "../item.json")
    'https://acme.example/item.json'
    >>> _resolve_address("", "item.json")
    'item.json'
    """
    scheme, authority, path, query = _split_address(reference)
    if scheme is None:
        scheme, base_authority, base_path, base_query = _split_address(base)
        if authority is None:
            authority = base_authority
            if not path:
                path, query = base_path, base_query if query is None else query
            elif not path.startswith("/"):
                folder = base_path[: base_path.rfind("/") + 1]
                path = (folder or ("/" if authority is not None else "")) + path
    start = "" if scheme is None else f"{scheme}:"
    host = "" if authority is None else f"//{authority}"
    return start + host + _remove_dots(path) + ("" if query is None else f"?{query}")


def _split_address(address: str) -> tuple[str | None, str | None, str, str | None]:
    """Return the scheme, the authority, the path and the query of an address without a fragment."""
    parts = _ADDRESS.match(address)
    return (parts[1], parts[2], parts[3], parts[4]) if parts else (None, None, address, None)


def _remove_dots(path: str) -> str:
    """Return a path without the steps `.` and `..`.

    >>> _remove_dots("/a/./b/../c"), _remove_dots("/../a/..")
    ('/a/c', '/')
    """
    steps: list[str] = []
    for step in path.split("/"):
        if step == "..":
            if steps and steps != [""]:
                steps.pop()
        elif step != ".":
            steps.append(step)
    if path.rpartition("/")[2] in (".", ".."):
        steps.append("")
    return "/".join(steps)


def step_into(value: object, name: str) -> object:
    """Return the value at one step of a JSON pointer; None if there is none."""
    if isinstance(value, dict):
        return value.get(name)
    if isinstance(value, list) and name.isascii() and name.isdigit() and len(name) < 7:
        return value[int(name)] if int(name) < len(value) else None
    return None


def decode_step(step: str) -> str:
    """Return one step of a JSON pointer in a fragment.

    >>> decode_step("a~1b%25")
    'a/b%'
    """
    plain = _PERCENT.sub(
        lambda found: bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "replace"), step
    )
    return plain.replace("~1", "/").replace("~0", "~")


def _missing(reference: str) -> SchemaError:
    problem = f"has a reference to {shorten(reference)}, which is not in it"
    return SchemaError(problem, "Put its target into $defs")
