"""Answers of a type around a call of the user: ask, read, check, and ask again with the problems.

A wrong answer goes back with its problems; a call that fails, a refusal and an answer that was cut are not asked for
again, because another wording of the same question changes nothing about them. With `blocking` a coroutine of this
module never waits, so it needs no event loop. This module must never make a call itself, wait, or read a clock.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
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
from holdfast.output.answer_checks import BadValidatorError, Checks, run_validators
from holdfast.output.structured_output import (
    Output,
    Validator,
    compile_output,
)
from holdfast.resilience.system_clock import SystemClock

_LONG_TEXT = 65_536
"""Texts of at least this many characters are read in a thread by an asynchronous caller."""

Send: TypeAlias = Callable[[Callable[[], object], AnswerPreview], Awaitable[CallResult[Any]]]
"""Makes a call; a streamed reply goes through the preview."""


class TypedQuestion(Struct, frozen=True):
    """A question with the type of its answer.

    Args:
        asked: the call with its arguments.
        output: the compiled type.
    """

    asked: AskedCall
    output: Output


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


async def ask_typed(
    question: TypedQuestion,
    send: Send,
    preview_callback: PreviewCallback | None = None,
    *,
    blocking: bool,
) -> CallResult[Any]:
    """Ask a question until an answer is right or its limits are reached, and return the result.

    Args:
        question: the question.
        send: makes one call.
        preview_callback: called with the answer while it grows.
        blocking: this never waits in an event loop; otherwise long work and validators run in a thread.

    Raises:
        ConfigurationError: a validator is asynchronous, and `blocking` is set.
    """
    if blocking and any(is_async(validator) for validator, _ in question.output.validators):
        fix = "Use asend_message, or a plain function"
        raise ConfigurationError("validators", "has an async function", fix=fix)
    attempts = AnswerAttempts(question.asked, question.output, SystemClock())
    while True:
        preview = AnswerPreview(attempts, preview_callback)
        result = await send(attempts.bind_question(), preview)
        if result.parsed_by or isinstance(result.error, OutputError):
            return result  # another piece asked for the type
        attempts.count_call(result)
        if attempts.change_mode(result):
            continue
        reply = attempts.read_reply(result)
        if isinstance(reply, CallResult):
            return reply
        parsed = await _check_answer(attempts, reply, blocking=blocking)
        if isinstance(parsed, Exception):
            return attempts.fail_question(result, parsed)
        ended = attempts.take_answer(result, reply, parsed)
        if ended is not None:
            return ended
        preview.revoke()


async def _check_answer(
    attempts: AnswerAttempts, reply: Reply, *, blocking: bool
) -> ParseResult | Exception:
    """Read a reply and run the validators; an exception is a bug of a validator."""
    parse = partial(attempts.output.parse_reply, reply, attempts.clock.now())
    if call_problem := attempts.find_wrong_call(reply):
        return Invalid((call_problem,))
    if blocking or len(reply.text) < _LONG_TEXT:
        parsed = parse()
    else:
        parsed = cast("ParseResult", await run_callable(parse, "answer"))
    if isinstance(parsed, Invalid) or not attempts.output.validators:
        return parsed
    make_context = partial(attempts.make_context, reply.text)
    checks = run_validators(attempts.output, parsed.value, make_context)
    problems = await _run_checks(checks, blocking=blocking)
    if isinstance(problems, Exception):
        return problems
    return Invalid(problems) if problems else parsed


async def _run_checks(checks: Checks, *, blocking: bool) -> tuple[Problem, ...] | Exception:
    check: Callable[[], object] | None = None
    rejected: OutputRejected | None = None
    returned: object = None
    while True:
        try:
            if check is None:
                check = next(checks)
            else:
                check = checks.send(returned) if rejected is None else checks.throw(rejected)
        except StopIteration as end:
            return cast("tuple[Problem, ...]", end.value)
        except BadValidatorError as error:
            return error
        returned = rejected = None
        # A StopIteration of a validator would leave a coroutine as another error.
        with ErrorCatcher() as caught:
            returned = check() if blocking else await run_callable(check, "answer")
        if isinstance(caught.error, OutputRejected):
            rejected = caught.error
        elif caught.error is not None:
            return caught.error
