"""Runs any callable with strategies: a call of a vendor's SDK, an HTTP request, your own function.

A failed call raises the exception of the callable, with notes that say why it was not retried. An
async callable runs in the event loop. A synchronous one runs in a thread, so that it does not block
the loop and a timeout returns to the caller; Python cannot stop the thread, which is then abandoned.
A stream or a generator is read up to its first piece in the attempt, and then belongs to its reader.
A `CallResult` without an answer is a failed attempt, and so is the reply of an SDK that is empty or broken.
Turn off the retries of a client library that you wrap, because the two numbers of attempts multiply.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Literal, ParamSpec, Protocol, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holdfast.calls.call_result import CallResult
from holdfast.calls.exception_rules import Classify, classify_exception
from holdfast.calls.foreign_fields import walk_causes
from holdfast.calls.opened_streams import (
    CallInThread,
    aopen_stream_start,
    close_opened,
    is_async_stream,
    is_lazy_manager,
    is_stream,
)
from holdfast.calls.response_reader import DEFAULT_READER, ResponseReader, is_known_reply
from holdfast.core.argument_checks import (
    check_arguments,
    check_not_async,
    check_value,
    is_async,
    unwrap_partial,
)
from holdfast.core.errors import ConfigurationError, ErrorInfo, Landed, OutputError, exception_for
from holdfast.core.notices import Notice
from holdfast.resilience.clock import Clock, Rng
from holdfast.resilience.fallback.options import FallbackTarget
from holdfast.resilience.pipeline import (
    CallContext,
    Done,
    ExecutionContext,
    Failed,
    Outcome,
    Pipeline,
)
from holdfast.resilience.system_clock import SystemClock, system_rng
from holdfast.tools.threads import ThreadCall, ToolThreads

A = ParamSpec("A")
R = TypeVar("R")

EffectKind = Literal["read", "idempotent", "write"]
Judge: TypeAlias = Callable[[object], ErrorInfo | None]

_threads = ToolThreads()


class Reading(Protocol):
    """Reads what a function returned, as a part of the attempt.

    Both methods return what is to be returned instead, or raise if it is no answer.
    """

    @property
    def is_streamed(self) -> bool:
        """Whether it reads streams to their ends."""
        ...

    def read(self, value: object) -> object:
        """Read a value, or a stream to its end; called in the thread of the call."""
        ...

    async def aread(self, value: object) -> object:
        """Like `read`, in the event loop."""
        ...


class CallArguments(Struct, frozen=True):
    """The payload of an operation: a callable and its arguments.

    Args:
        function: the callable.
        args: its arguments by position.
        kwargs: its arguments by name.
        reading: reads the values of the call; None if they are returned as they are.
    """

    function: Callable[..., object]
    args: tuple[object, ...] = ()
    kwargs: Mapping[str, object] = {}
    reading: Reading | None = None


class _InnerCall:
    """How the last guarded call inside of an attempt ended."""

    __slots__ = ("outcome",)

    def __init__(self) -> None:
        self.outcome: Outcome[object] | None = None

    def count_attempts(self, result: object) -> int:
        """Return the attempts that a value or an exception of the attempt took further inside."""
        inner = self.outcome
        if type(inner) is Failed and isinstance(result, BaseException):
            return inner.attempts if inner.error in walk_causes(result) else 1
        if type(inner) is Done and inner.value is result:
            return inner.attempts
        return result.attempts if type(result) is CallResult else 1


_inner_call: ContextVar[_InnerCall | None] = ContextVar("holdfast_inner_call", default=None)
"""Set in each attempt, so that attempts of a guarded call inside of it are not multiplied."""


class Guard:
    """Calls functions with a pipeline of strategies; one guard serves many calls.

    Args:
        pipeline: the strategies; `Pipeline.of(...)` puts them in order.
        effect: "write" for a call that must not be repeated if it may have taken effect.
        classify: classifies an exception; the default knows the vendors' SDKs, the HTTP clients and
            Python's own exceptions.
        judge: checks a returned value; if it returns an ErrorInfo or raises, the attempt has failed. A
            `CallResult` without an answer has failed in any case, and so has the reply of an SDK that is empty
            or broken.
        env: clock, randomness and notices; the real ones by default.
        reader: how the replies are read that the functions return, such as by a shape of yours.

    >>> import asyncio
    >>> from holdfast.resilience import Retry
    >>> guard = Guard(Pipeline.of(Retry()))
    >>> async def double(number):
    ...     return number * 2
    >>> asyncio.run(guard.call(double, 21))
    42
    """

    __slots__ = (
        "_classify",
        "_has_cache",
        "_judge",
        "_writes",
        "env",
        "operation",
        "pipeline",
        "reader",
    )

    @check_arguments
    def __init__(
        self,
        pipeline: Pipeline,
        *,
        effect: EffectKind = "idempotent",
        classify: Classify | None = None,
        judge: Judge | None = None,
        env: ExecutionContext | None = None,
        reader: ResponseReader = DEFAULT_READER,
    ) -> None:
        check_not_async("classify", classify)
        check_not_async("judge", judge)
        self.pipeline = pipeline
        self.reader = reader
        self._classify = classify
        self._judge = judge
        self._writes = effect == "write"
        self._has_cache = any(strategy.name == "cache" for strategy in pipeline.strategies)
        self.env = env or make_execution_context()
        self.operation = pipeline.wrap_operation(self._attempt_call)

    async def call(
        self, function: Callable[A, object], *args: A.args, **kwargs: A.kwargs
    ) -> object:
        """Call the function with these arguments and the strategies of the pipeline.

        A stream that the function returns is read up to its first piece, and returned as an object
        with the same attributes. The strategies do not see anything after that.

        Raises:
            ConfigurationError: the function is not callable, returns a context manager that sends
                the request later, or a cache would keep a stream.
            Exception: the last exception of the function, or the exception of a strategy.
        """
        return value_of(await run_guarded(self, CallArguments(function, args, kwargs)))

    def target(self, name: str, function: Callable[..., object]) -> FallbackTarget:
        """Return a fallback target that calls `function` with the same arguments."""
        check_call(function)

        async def call_fallback(call: CallContext[CallArguments]) -> Outcome[object]:
            return await self._call_function(function, call)

        return FallbackTarget(name, call_fallback)

    async def _attempt_call(self, call: CallContext[CallArguments]) -> Outcome[object]:
        return await self._call_function(call.payload.function, call)

    async def _call_function(
        self, function: Callable[..., object], call: CallContext[CallArguments]
    ) -> Outcome[object]:
        payload = call.payload
        bound = functools.partial(function, *payload.args, **payload.kwargs)
        reading = payload.reading
        if self._has_cache and reading is not None and reading.is_streamed:
            reading = None  # the stream itself is refused
        value = None
        inner = _InnerCall()
        token = _inner_call.set(inner)
        try:
            value = await _call_and_open(bound, call.key, reading)
            failure = None if reading is not None else _find_failure(value, self.reader)
            problem = None if failure or self._judge is None else self._judge(value)
        except Exception as error:  # noqa: BLE001  # REASON: here an exception becomes a value
            await close_opened(value)
            return self._fail(error, call, inner.count_attempts(error))
        finally:
            _inner_call.reset(token)
        if failure is not None:
            return self._fail(failure, call, inner.count_attempts(value))
        if is_lazy_manager(value):
            raise _late_work_error(call.key, "a context manager")
        if problem is not None:
            await close_opened(value)
            return Failed(exception_for(problem), problem, may_repeat=self._may_repeat(problem))
        if self._has_cache and await close_opened(value):
            raise _cached_stream_error(call.key)
        return Done(value, inner.count_attempts(value))

    def _fail(self, error: Exception, call: CallContext[CallArguments], attempts: int) -> Failed:
        info = classify_exception(error, self._classify, call.execution.clock)
        # The model was told what is wrong with its answer as often as the user allows.
        may_repeat = not isinstance(error, OutputError) and self._may_repeat(info)
        return Failed(error, info, attempts, may_repeat=may_repeat, sent=attempts > 0)

    def _may_repeat(self, info: ErrorInfo) -> bool:
        return not self._writes or info.landed is Landed.NO


async def run_guarded(guard: Guard, arguments: CallArguments) -> Outcome[object]:
    """Make a call with a guard; like `Guard.call`, with the failure as a value."""
    function = arguments.function
    check_call(function)
    name = getattr(function, "__qualname__", type(function).__name__)
    outcome = _with_attempts(await guard.operation(CallContext(name, arguments, guard.env)))
    if (around := _inner_call.get()) is not None:
        around.outcome = outcome
    return outcome


def value_of(outcome: Outcome[object]) -> object:
    """Return the value of an outcome, or raise its error."""
    if isinstance(outcome, Done):
        return outcome.value
    try:
        raise outcome.error
    finally:
        del outcome  # an exception that is reachable from its own frame is not freed at once


def make_execution_context(
    *,
    clock: Clock | None = None,
    rng: Rng | None = None,
    publish: Callable[[Notice], None] | None = None,
) -> ExecutionContext:
    """Return an execution context for calls outside of a run, with the real clock and randomness by default."""
    check_not_async("publish", publish)
    return ExecutionContext(clock or SystemClock(), rng or system_rng, publish)


async def run_callable(function: Callable[[], object], name: str) -> object:
    """Call a function without arguments: await it, or run it in a thread."""
    value = function() if is_async(function) else await _threads.run(ThreadCall(name, function))
    return await value if inspect.isawaitable(value) else value


async def _call_and_open(
    function: Callable[[], object], name: str, reading: Reading | None
) -> object:
    """Like `run_callable`; a stream is read up to its first piece, or by a reading to its end."""
    if is_async(function):
        value, has_read = function(), False
    else:
        value, has_read = await _call_in_thread(function, name, reading)
    if inspect.isawaitable(value):
        value = await value
        # litellm has one class for the streams of both of its clients.
        if is_stream(value) and not is_async_stream(value):
            value, has_read = await _call_in_thread(lambda: value, name, reading, value)
    if is_async_stream(value):
        value = await aopen_stream_start(value)
    if reading is None or has_read:
        return value
    try:
        return await reading.aread(value)
    except BaseException:
        await close_opened(value)
        raise


async def _call_in_thread(
    function: Callable[[], object], name: str, reading: Reading | None, stream: object = None
) -> tuple[object, bool]:
    """Return the value of the function, and whether the reading has read it."""
    call = CallInThread(function, stream, None if reading is None else reading.read)
    try:
        return await _threads.run(ThreadCall(name, call)), call.has_read
    except BaseException:  # the caller left, or no thread is free
        call.abandon()
        raise


def _find_failure(value: object, reader: ResponseReader) -> Exception | None:
    """Return the error of a result or of an SDK's reply that is no answer; None for any other value."""
    if type(value) is CallResult:
        return value.error
    if not is_known_reply(value, reader):
        return None
    from holdfast.calls.response_handler import find_passing_failure  # only for replies

    return find_passing_failure(value, reader)


def _with_attempts(outcome: Outcome[object]) -> Outcome[object]:
    """Return the outcome, whose result says how many attempts it took."""
    if type(outcome) is not Done or type(outcome.value) is not CallResult:
        return outcome
    if outcome.value.attempts == outcome.attempts:
        return outcome
    return replace(outcome, value=replace(outcome.value, attempts=outcome.attempts))


def check_call(function: object) -> None:
    """Raise ConfigurationError unless the function can be called more than once."""
    if inspect.iscoroutine(function):
        function.close()
        raise ConfigurationError(
            "function",
            "is a coroutine, which can run only once",
            fix="Pass the function and its arguments: execute(pipeline, f, x), not f(x)",
        )
    check_value("function", function, Callable)


def check_repeatable(function: object) -> None:
    """Like `check_call`, but the work must not happen after the call, as in a generator."""
    check_call(function)
    plain = unwrap_partial(function)
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        name = getattr(plain, "__qualname__", "function")
        raise _late_work_error(name, "a generator")


def _late_work_error(name: str, kind: str) -> ConfigurationError:
    return ConfigurationError(
        "function",
        f"{name} returns {kind}, whose work happens after the call",
        fix="Wrap a function that reads the whole response and returns it",
    )


def _cached_stream_error(name: str) -> ConfigurationError:
    return ConfigurationError(
        "pipeline",
        f"has a cache, which cannot keep the stream that {name} returns",
        fix="Wrap a function that reads the whole response and returns it, or leave the cache out",
    )
