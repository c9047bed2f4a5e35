"""Arguments of a call that come value by value, put together again.

Vertex AI can stream a call: its name, then values, each with a JSON path and in fragments when it
is a text, then an empty call as the end. A path that cannot be followed spoils the whole call:
this module must never give text that looks like whole arguments when it is not.
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
    """A text that may still grow."""


class PartialArguments:
    """The arguments of one call while they come.

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
        """Arguments that came whole."""
        self._root.update(args)

    def add_entry(self, entry: object) -> None:
        """One entry of `partialArgs`."""
        if not isinstance(entry, dict):
            self._is_invalid = True
            return
        self._is_growing = entry.get("willContinue") is True
        steps = _parse_path(entry.get("jsonPath"))
        if not steps or not self._put_value(steps, entry):
            self._is_invalid = True

    def to_text(self, *, whole: bool) -> str:
        """The arguments as JSON text; without its last brace when the call was not said to its end."""
        if self._is_invalid:
            return _SPOILED
        try:
            text = arguments_text(_join_fragments(self._root))
        except RecursionError:
            return _SPOILED
        return text if whole and not self._is_growing else text[:-1]

    def _put_value(self, steps: list[str | int], entry: Mapping[str, object]) -> bool:
        place: object = self._root
        for step, following in pairwise(steps):
            place = _enter_step(place, step, [] if isinstance(following, int) else {})
        last = steps[-1]
        fragment = entry.get("stringValue")
        if isinstance(fragment, str):
            fragments = _enter_step(place, last, _Fragments())
            if not isinstance(fragments, _Fragments):
                return False
            fragments.append(fragment)
            return True
        name = next((name for name in _VALUES if name in entry), "")
        if not name and "nullValue" not in entry:
            return False
        return _set_value(place, last, entry[name] if name else None)


def _parse_path(path: object) -> list[str | int]:
    """The steps of a JSON path below `$`; none when it is not one that names a single place."""
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


def _enter_step(place: object, step: str | int, fresh: object) -> object:
    """What stands at this step, made when there is nothing; None when the step does not fit."""
    if isinstance(place, dict) and isinstance(step, str):
        return place.setdefault(step, fresh)
    if isinstance(place, list) and isinstance(step, int) and not isinstance(place, _Fragments):
        if step == len(place):
            place.append(fresh)
        return place[step] if step < len(place) else None
    return None


def _set_value(place: object, step: str | int, value: object) -> bool:
    if isinstance(place, dict) and isinstance(step, str):
        place[step] = value
        return True
    if isinstance(place, list) and isinstance(step, int) and not isinstance(place, _Fragments):
        if step < len(place):
            place[step] = value
        elif step == len(place):
            place.append(value)
        return step < len(place)
    return False


def _join_fragments(value: object) -> object:
    if isinstance(value, _Fragments):
        return "".join(value)
    if isinstance(value, dict):
        return {name: _join_fragments(inner) for name, inner in value.items()}
    return [_join_fragments(inner) for inner in value] if isinstance(value, list) else value
