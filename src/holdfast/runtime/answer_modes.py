"""A model that is asked for the shape of an answer in the way that fits it: one attempt, wrapped.

It stands directly around the model, inside of retry and fallback, because two models of one turn may
need two ways. Whatever the way, what comes out is a reply whose text is the answer. This module
must never check an answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from holdfast.codecs.answer_mode import Asking, Mode
from holdfast.codecs.answer_tool import answered, cut, offered
from holdfast.core.errors import ErrorCategory, ErrorInfo, HoldfastError, exception_for
from holdfast.core.messages import Reply
from holdfast.core.request import ModelRequest, OutputSchema
from holdfast.resilience.pipeline import Act, Call, Done, Env, Failed, Outcome, failed
from holdfast.runtime.models import Model

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


def asked_for(model: Model, output: OutputSchema) -> Act[ModelRequest, Reply]:
    """One attempt of the model, asked for this output.

    Args:
        model: any; one that has `asking` says which way fits it.
        output: the wanted shape.
    """
    forms = {
        "native": replace(output, mode="native", schema=output.envelope or output.schema),
        "prompt": replace(output, mode="prompt"),
    }
    chosen: Callable[[ModelRequest], Asking] = getattr(model, "asking", _asking)

    async def attempt(call: Call[ModelRequest]) -> Outcome[Reply]:
        request = call.payload
        if request.output is None:
            return await model.attempt(call)
        asking = chosen(request)
        if asking.mode == "tool":
            return await _by_tool(model, call, asking, output)
        asked = replace(request, output=forms[asking.mode])
        return _told(model, asking.mode, await model.attempt(replace(call, payload=asked)))

    return attempt


def _asking(request: ModelRequest) -> Asking:
    """Of a model that says nothing about it."""
    mode = request.output.mode if request.output is not None else "auto"
    return Asking("native" if mode == "auto" else mode)


async def _by_tool(
    model: Model, call: Call[ModelRequest], asking: Asking, output: OutputSchema
) -> Outcome[Reply]:
    asked = replace(call, payload=offered(call.payload, asking), env=_env(call.env, output))
    outcome = await model.attempt(asked)
    if isinstance(outcome, Failed):
        error = outcome.error
        if isinstance(error, HoldfastError) and error.partial is not None:
            error.partial = answered(error.partial, output)
        return _told(model, "tool", outcome)
    reply = answered(outcome.value, output)
    if (truncated := cut(reply)) is not None:
        return failed(truncated)
    return replace(outcome, value=reply)


def _env(env: Env, output: OutputSchema) -> Env:
    keep = env.keep_partial
    if keep is None:
        return env
    return replace(env, keep_partial=lambda reply: keep(answered(reply, output)))


def _told(model: Model, mode: Mode, outcome: Outcome[Reply]) -> Outcome[Reply]:
    """A refusal of the way itself says which other way there is."""
    if isinstance(outcome, Done) or mode not in _OTHER_WAY:
        return outcome
    info = outcome.info
    said = f"{info.safe} {info.private}"
    if info.category is not ErrorCategory.CLIENT_ERROR or info.status not in _REFUSALS:
        return outcome
    if not _ABOUT[mode].search(said):
        return outcome
    better = _refused(model, mode, info)
    error = exception_for(better, getattr(outcome.error, "partial", None))
    error.__cause__ = outcome.error
    return replace(outcome, error=error, info=better)


def _refused(model: Model, mode: Mode, info: ErrorInfo) -> ErrorInfo:
    said = info.safe.rstrip(" .")
    way = {"native": "this schema", "tool": "an answer by a tool"}[mode]
    hint = f'{model.name} may not take {way}: try StructuredOutput(..., mode="{_OTHER_WAY[mode]}")'
    return replace(info, safe=f"{said}. {hint}")
