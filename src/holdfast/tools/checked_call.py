"""Checks one call before it runs: finds its tool and validates its arguments.

Hooks, rules and people see the arguments of the same validation as the tool. This module never runs
a tool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from holdfast.core.errors import ErrorCategory, ErrorInfo, Landed, ToolNotFoundError
from holdfast.core.messages import Text, ToolCall, ToolResult
from holdfast.tools.registry import Registry, shorten_name
from holdfast.tools.results import RESULT_LIMIT, cut_text, replace_surrogates
from holdfast.tools.tool import Tool
from holdfast.tools.tool_failures import (
    RefusedCall,
    error_text,
    failure_info,
    is_for_model,
    refuse_unfinished,
)

if TYPE_CHECKING:
    from pydantic import BaseModel  # it is heavy, and imported with the first tool

    from holdfast.tools.threads import ThreadCall  # it imports asyncio

_decode = msgspec.json.decode
_encode = msgspec.json.encode


class Invocation(Struct, frozen=True):
    """The result of one attempt.

    `result` is set if there is a result for the model: the tool returned, the call could not run,
    or the tool raised `ToolError`. Otherwise `error` is the exception. `info` is set for every
    failure. `value` holds the return value of an output function. `out_of_time` is set if the call took
    its whole share of the time of its turn, so that there is none for another attempt. `left_running` is the
    work of a sync tool whose time was over, which may go on in its thread.
    """

    result: ToolResult | None = None
    error: Exception | None = None
    info: ErrorInfo | None = None
    value: tuple[object] | None = None
    out_of_time: bool = False
    left_running: ThreadCall | None = None


class CheckedCall(Struct, gc=False):
    """A call that can run.

    Args:
        tool: the tool.
        call: the call as it was written.
        validated: the arguments for the tool.
        text: the same arguments as JSON text.
        edited: a person or a hook wrote the arguments, not the model.
        used: a tool received `validated` and may have changed it.
    """

    tool: Tool
    call: ToolCall
    validated: BaseModel
    text: str
    edited: bool = False
    used: bool = False

    @property
    def visible_call(self) -> ToolCall:
        """The call with its validated arguments, or the original call if its arguments are equal."""
        written = self.call.arguments
        if written == self.text or _is_same_json(written, self.text):
            return self.call
        return msgspec.structs.replace(self.call, arguments=self.text)

    def take(self) -> BaseModel:
        """Return the arguments for one attempt. A tool may have changed those of the attempt before.

        Raises:
            Exception: a user's validator raised it.
        """
        if not self.used:
            self.used = True
            return self.validated
        checked = self.tool.signature.check(self.call.arguments, edited=self.edited)
        if isinstance(checked, RefusedCall) or checked.text != self.text:
            # A default such as the current time: the tool must get the arguments that were approved.
            return self.validated
        return checked.validated


def _is_same_json(written: str, text: str) -> bool:
    try:
        return _encode(_decode(written)).decode() == text
    except (ValueError, RecursionError):
        return False


def check_call(
    registry: Registry,
    call: ToolCall,
    *,
    unfinished: bool = False,
    edited: bool = False,
    by_code: bool = False,
    now: float | None = None,
) -> CheckedCall | Invocation:
    """Return the call with its validated arguments, or the result of a call that cannot run.

    Args:
        registry: the tools of the agent.
        call: the call as it was written.
        unfinished: the reply was cut, so the call must not run.
        edited: a person or a hook wrote the arguments, not the model.
        by_code: code made the call, not the model.
        now: the time in seconds since 1970, for messages about dates.
    """
    try:
        tool = registry.find(call.name, by_code=by_code)
    except ToolNotFoundError as error:
        text = f"Error: {_not_run_head(call)}{error.error}"
        return Invocation(error_result(call, text), error, error.info)
    if unfinished:
        refused = refuse_unfinished(call.arguments)
        return _not_run(call, refused.code, refused.text)
    try:
        checked = tool.signature.check(call.arguments, edited=edited, now=now)
    except Exception as error:  # noqa: BLE001  # REASON: validators are the user's code
        return call_failed(call, error, landed=Landed.NO)
    if isinstance(checked, RefusedCall):
        return _not_run(call, checked.code, checked.text)
    return CheckedCall(tool, call, checked.validated, checked.text, edited)


def error_result(call: ToolCall, text: str) -> ToolResult:
    """Return the result of a failed call, with a text for the model."""
    return ToolResult(
        call.id, call.name, (Text(cut_text(replace_surrogates(text), RESULT_LIMIT)),), is_error=True
    )


_REASONS = {
    "malformed_arguments": "its arguments are not a JSON object",
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
        safe=f"{head}{_REASONS[code]}.",
        code=code,
    )
    return Invocation(error_result(call, f"Error: {head}{text}"), None, info)


def call_failed(call: ToolCall, error: Exception, landed: Landed | None = None) -> Invocation:
    """Return the result of a call that raised; `landed` overrides whether it may have taken effect."""
    info = failure_info(error, call.name)
    if landed is not None:
        info = msgspec.structs.replace(info, landed=landed)
    result = error_result(call, error_text(error)) if is_for_model(error) else None
    return Invocation(result, error, info)
