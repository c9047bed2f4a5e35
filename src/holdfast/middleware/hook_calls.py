"""Calls hooks: a single one, several in order, or wrap hooks around an operation.

It applies the condition and the timeout of each hook and checks what it returns. This module must
never swallow a cancellation, and must never pass on a return value that is not a decision.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from types import coroutine
from typing import Any, TypeVar, cast

from msgspec import Struct

from holdfast.core.errors import HoldfastError, MiddlewareError
from holdfast.core.redaction import redact
from holdfast.middleware.chain import Hook
from holdfast.middleware.decisions import Decision
from holdfast.middleware.hook_contexts import HookContext

M = TypeVar("M", bound=HookContext)


def has_active_hooks(hooks: Sequence[Hook], states: Mapping[int, object]) -> bool:
    """Whether one of the hooks may have something to do, so that its context must be made.

    Args:
        hooks: the hooks of one kind.
        states: the states of their middlewares.
    """
    try:
        for hook in hooks:
            if (idle := hook.idle) is None or not idle(states[hook.key]):
                return True
    except Exception:  # noqa: BLE001  # REASON: `idle` is the user's code
        return True  # the failure is reported when the hook is called
    return False


async def call_hook(hook: Hook, context: HookContext) -> Decision | None:
    """Return the decision of one hook. Raises MiddlewareError when it fails; passes on cancellation."""
    if hook.idle is not None or hook.when is not None:
        first = find_pending_hooks((hook,), context)
        if first is None:
            return None
        if first.condition_failure is not None:
            raise first.condition_failure
    decision = _begin_hook(hook, context)
    return await decision.finish() if isinstance(decision, _SuspendedHook) else decision


def _begin_hook(hook: Hook, context: HookContext) -> Decision | _SuspendedHook | None:
    """Run a hook up to its first wait. Return its decision, or the suspended hook.

    Most hooks wait for nothing, so they need neither a timer nor another coroutine. Raises
    MiddlewareError when the hook fails.
    """
    try:
        running = hook.function(context)
        try:
            first = running.send(None)
        except StopIteration as done:
            answer = done.value
            return None if answer is None else _check_decision(hook, answer)
    except MiddlewareError:
        raise
    except Exception as error:  # REASON: hooks are the user's code
        raise hook_failure(hook, error) from error
    return _SuspendedHook(hook, context, running, first)


class _SuspendedHook(Struct, frozen=True):
    """A hook that waits for something. Only such a hook needs a timeout."""

    hook: Hook
    context: HookContext
    running: Coroutine[Any, Any, object]
    awaited: object

    async def finish(self) -> Decision | None:
        """Wait for the decision. Raises what `call_hook` raises."""
        try:
            answer = await _finish_hook(self.hook, self.context, self.running, self.awaited)
        except MiddlewareError:
            raise
        except Exception as error:  # REASON: hooks are the user's code
            raise hook_failure(self.hook, error) from error
        return None if answer is None else _check_decision(self.hook, answer)


def _check_decision(hook: Hook, answer: object) -> Decision:
    if not isinstance(answer, hook.allowed):
        raise MiddlewareError(hook.owner, hook.name, _describe_wrong_return(hook, answer))
    return cast("Decision", answer)


def hook_failure(hook: Hook, error: Exception) -> MiddlewareError:
    """Return the error for a hook that raised; the details are private."""
    name = type(error).__name__
    return MiddlewareError(
        hook.owner, hook.name, f"raised {name}", private=redact(f"{name}: {error}")
    )


def _describe_wrong_return(hook: Hook, answer: object) -> str:
    allowed = ", ".join(kind.__name__ for kind in hook.allowed)
    expected = f"None or one of {allowed}" if allowed else "None"
    return f"returned {type(answer).__name__}; it may return {expected}"


async def _finish_hook(
    hook: Hook, context: HookContext, running: Coroutine[Any, Any, object], awaited: object
) -> object:
    """Continue a hook that waits for something, with its timeout."""
    if hook.seconds is None:
        return await _resume_coroutine(running, awaited)
    limit = asyncio.timeout(hook.seconds)
    try:
        async with limit:
            with context.facts.pausable_timeout(limit):
                return await _resume_coroutine(running, awaited)
    except TimeoutError:
        if not limit.expired():
            raise
        problem = f"did not end within {hook.seconds:g} s"
        raise MiddlewareError(hook.owner, hook.name, problem) from None


@coroutine
def _resume_coroutine(
    running: Coroutine[Any, Any, object], awaited: object
) -> Generator[Any, Any, object]:
    """Await a coroutine that has already begun; `awaited` is what it yielded last."""
    while True:
        thrown: BaseException | None = None
        sent = None
        try:
            sent = yield awaited
        except GeneratorExit:
            running.close()
            raise
        except BaseException as error:  # noqa: BLE001  # REASON: whatever comes is the hook's
            thrown = error
        try:
            awaited = running.send(sent) if thrown is None else running.throw(thrown)
        except StopIteration as done:
            return cast("object", done.value)


class PendingHooks(Struct, frozen=True):
    """A hook that may have something to do, and the hooks after it.

    `condition_failure` is the error that its condition raised.
    """

    hook: Hook
    remaining: Iterator[Hook]
    condition_failure: MiddlewareError | None = None


def find_pending_hooks(hooks: Iterable[Hook], context: HookContext) -> PendingHooks | None:
    """Return the first of the hooks that may have something to do.

    There is nearly always none, and then the only cost is that of the conditions.
    """
    states, remaining = context.facts.states, iter(hooks)
    for hook in remaining:
        # Outside of the call of the hook: a StopIteration raised by a condition is a failure.
        try:
            if (idle := hook.idle) is not None:
                if not idle(states[hook.key]):
                    return PendingHooks(hook, remaining)
            elif (when := hook.when) is None or when(context):
                return PendingHooks(hook, remaining)
        except MiddlewareError as error:
            return PendingHooks(hook, remaining, error)
        except Exception as error:  # noqa: BLE001  # REASON: conditions are the user's code
            failure = hook_failure(hook, error)
            failure.__cause__ = error
            return PendingHooks(hook, remaining, failure)
    return None


async def call_each(
    first: PendingHooks | None,
    context: M,
    apply_decision: Callable[[M, Hook, Decision], M | None],
    failures: list[MiddlewareError] | None = None,
) -> M:
    """Call hooks in order until a decision ends the chain.

    Args:
        first: the first hook to call: `find_pending_hooks(hooks, context)`.
        context: the context of the first hook.
        apply_decision: returns the context of the next hook after a decision; None ends the chain.
        failures: collects the errors, for `collect_failures`. Without it, the first error is raised.

    Raises:
        MiddlewareError: a hook failed.
    """
    while first is not None:
        try:
            if first.condition_failure is not None:
                raise first.condition_failure
            decision = _begin_hook(first.hook, context)
            if isinstance(decision, _SuspendedHook):
                decision = await decision.finish()
        except MiddlewareError as error:
            if failures is None:
                raise
            failures.append(error)
            decision = None
        if decision is not None:
            if (after := apply_decision(context, first.hook, decision)) is None:
                return context
            context = after
        first = find_pending_hooks(first.remaining, context)
    return context


async def call_after(
    hooks: Sequence[Hook], context: M, apply_decision: Callable[[M, Hook, Decision], M]
) -> tuple[M, MiddlewareError | None]:
    """Call all after hooks, also when some of them raise.

    Args:
        hooks: the hooks, in the order of the calls.
        context: the context of the first hook.
        apply_decision: returns the context of the next hook after a decision.

    Returns:
        The context after all decisions, and one error for all failures; its cause is an
        ExceptionGroup.
    """
    failures: list[MiddlewareError] = []
    context = await call_each(find_pending_hooks(hooks, context), context, apply_decision, failures)
    return context, collect_failures(hooks[0].name, failures) if failures else None


_HOOK_LABELS = {"after_turn": "AfterMessageTurn", "after_tool": "AfterFunction"}


def collect_failures(name: str, failures: list[MiddlewareError]) -> MiddlewareError:
    """One error for what several after hooks raised."""
    first = failures[0]
    label = _HOOK_LABELS.get(name) or "".join(map(str.capitalize, name.split("_")))
    summary = f"One or more {label} middleware hooks failed"
    private = "; ".join(f"{failure}: {failure.info.private}" for failure in failures)
    error = MiddlewareError(
        first.middleware,
        first.hook,
        f"{first.problem}. {summary} ({len(failures)})",
        private=private,
    )
    error.__cause__ = ExceptionGroup(summary, failures)
    return error


Next = Callable[[Any], Awaitable[Any]]  # takes the context of a wrap hook, returns its outcome


def wrap_with_hooks(hooks: Sequence[Hook], operation: Next) -> Next:
    """Return the operation with the wrap hooks around it, the first one outermost.

    Args:
        hooks: the hooks, in the order of registration.
        operation: the innermost call.
    """
    for hook in reversed(hooks):
        operation = _wrap_with_hook(hook, operation)
    return operation


def _wrap_with_hook(hook: Hook, operation: Next) -> Next:
    async def wrapped(context: HookContext) -> object:
        inner_errors: list[Exception] = []

        async def call_next(inner: HookContext) -> object:
            try:
                return cast("object", await operation(inner))
            except Exception as error:
                inner_errors.append(error)
                raise

        try:
            if hook.idle is not None and hook.idle(context.facts.states[hook.key]):
                return await call_next(context)
            if hook.when is not None and not hook.when(context):
                return await call_next(context)
            answer = await hook.function(context, call_next)
        except HoldfastError:
            raise
        except Exception as error:
            if error in inner_errors:
                raise
            raise hook_failure(hook, error) from error
        if not isinstance(answer, hook.allowed):
            expected = hook.allowed[0].__name__
            problem = f"returned {type(answer).__name__}; it must return {expected}"
            raise MiddlewareError(hook.owner, hook.name, problem)
        return answer

    return wrapped
