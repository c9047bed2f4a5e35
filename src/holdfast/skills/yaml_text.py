"""A small YAML mapping, read as text: keys with texts, lists of texts, and mappings of texts.

Values stay as they are written (`version: 1.0` is "1.0"), as in the reference implementation of Agent
Skills. This module must never construct an object from YAML: it walks the nodes, and refuses aliases,
tags and deep nesting before they cost anything. Importing it needs PyYAML.
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
    """One value and the line of the file on which its key stands."""

    value: Value
    line: int


def parse_fields(head: str, file: str) -> dict[str, Field]:
    """The keys of a front matter with their values.

    Args:
        head: the YAML, which begins on the second line of the file.
        file: what errors call the file.

    Raises:
        ConfigurationError: it is no such mapping; it names the file and the line.

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
        problem = f"is no YAML: {error.problem or error.context}"
        fix = "Put a text with a colon or other signs in quotes"
        raise ConfigurationError(f"{file}:{line}", problem, fix=fix) from error
    except yaml.YAMLError as error:
        problem = "is no YAML: it holds a character that is not allowed"
        raise ConfigurationError(f"{file}:1", problem, fix="Remove control characters") from error


def _refuse_tricks(events: Iterable[yaml.Event], file: str) -> None:
    """Refuse what makes a small file large or a value an object, before it is composed."""
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
            _raise_at(file, line, "is nested too deeply", "Keep to keys with texts and lists")


def _raise_at(file: str, line: int, problem: str, fix: str) -> NoReturn:
    raise ConfigurationError(f"{file}:{line}", problem, fix=fix)


def _line_of(node: yaml.Node) -> int:
    return int(node.start_mark.line) + _FIRST_LINE


def _mapping_pairs(node: yaml.Node, file: str, what: str) -> list[tuple[str, int, yaml.Node]]:
    """The keys and values of a mapping, each key a text and there once."""
    if not isinstance(node, yaml.MappingNode):
        _raise_at(file, _line_of(node), f"{what} is no list of `key: value` lines", _LINES_FIX)
    found: list[tuple[str, int, yaml.Node]] = []
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            _raise_at(file, _line_of(key), f"{what} has a key that is no text", "Write a plain key")
        if any(other == key.value for other, _, _ in found):
            _raise_at(file, _line_of(key), f"has the key {key.value!r} twice", "Remove one of them")
        found.append((key.value, _line_of(key), value))
    return found


def _node_value(node: yaml.Node, file: str, key: str) -> Value:
    if isinstance(node, yaml.SequenceNode):
        return tuple(_scalar_text(one, file, key) for one in node.value)
    if isinstance(node, yaml.MappingNode):
        pairs = _mapping_pairs(node, file, key)
        return {name: _scalar_text(one, file, f"{key}.{name}") for name, _, one in pairs}
    return _scalar_text(node, file, key)


def _scalar_text(node: yaml.Node, file: str, key: str) -> str:
    if not isinstance(node, yaml.ScalarNode):
        _raise_at(file, _line_of(node), f"{key} holds something that is no text", "Write a text")
    return "" if node.tag == "tag:yaml.org,2002:null" else str(node.value)
