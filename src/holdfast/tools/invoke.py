"""Runs one attempt of one tool call.

There are four outcomes: the call could not run (the result names the mistake for the model), the
function raised (the exception is returned for the retry strategy), it timed out, or it returned.
A tool without a time limit gets a share of the time that its turn has left, so that the turn outlives it.
This module never formats an exception for the model, never repeats a call, and never suppresses a
cancellation.

An `Exception` or SystemExit of the tool is a failure of the call: a library that calls `sys.exit`
must not end a server. A CancelledError is a failure too if this task was not cancelled: the tool
cancelled itself, or awaited something that was cancelled. KeyboardInterrupt and all others are raised.

A tool that waits runs in a task of its own. A library below it may cancel the task in which it was called, at any
time and by mistake, and then the tool fails and not the run. Whoever cancels the caller cancels that task. A tool
that never waits runs in the task of its caller, because a task would cost more than all other work of such a call.

A cancelled coroutine has some seconds to clean up. After that it is *abandoned*: its code is not resumed, since it
could catch its cancellation and continue without end.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import aclosing, suppress
from functools import partial
from itertools import islice
from types import AsyncGeneratorType, CoroutineType, GeneratorType, coroutine
from typing import Any, Generic, TypeVar, cast

from msgspec import Struct

from holdfast.core.argument_checks import check_fields
from holdfast.core.constraints import PositiveInt
from holdfast.core.errors import ErrorCategory, ErrorInfo, Landed, ToolFailedError
from holdfast.core.messages import ToolCall, ToolResult
from holdfast.core.notices import ToolStarted
from holdfast.resilience.timeout.pausable_timeout import PausableTimeout, find_share
from holdfast.tools.checked_call import (
    CheckedCall,
    Invocation,
    call_failed,
    check_call,
    error_result,
)
from holdfast.tools.context import ToolContext, tool_call_scope
from holdfast.tools.registry import Registry
from holdfast.tools.results import (
    MOST_ITEMS,
    RESULT_LIMIT,
    ResultTypeError,
    content_of,
    output_content,
)
from holdfast.tools.threads import ThreadCall, ToolThreads
from holdfast.tools.tool import Tool

T = TypeVar("T")

_MORE_ITEMS = f"[cut: only the first {MOST_ITEMS:,} items are shown]"
_SHARED_THREADS = ToolThreads()


class InvocationOptions(Struct, frozen=True, kw_only=True):
    """Options for running tools.

    Args:
        result_limit: the maximum number of characters of a result, for tools without their own limit.
        threads: the threads for sync tools; all agents of a process share one pool by default.
    """

    result_limit: PositiveInt = RESULT_LIMIT
    threads: ToolThreads = _SHARED_THREADS

    def __post_init__(self) -> None:
        check_fields(self, "options.")


_DEFAULT = InvocationOptions()


async def invoke(
    registry: Registry,
    call: ToolCall | CheckedCall,
    context: ToolContext,
    *,
    unfinished: bool = False,
    timeout: float | None = None,
    options: InvocationOptions = _DEFAULT,
) -> Invocation:
    """Run one attempt of `call`.

    Args:
        registry: the tools of the agent.
        call: the call of the model, or a checked call, which is not validated again.
        context: the context for tools with a `ToolContext` parameter.
        unfinished: the reply was cut, so the call must not run.
        timeout: seconds, for a tool without its own timeout; None waits without limit.
        options: limits and threads.
    """
    if isinstance(call, CheckedCall):
        return await invoke_checked(call, context, timeout=timeout, options=options)
    with tool_call_scope(context):
        checked = check_call(registry, call, unfinished=unfinished)
    if isinstance(checked, Invocation):
        return checked
    return await invoke_checked(checked, context, timeout=timeout, options=options)


async def invoke_checked(
    call: CheckedCall,
    context: ToolContext,
    *,
    timeout: float | None = None,
    turn_timeout: PausableTimeout | None = None,
    options: InvocationOptions = _DEFAULT,
) -> Invocation:
    """Run one attempt of a checked call; the arguments are those of `invoke`, and one more.

    A tool without any timeout gets a share of the rest of `turn_timeout`, the limit of the turn.
    """
    tool, written = call.tool, call.call
    limit = _find_limit(tool, timeout, turn_timeout)
    with tool_call_scope(context):
        try:
            validated = call.take()
        except Exception as error:  # noqa: BLE001  # REASON: validators are the user's code
            return call_failed(written, error, landed=Landed.NO)
        arguments = tool.signature.call_with(validated, context)
        if context.event_sink is not None:
            given = call.visible_call.arguments
            started = ToolStarted(context.key, written.name, given, context.attempt)
            context.event_sink.publish(started)
        try:
            value = await _call_tool(tool, arguments, limit, options.threads)
        except _TimedOut as timed_out:
            is_share = limit is not None and limit.is_share
            return _timeout_result(written, timed_out, is_share=is_share)
        except Exception as error:  # noqa: BLE001  # REASON: the tool is the user's code
            return call_failed(written, error)
        except SystemExit as error:
            problem = "tried to end the process"
            failed = _wrap_escaped(written.name, error, ErrorCategory.PROGRAMMING, problem)
            return call_failed(written, failed)
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            problem = "cancelled itself, or waited for something that was cancelled"
            failed = _wrap_escaped(written.name, error, ErrorCategory.UNKNOWN, problem)
            return call_failed(written, failed)
        if tool.gives_output:
            content = output_content(value)
            return Invocation(ToolResult(written.id, written.name, content), value=(value,))
        return _returned_result(written, value, tool.result_limit or options.result_limit)


class _TimedOut(Exception):
    """Our own timeout, to distinguish it from a TimeoutError of the tool."""

    def __init__(self, seconds: float, landed: Landed, work: ThreadCall | None) -> None:
        super().__init__(seconds)
        self.seconds = seconds
        self.landed = landed
        self.work = work


class _TimeLimit:
    """The time of one attempt.

    Args:
        seconds: the time; that of a share is found when the tool waits for the first time.
        turn_timeout: the limit of the turn, if the time is a share of its rest.
    """

    __slots__ = ("_scope", "_turn_timeout", "seconds")

    def __init__(self, seconds: float, turn_timeout: PausableTimeout | None = None) -> None:
        self.seconds = seconds
        self._turn_timeout = turn_timeout
        self._scope: asyncio.Timeout | None = None

    @property
    def is_share(self) -> bool:
        """Whether the time is a share of the time that the turn has left."""
        return self._turn_timeout is not None

    def find_cleanup(self) -> float:
        """Return the most seconds for a cleanup: half of the time that a share leaves, so that the turn goes on."""
        if self._turn_timeout is None or self._scope is None or not self._scope.expired():
            return math.inf
        left = self._turn_timeout.seconds_left
        return math.inf if left is None or left <= 0 else left / 2

    async def wait_for(self, awaitable: Awaitable[object], work: ThreadCall | None) -> object:
        """Return the value of a tool. Raises _TimedOut when the time is over; `work` runs in a thread."""
        self._scope = scope = asyncio.timeout(self.seconds)
        try:
            async with scope:
                with PausableTimeout(scope, within=self._turn_timeout):
                    return await awaitable
        except Exception as error:
            if not scope.expired():
                raise
            never_began = work is not None and work.state == "dropped"
            landed = Landed.NO if never_began else Landed.UNKNOWN
            raise _TimedOut(self.seconds, landed, work) from error

    @coroutine
    def wait_in_share(
        self, steps: Generator[object, None, object], work: ThreadCall | None
    ) -> Generator[Any, None, object]:
        """Return the value of a tool, like `wait_for`. A tool that never waits needs no timer."""
        try:
            waits_for = next(steps)
            if waits_for is None:
                # The tool begins in its own task, and may block the loop before it waits.
                thrown = yield from _pass_once(steps)
                waits_for = next(steps) if thrown is None else steps.throw(thrown)
        except StopIteration as end:
            return end.value
        left = self._turn_timeout.seconds_left if self._turn_timeout is not None else None
        rest = _continue_steps(steps, waits_for)
        if left is None:
            return (yield from rest)
        self.seconds = find_share(left)
        return (yield from self.wait_for(rest, work).__await__())


def _pass_once(
    steps: Generator[object, None, object],
) -> Generator[None, None, BaseException | None]:
    """Let the event loop run once, and return the exception that it throws for the steps."""
    try:
        yield
    except GeneratorExit:
        steps.close()
        raise
    except BaseException as error:  # noqa: BLE001  # REASON: the steps get it
        return error
    return None


@coroutine
def _continue_steps(
    steps: Generator[object, None, T], waits_for: object
) -> Generator[object, None, T]:
    """Wait for the object that the steps of an awaitable wait for already, and then for the others."""
    while True:
        try:
            yield waits_for
        except GeneratorExit:
            steps.close()
            raise
        except BaseException as error:  # noqa: BLE001  # REASON: the steps get it
            thrown = error
        else:
            return (yield from steps)
        try:
            waits_for = steps.throw(thrown)
        except StopIteration as end:
            value: T = end.value
            return value


def _find_limit(
    tool: Tool, timeout: float | None, turn_timeout: PausableTimeout | None
) -> _TimeLimit | None:
    seconds = tool.timeout if tool.timeout is not None else timeout
    if seconds is not None:
        return _TimeLimit(seconds)
    if turn_timeout is None or tool.ends_itself:
        return None  # an agent limits its turn itself
    return _TimeLimit(0.0, turn_timeout)


_Arguments = tuple[Sequence[object], dict[str, object]]


def _call_tool(
    tool: Tool, arguments: _Arguments, limit: _TimeLimit | None, threads: ToolThreads
) -> Awaitable[object]:
    """Return an awaitable of the value. It raises _TimedOut, and the exceptions of the tool."""
    positional, keywords = arguments
    find_cleanup = None if limit is None else limit.find_cleanup
    work = None
    awaitable: Awaitable[object]
    if tool.kind == "sync":
        work = ThreadCall(tool.name, partial(_call_sync, tool.function, positional, keywords))
        awaitable = _call_in_thread(work, threads, partial(_call_apart, tool, limit))
        awaitable = end_when_cancelled(awaitable, tool.name, find_cleanup)
    else:
        value = tool.function(*positional, **keywords)
        if tool.kind == "async_generator":
            value = _drain_async_generator(cast("AsyncGenerator[object]", value))
        awaitable = cast("Awaitable[object]", value)
        if tool.waits:
            awaitable = _call_apart(tool, limit, awaitable)
        else:
            awaitable = end_when_cancelled(awaitable, tool.name, find_cleanup)
    if limit is None:
        return awaitable
    if limit.is_share:
        steps = awaitable.__await__() if isinstance(awaitable, CoroutineType) else awaitable
        return limit.wait_in_share(cast("Generator[object, None, object]", steps), work)
    return limit.wait_for(awaitable, work)


def _call_apart(tool: Tool, limit: _TimeLimit | None, value: Awaitable[T]) -> Awaitable[T]:
    """Return an awaitable that awaits the value of a tool in a task of its own."""
    if not tool.ends_itself:
        find_cleanup = None if limit is None else limit.find_cleanup
        value = end_when_cancelled(value, tool.name, find_cleanup, _Caller())
    return run_in_own_task(value)


def _call_sync(
    function: Callable[..., object], positional: Sequence[object], keywords: dict[str, object]
) -> object:
    """Call a function in its thread; the code of a generator runs there too."""
    value = function(*positional, **keywords)
    return _drain_generator(value) if isinstance(value, GeneratorType) else value


async def _call_in_thread(
    work: ThreadCall,
    threads: ToolThreads,
    call_apart: Callable[[Awaitable[object]], Awaitable[object]],
) -> object:
    value = await threads.run(work)
    if isinstance(value, AsyncGeneratorType):
        value = _drain_async_generator(value)
    if not inspect.isawaitable(value):
        return value
    return await call_apart(value)


def _drain_generator(items: Generator[object, object, object]) -> list[object]:
    values = list(islice(items, MOST_ITEMS))
    if len(values) == MOST_ITEMS:
        items.close()
        values.append(_MORE_ITEMS)
    return values


async def _drain_async_generator(items: AsyncGenerator[object]) -> list[object]:
    values: list[object] = []
    async with aclosing(items):
        async for item in items:
            values.append(item)
            if len(values) == MOST_ITEMS:
                values.append(_MORE_ITEMS)
                break
    return values


def _returned_result(call: ToolCall, value: object, limit: int) -> Invocation:
    try:
        content = content_of(value, limit)
    except ResultTypeError as error:
        message = f"Function '{call.name}' ran, but {error}."
        info = ErrorInfo(
            category=ErrorCategory.PROGRAMMING, safe=message, code=type(error).__name__
        )
        return Invocation(error_result(call, f"Error: {message}"), error, info)
    return Invocation(ToolResult(call.id, call.name, content))


def _is_cancelled() -> bool:
    """Whether this task is being cancelled, by a timeout or from outside."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _wrap_escaped(
    name: str, error: BaseException, category: ErrorCategory, problem: str
) -> ToolFailedError:
    """Wrap an exception that is not an `Exception`; the model does not see its text."""
    safe = f"Function '{name}' {problem}."
    info = ErrorInfo(category=category, safe=safe, code=type(error).__name__)
    failed = ToolFailedError(name, f"it {problem}", info=info)
    failed.__cause__ = error
    return failed


def _timeout_result(call: ToolCall, error: _TimedOut, *, is_share: bool) -> Invocation:
    text = f"Function '{call.name}' timed out after {error.seconds:.1f} seconds"
    info = ErrorInfo(category=ErrorCategory.TIMEOUT, landed=error.landed, safe=text, code="timeout")
    return Invocation(None, TimeoutError(text), info, out_of_time=is_share, left_running=error.work)


_log = logging.getLogger("holdfast.tools")

LONGEST_CLEANUP = 5.0
"""Seconds that a tool may take to end after its cancellation."""


async def run_in_own_task(work: Awaitable[T]) -> T:
    """Await work in a task of its own, which is cancelled when the task of the caller is.

    Raises:
        CancelledError: the task of the caller was cancelled, or the work was, by itself or by a library.
    """
    this = asyncio.current_task()
    name = None if this is None else this.get_name()
    # A task ends the loop itself for SystemExit, so no exception leaves it.
    task = asyncio.create_task(_catch_error(work), name=name)
    cancelled: asyncio.CancelledError | None = None
    try:
        try:
            await asyncio.sleep(0)  # the task begins now; most of its work may be done already
        except asyncio.CancelledError as error:
            task.cancel()
            cancelled = error
        outcome = await task
    except GeneratorExit:
        with suppress(RuntimeError):  # the loop may be closed
            task.cancel()
        raise
    if cancelled is not None:
        raise cancelled
    try:
        return outcome.get_value()
    finally:
        del outcome  # an exception refers to this frame


class _WorkOutcome(Struct, Generic[T], frozen=True):
    """The value of work, or its exception."""

    value: T | None = None
    error: BaseException | None = None

    def get_value(self) -> T:
        """Return the value. Raises the exception."""
        if self.error is not None:
            raise self.error
        return cast("T", self.value)


async def _catch_error(work: Awaitable[T]) -> _WorkOutcome[T]:
    """Return the outcome of work; only a cancellation is raised."""
    try:
        return _WorkOutcome(await work)
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001  # REASON: it is raised again in the caller's task
        return _WorkOutcome(error=error)


class _Caller:
    """The task of the caller of a tool, and how often its cancellation was requested before the call."""

    __slots__ = ("before", "task")

    def __init__(self) -> None:
        self.task = asyncio.current_task()
        self.before = 0 if self.task is None else self.task.cancelling()


@coroutine
def end_when_cancelled(
    work: Awaitable[T],
    name: str,
    find_cleanup: Callable[[], float] | None = None,
    caller: _Caller | None = None,
) -> Generator[Any, None, T]:
    """Await work that must end soon after the task of its caller was cancelled.

    Args:
        work: the awaitable of the tool.
        name: the name of the tool, for the log.
        find_cleanup: returns the most seconds for its cleanup, if these are fewer than usual; called
            when the task was cancelled.
        caller: the task of the caller, if it is not this one; this one is cancelled with it.

    Raises:
        CancelledError: the task was cancelled meanwhile, and the work has ended in any way.
    """
    task = asyncio.current_task() if caller is None else caller.task
    before = caller.before if caller is not None else 0 if task is None else task.cancelling()
    steps = work.__await__()
    cleanup: _Cleanup | None = None
    thrown: BaseException | None = None
    has_waited = False
    try:
        while True:
            try:
                waits_for = next(steps) if thrown is None else _throw(steps, thrown)
            except BaseException as end:
                # A timeout within the tool is no cancellation from outside.
                if task is not None and task.cancelling() > before:
                    is_own = caller is None and not has_waited
                    yield from _end_cancelled(task, end, before if is_own else None)
                if isinstance(end, StopIteration):
                    return end.value  # type: ignore[no-any-return]  # REASON: Any in typeshed
                raise
            if cleanup is None and task is not None and task.cancelling() > before:
                bound = LONGEST_CLEANUP if find_cleanup is None else find_cleanup()
                cleanup = _Cleanup(min(LONGEST_CLEANUP, bound))
            thrown, has_waited = None, True
            try:
                yield waits_for
            except GeneratorExit:
                _close(steps, name)
                raise
            except BaseException as error:  # REASON: the tool gets it
                if cleanup is not None and cleanup.is_overdue:
                    cleanup.abandon(steps, name)
                    raise
                thrown = error
    finally:
        if cleanup is not None:
            cleanup.timer.cancel()


def _end_cancelled(
    task: asyncio.Task[Any], end: BaseException, before: int | None
) -> Generator[None, None, None]:
    """Raise CancelledError for work that ended in any way although the task of its caller was cancelled.

    Args:
        task: the task of the caller.
        end: the end of the work. An exception that is not an `Exception` is left to the caller.
        before: how often a cancellation was requested before the work, if the work has requested all others itself,
            in the task of the caller. These are taken back.
    """
    if before is not None:
        while task.cancelling() > before:
            task.uncancel()
        with suppress(asyncio.CancelledError):
            yield  # the request is delivered here
    if isinstance(end, Exception):
        raise asyncio.CancelledError from end


class _Cleanup:
    """The time that a tool has to end after its cancellation. Its task is cancelled again when the time is over.

    Args:
        seconds: the time.
    """

    __slots__ = ("_seconds", "_task", "is_overdue", "timer")

    def __init__(self, seconds: float) -> None:
        self._task = asyncio.current_task()
        self._seconds = seconds
        self.is_overdue = False
        self.timer = asyncio.get_running_loop().call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        self.is_overdue = True
        if self._task is not None:
            self._task.cancel()

    def abandon(self, steps: Generator[Any, Any, object], name: str) -> None:
        """Leave the work, which does not end."""
        if self._task is not None:
            self._task.uncancel()  # the request of `_give_up`; the first one is still counted
        _log.warning(
            "function %r did not end within %g seconds of its cancellation, and is abandoned",
            name,
            self._seconds,
        )
        _close(steps, name)


_abandoned: list[Generator[Any, Any, Any]] = []


def _throw(steps: Generator[Any, Any, Any], error: BaseException) -> object:
    """Raise an error in the work; an awaitable without `throw` raises it itself."""
    throw = getattr(steps, "throw", None)
    if throw is None:
        raise error
    return throw(error)


def _close(steps: Generator[Any, Any, Any], name: str) -> None:
    """Close the work without waiting for it."""
    close = getattr(steps, "close", None)
    if close is None:
        return
    try:
        close()
    except RuntimeError:
        # It awaits something instead of ending. Python would try to close it again when it is
        # collected, and print an error.
        _abandoned.append(steps)
    except Exception as error:  # noqa: BLE001  # REASON: the tool is the user's code
        _log.warning("function %r raised %s when it was closed", name, type(error).__name__)
