"""Words for a value of a JSON Schema: its place, the value that is wanted there, and a short quotation of it.

The schema may be that of a caller, and the value that of a model. So each function looks at a bounded number of
parts and returns a text of bounded length. This module must never match a pattern, and quotes nothing but the
schema and the value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import islice
from typing import Final, TypeAlias, TypeGuard

Node: TypeAlias = Mapping[str, object]


class Inside(Enum):
    """A step of a path that leads to no part of an object or a list."""

    KEY = "key"
    """To the key of an object itself, after the step to its value."""
    TEXT = "text"
    """Into the JSON that a string contains."""


Path: TypeAlias = Sequence[str | int | Inside]

LONGEST_PLACE: Final = 200
"""The maximum number of characters of a place; the middle of a longer one is left out."""

_LONGEST_QUOTE = 80
_LONGEST_DESCRIPTION = 2000
_LONGEST_NAME = 80
_LONGEST_LIMIT = 200
_LONGEST_REFERENCE = 1000
_MOST_CHOICES = 20
_MOST_OPTIONS = 20
_MOST_PARTS = 500
_MOST_PARTS_IN_ALL = 20_000
_MOST_NAMES = 50
_MOST_REQUIRED = 8
_DEEPEST_ARRAY = 2
_BRANCHES = ("anyOf", "oneOf", "allOf")
_PLAIN_NAME = re.compile(r"[^\W\d][\w$-]{0,79}")
_TYPES: Final[Mapping[str, tuple[str, str, tuple[type, ...]]]] = {
    "string": ("a string", "strings", (str,)),
    "integer": ("an integer", "integers", (int,)),
    "number": ("a number", "numbers", (int, float)),
    "boolean": ("true or false", "booleans", (bool,)),
    "object": ("an object", "objects", (dict,)),
    "array": ("an array", "arrays", (list,)),
    "null": ("null", "nulls", (type(None),)),
}
"""The types of JSON: one value, several values, and the types of Python."""

_FORMATS: Final = {
    "base64": "a string of base64",
    "base64url": "a string of base64 for URLs",
    "binary": "a string of bytes",
    "date": "a date (YYYY-MM-DD)",
    "date-time": "a date and time (such as 2026-11-29T10:00:00Z)",
    "directory-path": "the path of a folder",
    "duration": "a duration (such as PT1H30M)",
    "email": "an email address",
    "file-path": "the path of a file",
    "hostname": "a host name",
    "ipv4": "an IPv4 address",
    "ipv6": "an IPv6 address",
    "password": "a string",
    "path": "a path",
    "regex": "a regular expression",
    "time": "a time (such as 10:30:00)",
    "uri": "a URL",
    "uuid": "a UUID",
}
_LIMITS: Final[Mapping[str, tuple[str, str]]] = {
    "minimum": ("at least {}", ""),
    "exclusiveMinimum": ("more than {}", ""),
    "maximum": ("at most {}", ""),
    "exclusiveMaximum": ("less than {}", ""),
    "multipleOf": ("a multiple of {}", ""),
    "minLength": ("at least {}", "character"),
    "maxLength": ("at most {}", "character"),
    "pattern": ("matching {}", ""),
    "minItems": ("at least {}", "item"),
    "maxItems": ("at most {}", "item"),
    "minProperties": ("at least {}", "key"),
    "maxProperties": ("at most {}", "key"),
}
"""The words for the keywords that limit a value, and the noun that they count."""


def quote_value(value: object) -> str:
    """Return a value as JSON on one line, cut to 80 characters.

    >>> quote_value({"a": "x" * 100})
    '{"a":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx... [cut]'
    """
    text = ""
    try:
        for piece in _write_json(value):
            text += piece
            if len(text) > _LONGEST_QUOTE:
                break
    except (
        TypeError,
        ValueError,
        RecursionError,
    ):  # an object, a very long number, a very deep list
        text += "..."
    return shorten_text(text, _LONGEST_QUOTE)


def _write_json(value: object) -> Iterator[str]:
    """Yield the JSON of a value in pieces, each of which takes a bounded time."""
    if isinstance(value, str):
        yield json.dumps(value[: _LONGEST_QUOTE + 1], ensure_ascii=False)
    elif isinstance(value, dict):
        yield "{"
        for at, (name, inner) in enumerate(value.items()):
            yield "," if at else ""
            yield from _write_json(str(name))
            yield ":"
            yield from _write_json(inner)
        yield "}"
    elif isinstance(value, list | tuple):
        yield "["
        for at, inner in enumerate(value):
            yield "," if at else ""
            yield from _write_json(inner)
        yield "]"
    else:
        try:
            yield json.dumps(value)
        except ValueError:
            yield "a number with too many digits"


def shorten_text(text: str, longest: int) -> str:
    """Return a text, or its beginning and a mark if it has more than `longest` characters."""
    return text if len(text) <= longest else f"{text[:longest]}... [cut]"


def count_things(count: object, noun: str) -> str:
    """Return a number with its noun.

    >>> count_things(1, "item"), count_things(2, "item")
    ('1 item', '2 items')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def join_options(options: Sequence[str]) -> str:
    """Join alternatives by "or".

    >>> join_options(["a", "b"]), join_options(["an integer, at least 1", "null"])
    ('a or b', 'an integer, at least 1, or null')
    """
    return (", or " if any(", " in option for option in options) else " or ").join(options)


def show_path(path: Path) -> str:
    """Return a place as text.

    >>> show_path(["trip", "stops", 2, "city"]), show_path(["prices", "a b"])
    ('trip.stops[2].city', 'prices["a b"]')
    >>> show_path(["prices", "eur", Inside.KEY]), show_path(["filter", Inside.TEXT, "from", 0])
    ('the key "eur" of prices', 'from[0] in the JSON text of filter')
    """
    steps = list(path)
    if Inside.TEXT in steps:
        at = len(steps) - 1 - steps[::-1].index(Inside.TEXT)
        inner = f"{show_path(steps[at + 1 :])} in " if steps[at + 1 :] else ""
        return f"{inner}the JSON text of {show_path(steps[:at])}"
    if steps and steps[-1] is Inside.KEY:
        outer = f" of {show_path(steps[:-2])}" if len(steps) > 2 else ""
        return f"the key {quote_value(steps[-2])}{outer}"
    text = ""
    for at, step in enumerate(steps):
        if isinstance(step, str) and (not at or _PLAIN_NAME.fullmatch(step)):
            text += f".{step}" if text else _show_first(step)
        elif not isinstance(step, Inside):
            text += f"[{quote_value(step)}]"
    if len(text) > LONGEST_PLACE:
        text = f"{text[: LONGEST_PLACE // 2]}...{text[3 - LONGEST_PLACE // 2 :]}"
    return text


def _show_first(name: str) -> str:
    return name if name.isprintable() and 0 < len(name) <= _LONGEST_NAME else quote_value(name)


def list_names(names: Sequence[str]) -> str:
    """Return names for a message: the first 50, each cut to 80 characters.

    >>> list_names(["a", "b"])
    'a, b'
    """
    listed = ", ".join(shorten_text(name, _LONGEST_NAME) for name in names[:_MOST_NAMES])
    return f"{listed} and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else listed


def list_choices(choices: Sequence[object]) -> str:
    """Describe the values of which one is wanted.

    >>> list_choices(["a", 1]), list_choices(["a"])
    ('one of "a", 1', '"a"')
    """
    listed = ", ".join(quote_value(choice) for choice in choices[:_MOST_CHOICES])
    rest = f" and {len(choices) - _MOST_CHOICES} more" if len(choices) > _MOST_CHOICES else ""
    return f"one of {listed}{rest}" if len(choices) > 1 else listed


def name_types(names: Iterable[str]) -> str:
    """Describe a value that has one of these types of JSON.

    >>> name_types(["integer", "null"])
    'an integer or null'
    """
    return " or ".join(_TYPES[name][0] if name in _TYPES else name for name in names)


def describe_limit(keyword: str, limit: object) -> str:
    """Describe a value within a limit, by the keyword of JSON Schema.

    >>> describe_limit("minItems", 1), describe_limit("maximum", 2.5)
    ('at least 1 item', 'at most 2.5')
    """
    words, noun = _LIMITS[keyword]
    shown = limit if isinstance(limit, str) else quote_value(limit)
    counted = f"{shown} {noun}" if noun and limit == 1 else f"{shown} {noun}s" if noun else shown
    return words.format(shorten_text(counted, _LONGEST_LIMIT))


def is_limit_met(keyword: str, limit: object, value: object) -> bool:
    """Whether a value is certainly within a limit; never for a pattern, which is not matched here."""
    _, noun = _LIMITS[keyword]
    measured: object = len(value) if noun and isinstance(value, str | list | dict) else value
    if not (_is_number(measured) and _is_number(limit)):
        return False
    match keyword:
        case "minimum" | "minLength" | "minItems" | "minProperties":
            return measured >= limit
        case "maximum" | "maxLength" | "maxItems" | "maxProperties":
            return measured <= limit
        case "exclusiveMinimum":
            return measured > limit
        case "exclusiveMaximum":
            return measured < limit
    return False


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


class SchemaWords:
    """Describes values that a schema wants, a bounded number of its parts for each description and in all.

    A place is a path in the value. `values` are the whole value, those on the way and, if there is one, the value at
    the place; they choose among the objects of a union.

    Args:
        root: the schema.

    >>> schema = {"properties": {"n": {"type": "array", "items": {"type": "integer", "minimum": 1}}}}
    >>> words = SchemaWords(schema)
    >>> words.describe_wanted(["n"]), words.describe_wanted(["n", 0])
    ('an array of (integers, at least 1)', 'an integer, at least 1')
    """

    def __init__(self, root: Node) -> None:
        self._root = root
        self._left = _MOST_PARTS
        self._left_in_all = _MOST_PARTS_IN_ALL

    def describe_wanted(self, path: Path, values: Sequence[object] = ()) -> str:
        """Describe the value that is expected at `path`; "" if there are no constraints."""
        options = self._options_at(path, values)
        return self._join_descriptions(options)

    def describe_unmet(self, path: Path, values: Sequence[object]) -> tuple[str, bool]:
        """Describe the wanted value without the alternatives that the value at `path` seems to have already.

        Returns:
            The description, and whether an alternative was left out.

        >>> words = SchemaWords({"anyOf": [{"type": "string"}, {"type": "number", "minimum": 0}]})
        >>> words.describe_unmet([], ["x"]), words.describe_unmet([], [-1])
        (('a number, at least 0', True), ('a string, or a number, at least 0', False))
        """
        options = self._options_at(path, values)
        unmet = [option for option in options if not _is_met(option, values[-1])]
        return self._join_descriptions(unmet), len(unmet) < len(options)

    def allows_null(self, path: Path, values: Sequence[object] = ()) -> bool:
        """Whether null is one of the values that are allowed at `path`."""
        return any(
            option.get("type") == "null" or ("const" in option and option["const"] is None)
            for option in self._options_at(path, values)
        )

    def known_names(self, path: Path, values: Sequence[object] = ()) -> list[str] | None:
        """Return the names that an object at `path` may have, in order; None if the schema names none."""
        options = self._options_at(path, values)
        named = [_as_mapping(one["properties"]) for one in options if "properties" in one]
        return list(dict.fromkeys(name for names in named for name in names)) if named else None

    def _join_descriptions(self, options: list[Node]) -> str:
        texts = dict.fromkeys(self._describe_option(option, 0) for option in options)
        texts.pop("", None)
        return shorten_text(join_options(list(texts)), _LONGEST_DESCRIPTION)

    def _options_at(self, path: Path, values: Sequence[object]) -> list[Node]:
        """Return the alternatives at `path`, each of them once."""
        self._left = min(_MOST_PARTS, self._left_in_all)
        left = self._left
        steps, is_key = list(path), False
        if steps and steps[-1] is Inside.KEY:
            steps, is_key = steps[:-2], True
        nodes: list[Node] = [self._root]
        for at, step in enumerate(steps):
            nodes = self._step_into(nodes, step, values[at] if at < len(values) else None)
        options = self._expand(nodes)
        if is_key:
            options = self._expand([_as_mapping(one.get("propertyNames")) for one in options])
        self._left_in_all -= left - self._left
        return options

    def _step_into(self, nodes: list[Node], step: str | int | Inside, value: object) -> list[Node]:
        options = self._expand(nodes)
        if isinstance(value, dict):
            options = [one for one in options if _has_tags(one, value)] or options
        inner = (part for option in options for part in _child_parts(option, step))
        unique = {id(part): part for part in islice(inner, _MOST_PARTS)}
        return list(unique.values())

    def _expand(self, nodes: list[Node]) -> list[Node]:
        return [option for node in nodes for option in self._expand_options(node)]

    def _expand_options(self, node: Node) -> list[Node]:
        """Resolve the references and alternatives of a node into plain nodes, each of them once."""
        found: list[Node] = []
        seen: set[int] = set()
        waiting = [node]
        while waiting and self._left > 0 and len(found) < _MOST_OPTIONS:
            part = waiting.pop()
            if id(part) in seen:
                continue
            seen.add(id(part))
            self._left -= 1
            reference = part.get("$ref")
            several = next(
                (part[key] for key in _BRANCHES if isinstance(part.get(key), list)), None
            )
            types = part.get("type")
            if isinstance(reference, str):
                waiting.append(self._resolve(reference))
            elif isinstance(several, list) and several:
                waiting.extend(_as_mapping(member) for member in several[:_MOST_PARTS][::-1])
            elif isinstance(types, list) and "enum" not in part:
                waiting.extend({**part, "type": name} for name in types[:_MOST_OPTIONS][::-1])
            else:
                found.append(part)
        return found

    def _resolve(self, reference: str) -> Node:
        """Return the part of the schema that a JSON pointer names; an empty one if there is none."""
        found: object = self._root
        if reference[:1] != "#" or len(reference) > _LONGEST_REFERENCE:
            return {}
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and name.isascii() and name.isdigit():
                found = found[int(name)] if int(name) < len(found) else None
            else:
                found = _as_mapping(found).get(name)
        return _as_mapping(found)

    def _describe_option(self, node: Node, depth: int, *, several: bool = False) -> str:
        """Describe one alternative.

        Args:
            node: the alternative.
            depth: the number of arrays around it.
            several: describe several such values, as the items of an array.
        """
        if "const" in node:
            return quote_value(node["const"])
        choices = node.get("enum")
        if isinstance(choices, list):
            return list_choices(choices)
        kind = node.get("type", "object" if "required" in node else None)
        if not isinstance(kind, str):
            return ""
        single, plural, _ = _TYPES.get(kind, (kind, kind, ()))
        form = node.get("format")
        if several:
            words = f"{plural} ({form})" if isinstance(form, str) else plural
        elif kind == "string":
            words = _describe_string(node)
        elif kind == "object":
            words = _describe_object(node)
        else:
            words = single
        if kind == "array" and depth < _DEEPEST_ARRAY:
            items = self._describe_items(node, depth)
            words = f"{words} of {items}" if items else words
        limits = [describe_limit(key, node[key]) for key in _LIMITS if key in node]
        description = shorten_text(", ".join([words, *limits]), _LONGEST_DESCRIPTION)
        return f"({description})" if several and limits else description

    def _describe_items(self, node: Node, depth: int) -> str:
        options = self._expand_options(_as_mapping(node.get("items")))
        described = (self._describe_option(one, depth + 1, several=True) for one in options)
        return " or ".join(filter(None, dict.fromkeys(described)))


def _as_mapping(value: object) -> Node:
    return value if isinstance(value, Mapping) else {}


def _has_tags(option: Node, value: Node) -> bool:
    """Whether an object has the fixed values that an object of a union must have."""
    named = islice(_as_mapping(option.get("properties")).items(), _MOST_NAMES)
    return not any(
        name in value and "const" in part and part["const"] != value[name]
        for name, part in named
        if isinstance(part, Mapping)
    )


def _child_parts(option: Node, step: str | int | Inside) -> Iterator[Node]:
    found: Iterable[object]
    if step is Inside.TEXT:
        found = [option.get("contentSchema")]
    elif isinstance(step, str):
        named = _as_mapping(option.get("properties"))
        patterns = _as_mapping(option.get("patternProperties"))
        others = [*patterns.values(), option.get("additionalProperties")]
        found = [named[step]] if step in named else others
    else:
        items = option.get("items")
        prefix = items if isinstance(items, list) else option.get("prefixItems")
        if isinstance(prefix, list) and isinstance(step, int) and step < len(prefix):
            found = [prefix[step]]
        else:
            found = [option.get("additionalItems") if isinstance(items, list) else items]
    return (part for part in found if isinstance(part, Mapping))


def _is_met(option: Node, value: object) -> bool:
    """Whether all words of the description of an option are already true of a value."""
    if "const" in option or "enum" in option:
        return False
    kind = option.get("type")
    if not isinstance(kind, str) or not _has_type(kind, value):
        return False
    if kind == "string" and ("format" in option or "contentMediaType" in option):
        return False
    return all(is_limit_met(key, option[key], value) for key in _LIMITS if key in option)


def _has_type(kind: str, value: object) -> bool:
    types = _TYPES[kind][2] if kind in _TYPES else ()
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, types)


def _describe_string(node: Node) -> str:
    form = node.get("format")
    if node.get("contentMediaType") == "application/json":
        return "a string of JSON text"
    if not isinstance(form, str):
        return "a string"
    return _FORMATS.get(form) or f"a string ({shorten_text(form, _LONGEST_NAME)})"


def _describe_object(node: Node) -> str:
    required = node.get("required")
    names = (
        [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    )
    if not names:
        return "an object"
    listed = ", ".join(shorten_text(name, _LONGEST_NAME) for name in names[:_MOST_REQUIRED])
    more = ", ..." if len(names) > _MOST_REQUIRED else ""
    return f"an object with {listed}{more}"
