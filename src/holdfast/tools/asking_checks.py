"""Asks the check of a write in doubt, and returns its answer as an event.

A check that raises is called again, since it only reads. Whatever it does, there is an answer: one that it
cannot give is an unknown outcome. This module must never use an answer.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from holdfast.core.events import DoubtChecked
from holdfast.core.messages import ToolCall, ToolResult
from holdfast.core.redaction import redact
from holdfast.resilience.clock import Clock, Rng
from holdfast.tools.results import ResultTypeError, content_of, output_content
from holdfast.tools.threads import ThreadCall, ToolThreads
from holdfast.tools.write_checks import (
    Check,
    CheckAnswer,
    DoubtfulCall,
    Happened,
    NotHappened,
    Unknown,
)

_log = logging.getLogger("holdfast")

TRIES: Final = 3
"""How often a check is called that raises an exception."""

_FIRST_WAIT = 0.2
_LONGEST_WHY = 500


class CheckRequest(Struct, frozen=True, kw_only=True):
    """One question to a check.

    Args:
        key: the key of the event that will have its answer.
        check: the check.
        call: the call in doubt, for the function.
        written: the call as the model wrote it.
        settled_at: the time of the monotonic clock from which on "not happened" is believed; None if
            that is not known yet.
        result_limit: the maximum number of characters of a result.
        is_output: whether the result is the output of a turn.
    """

    key: str
    check: Check
    call: DoubtfulCall
    written: ToolCall
    settled_at: float | None
    result_limit: int
    is_output: bool = False


AskCheck: TypeAlias = Callable[[CheckRequest, Clock, Rng], Awaitable[DoubtChecked]]
"""Asks a check, and returns the event with its answer."""


async def ask_check(request: CheckRequest, clock: Clock, rng: Rng) -> DoubtChecked:
    """Call the function of a check, again after an exception, and return the event with its answer."""
    began = clock.monotonic()
    answer = await _call_until_answered(request, clock, rng)
    settled = request.settled_at is not None and began >= request.settled_at
    event = DoubtChecked(request.key, clock.now(), "not_happened", settled=settled)
    if isinstance(answer, NotHappened):
        return event
    if isinstance(answer, Happened):
        call = request.written
        try:
            if request.is_output:
                content = output_content(answer.result)
            else:
                content = content_of(answer.result, request.result_limit)
        except ResultTypeError as error:
            answer = Unknown(f"it happened, but {error}")
        else:
            result = ToolResult(call.id, call.name, content)
            return msgspec.structs.replace(event, verdict="happened", result=result)
    why = redact(answer.why)[:_LONGEST_WHY]
    return msgspec.structs.replace(event, verdict="unknown", why=why)


async def _call_until_answered(request: CheckRequest, clock: Clock, rng: Rng) -> CheckAnswer:
    failure: BaseException | None = None
    for number in range(TRIES):
        if number:
            await clock.sleep(_FIRST_WAIT * 2 ** (number - 1) * (0.5 + rng() / 2))
        limit = asyncio.timeout(request.check.timeout)
        try:
            async with limit:
                answer = await _call_function(request)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            failure = error  # of something that the check awaited
            continue
        except Exception as error:  # noqa: BLE001  # REASON: the check is the user's code
            if limit.expired():
                return Unknown(f"the check did not answer within {request.check.timeout:g} seconds")
            failure = error
            continue
        if isinstance(answer, Happened | NotHappened | Unknown):
            return answer
        kind = type(answer).__name__
        if answer is NotHappened:
            return Unknown("the check returned the class NotHappened and not NotHappened()")
        _log.warning("the check of %s returned %s, which is no answer", request.call.tool, kind)
        return Unknown(f"the check returned {kind}")
    # The text of the exception may be private.
    kind = type(failure).__name__
    _log.warning("the check of %s failed", request.call.tool, exc_info=failure)
    return Unknown(f"the check failed with {kind}")


# A pool of its own: tools that are stuck are what checks are asked about, and must not hold them up.
_threads = ToolThreads()


async def _call_function(request: CheckRequest) -> object:
    function = request.check.function
    if inspect.iscoroutinefunction(function):
        return await function(request.call)
    name = f"the check of {request.call.tool}"
    value = await _threads.run(ThreadCall(name, partial(function, request.call)))
    return await value if inspect.isawaitable(value) else value
