"""Wraps one attempt of a model: requests structured output in the mode that the model supports.

The wrapper is directly around the model, inside of retry and fallback, because two models of one
turn may need different modes. In every mode the text of the reply is the output. This module must
never validate an output.

An endpoint may refuse a mode although its dialect takes the schema: rules of providers change, and
a gateway has rules of its own. Unless the user chose the mode, the attempt then asks once more in
the next mode. If that succeeds, the process does not use the refused mode for this endpoint, model
and schema again. An error that only quotes what the user wrote refuses no mode.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from hashlib import blake2b
from typing import Final, TypeGuard

import msgspec
from msgspec.structs import replace

from holdfast.codecs.output_mode import (
    Mode,
    OutputMethod,
    offer_output_tools,
    replace_output_call,
    truncation_error,
)
from holdfast.codecs.quoted_texts import SentTexts, list_user_parts, names_subject
from holdfast.core.errors import ErrorCategory, ErrorInfo, HoldfastError, exception_for
from holdfast.core.messages import Reply
from holdfast.core.model_request import ModelRequest, OutputSchema
from holdfast.core.notices import AttemptStarted, Notice, OutputModeChanged
from holdfast.models.http_model import Model
from holdfast.models.refusals import REFUSALS, Subject
from holdfast.resilience.pipeline import (
    CallContext,
    Done,
    ExecutionContext,
    Failed,
    Operation,
    Outcome,
    failed_outcome,
)

_REFUSALS: Final = (400, 404, 415, 422, 500, 501)
"""The statuses of refusals; a client error with 500 is one of llama.cpp's."""

OTHER_MODES: Final[dict[Mode, Mode]] = {"native": "tool", "tool": "prompt"}
_ABOUT: Final[dict[Mode, re.Pattern[str]]] = {
    "native": re.compile(
        r"schema|response[_ ]?(?:format|mime)|output_(?:config|format)|text\.format|structured"
        r"|grammar"
    ),
    "tool": re.compile(r"tool|function"),
}


def make_output_attempt(model: Model, output: OutputSchema) -> Operation[ModelRequest, Reply]:
    """Return the operation for one attempt of the model with this output schema.

    Args:
        model: the model; if it has a method `asking`, that chooses the output mode.
        output: the schema of the output.
    """
    return _OutputAttempt(model, output).attempt


def skip_refused_mode(model: Model, output: OutputSchema, method: OutputMethod) -> OutputMethod:
    """Return the method with the next mode that the endpoint did not refuse for this schema, as it is known now."""
    return _OutputAttempt(model, output).skip_refused(method)


class _OutputAttempt:
    """Requests one output of one model."""

    def __init__(self, model: Model, output: OutputSchema) -> None:
        self._model = model
        self._output = output
        self._forms = {
            "native": replace(output, mode="native", schema=output.envelope or output.schema),
            "prompt": replace(output, mode="prompt"),
        }
        self._choose: Callable[[ModelRequest], OutputMethod] = getattr(
            model, "asking", _choose_mode
        )

    async def attempt(self, call: CallContext[ModelRequest]) -> Outcome[Reply]:
        """Request the output once, or twice if the endpoint refuses a mode that nobody asked for."""
        if call.payload.output is None:
            return await self._model.attempt(call)
        method = self._choose(call.payload)
        is_auto = self._output.mode == "auto"
        if is_auto:
            method = self.skip_refused(method)
        outcome = await self._request(call, method)
        following = OTHER_MODES.get(method.mode)
        if not _is_mode_refusal(outcome, method.mode, call.payload):
            return outcome
        if not is_auto or following is None:
            return _add_mode_hint(self._model, method.mode, outcome)
        changed = OutputModeChanged(
            key=call.key,
            attempt=call.attempt,
            target=self._model.name,
            before=method.mode,
            after=following,
            error=outcome.info.to_public(),
        )
        call.execution.emit(changed)
        again = replace(call, execution=_without_start(call.execution))
        second = await self._request(again, replace(method, mode=following))
        if isinstance(second, Done):
            REFUSALS.learn(
                self._model.account, self._model.model, {self._subject(method.mode): following}
            )
        elif _is_mode_refusal(second, following, call.payload):
            return _add_mode_hint(self._model, following, second)
        return second

    def skip_refused(self, method: OutputMethod) -> OutputMethod:
        """Return the method with the next mode that this endpoint did not refuse for this schema."""
        learnt = REFUSALS.find(self._model.account, self._model.model)
        if not learnt:
            return method
        mode = method.mode
        while mode in OTHER_MODES and self._subject(mode) in learnt:
            mode = OTHER_MODES[mode]
        if mode == method.mode:
            return method
        return replace(method, mode=mode, reason=f"the endpoint refused the mode {method.mode}")

    def _subject(self, mode: Mode) -> Subject:
        return ("output_mode", mode, self._digest)

    @cached_property
    def _digest(self) -> str:
        return digest_schemas(self._output)

    async def _request(
        self, call: CallContext[ModelRequest], method: OutputMethod
    ) -> Outcome[Reply]:
        if method.mode == "tool":
            return await _ask_by_tool(self._model, call, method, self._output)
        asked = replace(call.payload, output=self._forms[method.mode])
        outcome = await self._model.attempt(replace(call, payload=asked))
        if isinstance(outcome, Done) and outcome.value.calls:
            # The model may call the output by its name although it is not offered as a tool.
            return replace(outcome, value=replace_output_call(outcome.value, self._output))
        return outcome


def digest_schemas(output: OutputSchema) -> str:
    """Return the digest by which refusals of a mode are remembered: that of all schemas of an output."""
    schemas = (output.schema, [tool.schema for tool in output.tools])
    return blake2b(msgspec.json.encode(schemas), digest_size=16).hexdigest()


def _without_start(env: ExecutionContext) -> ExecutionContext:
    """Return a context for the second request of an attempt, whose start was announced already."""
    publish = env.publish
    if publish is None:
        return env

    def publish_rest(notice: Notice) -> None:
        if not isinstance(notice, AttemptStarted):
            publish(notice)

    return replace(env, publish=publish_rest)


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
        return outcome
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


def _is_mode_refusal(
    outcome: Outcome[Reply], mode: Mode, request: ModelRequest
) -> TypeGuard[Failed]:
    return not isinstance(outcome, Done) and is_mode_refusal(
        outcome.info, mode, lambda: SentTexts(*list_user_parts(request))
    )


def is_mode_refusal(info: ErrorInfo, mode: Mode, find_texts: Callable[[], SentTexts]) -> bool:
    """Whether the endpoint refused the output mode itself, and did not only quote what was sent.

    Args:
        info: the error.
        mode: the mode of the request.
        find_texts: returns what the user sent; called only for an error that may be a refusal.

    >>> said = "response_format json_schema is not supported"
    >>> info = ErrorInfo(category=ErrorCategory.CLIENT_ERROR, status=400, safe=said)
    >>> [is_mode_refusal(info, mode, SentTexts) for mode in ("native", "prompt")]
    [True, False]
    >>> is_mode_refusal(info, "native", lambda: SentTexts(f"What does {said!r} mean?"))
    False
    """
    if mode not in OTHER_MODES:
        return False
    if info.category is not ErrorCategory.CLIENT_ERROR or info.status not in _REFUSALS:
        return False
    return names_subject(_ABOUT[mode], f"{info.safe}\n{info.private}", find_texts)


def _add_mode_hint(model: Model, mode: Mode, outcome: Failed) -> Failed:
    """Suggest another mode in the error."""
    better = _add_hint(model, mode, outcome.info)
    error = exception_for(better, getattr(outcome.error, "partial", None))
    error.__cause__ = outcome.error
    return replace(outcome, error=error, info=better)


def _add_hint(model: Model, mode: Mode, info: ErrorInfo) -> ErrorInfo:
    said = info.safe.rstrip(" .")
    way = {"native": "this schema", "tool": "an answer by a tool"}[mode]
    hint = f'{model.name} may not take {way}: try StructuredOutput(..., mode="{OTHER_MODES[mode]}")'
    return replace(info, safe=f"{said}. {hint}")
