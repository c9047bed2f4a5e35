"""Answers of a type around a call of the user: ask, read, check, and ask again with the problems.

`ask_typed` is a generator, which a blocking and an asynchronous caller drive. A wrong answer goes back with its
problems; a call that fails, a refusal and an answer that was cut are not asked for again, because another wording of
the same question changes nothing about them. This module never calls, waits or reads a clock.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import lru_cache, partial
from typing import Any, TypeAlias, cast

from msgspec import Struct

from holdfast.calls.answer_attempts import AnswerAttempts, AnswerPreview
from holdfast.calls.asked_call import AskedCall
from holdfast.calls.call_result import CallResult
from holdfast.calls.call_wording import PreviewCallback
from holdfast.calls.caught_error import ErrorCatcher
from holdfast.calls.guard import run_callable
from holdfast.calls.response_reader import ResponseReader
from holdfast.core.argument_checks import check_value, is_async
from holdfast.core.errors import ConfigurationError, OutputError
from holdfast.core.messages import Reply
from holdfast.core.output import (
    Invalid,
    OutputRejected,
    ParseResult,
)
from holdfast.core.problems import Problem
from holdfast.output.answer_checks import (
    BadValidatorError,
    Checks,
    run_validators,
)
from holdfast.output.structured_output import (
    Output,
    Validator,
    compile_output,
)
from holdfast.resilience.clock import Clock
from holdfast.resilience.system_clock import SystemClock

_LONG_TEXT = 65_536
"""Texts of at least this many characters are read in a thread by an asynchronous caller."""


class TypedQuestion(Struct, frozen=True):
    """A question with the type of its answer.

    Args:
        asked: the call with its arguments.
        output: the compiled type.
    """

    asked: AskedCall
    output: Output


class Step(Struct, frozen=True):
    """What the caller does next.

    Args:
        function: what it calls.
        is_call: whether this is the call of the user; otherwise the function may take a while.
    """

    function: Callable[[], object]
    is_call: bool = False


class StepResult(Struct, frozen=True):
    """What a step returned or raised."""

    value: object
    error: Exception | None


TypedSteps: TypeAlias = Generator[Step, StepResult, CallResult[Any]]
Send: TypeAlias = Callable[[Callable[[], object], AnswerPreview], object]
"""Makes a call and returns its `CallResult`, or an awaitable of it; a streamed reply goes through the preview."""


def compile_question(
    call: Callable[..., object],
    args: tuple[object, ...],
    output: object,
    validators: Sequence[Validator],
    reader: ResponseReader | None = None,
) -> TypedQuestion:
    """Return a question with the type of its answer, before anything is sent.

    Raises:
        ConfigurationError: the type has no schema, or the call cannot ask for it.
    """
    check_value("validators", validators, Sequence)
    try:
        made = _compile_once(output)
    except TypeError:  # a list of types has no hash
        made = compile_output(output)
    if made.functions:
        problem = f"{made.functions[0].name!r} is a function"
        fix = "Pass a type, and call the function with the answer"
        raise ConfigurationError("output", problem, fix=fix)
    if validators:
        made = made.with_validators(validators)
    return TypedQuestion(AskedCall(call, args, None if reader is None else reader.profile), made)


_compile_once = lru_cache(maxsize=128)(compile_output)


def ask_blocking(
    question: TypedQuestion, send: Send, preview_callback: PreviewCallback | None = None
) -> CallResult[Any]:
    """Ask a question of a synchronous client, and return its result."""
    steps = ask_typed(question, send, SystemClock(), preview_callback)
    for validator, _ in question.output.validators:
        if is_async(validator):
            raise ConfigurationError(
                "validators", "has an async function", fix="Use asend_message, or a plain function"
            )
    result: StepResult | None = None
    while True:
        try:
            step = next(steps) if result is None else steps.send(result)
        except StopIteration as end:
            return cast("CallResult[Any]", end.value)
        value: object = None
        with ErrorCatcher() as caught:
            value = step.function()
        result = StepResult(value, caught.error)


async def ask_awaiting(
    question: TypedQuestion, send: Send, preview_callback: PreviewCallback | None = None
) -> CallResult[Any]:
    """Ask a question of an asynchronous client, and return its result; other functions run in a thread."""
    steps = ask_typed(question, send, SystemClock(), preview_callback)
    result: StepResult | None = None
    while True:
        try:
            step = next(steps) if result is None else steps.send(result)
        except StopIteration as end:
            return cast("CallResult[Any]", end.value)
        value: object = None
        with ErrorCatcher() as caught:
            if step.is_call:
                value = await cast("Awaitable[object]", step.function())
            else:
                value = await run_callable(step.function, "answer")
        result = StepResult(value, caught.error)


def ask_typed(
    question: TypedQuestion,
    send: Send,
    clock: Clock,
    preview_callback: PreviewCallback | None = None,
) -> TypedSteps:
    """Yield the steps of a question, and return its result.

    Args:
        question: the question.
        send: makes one call.
        clock: says the time.
        preview_callback: called with the answer while it grows.
    """
    attempts = AnswerAttempts(question.asked, question.output, clock)
    while True:
        preview = AnswerPreview(attempts, preview_callback)
        made = yield Step(partial(send, attempts.bind(), preview), is_call=True)
        if made.error is not None:
            raise made.error
        result = _expect_result(made.value)
        if result.parsed_by or isinstance(result.error, OutputError):
            return result  # another piece asked for the type
        attempts.count(result)
        if attempts.change_mode(result):
            continue
        reply = attempts.read_reply(result)
        if isinstance(reply, CallResult):
            return reply
        parsed = yield from _check_answer(attempts, reply)
        if isinstance(parsed, Exception):
            return attempts.fail(result, parsed)
        ended = attempts.take_answer(result, reply, parsed)
        if ended is not None:
            return ended
        preview.revoke()


def _check_answer(
    attempts: AnswerAttempts, reply: Reply
) -> Generator[Step, StepResult, ParseResult | Exception]:
    """Read a reply and run the validators; an exception is a bug of a validator."""
    parse = partial(attempts.output.parse_reply, reply, attempts.clock.now())
    if call_problem := attempts.find_wrong_call(reply):
        return Invalid((call_problem,))
    if len(reply.text) < _LONG_TEXT:
        parsed = parse()
    else:
        done = yield Step(parse)
        if done.error is not None:
            return done.error
        parsed = cast("ParseResult", done.value)
    if isinstance(parsed, Invalid) or not attempts.output.validators:
        return parsed
    checks = run_validators(
        attempts.output, parsed.value, partial(attempts.make_context, reply.text)
    )
    problems = yield from _run_checks(checks)
    if isinstance(problems, Exception):
        return problems
    return Invalid(problems) if problems else parsed


def _run_checks(checks: Checks) -> Generator[Step, StepResult, tuple[Problem, ...] | Exception]:
    call: Callable[[], object] | None = None
    rejected: OutputRejected | None = None
    returned: object = None
    while True:
        try:
            if call is None:
                call = next(checks)
            else:
                call = checks.send(returned) if rejected is None else checks.throw(rejected)
        except StopIteration as end:
            return cast("tuple[Problem, ...]", end.value)
        except BadValidatorError as error:
            return error
        done = yield Step(call)
        returned = done.value
        rejected = done.error if isinstance(done.error, OutputRejected) else None
        if done.error is not None and rejected is None:
            return done.error


def _expect_result(value: object) -> CallResult[Any]:
    if not isinstance(value, CallResult):
        raise TypeError(f"{type(value).__name__} is not the result of a call")
    return value
