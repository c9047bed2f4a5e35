"""Writes a value in the form of a converted schema, and compares values that came back with the original ones.

`write_sent_value` is the opposite of `rewrite_value`: it finds a branch of each `anyOf` that the value fits, gives
properties the names under which they are sent, and writes null for those that are absent and must be there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator

from holdfast.codecs.schemas.rewriting import RewriteNode, rewrite_value

Json = Any
Part = dict[str, Any]


class SentValues:
    """Writes values for one schema that is sent.

    Args:
        schema: the schema that is sent.
        rewriting: its way back.
    """

    def __init__(self, schema: Part, rewriting: RewriteNode | None) -> None:
        self._root = schema
        self._rewriting = rewriting
        self._validator = Draft202012Validator(schema)

    def write(self, value: Json) -> Json:
        """Return the value as it is sent. Raises AssertionError if the schema does not allow it."""
        sent = self._first(self._root, self._rewriting, value)
        if not self._validator.is_valid(sent):
            raise AssertionError(
                f"the schema that is sent does not allow {value!r}: {self._root!r}"
            )
        return sent

    def _forms(self, part: Any, node: RewriteNode | None, value: Json) -> Iterator[Json]:
        """Return forms in which a value may be sent, the most likely one first."""
        if not isinstance(part, dict):
            yield value
            return
        if "$ref" in part:
            target = self._follow(part["$ref"])
            beside = {name: one for name, one in part.items() if name not in ("$ref", "$defs")}
            yield from self._forms({**beside, "allOf": [target]} if beside else target, node, value)
            return
        branches = [*part.get("anyOf", ()), *part.get("oneOf", ())]
        if branches:
            rest = {name: one for name, one in part.items() if name not in ("anyOf", "oneOf")}
            for branch in branches:
                form = self._first(branch, node, value)
                if self._fits(branch, form):
                    yield from self._forms(rest, node, form) if "properties" in rest else [form]
            return
        for inner in part.get("allOf", ()):
            value = next(iter(self._forms(inner, node, value)), value)
        if isinstance(value, dict):
            yield self._object(part, node, value)
        elif isinstance(value, list):
            yield self._list(part, node, value)
        else:
            yield value

    def _object(self, part: Part, node: RewriteNode | None, value: dict[str, Json]) -> Json:
        names = node.names if node is not None else {}
        known = part.get("properties", {})
        sent: dict[str, Json] = {}
        for name, inner in known.items():
            original = names.get(name, name)
            child = node.children.get(name, node.others) if node is not None else None
            if original in value:
                sent[name] = self._first(inner, child, value[original])
            elif name in value:
                sent[name] = value[name]
            elif name in part.get("required", ()):
                sent[name] = None
        patterns = part.get("patternProperties", {})
        rest = part.get("additionalProperties", True)
        for original, inner in value.items():
            if original in {names.get(name, name) for name in known} or original in sent:
                continue
            name = next((one for one, back in names.items() if back == original), original)
            below = node.children.get(name, node.others) if node is not None else None
            others = next((one for key, one in patterns.items() if re.search(key, name)), rest)
            sent[name] = self._first(others, below, inner)
        return sent

    def _list(self, part: Part, node: RewriteNode | None, value: list[Json]) -> Json:
        first = part.get("prefixItems", [])
        rest = part.get("items", True)
        below = node.items if node is not None else None
        return [
            self._first(first[at] if at < len(first) else rest, below, item)
            for at, item in enumerate(value)
        ]

    def _first(self, part: Any, node: RewriteNode | None, value: Json) -> Json:
        """Return the first form that fits, if possible one that comes back without more nulls."""
        forms = list(self._forms(part, node, value))
        fitting = [form for form in forms if self._fits(part, form)]
        same = (form for form in fitting if rewrite_value(node, form) == value)
        return next(same, (fitting or forms or [value])[0])

    def _fits(self, part: Any, value: Json) -> bool:
        return self._validator.evolve(schema=part).is_valid(value)

    def _follow(self, reference: str) -> Part:
        if reference == "#":
            return {name: one for name, one in self._root.items() if name != "$defs"}
        target: Part = self._root["$defs"][reference.removeprefix("#/$defs/")]
        return target


def find_difference(value: Json, back: Json, place: str = "") -> str:
    """Return where a value that came back differs from the original; "" if nowhere.

    A property that is absent may come back as null. Whether the original allows it is the caller's question.
    """
    if isinstance(value, dict) and isinstance(back, dict):
        for name in value.keys() | back.keys():
            if name not in back:
                return f"{place}/{name} is missing"
            if name not in value:
                if back[name] is not None:
                    return f"{place}/{name} is new"
            elif difference := find_difference(value[name], back[name], f"{place}/{name}"):
                return difference
        return ""
    if isinstance(value, list) and isinstance(back, list) and len(value) == len(back):
        for at, (one, other) in enumerate(zip(value, back, strict=True)):
            if difference := find_difference(one, other, f"{place}/{at}"):
                return difference
        return ""
    same = value == back and isinstance(value, bool) == isinstance(back, bool)
    return "" if same else f"{place} is {back!r} and not {value!r}"
