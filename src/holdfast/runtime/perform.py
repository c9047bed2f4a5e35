"""One function per kind of effect: each performs it and returns the event that ends it.

This is where an exception of the outside world becomes a value, and the only room with a broad
`except`: whatever a model or a strategy raises unexpectedly ends as an event, never as a lost run.
Cancellation always passes.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable

import msgspec

from holdfast.core.batch import IN_DOUBT_TEXT
from holdfast.core.effects import CallModel, CheckOutput, Effect, RunTool
from holdfast.core.errors import (
    ErrorCategory,
    ErrorInfo,
    HoldfastError,
    Landed,
    LimitError,
    tool_failure_text,
)
from holdfast.core.events import (
    Event,
    ModelFailed,
    ModelReplied,
    OutputChecked,
    ToolFinished,
    TurnStopped,
)
from holdfast.core.limits import ITERATION_LIMIT_TEXT
from holdfast.core.messages import Reply, Text, ToolResult, Usage
from holdfast.core.redaction import redact
from holdfast.core.request import ModelRequest
from holdfast.resilience.pipeline import Call, Done, Failed, Outcome
from holdfast.runtime.hooked_live import as_shown
from holdfast.runtime.hooked_model import around_model
from holdfast.runtime.hooked_tool import around_tool
from holdfast.runtime.run import Run
from holdfast.runtime.settle import close_turn
from holdfast.runtime.spending import CallNotes
from holdfast.runtime.tool_call import ToolAttempt, outlet_of
from holdfast.tools.checked_call import CheckedCall, Invocation
from holdfast.tools.context import Meter, ToolContext
from holdfast.tools.failures import text_of

_log = logging.getLogger("holdfast")
_log.addHandler(logging.NullHandler())  # silent until the application says where logs go

SHARED_LIMIT_TEXT = "The limit of tokens of the agent that it works for is reached."
IN_DOUBT_NOTE = " It may have taken effect: check before calling it again."


def perform(run: Run, effect: Effect) -> Awaitable[Event]:
    """Perform any effect."""
    if isinstance(effect, RunTool):
        return run_tool(run, effect)
    if isinstance(effect, CallModel):
        return call_model(run, effect)
    if isinstance(effect, CheckOutput):
        return check_output(run, effect)
    return close_turn(run, effect)


async def call_model(run: Run, effect: CallModel) -> ModelReplied | ModelFailed | TurnStopped:
    """Ask the model, with everything that the pipeline does for safety.

    Raises:
        TurnLeftOpen: a recovery drives the turn, and this failure must not end it.
    """
    plan = run.plan
    run.cut.partial = None
    request = ModelRequest(
        model=plan.model.model,
        messages=run.machine.transcript,
        instructions=plan.instructions if run.hooks is None else run.hooks.instructions,
        tools=plan.registry.specs,
        output=plan.output.schema if plan.output is not None else None,
        settings=plan.settings,
        stream=run.channel is not None and run.channel.live,
    )
    if run.hooks is None:
        outcome = await _ask(run, effect, request)
    else:
        hooked = await around_model(run, run.hooks, effect, request, _ask)
        if isinstance(hooked, TurnStopped):
            return hooked
        # What a hook gives in place of a reply counts for the limit as well.
        unasked = isinstance(hooked, Done) and not hooked.attempts
        over = unasked and run.machine.over_limit
        outcome = _over_limit(run) if over else hooked
    at = plan.clock.now()
    if isinstance(outcome, Done):
        if run.works_for is not None:
            _count(run.works_for, outcome.value, outcome.lost)
        return ModelReplied(
            effect.key, at, outcome.value, outcome.attempts, outcome.tried, lost=outcome.lost
        )
    run.error = outcome.error
    _log.warning("model call %s of run %s failed: %s", effect.key, run.run_id, _detail(outcome))
    if run.recovery is not None:
        run.recovery.check_failure(outcome.error, outcome.info, outcome.tried)
    partial = as_shown(run, _partial_of(outcome))
    if isinstance(outcome.error, HoldfastError):
        outcome.error.partial = partial
    if run.works_for is not None:
        _count(run.works_for, partial, outcome.lost)
    return ModelFailed(
        effect.key,
        at,
        outcome.info.public(),
        partial,
        outcome.attempts,
        outcome.tried,
        lost=outcome.lost,
    )


def _partial_of(outcome: Failed) -> Reply | None:
    return outcome.error.partial if isinstance(outcome.error, HoldfastError) else None


def _count(above: Meter, reply: Reply | None, lost: Usage | None) -> None:
    """What a run spends counts at once for the agent that it works for."""
    for usage in (reply.usage if reply is not None else None, lost):
        if usage is not None:
            above.add(usage)


async def _ask(run: Run, effect: CallModel, request: ModelRequest) -> Outcome[Reply]:
    if run.machine.over_limit:
        return _over_limit(run)
    left = run.works_for.left() if run.works_for is not None else None
    if left is not None and left <= 0:
        return _limited(SHARED_LIMIT_TEXT, "tokens")
    run.acted.add(effect.key)
    try:
        env = run.env if run.hooks is None else run.hooks.env or run.env
        return await run.plan.ask_model(Call(effect.key, request, env, run.deadline))
    except Exception as error:
        return _unexpected(error)


def _over_limit(run: Run) -> Failed:
    """Nobody extended the limit, so the model is not asked."""
    limit = run.machine.limits.iterations
    return _limited(ITERATION_LIMIT_TEXT.format(max_iterations=limit), "iterations")


def _limited(text: str, limit: str) -> Failed:
    error = LimitError(text, limit=limit)
    info = ErrorInfo(category=ErrorCategory.LIMIT, safe=text, code=limit, landed=Landed.NO)
    return Failed(error, info, attempts=0, sent=False)


async def run_tool(run: Run, effect: RunTool) -> ToolFinished:
    """Run one tool; a failure becomes the text that the model reads."""
    if effect.key in run.in_doubt and not _may_repeat(run, effect):
        return _doubted(run, effect)
    if run.hooks is None:
        return _finished(run, effect, await _use(run, effect, None))
    return await around_tool(run, run.hooks, effect, _use, _finished)


def _may_repeat(run: Run, effect: RunTool) -> bool:
    """After a crash, only what changes nothing, or nothing twice, is run again unasked.

    Of a tool that is gone nobody knows what it was, so that the model must learn of the doubt.
    """
    tool = run.plan.registry.get(effect.call.name)
    return tool is not None and tool.effect in ("read", "idempotent")


def _doubted(run: Run, effect: RunTool) -> ToolFinished:
    call = effect.call
    text = IN_DOUBT_TEXT.format(name=call.name)
    info = ErrorInfo(category=ErrorCategory.UNKNOWN, safe=text, code="in_doubt")
    result = ToolResult(call.id, call.name, (Text(text),), is_error=True)
    return ToolFinished(effect.key, run.plan.clock.now(), result, info, attempts=0)


async def _use(
    run: Run, effect: RunTool, checked: CheckedCall | Invocation | None
) -> Outcome[ToolResult]:
    call = effect.call
    notes = run.notes.setdefault(effect.key, CallNotes(run.tokens_left, run.works_for))
    run.acted.add(effect.key)
    context = ToolContext(
        run_id=run.run_id,
        key=effect.key,
        call_id=call.id,
        tool=call.name,
        session=run.session,
        deps=run.deps,
        remaining=run.time_left(),
        asker=run.questions.of_attempts(run),
        outlet=outlet_of(run.env),
        meter=notes,
    )
    try:
        return await run.plan.use_tool(
            Call(effect.key, ToolAttempt(effect, context, notes, checked), run.env, run.deadline)
        )
    except Exception as error:
        return _unexpected(error)


def _finished(run: Run, effect: RunTool, outcome: Outcome[ToolResult]) -> ToolFinished:
    call = effect.call
    at = run.plan.clock.now()
    notes = run.notes.get(effect.key)
    usage = notes.usage if notes is not None else Usage()
    if isinstance(outcome, Done):
        refusal = notes.refusal if notes is not None and outcome.value.is_error else None
        info = refusal.public() if refusal is not None else None
        return ToolFinished(effect.key, at, outcome.value, info, outcome.attempts, usage)
    _log.warning(
        "tool %s (%s of run %s) failed: %s", call.name, effect.key, run.run_id, _detail(outcome)
    )
    text: str = tool_failure_text(
        call.name,
        text_of(outcome.error),
        detailed=run.plan.handling.include_detailed_errors_in_chat,
    )
    if not outcome.may_repeat:
        text += IN_DOUBT_NOTE
    result = ToolResult(call.id, call.name, (Text(text),), is_error=True)
    return ToolFinished(effect.key, at, result, outcome.info.public(), outcome.attempts, usage)


async def check_output(run: Run, effect: CheckOutput) -> OutputChecked:
    """Check an answer; a validator that fails is no answer to the model, and ends the turn.

    Raises:
        TurnLeftOpen: a recovery drives the turn, and the failing validator must not end it.
    """
    from holdfast.runtime.checking import checked, wanted_by  # plain text needs none of it

    wanted_by(run)
    try:
        return await checked(run, effect)
    except Exception as error:
        failure = _unexpected(error)
    run.error = failure.error
    _log.warning("check %s of run %s failed: %s", effect.key, run.run_id, _detail(failure))
    if run.recovery is not None:
        run.recovery.check_failure(failure.error, failure.info)
    safe = (
        f"An output validator failed with {type(failure.error).__name__}; the log has the details."
    )
    info = msgspec.structs.replace(failure.info.public(), safe=safe, code="output_validator")
    return OutputChecked(effect.key, run.plan.clock.now(), error=info)


def _unexpected(error: Exception) -> Failed:
    if isinstance(error, HoldfastError):
        return Failed(error, error.info)
    name = type(error).__name__
    info = ErrorInfo(
        category=ErrorCategory.PROGRAMMING,
        safe=f"An unexpected {name} stopped this call; the log has the details.",
        private=redact(f"{name}: {error}"),
        code=name,
    )
    return Failed(error, info)


def _detail(outcome: Failed) -> str:
    return outcome.info.private or outcome.info.safe
