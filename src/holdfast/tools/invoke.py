"""Runs one attempt of one tool call.

There are four outcomes: the call could not run (the result tells the model what to correct), the
function raised (the exception is returned for the retry strategy), it timed out, or it returned.
A tool without a time limit gets a share of what its turn has left, so that the turn outlives it.
This module never formats an exception for the model, never repeats a call, and never suppresses a
cancellation.

An `Exception` or SystemExit of the tool is a failure of the call: a library that calls `sys.exit`
must not end a server. A CancelledError is a failure too if this task was not cancelled: the tool
awaited something that was cancelled. KeyboardInterrupt and all others are raised.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import aclosing
from functools import partial
from itertools import islice
from types import AsyncGeneratorType, GeneratorType
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from holdfast.core.argument_checks import check_fields
from holdfast.core.constraints import PositiveInt
from holdfast.core.errors import ErrorCategory, ErrorInfo, Landed, ToolFailedError
from holdfast.core.messages import ToolCall, ToolResult
from holdfast.core.notices import ToolStarted
from holdfast.resilience.timeout.pausable_timeout import PausableTimeout, find_share
from holdfast.tools.cancellation import end_when_cancelled
from holdfast.tools.checked_call import (
    CheckedCall,
    Invocation,
    call_failed,
    check_call,
    error_result,
)
from holdfast.tools.context import ToolContext
from holdfast.tools.current import tool_call_scope
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

if TYPE_CHECKING:
    from pydantic import BaseModel  # it is heavy, and imported with the first tool

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
        limit = _find_limit(checked.tool, timeout, None)
        return await _run_attempt(checked, checked.take(), context, limit, options)


async def invoke_checked(
    call: CheckedCall,
    context: ToolContext,
    *,
    timeout: float | None = None,
    turn_timeout: PausableTimeout | None = None,
    options: InvocationOptions = _DEFAULT,
) -> Invocation:
    """Run one attempt of a checked call; the arguments are those of `invoke`, and one more.

    A tool without any timeout gets a share of what is left of `turn_timeout`, the limit of the turn.
    """
    with tool_call_scope(context):
        try:
            validated = call.take()
        except Exception as error:  # noqa: BLE001  # REASON: validators are the user's code
            return call_failed(call.call, error, landed=Landed.NO)
        limit = _find_limit(call.tool, timeout, turn_timeout)
        return await _run_attempt(call, validated, context, limit, options)


async def _run_attempt(
    checked: CheckedCall,
    validated: BaseModel,
    context: ToolContext,
    limit: _TimeLimit | None,
    options: InvocationOptions,
) -> Invocation:
    tool, call = checked.tool, checked.call
    arguments = tool.signature.call_with(validated, context)
    if context.event_sink is not None:
        given = checked.visible_call.arguments
        started = ToolStarted(context.key, call.name, given, context.attempt)
        context.event_sink.publish(started)
    try:
        value = await _call_tool(tool, arguments, limit, options.threads)
    except _TimedOut as timed_out:
        return _timeout_result(call, timed_out, is_share=limit is not None and limit.is_share)
    except Exception as error:  # noqa: BLE001  # REASON: the tool is the user's code
        return call_failed(call, error)
    except SystemExit as error:
        problem = "tried to end the process"
        return call_failed(
            call, _wrap_escaped(call.name, error, ErrorCategory.PROGRAMMING, problem)
        )
    except asyncio.CancelledError as error:
        if _is_cancelled():
            raise
        problem = "waited for something that was cancelled"
        return call_failed(call, _wrap_escaped(call.name, error, ErrorCategory.UNKNOWN, problem))
    if tool.gives_output:
        return Invocation(ToolResult(call.id, call.name, output_content(value)), value=(value,))
    return _returned_result(call, value, tool.result_limit or options.result_limit)


class _TimedOut(Exception):
    """Our own timeout, to distinguish it from a TimeoutError of the tool."""

    def __init__(self, seconds: float, landed: Landed) -> None:
        super().__init__(seconds)
        self.seconds = seconds
        self.landed = landed


class _TimeLimit:
    """The time of one attempt.

    Args:
        seconds: the time.
        turn_timeout: the limit of the turn, if the time is a share of what is left of it.
    """

    __slots__ = ("_scope", "_turn_timeout", "seconds")

    def __init__(self, seconds: float, turn_timeout: PausableTimeout | None = None) -> None:
        self.seconds = seconds
        self._turn_timeout = turn_timeout
        self._scope: asyncio.Timeout | None = None

    @property
    def is_share(self) -> bool:
        """Whether the time is a share of what the turn has left."""
        return self._turn_timeout is not None

    def find_cleanup(self) -> float:
        """Return the most seconds for a cleanup: half of what a share leaves, so that the turn goes on."""
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
            raise _TimedOut(self.seconds, landed) from error


def _find_limit(
    tool: Tool, timeout: float | None, turn_timeout: PausableTimeout | None
) -> _TimeLimit | None:
    seconds = tool.timeout if tool.timeout is not None else timeout
    if seconds is not None:
        return _TimeLimit(seconds)
    if turn_timeout is None or tool.ends_itself:
        return None  # an agent limits its turn itself
    left = turn_timeout.seconds_left
    return None if left is None else _TimeLimit(find_share(left), turn_timeout)


_Arguments = tuple[Sequence[object], dict[str, object]]


def _call_tool(
    tool: Tool, arguments: _Arguments, limit: _TimeLimit | None, threads: ToolThreads
) -> Awaitable[object]:
    """Return an awaitable of the value. It raises _TimedOut, and the exceptions of the tool."""
    positional, keywords = arguments
    work = None
    awaitable: Awaitable[object]
    if tool.kind == "coroutine":
        awaitable = cast("Awaitable[object]", tool.function(*positional, **keywords))
    elif tool.kind == "async_generator":
        awaitable = _drain_async_generator(
            cast("AsyncGenerator[object]", tool.function(*positional, **keywords))
        )
    else:
        work = ThreadCall(tool.name, partial(_call_sync, tool.function, positional, keywords))
        awaitable = _call_in_thread(work, threads)
    if not tool.ends_itself:
        find_cleanup = None if limit is None else limit.find_cleanup
        awaitable = end_when_cancelled(awaitable, tool.name, find_cleanup)
    return awaitable if limit is None else limit.wait_for(awaitable, work)


def _call_sync(
    function: Callable[..., object], positional: Sequence[object], keywords: dict[str, object]
) -> object:
    """Call a function in its thread; the code of a generator runs there too."""
    value = function(*positional, **keywords)
    return _drain_generator(value) if isinstance(value, GeneratorType) else value


async def _call_in_thread(work: ThreadCall, threads: ToolThreads) -> object:
    value = await threads.run(work)
    if inspect.isawaitable(value):
        return await value
    return await _drain_async_generator(value) if isinstance(value, AsyncGeneratorType) else value


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
    """Wrap what is not an `Exception`; the model does not see its text."""
    safe = f"Function '{name}' {problem}."
    info = ErrorInfo(category=category, safe=safe, code=type(error).__name__)
    failed = ToolFailedError(name, f"it {problem}", info=info)
    failed.__cause__ = error
    return failed


def _timeout_result(call: ToolCall, error: _TimedOut, *, is_share: bool) -> Invocation:
    text = f"Function '{call.name}' timed out after {error.seconds:.1f} seconds"
    info = ErrorInfo(category=ErrorCategory.TIMEOUT, landed=error.landed, safe=text, code="timeout")
    return Invocation(None, TimeoutError(text), info, out_of_time=is_share)
