"""Separates the tool calls of one reply, whatever a provider sends as index and id.

In the documented form, each call has an index, and its id comes once. Some providers omit the
index, the id or both, give every call the index 0, or repeat id and name in each fragment. This
module never reads the arguments: they may be incomplete, and reading them for each fragment would
take more than linear time.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from holdfast.codecs.call_arguments import arguments_text
from holdfast.core.deltas import Delta, ToolCallDelta

_KNOWN = frozenset({"index", "id", "type", "function"})
_PLAIN = (None, "", "function")


class _FragmentArguments(Struct, gc=False, forbid_unknown_fields=True):
    arguments: str
    name: Literal[""] | None = None


class CallFragment(Struct, gc=False, forbid_unknown_fields=True):
    """An entry that continues a call; no other entry decodes to this type."""

    index: int
    function: _FragmentArguments
    id: Literal[""] | None = None
    type: Literal["function", ""] | None = None


class _TrackedCall(Struct):
    number: int
    id: str
    name: str


class CallTracker:
    """Numbers the calls of one reply from 0, in the order in which they begin."""

    __slots__ = ("_by_id", "_by_index", "_last_call", "_seen_in_list", "count")

    def __init__(self) -> None:
        self._by_index: dict[int, _TrackedCall] = {}
        self._by_id: dict[str, _TrackedCall] = {}
        self._last_call: _TrackedCall | None = None
        self._seen_in_list: set[int] = set()
        self.count = 0

    def open_list(self) -> None:
        """Begin a `tool_calls` list. Two named entries of one list are two calls."""
        self._seen_in_list.clear()

    def read_fragments(self, fragments: list[CallFragment]) -> list[Delta] | None:
        """Turn fragments into deltas; None if a fragment continues no open call."""
        deltas: list[Delta] = []
        for fragment in fragments:
            call = self._by_index.get(fragment.index)
            if call is None:
                return None
            deltas.append(ToolCallDelta(call.number, arguments=fragment.function.arguments))
        return deltas

    def read_entry(self, entry: dict[str, object], *, distinct: bool) -> ToolCallDelta:
        """Turn one entry of `tool_calls` into a delta.

        Args:
            entry: the entry as the wire sent it.
            distinct: the entry is a new call, as in a whole body, and continues no other.
        """
        function = entry.get("function")
        body = function if isinstance(function, dict) else _custom_function(entry)
        name, call_id = _text_of_id_or_name(body.get("name")), _text_of_id_or_name(entry.get("id"))
        number = _read_index(entry.get("index"))
        call = None if distinct else self._find_continued(number, call_id, name)
        if call is None:
            call = self._begin_call(number, call_id)
        # A repeated id or name is not part of the delta, because deltas are appended.
        new_id, new_name = "" if call.id else call_id, "" if call.name else name
        call.id, call.name = call.id or call_id, call.name or name
        self._seen_in_list.add(call.number)
        return ToolCallDelta(
            call.number,
            new_id,
            new_name,
            _arguments_text(body.get("arguments")),
            _unknown_fields(entry),
        )

    def _find_continued(self, index: int | None, call_id: str, name: str) -> _TrackedCall | None:
        if index is not None:
            call = self._by_index.get(index)
        elif call_id:
            call = self._by_id.get(call_id)
        else:
            call = self._last_call
        if call is None or (call_id and call.id and call_id != call.id):
            return None
        if (name or call_id) and call.number in self._seen_in_list:
            return None
        # Without an id, another name (or, without an index too, any name) begins another call.
        if name and call.name and not call_id and (index is None or name != call.name):
            return None
        return call

    def _begin_call(self, index: int | None, call_id: str) -> _TrackedCall:
        call = _TrackedCall(self.count, "", "")
        self.count += 1
        self._last_call = call
        if index is not None:
            self._by_index[index] = call
        if call_id:
            self._by_id[call_id] = call
        return call


def _custom_function(entry: dict[str, object]) -> dict[str, object]:
    """Return the function of a custom tool's call, whose input is plain text."""
    custom = entry.get("custom")
    if not isinstance(custom, dict):
        return {}
    return {"name": custom.get("name"), "arguments": custom.get("input")}


def _unknown_fields(entry: dict[str, object]) -> dict[str, object] | None:
    """Return the unknown fields, such as a thought signature, which are sent back with the call."""
    extra = {key: value for key, value in entry.items() if key not in _KNOWN}
    if entry.get("type") not in _PLAIN:
        extra["type"] = entry["type"]
    return extra or None


def _arguments_text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else arguments_text(value)


def _read_index(value: object) -> int | None:
    """Read an index, which some servers write as a string."""
    if isinstance(value, str) and len(value) < 10 and value.isdecimal():
        return int(value)
    return value if isinstance(value, int) else None


def _text_of_id_or_name(value: object) -> str:
    if isinstance(value, str):
        return value
    # Some servers use numbers as ids.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""
