"""Calls that are repeated until their answer can be read: seed 003, blocking and asynchronous.

The seed's functions give tuples and its texts; for a type of yours they are a spelling of `send_message`, repeated.
`CallOptions` has choices where the seed has one way, and the parts that a test must replace. The same decisions serve
both kinds of shell. This module must never wait before the first attempt or after the last, and must never repeat a
cancelled call.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial, wraps
from inspect import isawaitable
from types import MappingProxyType
from typing import Any, TypeAlias, TypedDict

from msgspec import Struct

from holdfast.calls.call_plan import AttemptResult, CallOutcome, CallPlan, plan_attempts
from holdfast.calls.caught_error import ErrorCatcher
from holdfast.calls.http_responses import aload_http_body
from holdfast.calls.parsed_answers import RawText
from holdfast.calls.response_reader import DEFAULT_READER, ResponseReader
from holdfast.calls.send import asend_message, send_message
from holdfast.calls.session_log import UNKNOWN, current_session, session_scope
from holdfast.calls.typed_answers import compile_question
from holdfast.core.argument_checks import check_arguments, check_fields, check_value, is_async
from holdfast.core.constraints import NonNegativeFloat, NonNegativeInt, PositiveFloat
from holdfast.core.errors import ConfigurationError
from holdfast.output.structured_output import Validator
from holdfast.resilience.metrics import CallMetrics


class RetryConfig(TypedDict):
    """Named arguments of the retrying calls: `delay` is in seconds."""

    max_retries: int
    delay: float


CALL_CONFIGS: Mapping[str, RetryConfig] = MappingProxyType(
    {
        "photo_upload": {"max_retries": 5, "delay": 2.0},
        "routine_34": {"max_retries": 5, "delay": 2.0},
        "payment": {"max_retries": 2, "delay": 0.5},
        "default": {"max_retries": 3, "delay": 1.0},
    }
)
"""Normalised call type -> how it is repeated."""

_BETWEEN_WORDS = re.compile(r"[^a-z0-9]+")


def normalise_call_type(call_type: str) -> str:
    """A call type as the table spells it.

    >>> normalise_call_type("Photo Upload"), normalise_call_type(" re-registration ")
    ('photo_upload', 're_registration')
    """
    return _BETWEEN_WORDS.sub("_", call_type.lower()).strip("_")


@check_arguments
def get_retry_config(call_type: str, routine_number: int | None = None) -> RetryConfig:
    """The row for a call; a routine that has a row of its own goes before the call type.

    Args:
        call_type: in any spelling; one that has no row gets "default".
        routine_number: the routine that the call belongs to.

    >>> get_retry_config("Photo Upload")
    {'max_retries': 5, 'delay': 2.0}
    >>> get_retry_config("Registration", 34) == get_retry_config("routine_34")
    True
    >>> get_retry_config("Registration", 3)
    {'max_retries': 3, 'delay': 1.0}
    """
    row = CALL_CONFIGS.get(f"routine_{routine_number}") or CALL_CONFIGS.get(
        normalise_call_type(call_type)
    )
    return (row or CALL_CONFIGS["default"]).copy()


Call: TypeAlias = Callable[..., object]
# The answer is a text, unless the user wants a type.
Routine: TypeAlias = tuple[bool, object, Any, int | None]
NoRoutine: TypeAlias = tuple[bool, object, Any]


class CallOptions(Struct, frozen=True, kw_only=True):
    """Choices where seed 003 has one way, and the parts that a test replaces.

    Args:
        output: a type of yours in place of the seed's JSON object, as in `send_message`: the schema goes to the model,
            and a wrong answer goes back with its problems before it counts as a failure. The answer is then the
            value, the response the `CallResult`, and `raw_text` means nothing.
        validators: check that answer, as in `send_message`.
        raw_text: text that is not a JSON object is an answer ("accept", as in the seed), is one unless
            it looks like JSON that was cut ("prose"), or is repeated ("refuse").
        by_category: give up a call at once that cannot succeed, such as one with a bad key, and wait at least as
            long as the provider says. Without it, any exception of the call is repeated (the seed).
        deadline: seconds for all attempts and waits; no attempt begins after them.
        longest_wait: seconds; a call that would have to wait longer, because a provider or an open
            circuit breaker asks for it, is not tried again.
        reader: how responses are read, such as by a shape of yours.
        metrics: counts the call.
        on_outcome: gets the whole outcome, of which the tuples show a part.
        sleep: waits, blocking.
        asleep: waits, asynchronously.
        monotonic: seconds since some moment.

    >>> CallOptions(raw_text="sometimes")
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: options.raw_text: must be "accept", "prose" or "refuse"; got 'sometimes'
    """

    output: object = None
    validators: Sequence[Validator] = ()
    raw_text: RawText = "accept"
    by_category: bool = False
    deadline: PositiveFloat | None = None
    longest_wait: PositiveFloat | None = None
    max_breaker_wait: NonNegativeFloat | None = None
    reader: ResponseReader = DEFAULT_READER
    metrics: CallMetrics | None = None
    on_outcome: Callable[[CallOutcome], object] | None = None
    sleep: Callable[[float], object] = time.sleep
    asleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    monotonic: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        check_fields(self, "options.")


_SEED = CallOptions()
_RE_REGISTRATION = "Re-registration"


def retry_ai_call_with_parsing(
    func: Call,
    *args: object,
    max_retries: int = 3,
    delay: float = 1.0,
    session_id: str = UNKNOWN,
    call_type: str = "AI",
    options: CallOptions = _SEED,
) -> Routine:
    """Make a call, read its answer, and repeat both until there is one.

    Args:
        func: makes the call and returns its response, or raises.
        args: go to `func`.
        max_retries: attempts after the first.
        delay: the first wait in seconds; each is twice the one before.
        session_id: for the log; "unknown" takes the session of `session_scope`.
        call_type: the name of the call in the log and in messages.
        options: choices where the seed has one way.

    Returns:
        Whether there is an answer, the response, the answer or else a message for a person, and the
        number of the next routine. A message is never an answer, and must not enter a history.

    Raises:
        ConfigurationError: a number is out of range, `func` is asynchronous, or an event loop runs in
            this thread.

    >>> retry_ai_call_with_parsing(lambda: '{"agent_final_response": "Hi", "routine_number": 2}')[2:]
    ('Hi', 2)
    >>> number = {"choices": [{"message": {"content": "42"}, "finish_reason": "stop"}]}
    >>> wanted = CallOptions(output=int)
    >>> retry_ai_call_with_parsing(lambda question: number, "Six times seven?", options=wanted)[2]
    42
    """
    check_value("call_type", call_type, str)
    failed = f"Error: {call_type} AI call"
    plan = _make_plan(call_type, failed, (max_retries, delay), session_id, options)
    return _to_routine_tuple(_run_plan(plan, options, func, args))


async def async_retry_ai_call_with_parsing(
    func: Call,
    *args: object,
    max_retries: int = 3,
    delay: float = 1.0,
    session_id: str = UNKNOWN,
    call_type: str = "AI",
    options: CallOptions = _SEED,
) -> Routine:
    """As `retry_ai_call_with_parsing`, without stopping other tasks.

    `func` may be a coroutine function. Any other function runs in a thread, because it may block.
    """
    check_value("call_type", call_type, str)
    plan = _make_plan(call_type, "Error: AI call", (max_retries, delay), session_id, options)
    return _to_routine_tuple(await _arun_plan(plan, options, func, args))


def retry_rereg_ai_call_with_parsing(
    func: Call,
    *args: object,
    max_retries: int = 3,
    delay: float = 1.0,
    session_id: str = UNKNOWN,
    options: CallOptions = _SEED,
) -> NoRoutine:
    """As `retry_ai_call_with_parsing`, for answers without routines; `output_text` is read first.

    >>> retry_rereg_ai_call_with_parsing(lambda: {"output_text": "Welcome back"})[2]
    'Welcome back'
    """
    failed = f"Error: {_RE_REGISTRATION} AI call"
    plan = _make_plan(
        _RE_REGISTRATION, failed, (max_retries, delay), session_id, options, reregistration=True
    )
    return _to_routine_tuple(_run_plan(plan, options, func, args))[:3]


async def async_retry_rereg_ai_call_with_parsing(
    func: Call,
    *args: object,
    max_retries: int = 3,
    delay: float = 1.0,
    session_id: str = UNKNOWN,
    options: CallOptions = _SEED,
) -> NoRoutine:
    """As `retry_rereg_ai_call_with_parsing`, without stopping other tasks."""
    failed = f"Error: {_RE_REGISTRATION} AI call"
    plan = _make_plan(
        _RE_REGISTRATION, failed, (max_retries, delay), session_id, options, reregistration=True
    )
    return _to_routine_tuple(await _arun_plan(plan, options, func, args))[:3]


def _make_plan(
    label: str,
    failure_prefix: str,
    repeats: tuple[int, float],
    session_id: str,
    options: CallOptions,
    *,
    reregistration: bool = False,
) -> CallPlan:
    max_retries, delay = repeats
    check_value("session_id", session_id, str)
    check_value("options", options, CallOptions)
    check_value("max_retries", max_retries, NonNegativeInt)
    check_value("delay", delay, NonNegativeFloat)
    return CallPlan(
        max_retries=max_retries,
        delay=delay,
        session_id=current_session() if session_id == UNKNOWN else session_id,
        label=label,
        failure_prefix=failure_prefix,
        routines=not reregistration,
        output_text_first=reregistration,
        raw_text=options.raw_text,
        by_category=options.by_category,
        deadline=options.deadline,
        longest_wait=options.longest_wait,
        max_breaker_wait=options.max_breaker_wait,
        reader=options.reader,
        is_typed=options.output is not None,
    )


def _run_plan(
    plan: CallPlan, options: CallOptions, func: Call, args: tuple[object, ...]
) -> CallOutcome:
    check_value("func", func, Call)
    _refuse_running_loop()
    if plan.is_typed:
        typed = _typed_arguments(options)
        compile_question(func, args, **typed)  # what cannot be asked is refused, and not repeated
        func, args = partial(send_message, func, *args, **typed), ()
    began = options.monotonic()
    attempts = plan_attempts(plan)
    made: AttemptResult | None = None
    with session_scope(plan.session_id):
        while True:
            try:
                wait = attempts.send(made)
            except StopIteration as end:
                return _report_outcome(plan, options, end.value, options.monotonic() - began)
            made = None
            if wait is not None:
                options.sleep(wait)
                continue
            response: object = None
            with ErrorCatcher() as caught:
                response = func(*args)
            _refuse_awaitable(response)
            made = AttemptResult(response, caught.error, options.monotonic() - began)


async def _arun_plan(
    plan: CallPlan, options: CallOptions, func: Call, args: tuple[object, ...]
) -> CallOutcome:
    check_value("func", func, Call)
    if plan.is_typed:
        typed = _typed_arguments(options)
        compile_question(func, args, **typed)  # what cannot be asked is refused, and not repeated
        func, args = partial(asend_message, _call_awaitably(func), *args, **typed), ()
    began = options.monotonic()
    attempts = plan_attempts(plan)
    made: AttemptResult | None = None
    with session_scope(plan.session_id):
        while True:
            try:
                wait = attempts.send(made)
            except StopIteration as end:
                return _report_outcome(plan, options, end.value, options.monotonic() - began)
            made = None
            if wait is not None:
                await options.asleep(wait)
                continue
            response: object = None
            with ErrorCatcher() as caught:
                response = await _call_beside_loop(func, args)
                if isawaitable(response):
                    response = await response
                await aload_http_body(response)
            failed = caught.error is not None
            made = AttemptResult(
                None if failed else response, caught.error, options.monotonic() - began
            )


def _typed_arguments(options: CallOptions) -> dict[str, Any]:
    return {
        "output": options.output,
        "validators": options.validators,
        "reader": options.reader,
    }


def _call_awaitably(func: Call) -> Call:
    """Return a coroutine function that calls `func`, in a thread if it may block, and shows its signature."""

    @wraps(func)
    async def call(*args: object, **keywords: object) -> object:
        response = await _call_beside_loop(partial(func, **keywords), args)
        return await response if isawaitable(response) else response

    return call


async def _call_beside_loop(func: Call, args: tuple[object, ...]) -> object:
    """Call a function; in a thread unless it is a coroutine function, because it may block."""
    if is_async(func):
        return func(*args)

    def call() -> tuple[object, Exception | None]:
        # A StopIteration cannot be passed on by a future.
        with ErrorCatcher() as caught:
            return func(*args), None
        return None, caught.error

    response, error = await asyncio.to_thread(call)
    if error is not None:
        raise error
    return response


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigurationError(
        "func",
        "would block the running event loop",
        fix="Use the function of the same name with async_ before it",
    )


def _report_outcome(
    plan: CallPlan, options: CallOptions, outcome: CallOutcome, seconds: float
) -> CallOutcome:
    if options.metrics is not None:
        error = None if outcome.info is None else outcome.info.category.value
        options.metrics.record_call(
            outcome.success,
            outcome.attempts,
            error,
            seconds,
            call_type=normalise_call_type(plan.label),
            session=None if plan.session_id == UNKNOWN else plan.session_id,
        )
    if options.on_outcome is not None:
        options.on_outcome(outcome)
    return outcome


def _to_routine_tuple(outcome: CallOutcome) -> Routine:
    if outcome.answer is None:
        return False, outcome.response, outcome.error_text, None
    answer = outcome.answer
    return True, outcome.response, answer.content, answer.routine_number


def _refuse_awaitable(response: object) -> None:
    if isawaitable(response):
        close = getattr(response, "close", None)
        if callable(close):
            close()
        raise ConfigurationError(
            "func", "is asynchronous", fix="Use the function of the same name with async_ before it"
        )
