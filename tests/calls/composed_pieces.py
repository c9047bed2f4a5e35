"""The pieces in every order around real clients, under nine faults: what each order makes of them."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from tests.calls.real_clients import ANSWER, open_call, sender
from tests.calls.real_clients import send as make_call
from tests.resilience.operations import Bench

from holdfast.calls import ResponseHandler, resilient
from holdfast.core.errors import ErrorCategory
from holdfast.resilience import BreakerStrategy, CallMetrics, CircuitBreaker, MetricsRecorder, Retry
from holdfast.resilience.retry.options import RetryOptions
from holdfast.testing import Emulator
from holdfast.testing.emulator import (
    DropAfter,
    EmptyChoices,
    ErrorResponse,
    Fault,
    Html200,
    HttpStatus,
    NoTerminator,
)

Function = Callable[..., Any]


class Case(Struct, frozen=True, kw_only=True):
    """A fault, the kinds of results that clients make of it, and the wait before another attempt, if there is one."""

    fault: Fault
    kinds: tuple[str, ...] = ("error",)
    waits: tuple[float, ...] = (1.0,)


WHOLE = {
    "503": Case(fault=HttpStatus(503)),
    "429 with a wait": Case(fault=HttpStatus(429, {"retry-after": "7"}), waits=(7.0,)),
    "a used-up quota": Case(fault=ErrorResponse("insufficient_quota"), waits=()),
    "a wrong key": Case(fault=HttpStatus(401), waits=()),
    "a page of HTML": Case(fault=Html200(), kinds=("invalid", "empty", "error")),
    "an empty reply": Case(fault=EmptyChoices(), kinds=("empty",)),
    "a lost connection": Case(fault=DropAfter(2), kinds=("error", "unterminated")),
}
CUT = {"a cut stream": Case(fault=NoTerminator(), kinds=("unterminated",))}

OUTER = resilient(Retry(RetryOptions(max_retries=1)), env=Bench().env)

ORDERS: dict[str, Callable[[Function, Function, Function], Function]] = {
    "send(guard(f))": lambda f, send, guard: functools.partial(send, guard(f)),
    "guard(send(f))": lambda f, send, guard: guard(functools.partial(send, f)),
    "send(guard(send(f)))": lambda f, send, guard: functools.partial(
        send, guard(functools.partial(send, f))
    ),
    "send(send(guard(f)))": lambda f, send, guard: functools.partial(
        send, functools.partial(send, guard(f))
    ),
    "outer(send(guard(f)))": lambda f, send, guard: OUTER(functools.partial(send, guard(f))),
    "send(outer(guard(f)))": lambda f, send, guard: functools.partial(send, OUTER(guard(f))),
}


class Seen(Struct, kw_only=True):
    """What one call did: at the server, in its result, in metrics and breaker, and the seconds that it waited."""

    requests: int
    kind: str
    text: str
    successes: int
    retries: dict[int, int]
    unwell: int
    waits: tuple[float, ...]
    attempts: int


async def run(order: str, call: Function, send: Function, provider: Emulator) -> Seen:
    """Make one call with the pieces in this order; one repetition is allowed."""
    bench, metrics, breaker = Bench(), CallMetrics(), CircuitBreaker("any")
    guard = resilient(
        Retry(RetryOptions(max_retries=1)),
        MetricsRecorder(metrics),
        BreakerStrategy(breaker),
        env=bench.env,
    )

    async def acall() -> Any:
        value = call()
        return await value if inspect.isawaitable(value) else value

    is_async = inspect.iscoroutinefunction(send)
    function = ORDERS[order](acall if is_async else call, send, guard)
    before = len(provider.requests)
    try:
        result = await function() if is_async else await asyncio.to_thread(function)
    except Exception as error:  # noqa: BLE001  # REASON: a guard that is outside raises what has failed
        result = ResponseHandler().result(error)
    counts = metrics.snapshot()
    return Seen(
        requests=len(provider.requests) - before,
        kind=result.kind.value,
        text=result.text,
        successes=counts.successful_calls,
        retries=dict(counts.retry_counts),
        unwell=breaker.snapshot().failures,
        waits=tuple(bench.clock.sleeps),
        attempts=result.attempts,
    )


async def check_orders(
    client: str, wire: str, *, streamed: bool, orders: Sequence[str] = tuple(ORDERS)
) -> None:
    """Check that every order makes of each fault, once and always, what the sender alone reports, and repeats it."""
    coming: list[Fault | None] = []
    send = sender(client, streamed=streamed)
    async with (
        Emulator(lambda _: ANSWER, faults=lambda _: coming.pop(0) if coming else None) as provider,
        open_call(client, wire, provider, streamed=streamed) as call,
    ):
        for name, case in {**WHOLE, **(CUT if streamed else {})}.items():
            coming[:] = [case.fault]
            alone = await make_call(client, call, streamed=streamed)
            assert alone.kind.value in case.kinds, (name, alone)
            attempts = 1 + len(case.waits)
            unwell = attempts if alone.category in UNWELL else 0
            for order in orders:
                where = (order, name, client, wire)
                coming[:] = [case.fault]
                once = await run(order, call, send, provider)
                expected = Seen(
                    requests=attempts,
                    kind="text" if case.waits else alone.kind.value,
                    text=ANSWER if case.waits else "",
                    successes=len(case.waits),
                    retries={attempts: 1},
                    unwell=unwell // attempts,
                    waits=case.waits,
                    attempts=once.attempts if order in RAISES and not case.waits else attempts,
                )
                assert once == expected, where
                coming[:] = [case.fault] * attempts
                always = await run(order, call, send, provider)
                assert always == replace(
                    expected,
                    kind=alone.kind.value,
                    text="",
                    successes=0,
                    unwell=unwell,
                    attempts=always.attempts if order in RAISES else attempts,
                ), where


UNWELL = {
    ErrorCategory.SERVER_ERROR,
    ErrorCategory.TRANSIENT,
    ErrorCategory.TIMEOUT,
    ErrorCategory.RATE_LIMIT_RETRYABLE,
    ErrorCategory.INVALID_RESPONSE,
}
"""What a circuit breaker counts as a failure of the endpoint."""
RAISES = ("guard(send(f))", "outer(send(guard(f)))")
"""Here the outermost piece raises the last error, which has no number of attempts."""
