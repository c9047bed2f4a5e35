"""The nine faults, and what the server sees while a caller meets one.

A fault that passes comes once, and then the answer; one that stays comes each time. A result is right if it is the
answer, or for a fault that stays, the SDK's own error, which a program can tell apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypedDict

from holdfast.testing import Emulator
from holdfast.testing.emulator import (
    Delay,
    DropAfter,
    EmulatedRequest,
    ErrorResponse,
    Fault,
    Html200,
    HttpStatus,
    call,
)

ANSWER = {"name": "Ana", "age": 7}
TEXT = '{"name": "Ana", "age": 7}'
RETRY_AFTER = 3


@dataclass(frozen=True)
class NamedFault:
    """A fault as the table names it.

    Args:
        name: the name.
        fault: what the emulator does; None for a reply that is bad in itself.
        bad: the bad reply: its text, and the arguments of a call where tools are offered.
        stays: whether it comes each time.
        is_stream: whether it concerns a stream.
        wait: the seconds that the server asks for.
    """

    name: str
    fault: Fault | None = None
    bad: str | None = None
    stays: bool = False
    is_stream: bool = False
    wait: float | None = None


FAULTS = (
    NamedFault("503", HttpStatus(503)),
    NamedFault(
        f"429 with Retry-After: {RETRY_AFTER}",
        ErrorResponse("rate_limit", {"retry-after": str(RETRY_AFTER)}),
        wait=RETRY_AFTER,
    ),
    NamedFault("quota used up", ErrorResponse("insufficient_quota"), stays=True),
    NamedFault("wrong key", ErrorResponse("bad_key"), stays=True),
    NamedFault("silence until the timeout", Delay(2.5)),
    NamedFault("an HTML page with status 200", Html200()),
    NamedFault("an empty reply", bad=""),
    NamedFault("a stream that breaks off", DropAfter(2), is_stream=True),
    NamedFault("a typed answer without a field", bad='{"name": "Ana"}'),
)


class Met(TypedDict):
    """What was seen: by the server, and by the caller.

    Args:
        requests: how many requests came.
        waits: the seconds between them.
        told: the answer, or the name of the error.
        is_right: whether that is right.
        names_problem: whether the second request says what was wrong with the answer.
    """

    requests: int
    waits: list[float]
    told: str
    is_right: bool
    names_problem: bool


def meet_fault(fault: NamedFault, ask: Callable[[str, bool], dict[str, Any]]) -> Met:
    """Let a caller meet a fault.

    Args:
        fault: the fault.
        ask: makes a call to this base URL, streamed or not, and returns what the caller was told.
    """

    def reply(request: EmulatedRequest) -> Any:
        is_bad = fault.bad is not None and request.number == 1
        text = fault.bad if is_bad and fault.bad is not None else TEXT
        if request.tools and text:
            return call(request.tools[0].name, {"name": "Ana"} if is_bad else ANSWER)
        return text

    entries = (lambda _request: fault.fault) if fault.stays else [fault.fault]
    with Emulator(reply, faults=entries) as emulator:
        told = ask(emulator.base_url, fault.is_stream)
        seen = [request for request in emulator.requests if request.number]
    times = [request.received for request in seen]
    answer = told.get("answer")
    is_answer = answer in (ANSWER, TEXT)
    lengths = [len(request.body["messages"]) for request in seen if isinstance(request.body, dict)]
    return Met(
        requests=len(seen),
        waits=[round(after - before, 1) for before, after in pairwise(times)],
        told="the answer" if is_answer else str(told.get("error") or f"{answer!r} as an answer"),
        is_right=bool(told.get("is_sdk_error")) if fault.stays else is_answer,
        names_problem=len(lengths) > 1 and lengths[1] > lengths[0],
    )
