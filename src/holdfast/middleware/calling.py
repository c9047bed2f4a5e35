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
from holdfast.middleware.moments import Moment

M = TypeVar("M", bound=Moment)


def anybody(hooks: Sequence[Hook], states: Mapping[int, object]) -> bool:
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


async def call(hook: Hook, moment: Moment) -> Decision | None:
    """The decision of one hook. Raises MiddlewareError when it gives none; cancellation passes."""
    if hook.idle is not None or hook.when is not None:
        first = acting((hook,), moment)
        if first is None:
            return None
        if first.failed is not None:
            raise first.failed
    decision = _begin(hook, moment)
    return await decision.end() if isinstance(decision, _Waiting) else decision


def _begin(hook: Hook, moment: Moment) -> Decision | _Waiting | None:
    """The decision of a hook, or the hook itself where it waits for something.

    Most hooks wait for nothing, and cost neither a timer nor another coroutine. Raises
    MiddlewareError when it gives no decision.
    """
    try:
        running = hook.function(moment)
        try:
            first = running.send(None)
        except StopIteration as done:
            answer = done.value
            return None if answer is None else _checked(hook, answer)
    except MiddlewareError:
        raise
    except Exception as error:  # REASON: hooks are the user's code
        raise failure(hook, error) from error
    return _Waiting(hook, moment, running, first)


class _Waiting(Struct, frozen=True):
    """A hook that waits for something: only such a one needs a timeout."""

    hook: Hook
    moment: Moment
    running: Coroutine[Any, Any, object]
    first: object

    async def end(self) -> Decision | None:
        """Its decision, once it has one. Raises as `call` does."""
        try:
            answer = await _finish(self.hook, self.moment, self.running, self.first)
        except MiddlewareError:
            raise
        except Exception as error:  # REASON: hooks are the user's code
            raise failure(self.hook, error) from error
        return None if answer is None else _checked(self.hook, answer)


def _checked(hook: Hook, answer: object) -> Decision:
    if not isinstance(answer, hook.allowed):
        raise MiddlewareError(hook.owner, hook.name, _no_decision(hook, answer))
    return cast("Decision", answer)


def failure(hook: Hook, error: Exception) -> MiddlewareError:
    """What is said about a hook that raised; the details are private."""
    name = type(error).__name__
    return MiddlewareError(
        hook.owner, hook.name, f"raised {name}", private=redact(f"{name}: {error}")
    )


def _no_decision(hook: Hook, answer: object) -> str:
    allowed = ", ".join(kind.__name__ for kind in hook.allowed)
    may = f"None or one of {allowed}" if allowed else "None"
    return f"returned {type(answer).__name__}; it may return {may}"


async def _finish(
    hook: Hook, moment: Moment, running: Coroutine[Any, Any, object], first: object
) -> object:
    """Go on with a hook that waits for something."""
    if hook.seconds is None:
        return await _resume(running, first)
    limit = asyncio.timeout(hook.seconds)
    try:
        async with limit:
            with moment.facts.pausable(limit):
                return await _resume(running, first)
    except TimeoutError:
        if not limit.expired():
            raise
        problem = f"did not end within {hook.seconds:g} s"
        raise MiddlewareError(hook.owner, hook.name, problem) from None


@coroutine
def _resume(running: Coroutine[Any, Any, object], waits: object) -> Generator[Any, Any, object]:
    """Await a coroutine that has begun already; `waits` is what it handed out last."""
    while True:
        thrown: BaseException | None = None
        sent = None
        try:
            sent = yield waits
        except GeneratorExit:
            running.close()
            raise
        except BaseException as error:  # noqa: BLE001  # REASON: whatever comes is the hook's
            thrown = error
        try:
            waits = running.send(sent) if thrown is None else running.throw(thrown)
        except StopIteration as done:
            return cast("object", done.value)


class Acting(Struct, frozen=True):
    """A hook that may have something to do, and those that come after it.

    `failed` is the failure of its condition.
    """

    hook: Hook
    left: Iterator[Hook]
    failed: MiddlewareError | None = None


def acting(hooks: Iterable[Hook], moment: Moment) -> Acting | None:
    """The first of the hooks that may have something to do.

    Nearly always there is none, and then they cost what their conditions cost.
    """
    states, left = moment.facts.states, iter(hooks)
    for hook in left:
        # Apart from what the hook does: a StopIteration of a condition is a failure and no answer.
        try:
            if (idle := hook.idle) is not None:
                if not idle(states[hook.key]):
                    return Acting(hook, left)
            elif (when := hook.when) is None or when(moment):
                return Acting(hook, left)
        except MiddlewareError as error:
            return Acting(hook, left, error)
        except Exception as error:  # noqa: BLE001  # REASON: conditions are the user's code
            failed = failure(hook, error)
            failed.__cause__ = error
            return Acting(hook, left, failed)
    return None


async def call_each(
    first: Acting | None,
    moment: M,
    take: Callable[[M, Hook, Decision], M | None],
    failures: list[MiddlewareError] | None = None,
) -> M:
    """Call one after the other, until one ends it.

    Args:
        first: where to begin: `acting(hooks, moment)`.
        moment: what the first one sees.
        take: what the next one sees after a decision; None calls no further one.
        failures: gathers what fails, for `collected`; without it the first failure ends it.

    Raises:
        MiddlewareError: one of them failed.
    """
    while first is not None:
        try:
            if first.failed is not None:
                raise first.failed
            decision = _begin(first.hook, moment)
            if isinstance(decision, _Waiting):
                decision = await decision.end()
        except MiddlewareError as error:
            if failures is None:
                raise
            failures.append(error)
            decision = None
        if decision is not None:
            if (after := take(moment, first.hook, decision)) is None:
                return moment
            moment = after
        first = acting(first.left, moment)
    return moment


async def call_after(
    hooks: Sequence[Hook], moment: M, take: Callable[[M, Hook, Decision], M]
) -> tuple[M, MiddlewareError | None]:
    """Call all after hooks, whatever some of them raise.

    Args:
        hooks: in the order in which they are called.
        moment: what the first one sees.
        take: what the next one sees after a decision.

    Returns:
        The moment after all decisions, and one error for all that failed; its cause is an
        ExceptionGroup.
    """
    failures: list[MiddlewareError] = []
    moment = await call_each(acting(hooks, moment), moment, take, failures)
    return moment, collected(hooks[0].name, failures) if failures else None


_SHOWN = {"after_turn": "AfterMessageTurn", "after_tool": "AfterFunction"}


def collected(name: str, failures: list[MiddlewareError]) -> MiddlewareError:
    """One error for what several after hooks raised (the wording of seed 000)."""
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


def onion(hooks: Sequence[Hook], act: Next) -> Next:
    """The act with the wraps around it, the first one outermost.

    Args:
        hooks: in the order of registration.
        act: the innermost.
    """
    for hook in reversed(hooks):
        act = _wrapped(hook, act)
    return act


def _wrapped(hook: Hook, act: Next) -> Next:
    async def wrapped(moment: Moment) -> object:
        passed: list[Exception] = []

        async def call_next(inner: Moment) -> object:
            try:
                return cast("object", await act(inner))
            except Exception as error:
                passed.append(error)
                raise

        try:
            if hook.idle is not None and hook.idle(moment.facts.states[hook.key]):
                return await call_next(moment)
            if hook.when is not None and not hook.when(moment):
                return await call_next(moment)
            answer = await hook.function(moment, call_next)
        except HoldfastError:
            raise
        except Exception as error:
            if error in passed:
                raise
            raise failure(hook, error) from error
        if not isinstance(answer, hook.allowed):
            wanted = hook.allowed[0].__name__
            problem = f"returned {type(answer).__name__}; it must return {wanted}"
            raise MiddlewareError(hook.owner, hook.name, problem)
        return answer

    return wrapped
