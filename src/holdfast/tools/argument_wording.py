"""Explains to a model why its call is invalid: what the JSON Schema expects, and what the model wrote.

The texts quote only the schema and the model's own arguments, never an exception. The schema may be that of a
caller's tool, so each description looks at a bounded number of its parts, and has a bounded length.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

Node: TypeAlias = Mapping[str, object]
Path: TypeAlias = Sequence[str | int]

SEND_AGAIN = "Send the whole call again, with its arguments as one complete JSON object."

_LONGEST_QUOTE = 80
_MOST_CHOICES = 20
_MOST_OPTIONS = 20
_MOST_PARTS = 500
_MOST_NAMES = 50
_LONGEST_DESCRIPTION = 2000
_LONGEST_NAME = 80
_DEEPEST_ARRAY = 2
_BRANCHES = ("anyOf", "oneOf", "allOf")
_PLURALS = {"string": "strings", "integer": "integers", "number": "numbers", "object": "objects"}
_PLURALS |= {"array": "arrays", "boolean": "booleans", "null": "nulls"}
_LIMITS = (
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "at most {}"),
    ("exclusiveMaximum", "less than {}"),
    ("multipleOf", "a multiple of {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {} items"),
    ("maxItems", "at most {} items"),
    ("pattern", "matching {}"),
)


class RefusedCall(Struct, frozen=True):
    """Why a call cannot run: a text for the model, and a code."""

    text: str
    code: str


def quote_value(value: object) -> str:
    """Return a value of the model as JSON on one line, cut to 80 characters.

    >>> quote_value({"a": "x" * 100})
    '{"a":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx... [cut]'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "... [cut]"


def refuse_unfinished(text: str) -> RefusedCall:
    """Return the refusal of a call whose reply was cut, so that its arguments may be incomplete."""
    end = f", after `{text[-60:]}`" if text else ""
    return RefusedCall(
        f"its arguments were cut off by the output limit{end}. {SEND_AGAIN} "
        "If they are long, make them shorter or split the work into several calls.",
        "unfinished_arguments",
    )


def show_path(path: Path) -> str:
    """Return a path as text, such as `trip.stops[2].city`.

    >>> show_path(["trip", "stops", 2, "city"])
    'trip.stops[2].city'
    """
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text or "the arguments"


def describe_wanted(root: Node, path: Path) -> str:
    """Describe what the schema `root` expects at `path`; "" if it has no constraints there.

    >>> schema = {"properties": {"n": {"type": "array", "items": {"type": "integer", "minimum": 1}}}}
    >>> describe_wanted(schema, ["n"]), describe_wanted(schema, ["n", 0])
    ('array of (integer, at least 1)', 'integer, at least 1')
    """
    resolver = _Parts(root)
    options = dict.fromkeys(
        option for node in _nodes_at(resolver, path) for option in _describe_node(resolver, node)
    )
    return _cut(" or ".join(options), _LONGEST_DESCRIPTION)


def known_names(root: Node, path: Path) -> list[str]:
    """Return the names that an object at `path` may have, in the schema's order."""
    names: dict[str, None] = {}
    resolver = _Parts(root)
    for node in _nodes_at(resolver, path):
        for option in resolver.expand_options(node):
            names.update(dict.fromkeys(_as_mapping(option.get("properties"))))
    return list(names)


def list_names(names: Sequence[str]) -> str:
    """Return names for a message: the first 50, each cut to 80 characters.

    >>> list_names(["a", "b"])
    'a, b'
    """
    listed = ", ".join(_cut(name, _LONGEST_NAME) for name in names[:_MOST_NAMES])
    return f"{listed} and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else listed


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}... [cut]"


class _Parts:
    """Resolves the parts of a schema for one description, a bounded number of them.

    Args:
        root: the schema.
    """

    def __init__(self, root: Node) -> None:
        self._definitions = _as_mapping(root.get("$defs"))
        self._left = _MOST_PARTS
        self.root = root

    def expand_options(self, node: Node) -> list[Node]:
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
            if isinstance(reference, str):
                waiting.append(_as_mapping(self._definitions.get(reference.rpartition("/")[2])))
            elif isinstance(several, list):
                waiting.extend(_as_mapping(member) for member in several[:_MOST_PARTS][::-1])
            else:
                found.append(part)
        return found


def _nodes_at(resolver: _Parts, path: Path) -> list[Node]:
    """Return the schema nodes at `path`: several below a union, each of them once."""
    nodes = [resolver.root]
    for step in path:
        inside = (inner for node in nodes for inner in _child_nodes(resolver, node, step))
        nodes = list({id(inner): inner for inner in inside}.values())
    return nodes


def _as_mapping(value: object) -> Node:
    return value if isinstance(value, Mapping) else {}


def _child_nodes(resolver: _Parts, node: Node, step: str | int) -> list[Node]:
    children = []
    for option in resolver.expand_options(node):
        if isinstance(step, str):
            inner = _as_mapping(option.get("properties")).get(
                step, option.get("additionalProperties")
            )
        else:
            prefix = option.get("prefixItems")
            if isinstance(prefix, list) and step < len(prefix):
                inner = prefix[step]
            else:
                inner = option.get("items")
        if isinstance(inner, Mapping):
            children.append(inner)
    return children


def _describe_node(resolver: _Parts, node: Node, depth: int = 0) -> list[str]:
    return [
        text
        for option in resolver.expand_options(node)
        if (text := _describe_option(resolver, option, depth))
    ]


def _describe_option(resolver: _Parts, node: Node, depth: int) -> str:
    if "const" in node:
        return quote_value(node["const"])
    choices = node.get("enum")
    if isinstance(choices, list):
        listed = ", ".join(quote_value(choice) for choice in choices[:_MOST_CHOICES])
        rest = f" and {len(choices) - _MOST_CHOICES} more" if len(choices) > _MOST_CHOICES else ""
        return f"one of {listed}{rest}" if len(choices) > 1 else listed
    kind = node.get("type")
    if not isinstance(kind, str):
        return ""
    description = kind
    if kind == "array" and depth < _DEEPEST_ARRAY:
        items = dict.fromkeys(_describe_node(resolver, _as_mapping(node.get("items")), depth + 1))
        if items:
            description = f"array of {' or '.join(_pluralize(item) for item in items)}"
    elif isinstance(form := node.get("format"), str):
        description = f"{kind} ({form})"
    limits = [text.format(_cut(str(node[key]), 200)) for key, text in _LIMITS if key in node]
    return _cut(", ".join([description, *limits]), _LONGEST_DESCRIPTION)


def _pluralize(words: str) -> str:
    return f"({words})" if ", " in words else _PLURALS.get(words, words)
