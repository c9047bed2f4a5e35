"""Functions that are guarded: the decorator `resilient`, and calls of its functions whose reader is outside of it.

Who reads what a guarded function returns (`send_message`) gives its reader to the guard. So what it would only report
is a failed attempt there. This module must never read a response itself.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import NamedTuple, ParamSpec, TypeVar, cast, overload

from holdfast.calls.exception_rules import Classify
from holdfast.calls.guard import (
    CallArguments,
    EffectKind,
    Guard,
    Judge,
    Reading,
    check_call,
    run_guarded,
    value_of,
)
from holdfast.calls.opened_streams import OpenedAsyncStream
from holdfast.calls.response_reader import DEFAULT_READER, ResponseReader
from holdfast.core.argument_checks import is_async, unwrap_partial
from holdfast.core.errors import ConfigurationError
from holdfast.resilience.cache.decision import KeyOf, canonical_key
from holdfast.resilience.pipeline import ExecutionContext, Outcome, Pipeline, Strategy
from holdfast.resilience.retry.strategy import Retry

A = ParamSpec("A")
R = TypeVar("R")

_MARK = "_holdfast_guarded"


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
    reader: ResponseReader = DEFAULT_READER,
) -> Callable[[Callable[A, R]], Callable[A, R]]: ...
def resilient(
    *strategies: Strategy | Callable[..., object] | None,
    effect: EffectKind = "idempotent",
    classify: Classify | None = None,
    judge: Judge | None = None,
    env: ExecutionContext | None = None,
    reader: ResponseReader = DEFAULT_READER,
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
        reader: as in `Guard`.

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
        Pipeline.of(*pipeline_strategies),
        effect=effect,
        classify=classify,
        judge=judge,
        env=env,
        reader=reader,
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

    wrapper: Callable[A, object] = waiting if is_async(function) else blocking
    if inspect.isasyncgenfunction(unwrap_partial(function)):
        wrapper = streaming
    # `functools.wraps` copies the mark to a wrapper of the user, which is not the guarded function.
    setattr(wrapper, _MARK, (wrapper, guard, function))
    return cast("Callable[A, R]", wrapper)


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


class GuardedCall(NamedTuple):
    """A call of a guarded function, with the arguments that it has already."""

    guard: Guard
    function: Callable[..., object]
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    is_blocking: bool

    async def run(self, reading: Reading) -> Outcome[object]:
        """Make the call, and read its values inside of the innermost attempts."""
        inner = find_guarded_call(self.function, self.args, self.kwargs)
        if inner is None:
            arguments = CallArguments(self.function, self.args, self.kwargs, reading)
            return await run_guarded(self.guard, arguments)

        @functools.wraps(self.function)
        async def call_inner(*_args: object, **_kwargs: object) -> object:
            return value_of(await inner.run(reading))

        return await run_guarded(self.guard, CallArguments(call_inner, self.args, self.kwargs))

    def run_blocking(self, reading: Reading) -> Outcome[object]:
        """Like `run`, without an event loop.

        Raises:
            ConfigurationError: an event loop runs.
        """
        _refuse_running_loop(self.function)
        return asyncio.run(self.run(reading))


def find_guarded_call(
    call: object, args: tuple[object, ...], kwargs: Mapping[str, object]
) -> GuardedCall | None:
    """Return what a call does if it is one of a guarded function, or None.

    Args:
        call: a function that `resilient` made or a method of that kind, `Guard.call`, `execute`, or a
            `functools.partial` of one of these.
        args: the arguments by position.
        kwargs: the arguments by name.

    >>> find_guarded_call(resilient(max), (7, 2), {}).function is max, find_guarded_call(max, (7, 2), {})
    (True, None)
    """
    while isinstance(call, functools.partial):
        args, kwargs, call = (*call.args, *args), {**call.keywords, **kwargs}, call.func
    if inspect.ismethod(call):
        args, call = (call.__self__, *args), call.__func__
    if call is execute and args and isinstance(args[0], Pipeline):
        args, call = (Guard(args[0]), *args[1:]), Guard.call
    if call is Guard.call and len(args) > 1:
        guard, function, *rest = args
        if isinstance(guard, Guard) and callable(function):
            return GuardedCall(guard, function, tuple(rest), kwargs, is_blocking=False)
        return None
    found = getattr(call, _MARK, None)
    if found is None or found[0] is not call:
        return None
    return GuardedCall(
        found[1],
        found[2],
        args,
        kwargs,
        not (is_async(found[2]) or inspect.isasyncgenfunction(unwrap_partial(found[2]))),
    )


def _is_strategy(value: object) -> bool:
    return hasattr(value, "wrap") and hasattr(value, "describe")


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
