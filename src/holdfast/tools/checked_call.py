"""One call before it is run: its tool and its validated arguments, or why it cannot be run.

What hooks, rules and people see of a call, and what the tool gets, come from one validation here.
This module must never run a tool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from holdfast.core.errors import ErrorCategory, ErrorInfo, Landed, ToolNotFoundError
from holdfast.core.messages import Text, ToolCall, ToolResult
from holdfast.tools.argument_wording import RefusedCall, refuse_unfinished
from holdfast.tools.registry import Registry, shorten_name
from holdfast.tools.results import RESULT_LIMIT, cut_text, replace_surrogates
from holdfast.tools.tool import Tool
from holdfast.tools.tool_failures import ToolError, error_text, failure_info

if TYPE_CHECKING:
    from pydantic import BaseModel  # it is heavy, and imported with the first tool

_decode = msgspec.json.decode
_encode = msgspec.json.encode


class Invocation(Struct, frozen=True):
    """What came of one attempt.

    `result` is there when the model has something to read now: the tool returned, the call could
    not be run, or the tool raised `ToolError`. Otherwise `error` and `info` say how it failed.
    `info` is there for every failure, with or without a result.
    """

    result: ToolResult | None = None
    error: Exception | None = None
    info: ErrorInfo | None = None


class CheckedCall(Struct, gc=False):
    """A call that can be run.

    Args:
        tool: what it calls.
        call: as it was written.
        validated: the arguments that the tool gets.
        text: the same arguments as JSON text.
        edited: somebody else than the model wrote them.
        used: a tool got `validated`, and may have changed it.
    """

    tool: Tool
    call: ToolCall
    validated: BaseModel
    text: str
    edited: bool = False
    used: bool = False

    @property
    def visible_call(self) -> ToolCall:
        """The call with its validated arguments; as it was written, where that says the same."""
        written = self.call.arguments
        if written == self.text or _says(written, self.text):
            return self.call
        return msgspec.structs.replace(self.call, arguments=self.text)

    def take(self) -> BaseModel:
        """The arguments for one attempt, whatever the one before did to them.

        Raises:
            Exception: whatever a validator of the user raises.
        """
        if not self.used:
            self.used = True
            return self.validated
        found = self.tool.signature.check(self.call.arguments, edited=self.edited)
        if isinstance(found, RefusedCall) or found.text != self.text:
            # A default such as the time of day: what was judged is what runs.
            return self.validated
        return found.validated


def _says(written: str, text: str) -> bool:
    try:
        return _encode(_decode(written)).decode() == text
    except (ValueError, RecursionError):
        return False


def check_call(
    registry: Registry, call: ToolCall, *, unfinished: bool = False, edited: bool = False
) -> CheckedCall | Invocation:
    """The call with its validated arguments, or what comes of one that cannot be run.

    Args:
        registry: the tools that there are.
        call: as it was written.
        unfinished: the reply was cut, so that the call must not be run.
        edited: somebody else than the model wrote the arguments.
    """
    try:
        tool = registry.find(call.name)
    except ToolNotFoundError as error:
        text = f"Error: {_not_run_head(call)}{error.error}"
        return Invocation(error_result(call, text), error, error.info)
    if unfinished:
        refused = refuse_unfinished(call.arguments)
        return _not_run(call, refused.code, refused.text)
    try:
        found = tool.signature.check(call.arguments, edited=edited)
    except Exception as error:  # noqa: BLE001  # REASON: validators are the user's code
        return call_failed(call, error, landed=Landed.NO)
    if isinstance(found, RefusedCall):
        return _not_run(call, found.code, found.text)
    return CheckedCall(tool, call, found.validated, found.text, edited)


def error_result(call: ToolCall, text: str) -> ToolResult:
    """The result of a call that failed, in words that the model reads."""
    return ToolResult(
        call.id, call.name, (Text(cut_text(replace_surrogates(text), RESULT_LIMIT)),), is_error=True
    )


_WHY = {
    "malformed_arguments": "its arguments are no JSON object",
    "unfinished_arguments": "its arguments were cut off",
    "invalid_arguments": "its arguments are invalid",
}


def _not_run_head(call: ToolCall) -> str:
    return f"Function '{shorten_name(call.name)}' was not run: "


def _not_run(call: ToolCall, code: str, text: str) -> Invocation:
    head = _not_run_head(call)
    info = ErrorInfo(
        category=ErrorCategory.CLIENT_ERROR,
        landed=Landed.NO,
        safe=f"{head}{_WHY[code]}.",
        code=code,
    )
    return Invocation(error_result(call, f"Error: {head}{text}"), None, info)


def call_failed(call: ToolCall, error: Exception, landed: Landed | None = None) -> Invocation:
    """What comes of a call that raised; `landed` is for one whose act cannot have begun."""
    info = failure_info(error, call.name)
    if landed is not None:
        info = msgspec.structs.replace(info, landed=landed)
    told = isinstance(error, ToolError)
    return Invocation(error_result(call, error_text(error)) if told else None, error, info)
