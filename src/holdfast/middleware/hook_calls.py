"""Calls hooks: a single one, or several in order. Wrap hooks are called in `runtime/hooks`.

It applies the condition and the timeout of each hook and checks its return value. This module must
never swallow a cancellation, and must never pass on a return value that is not a decision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from types import coroutine
from typing import Any, TypeVar, cast

from msgspec import Struct

from holdfast.core.errors import ConfigurationError, MiddlewareError
from holdfast.core.redaction import redact
from holdfast.middleware.chain import Hook
from holdfast.middleware.decisions import Decision
from holdfast.middleware.hook_contexts import HookContext, RunFacts

M = TypeVar("M", bound=HookContext)


def has_enabled_hooks(hooks: Sequence[Hook], facts: RunFacts) -> bool:
    """Whether one of the hooks may have something to do, so that its context must be made.

    Args:
        hooks: the hooks of one kind.
        facts: the facts about the turn.
    """
    try:
        for hook in hooks:
            if hook.enabled is None or hook.enabled(hook.name, facts):
                return True
    except Exception:  # noqa: BLE001  # REASON: `enabled` is the user's code
        return True  # the failure is reported when the hook is called
    return False


def is_enabled(hook: Hook, facts: RunFacts) -> bool:
    """Whether the hook has something to do. Raises MiddlewareError when its condition fails."""
    if hook.enabled is None:
        return True
    try:
        return hook.enabled(hook.name, facts)
    except MiddlewareError:
        raise
    except Exception as error:  # REASON: `enabled` is the user's code
        raise hook_failure(hook, error) from error


async def call_hook(hook: Hook, context: HookContext) -> Decision | None:
    """Return the decision of one hook. Raises MiddlewareError when it fails; passes on cancellation."""
    if hook.enabled is not None and not is_enabled(hook, context.facts):
        return None
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
        """Wait for the decision. Raises the exceptions of `call_hook`."""
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
    """Return the error for a hook that raised; the details are private.

    The text of a ConfigurationError is not: it says how the hook must be written.
    """
    name = type(error).__name__
    problem = f"raised {name}: {error}" if type(error) is ConfigurationError else f"raised {name}"
    return MiddlewareError(hook.owner, hook.name, problem, private=redact(f"{name}: {error}"))


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
    """Await a coroutine that has already begun; `awaited` is the object that it yielded last."""
    while True:
        thrown: BaseException | None = None
        sent = None
        try:
            sent = yield awaited
        except GeneratorExit:
            running.close()
            raise
        except BaseException as error:  # noqa: BLE001  # REASON: any exception here is the hook's
            thrown = error
        try:
            awaited = running.send(sent) if thrown is None else running.throw(thrown)
        except StopIteration as done:
            return cast("object", done.value)


async def call_each(
    hooks: Iterable[Hook],
    context: M,
    apply_decision: Callable[[M, Hook, Decision], M | None],
    failures: list[MiddlewareError] | None = None,
) -> M:
    """Call hooks in order until a decision ends the chain.

    Args:
        hooks: the hooks.
        context: the context of the first hook.
        apply_decision: returns the context of the next hook after a decision; None ends the chain.
        failures: collects the errors, for `collect_failures`. Without it, the first error is raised.

    Raises:
        MiddlewareError: a hook failed.
    """
    facts = context.facts
    for hook in hooks:
        try:
            if hook.enabled is not None and not is_enabled(hook, facts):
                continue
            decision = _begin_hook(hook, context)
            if isinstance(decision, _SuspendedHook):
                decision = await decision.finish()
        except MiddlewareError as error:
            if failures is None:
                raise
            failures.append(error)
            continue
        if decision is not None:
            after = apply_decision(context, hook, decision)
            if after is None:
                return context
            context = after
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
    context = await call_each(hooks, context, apply_decision, failures)
    return context, collect_failures(hooks[0].name, failures) if failures else None


_HOOK_LABELS = {"after_turn": "AfterMessageTurn", "after_tool": "AfterFunction"}


def collect_failures(name: str, failures: list[MiddlewareError]) -> MiddlewareError:
    """One error for the exceptions of several after hooks."""
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
