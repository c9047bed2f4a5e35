"""Middlewares, compiled: for each hook those who wrote it, in the order in which they are called.

A hook is called by one function, which knows its timeout, its condition and what it may decide. It
must never swallow cancellation, and must never let anything that is not a decision pass.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from fnmatch import fnmatchcase
from types import coroutine
from typing import Any, TypeVar, cast

from msgspec import Struct

from holdfast.core.errors import ConfigurationError, HoldfastError, MiddlewareError
from holdfast.core.limits import Limits
from holdfast.core.messages import Reply, ToolResult
from holdfast.core.redaction import redact
from holdfast.middleware.decisions import Decision
from holdfast.middleware.folds import Folds, FoldTable
from holdfast.middleware.hooks import AFTER, ALLOWED, BEFORE, TOOL_HOOKS, WRAP, Middleware, is_older
from holdfast.middleware.moments import Moment
from holdfast.middleware.order import check_order

M = TypeVar("M", bound=Moment)
When = Callable[[Any], bool]  # of the moment of its hook
AnyMiddleware = Middleware[Any]  # of any state: the fold alone knows its type


_RETURNS: dict[str, tuple[type[object], ...]] = {
    "wrap_model": (Reply,),
    "wrap_tool": (ToolResult,),
}


class Hook(Struct, frozen=True):
    """One hook of one middleware, ready to be called."""

    owner: str
    name: str
    function: Callable[..., Coroutine[Any, Any, object]]
    allowed: tuple[type[object], ...]
    when: Callable[[Moment], bool] | None
    tools: tuple[str, ...]
    seconds: float | None

    def is_for(self, tool: str) -> bool:
        """Whether the hook is meant for this tool."""
        return not self.tools or any(fnmatchcase(tool, pattern) for pattern in self.tools)


class ToolHooks(Struct, frozen=True):
    """The hooks that are meant for one tool."""

    before: tuple[Hook, ...]
    wrap: tuple[Hook, ...]
    after: tuple[Hook, ...]
    none: bool


_MOST_TOOLS = 256


class Chain(Struct, frozen=True, kw_only=True):
    """The hooks of an agent. Before and wrap in the order of registration, after in reverse."""

    middlewares: tuple[AnyMiddleware, ...]
    before_turn: tuple[Hook, ...]
    after_turn: tuple[Hook, ...]
    before_iteration: tuple[Hook, ...]
    on_context_window: tuple[Hook, ...]
    wrap_model: tuple[Hook, ...]
    after_reply: tuple[Hook, ...]
    after_iteration: tuple[Hook, ...]
    before_tools: tuple[Hook, ...]
    before_tool: tuple[Hook, ...]
    wrap_tool: tuple[Hook, ...]
    after_tool: tuple[Hook, ...]
    on_error: tuple[Hook, ...]
    folding: FoldTable
    live: tuple[AnyMiddleware, ...]
    _of_tools: dict[str, ToolHooks] = {}

    def of_tool(self, name: str) -> ToolHooks:
        """The hooks of the tool that the model calls `name`, whether or not there is such a tool."""
        found = self._of_tools.get(name)
        if found is None:
            kinds = (self.before_tool, self.wrap_tool, self.after_tool)
            mine = [tuple(hook for hook in kind if hook.is_for(name)) for kind in kinds]
            found = ToolHooks(mine[0], mine[1], mine[2], not any(mine))
            if len(self._of_tools) < _MOST_TOOLS:  # a model may invent any number of names
                self._of_tools[name] = found
        return found

    @property
    def remembers_sessions(self) -> bool:
        """Whether a fold lasts longer than a turn."""
        return any(one.scope == "session" for one in self.folding.middlewares)

    def new_folds(self) -> Folds:
        """The states of these middlewares before the first event."""
        return Folds(self.folding)

    def describe(self) -> list[str]:
        """One line for each middleware with its settings, then one for each hook in call order."""
        lines = []
        for one in self.middlewares:
            shown = ", ".join(f"{field}={value}" for field, value in one.describe().items())
            lines.append(f"{one.name}: {shown}" if shown else one.name)
        for name in (*BEFORE, *WRAP, *AFTER):
            hooks: tuple[Hook, ...] = getattr(self, name)
            if hooks:
                lines.append(f"{name}: {' > '.join(hook.owner for hook in hooks)}")
        if self.live:
            lines.append(f"live: {' > '.join(one.name for one in self.live)}")
        return lines


def compile_chain(middlewares: Sequence[AnyMiddleware]) -> Chain | None:
    """Check and index; None when there is nothing to call.

    Raises:
        ConfigurationError: something is no middleware, stands twice, or stands in the wrong place.
    """
    found = tuple(middlewares)
    for index, one in enumerate(found):
        _check(index, one, found)
    check_order(found)
    if not found:
        return None
    hooks: dict[str, Any] = {
        name: tuple(hook for one in found if (hook := _hook(one, name)) is not None)
        for name in (*BEFORE, *WRAP, *AFTER)
    }
    for name in AFTER:
        hooks[name] = hooks[name][::-1]
    return Chain(
        middlewares=found,
        live=tuple(one for one in found if _written(one, "live") and _acts(one, "live")),
        _of_tools={},
        folding=FoldTable(
            tuple(one for one in found if _written(one, "fold") and _acts(one, "fold"))
        ),
        **hooks,
    )


def tool_settings(
    middlewares: Sequence[AnyMiddleware], given: Mapping[str, object]
) -> dict[str, object]:
    """What the middlewares set in the error handling of tools; a later one wins.

    Args:
        middlewares: those of the agent.
        given: the agent's own settings.
    """
    settings: dict[str, object] = {}
    for one in middlewares:
        settings.update(one.tool_settings({**given, **settings}))
    return settings


def limits_with(middlewares: Sequence[AnyMiddleware], given: Limits | None) -> Limits:
    """The limits of a turn: those that were given, as the middlewares change them."""
    for one in middlewares:
        given = one.limits(given)
    return given or Limits()


def _check(index: int, one: object, found: tuple[AnyMiddleware, ...]) -> None:
    argument = f"middleware[{index}]"
    if isinstance(one, type):
        raise ConfigurationError(
            argument, f"is the class {one.__name__}", fix=f"Write {one.__name__}()"
        )
    if not isinstance(one, Middleware):
        raise ConfigurationError(argument, f"must be a Middleware, got {type(one).__name__}")
    if any(other is one for other in found[:index]):
        raise ConfigurationError(
            argument,
            f"the same {one.name} is given twice",
            fix="Make a second one, or leave it out",
        )
    for name in (*BEFORE, *WRAP, *AFTER):
        if _written(one, name) and not inspect.iscoroutinefunction(getattr(one, name)):
            raise ConfigurationError(
                argument, f"{one.name}.{name} is no coroutine function", fix="Write `async def`"
            )


def _written(one: AnyMiddleware, name: str) -> bool:
    mine = getattr(one, name)
    return getattr(mine, "__func__", mine) is not getattr(Middleware, name)


def _acts(one: AnyMiddleware, name: str) -> bool | When:
    return is_older(type(one), "acts", name) or one.acts(name)


def _hook(one: AnyMiddleware, name: str) -> Hook | None:
    acts = _acts(one, name) if _written(one, name) else False
    if acts is False:
        return None
    tools = tuple(one.tools) if name in TOOL_HOOKS else ()
    return Hook(
        one.name,
        name,
        getattr(one, name),
        _RETURNS.get(name) or ALLOWED[name],
        one.when if acts is True else _both(one.when, acts),
        tools,
        one.hook_timeout,
    )


def _both(one: When | None, other: When) -> When:
    if one is None:
        return other
    return lambda moment: one(moment) and other(moment)


async def call(hook: Hook, moment: Moment) -> Decision | None:
    """The decision of one hook. Raises MiddlewareError when it gives none; cancellation passes."""
    decision = begin(hook, moment)
    return await decision.end() if isinstance(decision, Waiting) else decision


def begin(hook: Hook, moment: Moment) -> Decision | Waiting | None:
    """The decision of a hook, or the hook itself where it waits for something.

    Most hooks wait for nothing, and cost neither a timer nor another coroutine. Raises
    MiddlewareError when it gives no decision.
    """
    try:
        # Apart from what follows: a StopIteration of the condition is a failure and no answer.
        if hook.when is not None and not hook.when(moment):
            return None
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
    return Waiting(hook, moment, running, first)


class Waiting(Struct, frozen=True):
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
    for hook in hooks:
        try:
            decision = begin(hook, moment)
            if decision is None:
                continue
            if isinstance(decision, Waiting) and (decision := await decision.end()) is None:
                continue
        except MiddlewareError as error:
            failures.append(error)
            continue
        moment = take(moment, hook, decision)
    return moment, collected(hooks[0].name, failures) if failures else None


_SHOWN = {"after_turn": "AfterMessageTurn", "after_tool": "AfterFunction"}


def collected(name: str, failures: list[MiddlewareError]) -> MiddlewareError:
    """One error for what several after hooks raised (the wording of seed 000)."""
    shown = _SHOWN.get(name) or "".join(word.capitalize() for word in name.split("_"))
    said = f"One or more {shown} middleware hooks failed"
    first = failures[0]
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
