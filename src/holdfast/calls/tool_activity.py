"""Records which tools a reply used, and whether their results were seen.

A call is only a request of the model. A result in the reply (of a tool that the provider or the SDK
ran) proves that the tool ran.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.calls.object_json import Object
from holdfast.codecs.json_text import string_or_empty
from holdfast.core.deltas import Delta, PartReceived, ToolCallDelta
from holdfast.core.messages import Opaque
from holdfast.core.redaction import redact

UNNAMED = "unknown"
_LONGEST_ERROR = 500

# Items that the provider runs; other calls wait for the client.
_RUN_BY_PROVIDER = frozenset(
    {
        "code_interpreter_call",
        "file_search_call",
        "image_generation_call",
        "mcp_call",
        "web_search_call",
    }
)


class ToolActivity:
    """Records the tools in the deltas of one reply.

    Attributes:
        names: the tools that were called, in order, each call once.

    >>> activity = ToolActivity()
    >>> activity.read_delta(ToolCallDelta(0, "c1", "search"))
    'search'
    >>> activity.names, activity.has_succeeded("search")
    (['search'], False)
    """

    __slots__ = ("_by_id", "_by_index", "_results", "names")

    def __init__(self) -> None:
        self.names: list[str] = []
        self._by_index: dict[int, str] = {}
        self._by_id: dict[str, str] = {}
        # The error of the last result by name; "" for a success.
        self._results: dict[str, str] = {}

    def read_delta(self, delta: Delta) -> str | None:
        """Return the tool's name if this delta belongs to a call, and None otherwise."""
        if isinstance(delta, ToolCallDelta):
            return self._read_call_delta(delta)
        if isinstance(delta, PartReceived) and isinstance(delta.part, Opaque):
            return self._read_block(delta.part.data)
        return None

    def begin_turn(self) -> None:
        """Begin another reply, whose calls are numbered anew."""
        self._by_index.clear()

    def has_succeeded(self, name: str) -> bool:
        """Whether a result of this tool was seen, and it was not an error."""
        return self._results.get(name) == ""

    def find_failure(self, name: str) -> str:
        """Return the error in the result of this tool, redacted; "" if there is none."""
        return self._results.get(name, "")

    def _read_call_delta(self, delta: ToolCallDelta) -> str:
        name = self._by_index.get(delta.index)
        if name is None or (name == UNNAMED and delta.name):
            if name is not None:
                self.names.remove(name)
            name = self._by_index[delta.index] = self._add_call(delta.name, delta.id)
        return name

    def _add_call(self, name: str, call_id: str) -> str:
        name = name or UNNAMED
        if call_id and self._by_id.get(call_id) == name:
            return name
        self.names.append(name)
        if call_id:
            self._by_id[call_id] = name
        return name

    def _read_block(self, data: Mapping[str, object]) -> str | None:
        kind = string_or_empty(data.get("type"))
        if not kind:
            return self._read_gemini_part(data)
        if kind in ("server_tool_use", "mcp_tool_use"):
            return self._add_call(
                string_or_empty(data.get("name")), string_or_empty(data.get("id"))
            )
        if kind.endswith("_tool_result"):
            named = self._by_id.get(
                string_or_empty(data.get("tool_use_id")), kind.removesuffix("_tool_result")
            )
            self._set_result(named, _anthropic_error(data))
        elif kind.endswith("_call"):
            name = self._add_call(
                string_or_empty(data.get("name")) or kind.removesuffix("_call"), ""
            )
            if kind in _RUN_BY_PROVIDER and data.get("status") in ("completed", "failed", None):
                self._set_result(name, _item_error(data))
            return name
        return None

    def _read_gemini_part(self, data: Mapping[str, object]) -> str | None:
        call = data.get("functionCall")
        if isinstance(call, dict):
            return self._add_call(
                string_or_empty(call.get("name")), string_or_empty(call.get("id"))
            )
        if "executableCode" in data:
            return self._add_call("code_execution", "")
        result = data.get("functionResponse")
        if isinstance(result, dict):
            response = result.get("response")
            failed = response.get("error") if isinstance(response, dict) else None
            self._set_result(string_or_empty(result.get("name")) or UNNAMED, _error_text(failed))
        result = data.get("codeExecutionResult")
        if isinstance(result, dict):
            outcome = string_or_empty(result.get("outcome"))
            self._set_result("code_execution", "" if outcome in _GOOD else _error_text(outcome))
        return None

    def _set_result(self, name: str, error: str) -> None:
        self._results[name] = error


_GOOD = ("OUTCOME_OK", "")


def _anthropic_error(data: Mapping[str, object]) -> str:
    content = data.get("content")
    if isinstance(content, dict) and string_or_empty(content.get("type")).endswith("_error"):
        return _error_text(content.get("error_code") or "error")
    return _error_text(content) if data.get("is_error") is True else ""


def _item_error(data: Mapping[str, object]) -> str:
    if error := data.get("error"):
        return _error_text(error)
    return "failed" if data.get("status") == "failed" else ""


def _error_text(error: object) -> str:
    """Return the text of an error of any form; "" if there is no error."""
    if not error:
        return ""
    fields: Object = error if isinstance(error, dict) else {}
    message = fields.get("message") or error
    return redact(message if isinstance(message, str) else str(message))[:_LONGEST_ERROR]
