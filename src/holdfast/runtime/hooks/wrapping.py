"""Puts wrap hooks around an operation, as strategies are put around it: an outcome stays a value.

A hook calls the operation and gets its value, or an exception if it failed. This module must never
suppress a cancellation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from holdfast.core.errors import HoldfastError, MiddlewareError, read_error_info
from holdfast.middleware.chain import Hook
from holdfast.middleware.hook_calls import hook_failure, is_enabled
from holdfast.middleware.hook_contexts import HookContext
from holdfast.resilience.pipeline import Done, Failed, Outcome

M = TypeVar("M", bound=HookContext)
T = TypeVar("T")


def wrap_with_hooks(
    hooks: Sequence[Hook], operation: Callable[[M], Awaitable[Outcome[T]]]
) -> Callable[[M], Awaitable[Outcome[T]]]:
    """Return the operation with the wrap hooks around it, the first one outermost.

    Args:
        hooks: the hooks, in the order of registration.
        operation: the innermost call.
    """
    for hook in reversed(hooks):
        operation = _wrap_with_hook(hook, operation)
    return operation


def _wrap_with_hook(
    hook: Hook, operation: Callable[[M], Awaitable[Outcome[T]]]
) -> Callable[[M], Awaitable[Outcome[T]]]:
    async def wrapped(context: M) -> Outcome[T]:
        outcomes: list[Outcome[T]] = []

        async def call_next(inner: M) -> T:
            outcome = await operation(inner)
            outcomes.append(outcome)
            if isinstance(outcome, Done):
                return outcome.value
            raise outcome.error

        try:
            if not is_enabled(hook, context.facts):
                return await operation(context)
            answer = await hook.function(context, call_next)
            _check_wrapped(hook, answer)
        except Exception as error:  # noqa: BLE001  # REASON: hooks are the user's code
            return _failed_wrap(hook, error, outcomes)
        if not outcomes:
            return Done(answer, attempts=0)
        last = outcomes[-1]
        return Done(answer, last.attempts, last.tried, last.carry)

    return wrapped


def _check_wrapped(hook: Hook, answer: object) -> None:
    if not isinstance(answer, hook.allowed):
        expected = hook.allowed[0].__name__
        problem = f"returned {type(answer).__name__}; it must return {expected}"
        raise MiddlewareError(hook.owner, hook.name, problem)


def _failed_wrap(hook: Hook, error: Exception, outcomes: Sequence[Outcome[T]]) -> Failed:
    """Return the outcome of a wrap hook that raised: a failure of the operation, or its own."""
    for outcome in outcomes:
        if isinstance(outcome, Failed) and outcome.error is error:
            return outcome
    if not isinstance(error, HoldfastError):
        failure = hook_failure(hook, error)
        failure.__cause__ = error
        error = failure
    if not outcomes:
        return Failed(error, read_error_info(error), attempts=0)
    last = outcomes[-1]
    # The operation may have taken effect before the hook failed, unless its own failure denies it.
    had_no_effect = not last.attempts or (isinstance(last, Failed) and last.may_repeat)
    return Failed(
        error,
        read_error_info(error),
        last.attempts,
        may_repeat=had_no_effect,
        tried=last.tried,
        carry=last.carry,
    )
