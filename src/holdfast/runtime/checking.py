"""The check of an answer: the parse ladder, the output validators, and what is told of a failure.

The value of an answer is kept nowhere: it is read again from the reply by whoever needs it. An
exception of a validator must never reach the model, except an `OutputRejected`, which is meant for
it.
"""

from __future__ import annotations

from functools import partial

from holdfast.core.effects import CheckOutput
from holdfast.core.errors import (
    ConfigurationError,
    HoldfastError,
    LimitError,
    OutputError,
    TruncatedError,
    TruncatedOutputError,
)
from holdfast.core.events import OutputChecked
from holdfast.core.machine import RunMachine
from holdfast.core.messages import Reply
from holdfast.core.output import Invalid, OutputRejected, OutputRung, Parsed, Valid, kept
from holdfast.core.partial_json import best_of
from holdfast.core.problems import Problem
from holdfast.core.redaction import redact
from holdfast.runtime.plain import run_any
from holdfast.runtime.run import Run
from holdfast.runtime.structured_output import Output, OutputContext, Validator

_LONG_TEXT = 65_536
"""Characters from which a text is read in a thread, so that other runs go on meanwhile."""


class BadValidatorError(TypeError):
    """An output validator returned something, which would be lost."""


def wanted_by(run: Run) -> Output:
    """The output of the agent. Raises ConfigurationError when it has none and the turn wants one."""
    if run.plan.output is None:
        raise ConfigurationError(
            "output",
            f"run {run.run_id!r} waits for the check of an answer, and this agent has no type for it",
            fix="Resume with output= as the agent that began it had",
        )
    return run.plan.output


async def checked(run: Run, effect: CheckOutput) -> OutputChecked:
    """Check the last reply. Raises what a validator raises, unless it is OutputRejected."""
    output, reply = wanted_by(run), run.machine.reply or Reply(())
    text = reply.text
    if len(text) < _LONG_TEXT:
        parsed = output.read(reply)
    else:
        # The parser knows no waiting, so a thread does it.
        parsed = _parsed(await run_any(partial(output.read, reply), effect.key))
    if isinstance(parsed, Valid) and (problems := await _judged(run, effect, parsed.value, text)):
        parsed = Invalid(problems)
    run.parsed = parsed
    at = run.plan.clock.now()
    if isinstance(parsed, Valid):
        return OutputChecked(effect.key, at, parsed.rung)
    rung: OutputRung = "raw" if output.takes_raw and _is_last(run.machine, at) else ""
    return OutputChecked(effect.key, at, rung, kept(parsed.problems))


def _is_last(machine: RunMachine, at: float) -> bool:
    """Whether no other answer can follow this one, by the caps of answers or those of the turn."""
    limits = machine.limits
    iterations = None if limits.extendable else limits.iterations
    return (
        machine.tries.are_over(limits, at, machine.usage)
        or (iterations is not None and machine.iteration + 1 >= iterations)
        or (limits.tokens is not None and machine.usage.total >= limits.tokens)
    )


def _parsed(value: object) -> Parsed:
    if not isinstance(value, Valid | Invalid):
        raise TypeError(f"{type(value).__name__} is no parsed answer")
    return value


async def _judged(run: Run, effect: CheckOutput, value: object, text: str) -> tuple[Problem, ...]:
    """What the validators have against an answer: all of them are asked."""
    problems: list[Problem] = []
    for validator, takes_context in wanted_by(run).validators:
        context = _context(run, effect, text) if takes_context else None
        given = (value,) if context is None else (value, context)
        try:
            returned = await run_any(partial(validator, *given), effect.key)
        except OutputRejected as rejected:
            problems.append(Problem("", redact(rejected.message)))
            continue
        if returned is not None:
            raise BadValidatorError(
                f"{_name(validator)} returned {type(returned).__name__}: it must return None, "
                "or raise OutputRejected"
            )
    return tuple(problems)


def _context(run: Run, effect: CheckOutput, text: str) -> OutputContext:
    return OutputContext(
        run_id=run.run_id,
        key=effect.key,
        session=run.session,
        deps=run.deps,
        text=text,
        failed=run.machine.tries.failed,
    )


def _name(validator: Validator) -> str:
    return getattr(validator, "__qualname__", type(validator).__name__)


def of_output(run: Run, error: HoldfastError) -> HoldfastError:
    """The error of a turn that wanted a typed answer: with all that there is of one."""
    machine = run.machine
    text = machine.partial.text if machine.partial is not None else ""
    if isinstance(error, TruncatedError) and not isinstance(error, OutputError):
        cut = TruncatedOutputError(
            f"{error.info.safe}, so there is no whole answer. Raise settings.max_tokens, or ask "
            "for a smaller one: asked again in the same way, it would be cut again",
            info=error.info,
            partial=error.partial,
        )
        cut.__cause__ = error
        error = cut
    if isinstance(error, LimitError) and machine.problems and error.partial is None:
        error.partial = machine.reply  # the last answer, which did not fit
    if isinstance(error, OutputError):
        error.raw, error.best, error.partial = text, best_of(text), machine.partial
        if not isinstance(error, TruncatedOutputError):  # its problems are those of the one before
            known = run.parsed
            error.problems = known.problems if isinstance(known, Invalid) else machine.problems
    return error
