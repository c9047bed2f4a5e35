"""Checks an output: parses it, runs the output validators, and adds details to errors.

The parsed value is not saved. It is parsed from the reply again when it is needed. This module must never word a
problem: the room `output` does.
"""

from __future__ import annotations

from functools import partial

import msgspec

from holdfast.calls.guard import run_callable
from holdfast.core.effects import CheckOutput
from holdfast.core.errors import (
    ConfigurationError,
    ErrorCategory,
    ErrorInfo,
    HoldfastError,
    Landed,
    LimitError,
    OutputError,
    TruncatedError,
    TruncatedOutputError,
)
from holdfast.core.events import OutputChecked, ToolFinished
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import Reply, ToolCall, ToolResult
from holdfast.core.output import (
    Invalid,
    OutputParsedBy,
    OutputRejected,
    ParseResult,
    Valid,
    bound_problems,
)
from holdfast.core.output_retries import OUTPUT_REJECTED
from holdfast.core.problems import Problem
from holdfast.core.turn_failures import CUT_CALL
from holdfast.output.answer_checks import as_cut_output, keep_text, run_validators
from holdfast.output.structured_output import Output, OutputContext
from holdfast.resilience.pipeline import Done, Outcome
from holdfast.runtime.active_turn import ActiveTurn
from holdfast.runtime.hooks.around_tool import ToolDeniedError

_LONG_TEXT = 65_536
"""Texts of at least this many characters are parsed in a thread, so that other runs continue."""


def require_output(run: ActiveTurn) -> Output:
    """Return the output type of the agent. Raises ConfigurationError if it has none."""
    if run.plan.output is None:
        raise ConfigurationError(
            "output",
            f"run {run.run_id!r} waits for the check of an answer, and this agent has no type for it",
            fix="Resume with output= as the agent that began it had",
        )
    return run.plan.output


async def validate_output(run: ActiveTurn, effect: CheckOutput) -> OutputChecked:
    """Check the last reply. Propagates exceptions of validators, except `OutputRejected`."""
    output, reply = require_output(run), run.machine.reply or Reply(())
    text, now = reply.text, run.plan.clock.now()
    if len(text) < _LONG_TEXT:
        parsed = output.parse_reply(reply, now)
    else:
        # Parsing is synchronous and would block the event loop, so it runs in a thread.
        parse = partial(output.parse_reply, reply, now)
        parsed = _expect_parsed(await run_callable(parse, effect.key))
    if isinstance(parsed, Valid):
        problems = await _run_validators(run, effect, parsed.value, text)
        if problems:
            parsed = Invalid(problems)
    run.last_parsed = parsed
    at = run.plan.clock.now()
    if isinstance(parsed, Valid):
        return OutputChecked(effect.key, at, parsed.parsed_by, call=_take_call(run, parsed))
    rung: OutputParsedBy = "raw" if output.takes_raw and _is_last_attempt(run.machine, at) else ""
    return OutputChecked(effect.key, at, rung, bound_problems(parsed.problems))


def _take_call(run: ActiveTurn, parsed: Valid) -> ToolCall | None:
    """Return the call of an output function, and show it to the hooks of this iteration."""
    if not isinstance(parsed.value, ToolCall):
        return None
    if run.hooks.iteration is not None:
        run.hooks.iteration.output_call = parsed.value
    return parsed.value


def finish_output_call(
    run: ActiveTurn, event: ToolFinished, outcome: Outcome[ToolResult]
) -> ToolFinished:
    """Return the event of a tool, or of an output function with the consequence for the turn.

    A function that did not run, or that rejected its arguments, lets the model correct them. Any
    other failure ends the turn, because the function may have acted.

    Args:
        run: the turn.
        event: the event.
        outcome: the outcome before the hooks after the tool.
    """
    if run.machine.reply is None or run.machine.reply.calls:
        return event  # the call of a tool
    if not event.result.is_error:
        meter = run.usage_meters.get(event.key)
        # A hook may have given or replaced the result; then the value is read from it.
        last = meter.last if meter is not None else None
        if last is not None and last.value is not None and last.result is event.result:
            run.output_value = (event.result, *last.value)
        return event
    if isinstance(outcome, Done) or isinstance(outcome.error, ToolDeniedError):
        info = ErrorInfo(
            category=ErrorCategory.INVALID_RESPONSE,
            safe=event.result.text,
            code=OUTPUT_REJECTED,
            landed=Landed.NO,
        )
        return msgspec.structs.replace(event, error=info)
    run.error = outcome.error
    return event


def _is_last_attempt(machine: SessionMachine, at: float) -> bool:
    """Whether no further output can be requested under the limits of retries and of the turn."""
    limits = machine.limits
    iterations = None if limits.extendable else limits.iterations
    return (
        machine.output_retries.are_exhausted(limits, at, machine.usage)
        or (iterations is not None and machine.iteration + 1 >= iterations)
        or (limits.tokens is not None and machine.usage.total >= limits.tokens)
    )


def _expect_parsed(value: object) -> ParseResult:
    if not isinstance(value, Valid | Invalid):
        raise TypeError(f"{type(value).__name__} is not a parsed output")
    return value


async def _run_validators(
    run: ActiveTurn, effect: CheckOutput, value: object, text: str
) -> tuple[Problem, ...]:
    """Run all validators and collect the problems that they report."""
    checks = run_validators(require_output(run), value, lambda: _build_context(run, effect, text))
    try:
        call = next(checks)
        while True:
            try:
                returned = await run_callable(call, effect.key)
            except OutputRejected as rejected:
                call = checks.throw(rejected)
            else:
                call = checks.send(returned)
    except StopIteration as end:
        problems: tuple[Problem, ...] = end.value
        return problems


def _build_context(run: ActiveTurn, effect: CheckOutput, text: str) -> OutputContext:
    return OutputContext(
        run_id=run.run_id,
        key=effect.key,
        session=run.context.session,
        deps=run.context.deps,
        text=text,
        failures=run.machine.output_retries.failed,
    )


def add_output_details(run: ActiveTurn, error: HoldfastError) -> HoldfastError:
    """Add the text, the best partial value and the problems to the error of a typed turn."""
    machine = run.machine
    text = machine.partial.text if machine.partial is not None else ""
    if isinstance(error, TruncatedError) and error.info.code != CUT_CALL:
        error = as_cut_output(error)
    if isinstance(error, LimitError) and machine.problems and error.partial is None:
        error.partial = machine.reply  # the last output, which was invalid
    if isinstance(error, OutputError):
        keep_text(error, text)
        error.partial = machine.partial
        if not isinstance(error, TruncatedOutputError):  # its problems are older
            known = run.last_parsed
            error.problems = known.problems if isinstance(known, Invalid) else machine.problems
    return error
