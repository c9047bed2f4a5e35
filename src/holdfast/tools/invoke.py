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
from typing import cast

import msgspec
from msgspec import Struct

from holdfast.core.errors import ErrorCategory, ErrorInfo, Landed, ToolFailedError
from holdfast.core.limits import check_count
from holdfast.core.messages import Text, ToolCall, ToolResult
from holdfast.core.notices import ToolStarted
from holdfast.resilience.patience import pausable
from holdfast.tools.context import ToolContext
from holdfast.tools.current import answering
from holdfast.tools.failures import ToolError, failure_info, text_of
from holdfast.tools.registry import Registry
from holdfast.tools.results import (
    MOST_ITEMS,
    RESULT_LIMIT,
    ResultTypeError,
    clean,
    content_of,
    cut,
)
from holdfast.tools.threads import ToolThreads, Work
from holdfast.tools.tool import NAME_PATTERN, Tool
from holdfast.tools.wording import Refused, cut_off

_MOST_NAMES = 128
_LONGEST_NAME = 64
_MORE_ITEMS = f"[cut: only the first {MOST_ITEMS:,} items are shown]"
_SHARED_THREADS = ToolThreads()


class Options(Struct, frozen=True, kw_only=True):
    """How tools are run.

    Args:
        result_limit: the most characters of a result, for tools that name no limit.
        threads: where sync tools run; all agents of a process share one pool by default.
    """

    result_limit: int = RESULT_LIMIT
    threads: ToolThreads = _SHARED_THREADS

    def __post_init__(self) -> None:
        check_count("options.result_limit", self.result_limit, at_least=1)


_DEFAULT = Options()


class Invocation(Struct, frozen=True):
    """What came of one attempt.

    `result` is there when the model has something to read now: the tool returned, the call could
    not be run, or the tool raised `ToolError`. Otherwise `error` and `info` say how it failed.
    `info` is there for every failure, with or without a result.
    """

    result: ToolResult | None = None
    error: Exception | None = None
    info: ErrorInfo | None = None


async def invoke(
    registry: Registry,
    call: ToolCall,
    context: ToolContext,
    *,
    unfinished: bool = False,
    timeout: float | None = None,
    options: Options = _DEFAULT,
) -> Invocation:
    """Run one attempt of `call`.

    Args:
        registry: the tools that there are.
        call: as the model wrote it.
        context: for tools that ask for it.
        unfinished: the reply was cut, so that the call must not be run.
        timeout: seconds, for a tool that names none; None waits.
        options: limits and threads.
    """
    tool = registry.get(call.name)
    if tool is None:
        return _not_run(call, "unknown_tool", _unknown(registry, call.name))
    with answering(context):
        return await _answer(
            tool, call, context, unfinished=unfinished, timeout=timeout, options=options
        )


async def _answer(
    tool: Tool,
    call: ToolCall,
    context: ToolContext,
    *,
    unfinished: bool,
    timeout: float | None,
    options: Options,
) -> Invocation:
    try:
        arguments = _arguments(tool, call, context, unfinished=unfinished)
    except Exception as error:  # noqa: BLE001  # REASON: validators are the user's code
        return _failed(call, error, landed=Landed.NO)
    if isinstance(arguments, Invocation):
        return arguments
    if context.outlet is not None and context.attempt == 1:
        context.outlet.publish(ToolStarted(context.key, call.name, call.arguments))
    seconds = tool.timeout if tool.timeout is not None else timeout
    try:
        value = await _run(tool, arguments, seconds, options.threads)
    except _TimedOut as late:
        return _timed_out(call, late)
    except Exception as error:  # noqa: BLE001  # REASON: the tool is the user's code
        return _failed(call, error)
    except SystemExit as error:
        what = "tried to end the process"
        return _failed(call, _escaped(call.name, error, ErrorCategory.PROGRAMMING, what))
    except asyncio.CancelledError as error:
        if _is_cancelled():
            raise
        what = "waited for something that was cancelled"
        return _failed(call, _escaped(call.name, error, ErrorCategory.UNKNOWN, what))
    return _returned(call, value, tool.result_limit or options.result_limit)


class _TimedOut(Exception):
    """Our own timeout, told apart from a TimeoutError that the tool raised."""

    def __init__(self, seconds: float, landed: Landed) -> None:
        super().__init__(seconds)
        self.seconds = seconds
        self.landed = landed


_Arguments = tuple[Sequence[object], dict[str, object]]


def _arguments(
    tool: Tool, call: ToolCall, context: ToolContext, *, unfinished: bool
) -> _Arguments | Invocation:
    signature = tool.signature
    found = cut_off(call.arguments) if unfinished else signature.parse(call.arguments)
    if isinstance(found, Refused):
        return _not_run(call, found.code, found.text)
    return signature.call_with(found, context)


async def _run(
    tool: Tool, arguments: _Arguments, seconds: float | None, threads: ToolThreads
) -> object:
    """The value that the tool returned. Raises _TimedOut, and whatever the tool raises."""
    positional, keywords = arguments
    work = None
    if tool.kind == "coroutine":
        act = cast("Awaitable[object]", tool.function(*positional, **keywords))
    elif tool.kind == "async_generator":
        act = _drain(cast("AsyncGenerator[object]", tool.function(*positional, **keywords)))
    else:
        work = Work(tool.name, partial(_call, tool.function, positional, keywords))
        act = _in_thread(work, threads)
    if seconds is None:
        return await act
    scope = asyncio.timeout(seconds)
    try:
        async with scope:
            with pausable(scope):
                return await act
    except Exception as error:
        if not scope.expired():
            raise
        never_began = work is not None and work.state == "dropped"
        raise _TimedOut(seconds, Landed.NO if never_began else Landed.UNKNOWN) from error


def _call(
    function: Callable[..., object], positional: Sequence[object], keywords: dict[str, object]
) -> object:
    """In the thread: a generator's code runs there too."""
    value = function(*positional, **keywords)
    return _take(value) if isinstance(value, GeneratorType) else value


async def _in_thread(work: Work, threads: ToolThreads) -> object:
    value = await threads.run(work)
    if inspect.isawaitable(value):
        return await value
    return await _drain(value) if isinstance(value, AsyncGeneratorType) else value


def _take(items: Generator[object, object, object]) -> list[object]:
    taken = list(islice(items, MOST_ITEMS))
    if len(taken) == MOST_ITEMS:
        items.close()
        taken.append(_MORE_ITEMS)
    return taken


async def _drain(items: AsyncGenerator[object]) -> list[object]:
    taken: list[object] = []
    async with aclosing(items):
        async for item in items:
            taken.append(item)
            if len(taken) == MOST_ITEMS:
                taken.append(_MORE_ITEMS)
                break
    return taken


def _returned(call: ToolCall, value: object, limit: int) -> Invocation:
    try:
        content = content_of(value, limit)
    except ResultTypeError as error:
        said = f"Function '{call.name}' ran, but {error}."
        info = ErrorInfo(category=ErrorCategory.PROGRAMMING, safe=said, code=type(error).__name__)
        return Invocation(_error_result(call, f"Error: {said}"), error, info)
    return Invocation(ToolResult(call.id, call.name, content))


def _error_result(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call.id, call.name, (Text(cut(clean(text), RESULT_LIMIT)),), is_error=True)


_WHY = {
    "unknown_tool": "there is no such function",
    "malformed_arguments": "its arguments are no JSON object",
    "unfinished_arguments": "its arguments were cut off",
    "invalid_arguments": "its arguments are invalid",
}


def _not_run(call: ToolCall, code: str, text: str) -> Invocation:
    shown = call.name if NAME_PATTERN.fullmatch(call.name) else call.name[:_LONGEST_NAME]
    head = f"Function '{clean(shown)}' was not run: "
    info = ErrorInfo(
        category=ErrorCategory.CLIENT_ERROR,
        landed=Landed.NO,
        safe=f"{head}{_WHY[code]}.",
        code=code,
    )
    return Invocation(_error_result(call, f"Error: {head}{text}"), None, info)


def _unknown(registry: Registry, name: str) -> str:
    """The names that there are, and the one that was probably meant."""
    names = registry.names
    if not names:
        return "there is no such function, and there are no others."
    # Needed only when a model errs.
    from difflib import get_close_matches

    close = get_close_matches(name[:_LONGEST_NAME], names, n=1)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    listed = ", ".join(names[:_MOST_NAMES])
    return f"there is no such function.{hint} The functions are: {listed}{more}."


def _failed(call: ToolCall, error: Exception, landed: Landed | None = None) -> Invocation:
    info = failure_info(error, call.name)
    if landed is not None:
        info = msgspec.structs.replace(info, landed=landed)
    told = isinstance(error, ToolError)
    return Invocation(_error_result(call, text_of(error)) if told else None, error, info)


def _is_cancelled() -> bool:
    """Whether somebody asked this task to stop, by a timeout or from outside."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _escaped(
    name: str, error: BaseException, category: ErrorCategory, what: str
) -> ToolFailedError:
    """What is no Exception, as one; the model is told nothing of it."""
    safe = f"Function '{name}' {what}."
    info = ErrorInfo(category=category, safe=safe, code=type(error).__name__)
    failed = ToolFailedError(name, f"it {what}", info=info)
    failed.__cause__ = error
    return failed


def _timed_out(call: ToolCall, late: _TimedOut) -> Invocation:
    said = f"Function '{call.name}' timed out after {late.seconds:.1f} seconds"
    info = ErrorInfo(category=ErrorCategory.TIMEOUT, landed=late.landed, safe=said, code="timeout")
    return Invocation(None, TimeoutError(said), info)
