"""One attempt of one tool call: check it, run it, and say which of four things happened.

The call could not be run (the model is told what to correct), the function raised (the exception
stays an object, so that retry can see it), it ran out of time, or it returned. This module must
never format an exception for the model, never repeat a call, and never swallow cancellation.

Of what user code can raise, `Exception` and SystemExit are a failure of the tool: a library that
calls `sys.exit` must not end a server. So is a CancelledError when nobody cancelled this task: the
tool awaited what was cancelled in itself. KeyboardInterrupt and everything else passes.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import aclosing
from functools import partial
from itertools import islice
from types import AsyncGeneratorType, GeneratorType
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from holdfast.core.errors import ErrorCategory, ErrorInfo, Landed, ToolFailedError
from holdfast.core.limits import check_count
from holdfast.core.messages import ToolCall, ToolResult
from holdfast.core.notices import ToolStarted
from holdfast.resilience.timeout.pausable_timeout import pausable_timeout
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
from holdfast.tools.results import MOST_ITEMS, RESULT_LIMIT, ResultTypeError, content_of
from holdfast.tools.threads import ThreadCall, ToolThreads
from holdfast.tools.tool import Tool

if TYPE_CHECKING:
    from pydantic import BaseModel  # it is heavy, and imported with the first tool

_MORE_ITEMS = f"[cut: only the first {MOST_ITEMS:,} items are shown]"
_SHARED_THREADS = ToolThreads()


class InvocationOptions(Struct, frozen=True, kw_only=True):
    """How tools are run.

    Args:
        result_limit: the most characters of a result, for tools that name no limit.
        threads: where sync tools run; all agents of a process share one pool by default.
    """

    result_limit: int = RESULT_LIMIT
    threads: ToolThreads = _SHARED_THREADS

    def __post_init__(self) -> None:
        check_count("options.result_limit", self.result_limit, at_least=1)


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
        registry: the tools that there are.
        call: as the model wrote it; or checked before, so that it is not validated again.
        context: for tools that ask for it.
        unfinished: the reply was cut, so that the call must not be run.
        timeout: seconds, for a tool that names none; None waits.
        options: limits and threads.
    """
    with tool_call_scope(context):
        if not isinstance(call, CheckedCall):
            checked = check_call(registry, call, unfinished=unfinished)
            if isinstance(checked, Invocation):
                return checked
            return await _run_attempt(checked, checked.take(), context, timeout, options)
        try:
            validated = call.take()
        except Exception as error:  # noqa: BLE001  # REASON: validators are the user's code
            return call_failed(call.call, error, landed=Landed.NO)
        return await _run_attempt(call, validated, context, timeout, options)


async def _run_attempt(
    checked: CheckedCall,
    validated: BaseModel,
    context: ToolContext,
    timeout: float | None,
    options: InvocationOptions,
) -> Invocation:
    tool, call = checked.tool, checked.call
    arguments = tool.signature.call_with(validated, context)
    if context.event_sink is not None and context.attempt == 1:
        started = ToolStarted(context.key, call.name, checked.visible_call.arguments)
        context.event_sink.publish(started)
    seconds = tool.timeout if tool.timeout is not None else timeout
    try:
        value = await _call_tool(tool, arguments, seconds, options.threads)
    except _TimedOut as late:
        return _timeout_result(call, late)
    except Exception as error:  # noqa: BLE001  # REASON: the tool is the user's code
        return call_failed(call, error)
    except SystemExit as error:
        what = "tried to end the process"
        return call_failed(call, _wrap_escaped(call.name, error, ErrorCategory.PROGRAMMING, what))
    except asyncio.CancelledError as error:
        if _is_cancelled():
            raise
        what = "waited for something that was cancelled"
        return call_failed(call, _wrap_escaped(call.name, error, ErrorCategory.UNKNOWN, what))
    return _returned_result(call, value, tool.result_limit or options.result_limit)


class _TimedOut(Exception):
    """Our own timeout, told apart from a TimeoutError that the tool raised."""

    def __init__(self, seconds: float, landed: Landed) -> None:
        super().__init__(seconds)
        self.seconds = seconds
        self.landed = landed


_Arguments = tuple[Sequence[object], dict[str, object]]


async def _call_tool(
    tool: Tool, arguments: _Arguments, seconds: float | None, threads: ToolThreads
) -> object:
    """The value that the tool returned. Raises _TimedOut, and whatever the tool raises."""
    positional, keywords = arguments
    work = None
    if tool.kind == "coroutine":
        act = cast("Awaitable[object]", tool.function(*positional, **keywords))
    elif tool.kind == "async_generator":
        act = _drain_async_generator(
            cast("AsyncGenerator[object]", tool.function(*positional, **keywords))
        )
    else:
        work = ThreadCall(tool.name, partial(_call_sync, tool.function, positional, keywords))
        act = _call_in_thread(work, threads)
    if seconds is None:
        return await act
    scope = asyncio.timeout(seconds)
    try:
        async with scope:
            with pausable_timeout(scope):
                return await act
    except Exception as error:
        if not scope.expired():
            raise
        never_began = work is not None and work.state == "dropped"
        raise _TimedOut(seconds, Landed.NO if never_began else Landed.UNKNOWN) from error


def _call_sync(
    function: Callable[..., object], positional: Sequence[object], keywords: dict[str, object]
) -> object:
    """In the thread: a generator's code runs there too."""
    value = function(*positional, **keywords)
    return _drain_generator(value) if isinstance(value, GeneratorType) else value


async def _call_in_thread(work: ThreadCall, threads: ToolThreads) -> object:
    value = await threads.run(work)
    if inspect.isawaitable(value):
        return await value
    return await _drain_async_generator(value) if isinstance(value, AsyncGeneratorType) else value


def _drain_generator(items: Generator[object, object, object]) -> list[object]:
    taken = list(islice(items, MOST_ITEMS))
    if len(taken) == MOST_ITEMS:
        items.close()
        taken.append(_MORE_ITEMS)
    return taken


async def _drain_async_generator(items: AsyncGenerator[object]) -> list[object]:
    taken: list[object] = []
    async with aclosing(items):
        async for item in items:
            taken.append(item)
            if len(taken) == MOST_ITEMS:
                taken.append(_MORE_ITEMS)
                break
    return taken


def _returned_result(call: ToolCall, value: object, limit: int) -> Invocation:
    try:
        content = content_of(value, limit)
    except ResultTypeError as error:
        said = f"Function '{call.name}' ran, but {error}."
        info = ErrorInfo(category=ErrorCategory.PROGRAMMING, safe=said, code=type(error).__name__)
        return Invocation(error_result(call, f"Error: {said}"), error, info)
    return Invocation(ToolResult(call.id, call.name, content))


def _is_cancelled() -> bool:
    """Whether somebody asked this task to stop, by a timeout or from outside."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _wrap_escaped(
    name: str, error: BaseException, category: ErrorCategory, what: str
) -> ToolFailedError:
    """What is no Exception, as one; the model is told nothing of it."""
    safe = f"Function '{name}' {what}."
    info = ErrorInfo(category=category, safe=safe, code=type(error).__name__)
    failed = ToolFailedError(name, f"it {what}", info=info)
    failed.__cause__ = error
    return failed


def _timeout_result(call: ToolCall, late: _TimedOut) -> Invocation:
    said = f"Function '{call.name}' timed out after {late.seconds:.1f} seconds"
    info = ErrorInfo(category=ErrorCategory.TIMEOUT, landed=late.landed, safe=said, code="timeout")
    return Invocation(None, TimeoutError(said), info)
