"""Reads a small YAML mapping as text: keys with strings, lists of strings, and mappings of strings.

Values stay as written (`version: 1.0` is "1.0"), as in the reference implementation of Agent Skills.
This module must never construct an object from YAML: it walks the nodes, and refuses aliases, tags
and deep nesting before they are expanded. Importing it requires PyYAML.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn, TypeAlias

import yaml
from msgspec import Struct

from holdfast.core.errors import ConfigurationError

Value: TypeAlias = str | tuple[str, ...] | Mapping[str, str]

_DEEPEST = 3
_FIRST_LINE = 2
_LINES_FIX = "Write lines such as `name: pdf-forms`"


class Field(Struct, frozen=True):
    """One value, and the line of its key in the file."""

    value: Value
    line: int


def parse_fields(head: str, file: str) -> dict[str, Field]:
    """Return the fields of a front matter.

    Args:
        head: the YAML, which begins on the second line of the file.
        file: the name of the file in errors.

    Raises:
        ConfigurationError: it is not such a mapping. The message names the file and the line.

    >>> parse_fields("version: 1.0", "SKILL.md")["version"]
    Field(value='1.0', line=2)
    """
    root = _compose_yaml(head, file)
    if root is None:
        _raise_at(file, 1, "its front matter is empty", _LINES_FIX)
    pairs = _mapping_pairs(root, file, "its front matter")
    return {key: Field(_node_value(node, file, key), line) for key, line, node in pairs}


def _compose_yaml(head: str, file: str) -> yaml.Node | None:
    try:
        _refuse_tricks(yaml.parse(head, yaml.SafeLoader), file)
        return yaml.compose(head, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + _FIRST_LINE if mark is not None else 1
        problem = f"is not YAML: {error.problem or error.context}"
        fix = "Put a text with a colon or other special characters in quotes"
        raise ConfigurationError(f"{file}:{line}", problem, fix=fix) from error
    except yaml.YAMLError as error:
        problem = "is not YAML: it contains a character that is not allowed"
        raise ConfigurationError(f"{file}:1", problem, fix="Remove control characters") from error


def _refuse_tricks(events: Iterable[yaml.Event], file: str) -> None:
    """Refuse anchors, aliases, tags and deep nesting before the nodes are composed.

    They would let a small file grow large, or make an object of a value.
    """
    depth = 0
    for event in events:
        line = event.start_mark.line + _FIRST_LINE if event.start_mark is not None else 1
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            _raise_at(file, line, "uses an anchor or an alias", "Write the value out")
        if getattr(event, "tag", None) is not None:
            _raise_at(file, line, "uses a YAML tag", "Write the value without it")
        if depth > _DEEPEST:
            _raise_at(file, line, "is nested too deeply", "Use only keys with texts and lists")


def _raise_at(file: str, line: int, problem: str, fix: str) -> NoReturn:
    raise ConfigurationError(f"{file}:{line}", problem, fix=fix)


def _line_of(node: yaml.Node) -> int:
    return int(node.start_mark.line) + _FIRST_LINE


def _mapping_pairs(node: yaml.Node, file: str, name: str) -> list[tuple[str, int, yaml.Node]]:
    """Return the keys, lines and values of a mapping; each key must be a unique string."""
    if not isinstance(node, yaml.MappingNode):
        _raise_at(file, _line_of(node), f"{name} must consist of `key: value` lines", _LINES_FIX)
    pairs: list[tuple[str, int, yaml.Node]] = []
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            _raise_at(
                file, _line_of(key), f"{name} has a key that is not text", "Write a plain key"
            )
        if any(other == key.value for other, _, _ in pairs):
            _raise_at(file, _line_of(key), f"has the key {key.value!r} twice", "Remove one of them")
        pairs.append((key.value, _line_of(key), value))
    return pairs


def _node_value(node: yaml.Node, file: str, key: str) -> Value:
    if isinstance(node, yaml.SequenceNode):
        return tuple(_scalar_text(item, file, key) for item in node.value)
    if isinstance(node, yaml.MappingNode):
        pairs = _mapping_pairs(node, file, key)
        return {name: _scalar_text(inner, file, f"{key}.{name}") for name, _, inner in pairs}
    return _scalar_text(node, file, key)


def _scalar_text(node: yaml.Node, file: str, key: str) -> str:
    if not isinstance(node, yaml.ScalarNode):
        _raise_at(file, _line_of(node), f"{key} contains a value that is not text", "Write a text")
    return "" if node.tag == "tag:yaml.org,2002:null" else str(node.value)
