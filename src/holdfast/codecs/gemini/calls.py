"""Reads the function calls of one reply, which come whole or, on Vertex AI, value by value.

A call without its end gets incomplete JSON as arguments, so that it cannot run. This module never
invents an id: without ids, the wire matches results by name and order.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.codecs.call_arguments import arguments_text
from holdfast.codecs.gemini.partial import PartialArguments
from holdfast.codecs.json_text import string_or_empty
from holdfast.core.deltas import Delta, ToolCallDelta
from holdfast.core.messages import Extra

FUNCTION = "functionCall"
"""The key in a call's `extra` for unknown fields of the function."""

_KNOWN = frozenset({"id", "name", "args", "partialArgs", "willContinue"})


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
