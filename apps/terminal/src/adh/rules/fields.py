"""Reading values of a YAML tree by their type, and reporting each that is wrong.

It must never stop at the first problem, and never guess a value.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from adh.rules.yaml_tree import Broken, Items, Keyed, Node, RuleProblem, Scalar, suggest_word

Value = TypeVar("Value")


class FieldReader:
    """Reads fields of one file.

    Args:
        file: the name of the file.
        problems: where problems are added.
    """

    def __init__(self, file: str, problems: list[RuleProblem]) -> None:
        self.file = file
        self._problems = problems

    def report(self, node: Node, key: str, problem: str, fix: str) -> None:
        """Add a problem at the line of a value."""
        if not isinstance(node, Broken):
            self._problems.append(RuleProblem(self.file, node.line, key, problem, fix))

    def read_mapping(self, node: Node, key: str) -> dict[str, tuple[Scalar, Node]]:
        """Return the values by their keys; each with the place of its key. Repeated keys are problems."""
        if not isinstance(node, Keyed):
            self.report(node, key, "not keys with values", "write `name: value` lines below it")
            return {}
        found: dict[str, tuple[Scalar, Node]] = {}
        for name, value in node.entries:
            if name.text in found:
                first = found[name.text][0].line
                problem = f"is there twice (first in line {first})"
                self.report(name, join_keys(key, name.text), problem, "keep one of them")
            else:
                found[name.text] = (name, value)
        return found

    def read_known(self, node: Node, key: str, known: Collection[str]) -> dict[str, Node]:
        """Return the values by their keys. A key that is not known is a problem."""
        found = self.read_mapping(node, key)
        for name, (place, _) in found.items():
            if name not in known:
                self.report(place, join_keys(key, name), "unknown key", suggest_word(name, known))
        return {name: value for name, (_, value) in found.items() if name in known}

    def report_empty(self, node: Node, key: str) -> None:
        """Report keys with values of which there are none."""
        if isinstance(node, Keyed) and not node.entries:
            self.report(node, key, "says nothing", "write something below it, or remove the key")

    def read_text(self, node: Node, key: str) -> str:
        """Return a text that is not empty; "" after a problem."""
        if isinstance(node, Scalar) and node.kind == "text" and node.text.strip():
            return node.text
        if isinstance(node, Scalar) and node.kind not in ("text", "null"):
            self.report(node, key, f"{node.text} is not text", "put it in quotes")
        else:
            self.report(node, key, "not a text", "write a text that is not empty")
        return ""

    def read_texts(self, node: Node, key: str) -> tuple[str, ...]:
        """Return one text or a list of them that is not empty; () after a problem."""
        if not isinstance(node, Items):
            text = self.read_text(node, key)
            return (text,) if text else ()
        if not node.nodes:
            self.report(node, key, "an empty list", "write at least one text, or remove the key")
        texts = [self.read_text(item, f"{key}[{at}]") for at, item in enumerate(node.nodes)]
        return tuple(text for text in texts if text)

    def read_flag(self, node: Node, key: str, default: bool) -> bool:
        """Return true or false; the default after a problem."""
        if isinstance(node, Scalar) and node.kind == "bool":
            return node.text.lower() == "true"
        self.report(node, key, "not a truth value", "write true or false")
        return default

    def read_whole(self, node: Node, key: str, least: int, most: int) -> int | None:
        """Return a whole number within bounds; None after a problem."""
        value = node.value if isinstance(node, Scalar) and node.kind == "int" else None
        if isinstance(value, int) and least <= value <= most:
            return value
        self.report(node, key, "not such a number", f"write a whole number from {least} to {most}")
        return None

    def read_word(self, node: Node, key: str, known: dict[str, Value]) -> Value | None:
        """Return the value of one of the known words, in any case; None after a problem."""
        text = node.text if isinstance(node, Scalar) else ""
        if text.lower() in known:
            return known[text.lower()]
        named = f'unknown word "{text}"' if text else "not a word"
        self.report(node, key, named, suggest_word(text, known))
        return None


def join_keys(*keys: str) -> str:
    """Return the path of keys.

    >>> join_keys("", "commands", "rm")
    'commands.rm'
    """
    return ".".join(key for key in keys if key)
