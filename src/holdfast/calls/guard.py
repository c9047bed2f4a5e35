"""The strategies around any callable: a vendor's SDK call, an HTTP request, a function of your own.

What is raised in the end is what the callable raised, with notes that say why it was not tried
again. An async callable runs as it is. A synchronous one runs in a thread, so that it blocks no event
loop and a timeout releases the caller; Python cannot stop the thread, which is then abandoned. A
generator is refused: its work happens after the call, where nothing can repeat it. Turn off the
retries of a client library that you wrap, or the two will multiply. This module must never hide
what was raised.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, ParamSpec, TypeAlias, TypeVar, cast, overload

from msgspec import Struct

from holdfast.calls.exception_rules import Classify, classify_exception
from holdfast.core.argument_checks import check_instance, check_optional_callable
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
    """The payload: a callable and its arguments."""

    function: Callable[..., object]
    args: tuple[object, ...] = ()
    kwargs: Mapping[str, object] = {}


class Guard:
    """Calls functions with strategies around them; make one and use it for many calls.

    Args:
        pipeline: the strategies; `Pipeline.of(...)` puts them in order.
        effect: "write" for what must not be done twice when it may have landed.
        classify: what an exception means; the default knows the vendors' SDKs, the HTTP clients
            and Python's own.
        judge: what a returned value means; an ErrorInfo makes the attempt a failure, and so does
            an exception.
        env: time, chance and notices; the real ones when absent.

    >>> guard = Guard(Pipeline.of(Retry()))
    >>> async def double(number):
    ...     return number * 2
    >>> asyncio.run(guard.schedule(double, 21))
    42
    """

    __slots__ = ("_classify", "_env", "_judge", "_operation", "_writes", "pipeline")

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        effect: EffectKind = "idempotent",
        classify: Classify | None = None,
        judge: Judge | None = None,
        env: ExecutionContext | None = None,
    ) -> None:
        if not isinstance(pipeline, Pipeline):
            raise ConfigurationError(
                "pipeline",
                f"must be a Pipeline, got {type(pipeline).__name__}",
                fix="Write Pipeline.of(Retry(), ...)",
            )
        if effect not in ("read", "idempotent", "write"):
            raise ConfigurationError("effect", 'must be "read", "idempotent" or "write"')
        check_optional_callable("classify", classify)
        check_optional_callable("judge", judge)
        check_instance("env", env, ExecutionContext, optional=True)
        self.pipeline = pipeline
        self._classify = classify
        self._judge = judge
        self._writes = effect == "write"
        self._env = env or make_execution_context()
        self._operation = pipeline.wrap_operation(self._attempt_call)

    async def call(
        self, function: Callable[A, object], *args: A.args, **kwargs: A.kwargs
    ) -> object:
        """Call the function with these arguments, as safely as the pipeline makes it.

        Raises:
            ConfigurationError: the function is none, or makes a generator.
            Exception: what the function raised last, or what a strategy says in its place.
        """
        check_repeatable(function)
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
        """A function to fall back to; it is given the same arguments."""
        check_repeatable(function)

        async def act(call: CallContext[CallArguments]) -> Outcome[object]:
            return await self._call_function(function, call)

        return FallbackTarget(name, act)

    async def _attempt_call(self, call: CallContext[CallArguments]) -> Outcome[object]:
        return await self._call_function(call.payload.function, call)

    async def _call_function(
        self, function: Callable[..., object], call: CallContext[CallArguments]
    ) -> Outcome[object]:
        bound = functools.partial(function, *call.payload.args, **call.payload.kwargs)
        try:
            value = await run_callable(bound, call.key)
            bad = self._judge(value) if self._judge is not None else None
        except Exception as error:  # noqa: BLE001  # REASON: here an exception becomes a value
            info = classify_exception(error, self._classify, call.execution.clock)
            return Failed(error, info, may_repeat=self._may_repeat(info))
        if inspect.isgenerator(value) or inspect.isasyncgen(value):
            raise _generator_error(call.key)
        if bad is not None:
            return Failed(exception_for(bad), bad, may_repeat=self._may_repeat(bad))
        return Done(value)

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
    """Call a function once with strategies around it; for many calls, make a `Guard`.

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
    """Decorate a function with strategies; without arguments, with retries.

    `@resilient` alone is `@resilient(Retry())`. An async function stays async. A synchronous one stays synchronous: it blocks its caller, as it
    did, and cannot be called where an event loop runs.

    Args:
        strategies: in any order; the pipeline has its own.
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
    if len(strategies) == 1 and (bare := strategies[0]) is not None and not _is_strategy(bare):
        check_repeatable(bare)
        return resilient(Retry())(cast("Callable[..., object]", bare))
    chosen = cast("tuple[Strategy | None, ...]", strategies) or (Retry(),)
    guard = Guard(Pipeline.of(*chosen), effect=effect, classify=classify, judge=judge, env=env)

    def decorate(function: Callable[A, R]) -> Callable[A, R]:
        check_repeatable(function)

        @functools.wraps(function)
        async def waiting(*args: A.args, **kwargs: A.kwargs) -> object:
            return await guard.call(function, *args, **kwargs)

        @functools.wraps(function)
        def blocking(*args: A.args, **kwargs: A.kwargs) -> object:
            _refuse_running_loop(function)
            return asyncio.run(guard.call(function, *args, **kwargs))

        return cast("Callable[A, R]", waiting if is_async(function) else blocking)

    return decorate


def _is_strategy(value: object) -> bool:
    return hasattr(value, "wrap") and hasattr(value, "describe")


def make_execution_context(
    *,
    clock: Clock | None = None,
    rng: Rng | None = None,
    publish: Callable[[Notice], None] | None = None,
) -> ExecutionContext:
    """Time, chance and notices for calls outside of a run; the real ones for what is absent."""
    return ExecutionContext(clock or SystemClock(), rng or system_rng, publish)


def arguments_key(scope: str) -> KeyOf:
    """The cache's key function for calls: the function's name and all arguments, for one account.

    Arguments without a JSON form have no key, and then nothing is cached.
    """
    if not scope:
        raise ConfigurationError(
            "cache.scope", "must name the credentials, or what stands for them"
        )

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
    """The value of any callable without arguments: awaited, or run in a thread."""
    value = function() if is_async(function) else await _threads.run(ThreadCall(name, function))
    return await value if inspect.isawaitable(value) else value


def is_async(function: Callable[..., object]) -> bool:
    """Whether calling it gives a coroutine: a coroutine function, or an object whose call is one."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(type(function), "__call__", None)  # noqa: B004  # its kind is asked, not whether it is
    )


def check_repeatable(function: object) -> None:
    """Raise ConfigurationError unless it can be called, and called again."""
    if inspect.iscoroutine(function):
        function.close()
        raise ConfigurationError(
            "function",
            "is a coroutine, which can run only once",
            fix="Pass the function and its arguments: execute(pipeline, f, x), not f(x)",
        )
    if not callable(function):
        raise ConfigurationError("function", f"must be callable, got {type(function).__name__}")
    plain: object = function
    while isinstance(plain, functools.partial):
        plain = plain.func
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        raise _generator_error(getattr(plain, "__qualname__", "function"))


def _generator_error(name: str) -> ConfigurationError:
    return ConfigurationError(
        "function",
        f"{name} makes a generator, whose work happens after the call",
        fix="Wrap a function that reads the whole answer and returns it",
    )


def _refuse_running_loop(function: Callable[..., object]) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    name = getattr(function, "__qualname__", "function")
    raise ConfigurationError(
        "function",
        f"{name} is synchronous and was called where an event loop runs, which it would block",
        fix=f"Write `await execute(pipeline, {name}, ...)`, or make it async",
    )
