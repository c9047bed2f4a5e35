"""Reads the function calls of one reply, which come whole or, on Vertex AI, value by value.

Vertex AI can stream a call: its name, then values (each with a JSON path, and strings in fragments),
then an empty call as the end. A path that cannot be followed makes the whole call invalid, and a call
without its end gets incomplete JSON as arguments, so that it cannot run. This module never invents an
id: without ids, the wire matches results by name and order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise

from holdfast.codecs.call_arguments import arguments_text
from holdfast.codecs.json_text import string_or_empty
from holdfast.core.deltas import Delta, ToolCallDelta
from holdfast.core.messages import Extra

FUNCTION = "functionCall"
"""The key in a call's `extra` for unknown fields of the function."""

_KNOWN = frozenset({"id", "name", "args", "partialArgs", "willContinue"})

_STEP = re.compile(
    r"""\.([^.\[\]'"\s*]+)|\[(\d{1,6})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""",
    re.DOTALL,
)

_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_DEEPEST = 64
_VALUES = ("numberValue", "boolValue", "structValue", "listValue")
_SPOILED = "{"


class CallReader:
    """Reads the `functionCall` parts of one reply in order.

    Attributes:
        count: the number of calls that have begun.
    """

    __slots__ = ("_block", "_call_id", "_open_arguments", "count")

    def __init__(self) -> None:
        self.count = 0
        self._block = 0
        self._call_id = ""
        self._open_arguments: PartialArguments | None = None

    def continues_call(self, call: Mapping[str, object]) -> bool:
        """Whether this continues the open call."""
        if self._open_arguments is None:
            return False
        call_id = string_or_empty(call.get("id"))
        return not string_or_empty(call.get("name")) or bool(call_id and call_id == self._call_id)

    def begin_call(
        self, call: Mapping[str, object], block: int, extra: Extra | None, out: list[Delta]
    ) -> None:
        """Begin a call in the block with this number; `extra` holds the other fields of its part."""
        self.abort_call(out)
        self.count += 1
        self._block, self._call_id = block, string_or_empty(call.get("id"))
        if unknown := {name: value for name, value in call.items() if name not in _KNOWN}:
            extra = {**(extra or {}), FUNCTION: unknown}
        name = string_or_empty(call.get("name"))
        if call.get("willContinue") is not True and not call.get("partialArgs"):
            out.append(
                ToolCallDelta(block, self._call_id, name, _arguments_text(call.get("args")), extra)
            )
            return
        out.append(ToolCallDelta(block, self._call_id, name, "", extra))
        self._open_arguments = PartialArguments()
        self._add_arguments(self._open_arguments, call, out)

    def continue_call(
        self, call: Mapping[str, object], extra: Extra | None, out: list[Delta]
    ) -> None:
        """Continue the open call; an empty entry ends it."""
        if extra:
            out.append(ToolCallDelta(self._block, extra=extra))
        if self._open_arguments is not None:
            self._add_arguments(self._open_arguments, call, out)

    def abort_call(self, out: list[Delta]) -> None:
        """Close the open call, of which no more will come."""
        if self._open_arguments is not None:
            out.append(
                ToolCallDelta(self._block, arguments=self._open_arguments.to_text(whole=False))
            )
            self._open_arguments = None

    def _add_arguments(
        self, arguments: PartialArguments, call: Mapping[str, object], out: list[Delta]
    ) -> None:
        if isinstance(args := call.get("args"), dict):
            arguments.merge_whole(args)
        entries = call.get("partialArgs")
        for entry in entries if isinstance(entries, list) else ():
            arguments.add_entry(entry)
        if call.get("willContinue") is not True:
            out.append(ToolCallDelta(self._block, arguments=arguments.to_text(whole=True)))
            self._open_arguments = None


def _arguments_text(args: object) -> str:
    if isinstance(args, str):
        return args
    return "{}" if args is None else arguments_text(args)


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
