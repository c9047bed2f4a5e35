"""Runs any callable with strategies: a call of a vendor's SDK, an HTTP request, your own function.

A failed call raises the exception of the callable, with notes that tell why it was not retried. An
async callable runs in the event loop. A synchronous one runs in a thread, so that it does not block
the loop and a timeout returns to the caller; Python cannot stop the thread, which is then abandoned.
A stream or a generator is read up to its first piece in the attempt, and then belongs to its reader.
A `CallResult` without an answer is a failed attempt.
Turn off the retries of a client library that you wrap, because the two numbers of attempts multiply.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Literal, ParamSpec, TypeAlias, TypeVar, cast, overload

from msgspec import Struct

from holdfast.calls.call_result import CallResult
from holdfast.calls.exception_rules import Classify, classify_exception
from holdfast.calls.opened_streams import (
    CallInThread,
    OpenedAsyncStream,
    aopen_stream_start,
    close_opened,
    is_async_stream,
    is_lazy_manager,
    is_stream,
)
from holdfast.core.argument_checks import check_arguments, check_value
from holdfast.core.errors import ConfigurationError, ErrorInfo, Landed, exception_for
from holdfast.core.notices import Notice
from holdfast.resilience.cache.decision import KeyOf, canonical_key
from holdfast.resilience.clock import Clock, Rng
from holdfast.resilience.fallback.options import FallbackTarget
from holdfast.resilience.pipeline import (
    CallContext,
    Done,
    ExecutionContext,
    Failed,
    Outcome,
    Pipeline,
    Strategy,
)
from holdfast.resilience.retry.strategy import Retry
from holdfast.resilience.system_clock import SystemClock, system_rng
from holdfast.tools.threads import ThreadCall, ToolThreads

A = ParamSpec("A")
R = TypeVar("R")

EffectKind = Literal["read", "idempotent", "write"]
Judge: TypeAlias = Callable[[object], ErrorInfo | None]

_threads = ToolThreads()


class CallArguments(Struct, frozen=True):
    """The payload of an operation: a callable and its arguments."""

    function: Callable[..., object]
    args: tuple[object, ...] = ()
    kwargs: Mapping[str, object] = {}


class Guard:
    """Calls functions with a pipeline of strategies; one guard serves many calls.

    Args:
        pipeline: the strategies; `Pipeline.of(...)` puts them in order.
        effect: "write" for a call that must not be repeated if it may have taken effect.
        classify: classifies an exception; the default knows the vendors' SDKs, the HTTP clients and
            Python's own exceptions.
        judge: checks a returned value; if it returns an ErrorInfo or raises, the attempt has failed. A
            `CallResult` without an answer has failed in any case.
        env: clock, randomness and notices; the real ones by default.

    >>> guard = Guard(Pipeline.of(Retry()))
    >>> async def double(number):
    ...     return number * 2
    >>> asyncio.run(guard.call(double, 21))
    42
    """

    __slots__ = ("_classify", "_env", "_has_cache", "_judge", "_operation", "_writes", "pipeline")

    @check_arguments
    def __init__(
        self,
        pipeline: Pipeline,
        *,
        effect: EffectKind = "idempotent",
        classify: Classify | None = None,
        judge: Judge | None = None,
        env: ExecutionContext | None = None,
    ) -> None:
        self.pipeline = pipeline
        self._classify = classify
        self._judge = judge
        self._writes = effect == "write"
        self._has_cache = any(strategy.name == "cache" for strategy in pipeline.strategies)
        self._env = env or make_execution_context()
        self._operation = pipeline.wrap_operation(self._attempt_call)

    async def call(
        self, function: Callable[A, object], *args: A.args, **kwargs: A.kwargs
    ) -> object:
        """Call the function with these arguments and the strategies of the pipeline.

        A stream that the function returns is read up to its first piece, and returned as an object
        with the same attributes. The strategies do not see what happens after that.

        Raises:
            ConfigurationError: the function is not callable, returns a context manager that sends
                the request later, or a cache would keep a stream.
            Exception: the last exception of the function, or the exception of a strategy.
        """
        check_call(function)
        name = getattr(function, "__qualname__", type(function).__name__)
        outcome = await self._operation(
            CallContext(name, CallArguments(function, args, kwargs), self._env)
        )
        if isinstance(outcome, Done):
            return outcome.value
        try:
            raise outcome.error
        finally:
            del outcome  # an exception that is reachable from its own frame is not freed at once

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
        bound = functools.partial(function, *call.payload.args, **call.payload.kwargs)
        value = None
        try:
            value = await _call_and_open(bound, call.key)
            problem = self._judge(value) if self._judge is not None else None
        except Exception as error:  # noqa: BLE001  # REASON: here an exception becomes a value
            await close_opened(value)
            return self._fail(error, call)
        if is_lazy_manager(value):
            raise _late_work_error(call.key, "a context manager")
        if isinstance(value, CallResult) and value.error is not None:
            return self._fail(value.error, call)
        if problem is not None:
            await close_opened(value)
            return Failed(exception_for(problem), problem, may_repeat=self._may_repeat(problem))
        if self._has_cache and await close_opened(value):
            raise _cached_stream_error(call.key)
        return Done(value)

    def _fail(self, error: Exception, call: CallContext[CallArguments]) -> Failed:
        info = classify_exception(error, self._classify, call.execution.clock)
        return Failed(error, info, may_repeat=self._may_repeat(info))

    def _may_repeat(self, info: ErrorInfo) -> bool:
        return not self._writes or info.landed is Landed.NO


@overload
async def execute(
    pipeline: Pipeline, function: Callable[A, Awaitable[R]], *args: A.args, **kwargs: A.kwargs
) -> R: ...
@overload
async def execute(
    pipeline: Pipeline, function: Callable[A, R], *args: A.args, **kwargs: A.kwargs
) -> R: ...
async def execute(
    pipeline: Pipeline, function: Callable[A, object], *args: A.args, **kwargs: A.kwargs
) -> object:
    """Call a function once with these strategies; for many calls, create a `Guard`.

    >>> asyncio.run(execute(Pipeline.of(Retry()), max, 1, 2))
    2
    """
    return await Guard(pipeline).call(function, *args, **kwargs)


@overload
def resilient(function: Callable[A, R], /) -> Callable[A, R]: ...
@overload
def resilient(
    *strategies: Strategy | None,
    effect: EffectKind = "idempotent",
    classify: Classify | None = None,
    judge: Judge | None = None,
    env: ExecutionContext | None = None,
) -> Callable[[Callable[A, R]], Callable[A, R]]: ...
def resilient(
    *strategies: Strategy | Callable[..., object] | None,
    effect: EffectKind = "idempotent",
    classify: Classify | None = None,
    judge: Judge | None = None,
    env: ExecutionContext | None = None,
) -> object:
    """A decorator that calls a function with these strategies.

    `@resilient` without arguments is `@resilient(Retry())`. An async function or generator stays async. A
    synchronous one stays synchronous: it blocks its caller, and cannot be called inside a running
    event loop.

    Args:
        strategies: the strategies, in any order; the pipeline sorts them.
        effect: as in `Guard`.
        classify: as in `Guard`.
        judge: as in `Guard`.
        env: as in `Guard`.

    >>> @resilient(Retry())
    ... def divide(a, b):
    ...     return a // b
    >>> divide(7, 2)
    3
    >>> divide(7, 0)
    Traceback (most recent call last):
    ...
    ZeroDivisionError: integer division or modulo by zero
    """
    if (
        len(strategies) == 1
        and (function := strategies[0]) is not None
        and not _is_strategy(function)
    ):
        check_call(function)
        return resilient(Retry())(cast("Callable[..., object]", function))
    pipeline_strategies = cast("tuple[Strategy | None, ...]", strategies) or (Retry(),)
    guard = Guard(
        Pipeline.of(*pipeline_strategies), effect=effect, classify=classify, judge=judge, env=env
    )

    def decorate(function: Callable[A, R]) -> Callable[A, R]:
        return _wrap_function(guard, function)

    return decorate


def _wrap_function(guard: Guard, function: Callable[A, R]) -> Callable[A, R]:
    """Return a function of the same kind that calls this one with a guard."""
    check_call(function)

    @functools.wraps(function)
    async def streaming(*args: A.args, **kwargs: A.kwargs) -> AsyncIterator[object]:
        stream = await guard.call(function, *args, **kwargs)
        async with cast("OpenedAsyncStream", stream) as pieces:
            async for piece in pieces:
                yield piece

    @functools.wraps(function)
    async def waiting(*args: A.args, **kwargs: A.kwargs) -> object:
        return await guard.call(function, *args, **kwargs)

    @functools.wraps(function)
    def blocking(*args: A.args, **kwargs: A.kwargs) -> object:
        _refuse_running_loop(function)
        return asyncio.run(guard.call(function, *args, **kwargs))

    if inspect.isasyncgenfunction(_unwrap_partial(function)):
        return cast("Callable[A, R]", streaming)
    return cast("Callable[A, R]", waiting if is_async(function) else blocking)


def _is_strategy(value: object) -> bool:
    return hasattr(value, "wrap") and hasattr(value, "describe")


def make_execution_context(
    *,
    clock: Clock | None = None,
    rng: Rng | None = None,
    publish: Callable[[Notice], None] | None = None,
) -> ExecutionContext:
    """Return an execution context for calls outside of a run, with the real clock and randomness by default."""
    return ExecutionContext(clock or SystemClock(), rng or system_rng, publish)


def arguments_key(scope: str) -> KeyOf:
    """Return the key function of a `Cache` around a function: its name and all arguments.

    A call with arguments that JSON cannot express has no key and is not cached.

    Args:
        scope: the account or the credentials; values are never shared with another scope.

    Raises:
        ConfigurationError: the scope is empty.

    >>> from holdfast.resilience import Cache, CacheOptions, Store
    >>> cached = resilient(Cache(Store(CacheOptions()), arguments_key("my account"), len))(str.upper)
    >>> cached("a"), cached("a")
    ('A', 'A')
    """
    if not scope:
        raise ConfigurationError("scope", "must name the account or the credentials")

    def key_of(payload: object) -> str | None:
        if not isinstance(payload, CallArguments):
            return None
        function = payload.function
        name = (getattr(function, "__module__", ""), getattr(function, "__qualname__", ""))
        if not name[1]:
            return None
        return canonical_key((scope, name, payload.args, payload.kwargs))

    return key_of


async def run_callable(function: Callable[[], object], name: str) -> object:
    """Call a function without arguments: await it, or run it in a thread."""
    value = function() if is_async(function) else await _threads.run(ThreadCall(name, function))
    return await value if inspect.isawaitable(value) else value


async def _call_and_open(function: Callable[[], object], name: str) -> object:
    """Like `run_callable`; a stream is read up to its first piece."""
    value = function() if is_async(function) else await _call_in_thread(function, name)
    if inspect.isawaitable(value):
        value = await value
        if is_stream(value):
            value = await _call_in_thread(lambda: value, name)
    return await aopen_stream_start(value) if is_async_stream(value) else value


async def _call_in_thread(function: Callable[[], object], name: str) -> object:
    call = CallInThread(function)
    try:
        return await _threads.run(ThreadCall(name, call))
    except asyncio.CancelledError:
        call.abandon()
        raise


def _unwrap_partial(function: object) -> object:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def is_async(function: Callable[..., object]) -> bool:
    """Whether a call returns a coroutine: of a coroutine function, or of an object with an async `__call__`."""
    function = cast("Callable[..., object]", _unwrap_partial(function))
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(type(function), "__call__", None)  # noqa: B004  # the type of __call__ matters
    )


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
    plain = _unwrap_partial(function)
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


def _refuse_running_loop(function: Callable[..., object]) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    name = getattr(function, "__qualname__", "function")
    raise ConfigurationError(
        "function",
        f"{name} is synchronous and would block the running event loop",
        fix=f"Write `await execute(pipeline, {name}, ...)`, or make it async",
    )
