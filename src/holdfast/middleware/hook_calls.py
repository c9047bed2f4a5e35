"""Calls hooks: one, one after the other, or around an act.

One function knows the condition of a hook, its timeout and what it may decide. This module must
never swallow cancellation, and must never let anything that is not a decision pass.
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
    """Whether one of the hooks may have something to do, so that a moment must be made for it.

    Args:
        hooks: those of one moment.
        states: of their middlewares.
    """
    try:
        for hook in hooks:
            if (idle := hook.idle) is None or not idle(states[hook.key]):
                return True
    except Exception:  # noqa: BLE001  # REASON: a look is the user's code
        return True  # it is reported when the hook is called
    return False


async def call_hook(hook: Hook, context: HookContext) -> Decision | None:
    """The decision of one hook. Raises MiddlewareError when it gives none; cancellation passes."""
    if hook.idle is not None or hook.when is not None:
        first = find_pending_hooks((hook,), context)
        if first is None:
            return None
        if first.condition_failure is not None:
            raise first.condition_failure
    decision = _begin_hook(hook, context)
    return await decision.finish() if isinstance(decision, _SuspendedHook) else decision


def _begin_hook(hook: Hook, context: HookContext) -> Decision | _SuspendedHook | None:
    """The decision of a hook, or the hook itself where it waits for something.

    Most hooks wait for nothing, and cost neither a timer nor another coroutine. Raises
    MiddlewareError when it gives no decision.
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
    """A hook that waits for something: only such a one needs a timeout."""

    hook: Hook
    moment: HookContext
    running: Coroutine[Any, Any, object]
    awaited: object

    async def finish(self) -> Decision | None:
        """Its decision, once it has one. Raises as `call_hook` does."""
        try:
            answer = await _finish_hook(self.hook, self.moment, self.running, self.awaited)
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
    """What is said about a hook that raised; the details are private."""
    name = type(error).__name__
    return MiddlewareError(
        hook.owner, hook.name, f"raised {name}", private=redact(f"{name}: {error}")
    )


def _describe_wrong_return(hook: Hook, answer: object) -> str:
    allowed = ", ".join(kind.__name__ for kind in hook.allowed)
    may = f"None or one of {allowed}" if allowed else "None"
    return f"returned {type(answer).__name__}; it may return {may}"


async def _finish_hook(
    hook: Hook, context: HookContext, running: Coroutine[Any, Any, object], awaited: object
) -> object:
    """Go on with a hook that waits for something."""
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
    """Await a coroutine that has begun already; `awaited` is what it handed out last."""
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
    """A hook that may have something to do, and those that come after it.

    `condition_failure` is the failure of its condition.
    """

    hook: Hook
    remaining: Iterator[Hook]
    condition_failure: MiddlewareError | None = None


def find_pending_hooks(hooks: Iterable[Hook], context: HookContext) -> PendingHooks | None:
    """The first of the hooks that may have something to do.

    Nearly always there is none, and then they cost what their conditions cost.
    """
    states, left = context.facts.states, iter(hooks)
    for hook in left:
        # Apart from what the hook does: a StopIteration of a condition is a failure and no answer.
        try:
            if (idle := hook.idle) is not None:
                if not idle(states[hook.key]):
                    return PendingHooks(hook, left)
            elif (when := hook.when) is None or when(context):
                return PendingHooks(hook, left)
        except MiddlewareError as error:
            return PendingHooks(hook, left, error)
        except Exception as error:  # noqa: BLE001  # REASON: conditions are the user's code
            failed = hook_failure(hook, error)
            failed.__cause__ = error
            return PendingHooks(hook, left, failed)
    return None


async def call_each(
    first: PendingHooks | None,
    context: M,
    apply_decision: Callable[[M, Hook, Decision], M | None],
    failures: list[MiddlewareError] | None = None,
) -> M:
    """Call one after the other, until one ends it.

    Args:
        first: where to begin: `find_pending_hooks(hooks, moment)`.
        context: what the first one sees.
        apply_decision: what the next one sees after a decision; None calls no further one.
        failures: gathers what fails, for `collect_failures`; without it the first failure ends it.

    Raises:
        MiddlewareError: one of them failed.
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
    """Call all after hooks, whatever some of them raise.

    Args:
        hooks: in the order in which they are called.
        context: what the first one sees.
        apply_decision: what the next one sees after a decision.

    Returns:
        The moment after all decisions, and one error for all that failed; its cause is an
        ExceptionGroup.
    """
    failures: list[MiddlewareError] = []
    context = await call_each(find_pending_hooks(hooks, context), context, apply_decision, failures)
    return context, collect_failures(hooks[0].name, failures) if failures else None


_SHOWN = {"after_turn": "AfterMessageTurn", "after_tool": "AfterFunction"}


def collect_failures(name: str, failures: list[MiddlewareError]) -> MiddlewareError:
    """One error for what several after hooks raised."""
    first = failures[0]
    shown = _SHOWN.get(name) or "".join(map(str.capitalize, name.split("_")))
    said = f"One or more {shown} middleware hooks failed"
    private = "; ".join(f"{one}: {one.info.private}" for one in failures)
    error = MiddlewareError(
        first.middleware, first.hook, f"{first.problem}. {said} ({len(failures)})", private=private
    )
    error.__cause__ = ExceptionGroup(said, failures)
    return error


Next = Callable[[Any], Awaitable[Any]]  # of either wrap: a moment to its outcome


def wrap_with_hooks(hooks: Sequence[Hook], operation: Next) -> Next:
    """The act with the wraps around it, the first one outermost.

    Args:
        hooks: in the order of registration.
        operation: the innermost.
    """
    for hook in reversed(hooks):
        operation = _wrap_with_hook(hook, operation)
    return operation


def _wrap_with_hook(hook: Hook, operation: Next) -> Next:
    async def wrapped(context: HookContext) -> object:
        passed: list[Exception] = []

        async def call_next(inner: HookContext) -> object:
            try:
                return cast("object", await operation(inner))
            except Exception as error:
                passed.append(error)
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
            if error in passed:
                raise
            raise hook_failure(hook, error) from error
        if not isinstance(answer, hook.allowed):
            wanted = hook.allowed[0].__name__
            problem = f"returned {type(answer).__name__}; it must return {wanted}"
            raise MiddlewareError(hook.owner, hook.name, problem)
        return answer

    return wrapped
