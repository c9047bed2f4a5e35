"""Words for a model whose call cannot be run: what a JSON Schema wants, and what it wrote.

Only the schema's own words are used, and what the model wrote itself. This module must never see an
exception, and its text is the same for the same input.
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
_DEEPEST_ARRAY = 2
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
    """Why a call cannot be run: for the model, and as a code."""

    text: str
    code: str


def quote_value(value: object) -> str:
    """What the model wrote, as JSON on one line, cut to 80 characters.

    >>> quote_value({"a": "x" * 100})
    '{"a":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx... [cut]'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "... [cut]"


def refuse_unfinished(text: str) -> RefusedCall:
    """The refusal of a call whose reply was cut before the arguments can have been complete."""
    end = f", after `{text[-60:]}`" if text else ""
    return RefusedCall(
        f"its arguments were cut off by the output limit{end}. {SEND_AGAIN} "
        "If they are long, make them shorter or split the work into several calls.",
        "unfinished_arguments",
    )


def show_path(path: Path) -> str:
    """`trip.stops[2].city`

    >>> show_path(["trip", "stops", 2, "city"])
    'trip.stops[2].city'
    """
    shown = ""
    for place in path:
        if isinstance(place, int):
            shown += f"[{place}]"
        else:
            shown += f".{place}" if shown else place
    return shown or "the arguments"


def describe_wanted(root: Node, path: Path) -> str:
    """What `root` wants at `path`, in words; "" when it says nothing about that place.

    >>> schema = {"properties": {"n": {"type": "array", "items": {"type": "integer", "minimum": 1}}}}
    >>> describe_wanted(schema, ["n"]), describe_wanted(schema, ["n", 0])
    ('array of (integer, at least 1)', 'integer, at least 1')
    """
    words = dict.fromkeys(
        word for node in _nodes_at(root, path) for word in _describe_node(root, node)
    )
    return " or ".join(words)


def known_names(root: Node, path: Path) -> list[str]:
    """The names that an object at `path` may have, in the schema's order."""
    names: dict[str, None] = {}
    for node in _nodes_at(root, path):
        for option in _expand_options(root, node):
            names.update(dict.fromkeys(_as_mapping(option.get("properties"))))
    return list(names)


def _nodes_at(root: Node, path: Path) -> list[Node]:
    """The nodes at `path`: several below a union, each once however often the union recurs."""
    found = [root]
    for place in path:
        inside = (inner for node in found for inner in _child_nodes(root, node, place))
        found = list({id(inner): inner for inner in inside}.values())
    return found


def _as_mapping(value: object) -> Node:
    return value if isinstance(value, Mapping) else {}


def _expand_options(root: Node, node: Node, depth: int = 0) -> list[Node]:
    """The node itself, with references followed and alternatives spread out."""
    if depth > 10:
        return []
    reference = node.get("$ref")
    if isinstance(reference, str):
        target = _as_mapping(root.get("$defs")).get(reference.rpartition("/")[2])
        return _expand_options(root, _as_mapping(target), depth + 1)
    for key in ("anyOf", "oneOf", "allOf"):
        several = node.get(key)
        if isinstance(several, list):
            return [
                option
                for one in several
                for option in _expand_options(root, _as_mapping(one), depth + 1)
            ]
    return [node]


def _child_nodes(root: Node, node: Node, place: str | int) -> list[Node]:
    found = []
    for option in _expand_options(root, node):
        if isinstance(place, str):
            inner = _as_mapping(option.get("properties")).get(
                place, option.get("additionalProperties")
            )
        else:
            prefix = option.get("prefixItems")
            if isinstance(prefix, list) and place < len(prefix):
                inner = prefix[place]
            else:
                inner = option.get("items")
        if isinstance(inner, Mapping):
            found.append(inner)
    return found


def _describe_node(root: Node, node: Node, depth: int = 0) -> list[str]:
    return [
        word
        for option in _expand_options(root, node)
        if (word := _describe_option(root, option, depth))
    ]


def _describe_option(root: Node, node: Node, depth: int) -> str:
    if "const" in node:
        return quote_value(node["const"])
    choices = node.get("enum")
    if isinstance(choices, list):
        shown = ", ".join(quote_value(choice) for choice in choices[:_MOST_CHOICES])
        more = f" and {len(choices) - _MOST_CHOICES} more" if len(choices) > _MOST_CHOICES else ""
        return f"one of {shown}{more}" if len(choices) > 1 else shown
    kind = node.get("type")
    if not isinstance(kind, str):
        return ""
    words = kind
    if kind == "array" and depth < _DEEPEST_ARRAY:
        items = dict.fromkeys(_describe_node(root, _as_mapping(node.get("items")), depth + 1))
        if items:
            words = f"array of {' or '.join(_pluralize(item) for item in items)}"
    elif isinstance(form := node.get("format"), str):
        words = f"{kind} ({form})"
    limits = [text.format(node[key]) for key, text in _LIMITS if key in node]
    return ", ".join([words, *limits])


def _pluralize(words: str) -> str:
    return f"({words})" if ", " in words else _PLURALS.get(words, words)
