"""Wraps one attempt of a model: requests structured output in the mode that the model supports.

The wrapper is directly around the model, inside of retry and fallback, because two models of one
turn may need different modes. In every mode the text of the reply is the output. This module must
never validate an output.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from holdfast.codecs.output_mode import Mode, OutputMethod
from holdfast.codecs.output_tool import offer_output_tools, replace_output_call, truncation_error
from holdfast.core.errors import ErrorCategory, ErrorInfo, HoldfastError, exception_for
from holdfast.core.messages import Reply
from holdfast.core.model_request import ModelRequest, OutputSchema
from holdfast.models.http_model import Model
from holdfast.resilience.pipeline import (
    CallContext,
    Done,
    ExecutionContext,
    Failed,
    Operation,
    Outcome,
    failed_outcome,
)

_REFUSALS: Final = (400, 404, 415, 422, 501)
_OTHER_WAY: Final[dict[Mode, Mode]] = {"native": "tool", "tool": "prompt"}
_ABOUT: Final[dict[Mode, re.Pattern[str]]] = {
    "native": re.compile(
        r"schema|response[_ ]?(?:format|mime)|output_(?:config|format)|text\.format|structured"
        r"|grammar",
        re.IGNORECASE,
    ),
    "tool": re.compile(r"tool|function", re.IGNORECASE),
}


def make_output_attempt(model: Model, output: OutputSchema) -> Operation[ModelRequest, Reply]:
    """Return the operation for one attempt of the model with this output schema.

    Args:
        model: the model; if it has a method `asking`, that chooses the output mode.
        output: the schema of the output.
    """
    forms = {
        "native": replace(output, mode="native", schema=output.envelope or output.schema),
        "prompt": replace(output, mode="prompt"),
    }
    chosen: Callable[[ModelRequest], OutputMethod] = getattr(model, "asking", _choose_mode)

    async def attempt(call: CallContext[ModelRequest]) -> Outcome[Reply]:
        request = call.payload
        if request.output is None:
            return await model.attempt(call)
        asking = chosen(request)
        if asking.mode == "tool":
            return await _ask_by_tool(model, call, asking, output)
        asked = replace(request, output=forms[asking.mode])
        outcome = await model.attempt(replace(call, payload=asked))
        if isinstance(outcome, Done) and outcome.value.calls:
            # The model may call the output by its name although it is not offered as a tool.
            return replace(outcome, value=replace_output_call(outcome.value, output))
        return _add_mode_hint(model, asking.mode, outcome)

    return attempt


def _choose_mode(request: ModelRequest) -> OutputMethod:
    """Choose the output mode for a model without a method `asking`."""
    mode = request.output.mode if request.output is not None else "auto"
    return OutputMethod("native" if mode == "auto" else mode)


async def _ask_by_tool(
    model: Model, call: CallContext[ModelRequest], asking: OutputMethod, output: OutputSchema
) -> Outcome[Reply]:
    asked = replace(
        call,
        payload=offer_output_tools(call.payload, asking),
        execution=_convert_partials(call.execution, output),
    )
    outcome = await model.attempt(asked)
    if isinstance(outcome, Failed):
        error = outcome.error
        if isinstance(error, HoldfastError) and error.partial is not None:
            error.partial = replace_output_call(error.partial, output)
        return _add_mode_hint(model, "tool", outcome)
    reply = replace_output_call(outcome.value, output)
    truncated = truncation_error(reply)
    if truncated is not None:
        return failed_outcome(truncated)
    return replace(outcome, value=reply)


def _convert_partials(env: ExecutionContext, output: OutputSchema) -> ExecutionContext:
    keep = env.keep_partial
    if keep is None:
        return env
    return replace(env, keep_partial=lambda reply: keep(replace_output_call(reply, output)))


def _add_mode_hint(model: Model, mode: Mode, outcome: Outcome[Reply]) -> Outcome[Reply]:
    """If the endpoint rejected the output mode itself, suggest another mode in the error."""
    if isinstance(outcome, Done) or mode not in _OTHER_WAY:
        return outcome
    info = outcome.info
    said = f"{info.safe} {info.private}"
    if info.category is not ErrorCategory.CLIENT_ERROR or info.status not in _REFUSALS:
        return outcome
    if not _ABOUT[mode].search(said):
        return outcome
    better = _add_hint(model, mode, info)
    error = exception_for(better, getattr(outcome.error, "partial", None))
    error.__cause__ = outcome.error
    return replace(outcome, error=error, info=better)


def _add_hint(model: Model, mode: Mode, info: ErrorInfo) -> ErrorInfo:
    said = info.safe.rstrip(" .")
    way = {"native": "this schema", "tool": "an answer by a tool"}[mode]
    hint = f'{model.name} may not take {way}: try StructuredOutput(..., mode="{_OTHER_WAY[mode]}")'
    return replace(info, safe=f"{said}. {hint}")
