"""YAML text as a tree that knows the line of each value, and the problems of a file of rules.

It reads events and builds no objects of YAML's own, so a file must never run code, refer to itself
or grow: tags, anchors, aliases and deep nesting are problems.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)


class RuleProblem(Struct, frozen=True):
    """One thing that is wrong in a file.

    Args:
        file: the name of the file.
        line: the line, from 1.
        key: the path of keys to it, such as "commands.rm.priority"; empty for the file as a whole.
        problem: the problem.
        fix: the correct form.
    """

    file: str
    line: int
    key: str
    problem: str
    fix: str

    def __str__(self) -> str:
        key = f" {self.key}:" if self.key else ""
        return f"{self.file}:{self.line}:{key} {self.problem}; {self.fix}"


class RulesError(Exception):
    """Files of rules cannot be used. Its text lists every problem, one a line.

    Args:
        problems: all of them, in the order of files and lines.
    """

    def __init__(self, problems: Sequence[RuleProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def suggest_word(word: str, known: Collection[str]) -> str:
    """Return a fix for an unknown word: the nearest known one, or all of them.

    Args:
        word: the unknown word.
        known: the words that would be right.

    >>> suggest_word("supervison", ["supervision", "risk"])
    'did you mean "supervision"?'
    >>> suggest_word("x", ["risk", "pattern"])
    'use one of: pattern, risk'
    """
    nearest = get_close_matches(word.lower(), sorted(known), n=1)
    if nearest:
        return f'did you mean "{nearest[0]}"?'
    return f"use one of: {', '.join(sorted(known))}"


LARGEST_FILE = 256 * 1024
DEEPEST = 12
LONGEST_NUMBER = 18

_QUOTES = "write the value itself, in quotes if it begins with this character"

Kind = Literal["text", "bool", "int", "float", "null"]

# The core schema of YAML 1.2, for words without quotes.
_KINDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("null", re.compile(r"(?:null|Null|NULL|~|)")),
    ("bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)")),
    ("int", re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)")),
    (
        "float",
        re.compile(
            r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
            r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))"
        ),
    ),
)


class Scalar(Struct, frozen=True):
    """A single value.

    Args:
        text: the value as text.
        kind: its type by YAML's rules.
        line: its line, from 1.
    """

    text: str
    kind: Kind
    line: int

    @property
    def value(self) -> str | int | float | bool | None:
        """The value as its kind."""
        if self.kind == "null":
            return None
        if self.kind == "bool":
            return self.text.lower() == "true"
        if self.kind == "int" and len(self.text) <= LONGEST_NUMBER:
            return _read_int(self.text)
        if self.kind == "float":
            return float(self.text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        return self.text


class Items(Struct, frozen=True):
    """A list, with the line it begins in."""

    nodes: tuple[Node, ...]
    line: int


class Keyed(Struct, frozen=True):
    """Keys with their values in order, repeated keys included, and the line it begins in."""

    entries: tuple[tuple[Scalar, Node], ...]
    line: int


class Broken(Struct, frozen=True):
    """A value whose problem is reported already."""

    line: int


Node = Scalar | Items | Keyed | Broken


def parse_yaml(file: str, text: str) -> tuple[Node | None, tuple[RuleProblem, ...]]:
    """Return the tree of a file and the problems of its YAML.

    Args:
        file: the name of the file, for the problems.
        text: its text.

    Returns:
        The tree, None when there is none or it is empty, and the problems.

    >>> node, problems = parse_yaml("a.yaml", "a: [1, 'x']")
    >>> node.entries[0][1].nodes
    (Scalar(text='1', kind='int', line=1), Scalar(text='x', kind='text', line=1))
    """
    if len(text) > LARGEST_FILE:
        fix = f"split it into files of at most {LARGEST_FILE:,} characters"
        return None, (RuleProblem(file, 1, "", "the file is too large", fix),)
    builder = _TreeBuilder(file, YAML(pure=True).parse(text))
    node: Node | None = None
    try:
        node = builder.build_document()
    except _TooDeep as error:
        builder.report(error.line, f"nested deeper than {DEEPEST} levels", "write it flat")
    except MarkedYAMLError as error:
        builder.report_syntax(error)
    except YAMLError as error:
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        builder.report(line, "a character that YAML does not allow", "remove it")
    except ValueError as error:
        builder.report(1, f"not valid YAML ({error})", "correct it")
    return node, tuple(builder.problems)


class _TooDeep(Exception):
    def __init__(self, line: int) -> None:
        self.line = line
        super().__init__(line)


class _TreeBuilder:
    def __init__(self, file: str, events: Iterator[Event]) -> None:
        self.file = file
        self.events = events
        self.problems: list[RuleProblem] = []

    def report(self, line: int, problem: str, fix: str) -> None:
        self.problems.append(RuleProblem(self.file, line, "", problem, fix))

    def report_syntax(self, error: MarkedYAMLError) -> None:
        mark = error.problem_mark or error.context_mark
        what = error.problem or error.context or "not valid YAML"
        fix = "correct the YAML here"
        if "\\t" in what or "tab" in what:
            fix = "indent with spaces, not tabs"
        elif "alias" in str(error.context) or "anchor" in str(error.context):
            fix = _QUOTES
        self.report(mark.line + 1 if mark else 1, f"not valid YAML: {what}", fix)

    def build_document(self) -> Node | None:
        node: Node | None = None
        documents = 0
        for event in self.events:
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents == 2:
                    fix = "keep one document in a file, without ---"
                    self.report(_line(event), "a second document", fix)
            elif isinstance(event, StreamEndEvent):
                break
            elif isinstance(event, NodeEvent):
                built = self.build_node(event, 0)
                node = node or built
        empty = isinstance(node, Scalar) and node.kind == "null"
        return None if empty else node

    def build_node(self, event: Event, depth: int) -> Node:
        line = _line(event)
        if depth > DEEPEST:
            raise _TooDeep(line)
        sound = self.check_plain(event, line)
        node: Node
        if isinstance(event, ScalarEvent):
            node = Scalar(event.value, _kind_of(event), line)
        elif isinstance(event, SequenceStartEvent):
            node = self.build_items(line, depth)
        elif isinstance(event, MappingStartEvent):
            node = self.build_mapping(line, depth)
        else:
            node = Broken(line)
        return node if sound else Broken(line)

    def check_plain(self, event: Event, line: int) -> bool:
        if isinstance(event, AliasEvent):
            self.report(line, "refers to another value with *", _QUOTES)
            return False
        if getattr(event, "anchor", None) is not None:
            self.report(line, "names a value with &", _QUOTES)
            return False
        if getattr(event, "tag", None) is not None:
            self.report(line, "has a tag with !", _QUOTES)
            return False
        return True

    def build_items(self, line: int, depth: int) -> Items:
        nodes: list[Node] = []
        for event in self.events:
            if isinstance(event, SequenceEndEvent):
                break
            nodes.append(self.build_node(event, depth + 1))
        return Items(tuple(nodes), line)

    def build_mapping(self, line: int, depth: int) -> Keyed:
        entries: list[tuple[Scalar, Node]] = []
        for event in self.events:
            if isinstance(event, MappingEndEvent):
                break
            key = self.build_node(event, depth + 1)
            value = self.build_node(next(self.events), depth + 1)
            if isinstance(value, Scalar) and not value.text:
                # An empty value is marked where the next line begins.
                value = replace(value, line=key.line)
            if isinstance(key, Scalar) and key.kind == "text":
                entries.append((key, value))
            elif not isinstance(key, Broken):
                self.report(key.line, "a key that is not text", "write the key in quotes")
        return Keyed(tuple(entries), line)


def _read_int(text: str) -> int:
    # Unlike in Python, a number that begins with 0 is decimal.
    for prefix, base in (("0x", 16), ("0o", 8)):
        if text.startswith(prefix):
            return int(text[2:], base)
    return int(text)


def _line(event: Event) -> int:
    return int(event.start_mark.line) + 1


def _kind_of(event: ScalarEvent) -> Kind:
    if not event.implicit[0]:
        return "text"
    return next((kind for kind, form in _KINDS if form.fullmatch(event.value)), "text")
