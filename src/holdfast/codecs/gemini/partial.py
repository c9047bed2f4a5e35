"""Assembles the arguments of a call that come value by value.

Vertex AI can stream a call: its name, then values (each with a JSON path, and strings in
fragments), then an empty call as the end. A path that cannot be followed makes the whole call
invalid. This module never returns complete JSON for incomplete arguments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise

from holdfast.codecs.call_arguments import arguments_text

_STEP = re.compile(
    r"""\.([^.\[\]'"\s*]+)|\[(\d{1,6})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""",
    re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_DEEPEST = 64
_VALUES = ("numberValue", "boolValue", "structValue", "listValue")
_SPOILED = "{"


class _Fragments(list[str]):
    """A string that may still grow."""


class PartialArguments:
    """The arguments of one call while they arrive.

    >>> arguments = PartialArguments()
    >>> arguments.add_entry({"jsonPath": "$.city", "stringValue": "Por", "willContinue": True})
    >>> arguments.add_entry({"jsonPath": "$.city", "stringValue": "to"})
    >>> arguments.to_text(whole=True)
    '{"city":"Porto"}'
    """

    __slots__ = ("_is_growing", "_is_invalid", "_root")

    def __init__(self) -> None:
        self._root: dict[str, object] = {}
        self._is_invalid = False
        self._is_growing = False

    def merge_whole(self, args: Mapping[str, object]) -> None:
        """Add arguments that came whole."""
        self._root.update(args)

    def add_entry(self, entry: object) -> None:
        """Add one entry of `partialArgs`."""
        if not isinstance(entry, dict):
            self._is_invalid = True
            return
        self._is_growing = entry.get("willContinue") is True
        steps = _parse_path(entry.get("jsonPath"))
        if not steps or not self._put_value(steps, entry):
            self._is_invalid = True

    def to_text(self, *, whole: bool) -> str:
        """Return the arguments as JSON text; without the last brace if the call is incomplete."""
        if self._is_invalid:
            return _SPOILED
        try:
            text = arguments_text(_join_fragments(self._root))
        except RecursionError:
            return _SPOILED
        return text if whole and not self._is_growing else text[:-1]

    def _put_value(self, steps: list[str | int], entry: Mapping[str, object]) -> bool:
        container: object = self._root
        for step, following in pairwise(steps):
            container = _enter_step(container, step, [] if isinstance(following, int) else {})
        last = steps[-1]
        fragment = entry.get("stringValue")
        if isinstance(fragment, str):
            fragments = _enter_step(container, last, _Fragments())
            if not isinstance(fragments, _Fragments):
                return False
            fragments.append(fragment)
            return True
        name = next((name for name in _VALUES if name in entry), "")
        if not name and "nullValue" not in entry:
            return False
        return _set_value(container, last, entry[name] if name else None)


def _parse_path(path: object) -> list[str | int]:
    """Return the steps of a JSON path below `$`; none if the path does not name a single value."""
    if not isinstance(path, str) or not path.startswith("$"):
        return []
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None or len(steps) == _DEEPEST:
            return []
        name, index, single, double = step.groups()
        if index is not None:
            steps.append(int(index))
        else:
            steps.append(name or _ESCAPED.sub(r"\1", single if single is not None else double))
        at = step.end()
    return steps


def _enter_step(container: object, step: str | int, fresh: object) -> object:
    """Return the value at this step, created if missing; None if the step does not fit."""
    if isinstance(container, dict) and isinstance(step, str):
        return container.setdefault(step, fresh)
    if (
        isinstance(container, list)
        and isinstance(step, int)
        and not isinstance(container, _Fragments)
    ):
        if step == len(container):
            container.append(fresh)
        return container[step] if step < len(container) else None
    return None


def _set_value(container: object, step: str | int, value: object) -> bool:
    if isinstance(container, dict) and isinstance(step, str):
        container[step] = value
        return True
    if (
        isinstance(container, list)
        and isinstance(step, int)
        and not isinstance(container, _Fragments)
    ):
        if step < len(container):
            container[step] = value
        elif step == len(container):
            container.append(value)
        return step < len(container)
    return False


def _join_fragments(value: object) -> object:
    if isinstance(value, _Fragments):
        return "".join(value)
    if isinstance(value, dict):
        return {name: _join_fragments(inner) for name, inner in value.items()}
    return [_join_fragments(inner) for inner in value] if isinstance(value, list) else value
