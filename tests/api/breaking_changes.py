"""Judges two OpenAPI documents: which changes of the second break a client of the first.

Clients skip names that they do not know. So a new path, a new field, a new kind of item and a new member of an
enumeration are additions. This module must never read a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

Schema: TypeAlias = Mapping[str, Any]
Way: TypeAlias = Literal["request", "answer"]

_LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems")
_UPPER = ("maximum", "maxLength", "maxItems")
_EXACT = ("pattern", "format", "contentEncoding")
_TEXTS = {"description", "title", "default"}
_JUDGED = {
    *_LOWER,
    *_UPPER,
    *_EXACT,
    *_TEXTS,
    *("$ref", "additionalProperties", "anyOf", "discriminator", "enum", "items"),
    *("prefixItems", "properties", "required", "type"),
}
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def find_breaking_changes(old: Schema, new: Schema) -> list[str]:
    """Return a sentence for each change that breaks a client. Raises ValueError for an unknown keyword."""
    return list(dict.fromkeys(_Judge(old, new).compare_paths()))


class _Judge:
    """Compares two documents.

    Args:
        old: the document that clients know.
        new: the document that they get.
    """

    def __init__(self, old: Schema, new: Schema) -> None:
        self._old, self._new = old, new
        self._seen: set[tuple[str, str, Way]] = set()

    def compare_paths(self) -> Iterator[str]:
        """Yield what breaks, path by path."""
        for path, methods in self._old["paths"].items():
            for method, operation in methods.items():
                place = f"{method.upper()} {path}"
                if (changed := self._new["paths"].get(path, {}).get(method)) is None:
                    yield f"{place}: is gone"
                else:
                    yield from self._compare_operation(operation, changed, place)
        yield from self._compare_items()

    def _compare_items(self) -> Iterator[str]:
        """Yield what breaks in the items of streams, which no operation refers to: a stream is a text."""
        compared = {name for name, _, _ in self._seen}
        kept = self._new["components"]["schemas"].keys()
        for name in self._old["components"]["schemas"].keys() & kept:
            item = {"$ref": f"#/components/schemas/{name}"}
            if item["$ref"] not in compared:
                yield from self._compare(item, item, name, "answer")

    def _compare_operation(self, old: Schema, new: Schema, place: str) -> Iterator[str]:
        if old.get("x-scope") != new.get("x-scope"):
            yield f"{place}: needs another scope"
        yield from self._compare_parameters(old, new, place)
        body, changed = old.get("requestBody", {}), new.get("requestBody", {})
        if changed.get("required", False) and not body.get("required", False):
            yield f"{place}: now needs a body"
        yield from self._compare_contents(body, changed, f"{place} body", "request")
        for status, answer in old["responses"].items():
            if status not in new["responses"]:
                yield f"{place}: no longer answers {status}"
            else:
                found = new["responses"][status]
                yield from self._compare_contents(answer, found, f"{place} {status}", "answer")

    def _compare_parameters(self, old: Schema, new: Schema, place: str) -> Iterator[str]:
        before = {(one["in"], one["name"]): one for one in old.get("parameters", ())}
        after = {(one["in"], one["name"]): one for one in new.get("parameters", ())}
        for (kind, name), one in before.items():
            if (changed := after.get((kind, name))) is None:
                yield f"{place} {kind} {name}: is gone"
            else:
                at = f"{place} {kind} {name}"
                yield from self._compare(one["schema"], changed["schema"], at, "request")
        for (kind, name), one in after.items():
            if one.get("required") and not before.get((kind, name), {}).get("required"):
                yield f"{place} {kind} {name}: is now required"

    def _compare_contents(self, old: Schema, new: Schema, place: str, way: Way) -> Iterator[str]:
        for media_type, content in old.get("content", {}).items():
            if (changed := new.get("content", {}).get(media_type)) is None:
                yield f"{place}: {media_type} is gone"
            else:
                yield from self._compare(content["schema"], changed["schema"], place, way)

    def _compare(self, old: Schema, new: Schema, place: str, way: Way) -> Iterator[str]:
        if "$ref" in old and "$ref" in new:
            if (pair := (old["$ref"], new["$ref"], way)) in self._seen:
                return
            self._seen.add(pair)
        before, after = _list_forms(self._old, old), _list_forms(self._new, new)
        for name, form in before.items():
            if (found := _find_form(after, name)) is not None:
                yield from self._compare_form(form, found, place, way)
            elif name != "anything" or way == "request":
                yield f"{place}: may no longer be {name}"
        if (
            way == "answer"
        ):  # a client must read what it did not know; new kinds of items are skipped
            for name in after:
                if _find_form(before, name) is None and not name.startswith("kind "):
                    yield f"{place}: may now be {name}"

    def _compare_form(self, old: Schema, new: Schema, place: str, way: Way) -> Iterator[str]:
        yield from _compare_values(old, new, place, way)
        if way == "request":
            yield from _compare_bounds(old, new, place)
            if new.get("additionalProperties") is False and _is_open(old):
                yield f"{place}: no longer takes other fields"
        gone = old.get("properties", {}).keys() - new.get("properties", {}).keys()
        yield from (f"{place}.{name}: is gone" for name in sorted(gone))
        first, second = (new, old) if way == "request" else (old, new)
        changed = set(first.get("required", ())) - set(second.get("required", ())) - gone
        now = "is now required" if way == "request" else "may now be absent"
        yield from (f"{place}.{name}: {now}" for name in sorted(changed))
        for name, field in old.get("properties", {}).items():
            if name not in gone:
                yield from self._compare(field, new["properties"][name], f"{place}.{name}", way)
        yield from self._compare_members(old, new, place, way)

    def _compare_members(self, old: Schema, new: Schema, place: str, way: Way) -> Iterator[str]:
        """Yield what breaks of the members of a list, and of fields with any name."""
        for name in ("items", "additionalProperties"):
            if isinstance(old.get(name), dict) and isinstance(new.get(name), dict):
                yield from self._compare(old[name], new[name], f"{place}[]", way)
        pairs = (old.get("prefixItems", []), new.get("prefixItems", []))
        if len(pairs[0]) != len(pairs[1]):
            yield f"{place}: has another number of members"
        for at, (before, after) in enumerate(zip(*pairs, strict=False)):
            yield from self._compare(before, after, f"{place}[{at}]", way)


def _list_forms(document: Schema, schema: Schema, tag: str = "") -> dict[str, Schema]:
    """Return the forms that a value may have, by a name that does not depend on how types are called."""
    if (reference := schema.get("$ref")) is not None:
        found = document["components"]["schemas"][reference.rpartition("/")[2]]
        return _list_forms(document, found, tag)
    if unknown := schema.keys() - _JUDGED:
        raise ValueError(f"cannot judge {', '.join(sorted(unknown))}")
    if "anyOf" in schema:
        inner = schema.get("discriminator", {}).get("propertyName", tag)
        forms: dict[str, Schema] = {}
        for one in schema["anyOf"]:
            forms |= _list_forms(document, one, inner)
        return forms
    if "enum" in schema:
        kinds = {_TYPES[type(value)] for value in schema["enum"]}
        return {
            kind: {"enum": [one for one in schema["enum"] if _TYPES[type(one)] == kind]}
            for kind in kinds
        }
    if tag and tag in schema.get("properties", {}):
        return {f"kind {schema['properties'][tag]['enum'][0]}": schema}
    return {schema.get("type", "anything"): schema}


def _find_form(forms: Mapping[str, Schema], name: str) -> Schema | None:
    """Return the form with a name, or one that takes all of its values."""
    wider = {"integer": "number"}.get(name, name)
    return forms.get(name) or forms.get(wider) or forms.get("anything")


def _compare_values(old: Schema, new: Schema, place: str, way: Way) -> Iterator[str]:
    """Yield what breaks of the values that are listed."""
    before, after = old.get("enum"), new.get("enum")
    if before is not None and after is not None:
        yield from (f"{place}: {one!r} is gone" for one in before if one not in after)
    elif before is None and after is not None and way == "request":
        yield f"{place}: takes only {', '.join(map(repr, after))}"
    elif before is not None and after is None and way == "answer":
        yield f"{place}: may now be any value"


def _compare_bounds(old: Schema, new: Schema, place: str) -> Iterator[str]:
    """Yield the bounds of a request that are tighter."""
    for names, sign in ((_LOWER, 1), (_UPPER, -1)):
        for name in names:
            if name in new and (name not in old or sign * new[name] > sign * old[name]):
                yield f"{place}: {name} is {new[name]}"
    for name in _EXACT:
        if name in new and new[name] != old.get(name):
            yield f"{place}: {name} is {new[name]}"


def _is_open(schema: Schema) -> bool:
    return schema.get("type") == "object" and schema.get("additionalProperties") is not False
