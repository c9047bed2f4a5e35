"""The faults of the emulator as values, and scripts of faults.

A fault describes what the client sees; `scenario` defines how the server does it. A request can have
several faults at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Annotated, Literal, TypeAlias

from msgspec import Struct

from holdfast.core.argument_checks import check_arguments
from holdfast.core.constraints import Wording, between
from holdfast.testing.emulator.emulated_request import EmulatedRequest

ErrorKind: TypeAlias = Literal[
    "rate_limit",
    "insufficient_quota",
    "bad_key",
    "server_error",
    "overloaded",
    "context_length",
    "model_not_found",
    "content_filtered",
    "invalid_request",
]
"""Kinds of errors for which each wire has the real response body."""


class HttpStatus(Struct, frozen=True):
    """An error status. Without a body, the wire's own body for that status is sent.

    Args:
        status: the HTTP status.
        headers: headers that are added to those of the wire or replace them.
        body: bytes and text are sent unchanged, other values as JSON. None means the wire's own
            body for the status.
    """

    status: int
    headers: Mapping[str, str] = {}
    body: object = None


class ErrorResponse(Struct, frozen=True):
    """An error response with the body and headers of the real provider.

    Args:
        kind: the kind of the error.
        headers: headers that are added to those of the provider or replace them. A `retry-after`
            also replaces the `retry-after-ms` of the provider.
    """

    kind: ErrorKind
    headers: Mapping[str, str] = {}


class Delay(Struct, frozen=True):
    """The server waits for `seconds` before it does anything."""

    seconds: float


class Pace(Struct, frozen=True):
    """The server waits for `seconds` between two chunks."""

    seconds: float


class ResetBeforeHeaders(Struct, frozen=True):
    """The connection is reset after the request was read."""


class CloseBeforeHeaders(Struct, frozen=True):
    """The connection is closed without a response, as after a server's idle timeout."""


class ResetAfterHeaders(Struct, frozen=True):
    """The connection is reset after the headers, before the body."""


class DropAfter(Struct, frozen=True):
    """The connection breaks after `chunks` chunks; a complete reply breaks in the middle.

    With `reset=False` it is closed normally, so that only the missing end shows the fault.
    """

    chunks: int = 1
    reset: bool = True


class Stall(Struct, frozen=True):
    """After `after` chunks the server sends nothing for `seconds`, then the rest.

    Args:
        after: the number of chunks before the pause; a larger number than the reply has means
            before the end of the body.
        seconds: the length of the pause.
        comments: whether keep-alive comments are sent (white space if the reply is not streamed).
        every: seconds between two comments.
    """

    after: int = 1
    seconds: float = 3600.0
    comments: bool = False
    every: float = 1.0


class TruncatedJson(Struct, frozen=True):
    """The body ends in the middle of its JSON; `keep` is the share that is sent."""

    keep: float = 0.5


class OddJson(Struct, frozen=True):
    """Status 200 with JSON that is not a reply."""

    body: object


class ErrorEvent(Struct, frozen=True):
    """An error inside a successful stream; a complete reply becomes status 200 with an error.

    Without a body, the wire's own body for `kind` is sent. Unless `framed`, a stream gets the bare JSON
    text instead of an event.
    """

    after: int = 1
    kind: ErrorKind = "server_error"
    body: object = None
    framed: bool = True


class SplitEveryByte(Struct, frozen=True):
    """Every byte is sent separately, including the headers."""


class ExtraHeaders(Struct, frozen=True):
    """A correct response with additional headers, such as those of a rate limit."""

    headers: Mapping[str, str]


class WrongContentType(Struct, frozen=True):
    """The correct body with another content type."""

    content_type: str = "text/plain; charset=utf-8"


class Html200(Struct, frozen=True):
    """An HTML page of a proxy or a portal, with status 200."""

    html: str = (
        "<!DOCTYPE html><html><head><title>Please sign in</title></head>"
        "<body><h1>Please sign in to continue</h1></body></html>"
    )


class NoTerminator(Struct, frozen=True):
    """A stream without its finish reason and end marker; the connection is closed normally."""


class EmptyChoices(Struct, frozen=True):
    """A valid reply without a choice or candidate."""


class CutToolArguments(Struct, frozen=True):
    """The arguments of every tool call are cut; `keep` is the share that is left."""

    keep: float = 0.5


class ReusedToolIds(Struct, frozen=True):
    """Every tool call of every reply has the same id."""

    id: str = "call_0"


class RepeatedArguments(Struct, frozen=True):
    """The streamed arguments of every call repeat, as some servers of Chat Completions send them.

    Args:
        form: "cumulative" sends with each piece all that came before it, "again" sends the whole
            once more at the end.
    """

    form: Literal["cumulative", "again"] = "cumulative"


class GarbageLine(Struct, frozen=True):
    """A line that is not an event, after `after` chunks."""

    after: int = 1
    line: bytes = b'data: {"id": "broken", "choi'


Fault: TypeAlias = (
    HttpStatus
    | ErrorResponse
    | Delay
    | Pace
    | ResetBeforeHeaders
    | CloseBeforeHeaders
    | ResetAfterHeaders
    | DropAfter
    | Stall
    | TruncatedJson
    | OddJson
    | ErrorEvent
    | SplitEveryByte
    | ExtraHeaders
    | WrongContentType
    | Html200
    | NoTerminator
    | EmptyChoices
    | CutToolArguments
    | ReusedToolIds
    | RepeatedArguments
    | GarbageLine
)
"""One way in which a response of the emulator fails."""
OneFault: TypeAlias = Annotated[Fault, Wording('a fault, such as ErrorResponse("overloaded")')]
FaultEntry: TypeAlias = OneFault | Sequence[OneFault] | None
FaultScript: TypeAlias = Sequence[FaultEntry] | Callable[[EmulatedRequest], FaultEntry]

# After one of these faults the scripted reply was not delivered, so the next request gets it.
DESTROYS = (
    HttpStatus,
    ErrorResponse,
    ResetBeforeHeaders,
    CloseBeforeHeaders,
    ResetAfterHeaders,
    DropAfter,
    TruncatedJson,
    OddJson,
    ErrorEvent,
    Html200,
    NoTerminator,
    EmptyChoices,
    CutToolArguments,
    GarbageLine,
)


def faults_for(script: FaultScript, request: EmulatedRequest) -> tuple[Fault, ...]:
    """Return the faults of a request: the list entry of its number, or the function's result.

    >>> from holdfast.testing.emulator.emulated_request import EmulatedRequest
    >>> faults_for([None, Delay(1)], EmulatedRequest(number=2))
    (Delay(seconds=1),)
    """
    if callable(script):
        entry = script(request)
    else:
        entry = script[request.number - 1] if request.number <= len(script) else None
    if entry is None:
        return ()
    return tuple(entry) if isinstance(entry, Sequence) else (entry,)


_CHAOS: tuple[Fault, ...] = (
    ErrorResponse("rate_limit", {"retry-after": "0"}),
    ErrorResponse("server_error"),
    ErrorResponse("overloaded"),
    ResetBeforeHeaders(),
    ResetAfterHeaders(),
    DropAfter(2),
    DropAfter(3, reset=False),
    TruncatedJson(),
    ErrorEvent(2),
    SplitEveryByte(),
    Html200(),
    NoTerminator(),
    EmptyChoices(),
)


@check_arguments
def chaos(
    *, seed: int, share: Annotated[float, between(0, 1)], faults: Sequence[Fault] = _CHAOS
) -> Callable[[EmulatedRequest], Fault | None]:
    """Make a script that lets a random share of the requests fail; it is reproducible by its seed.

    Args:
        seed: the seed of the random numbers.
        share: the share of requests that fail, from 0 to 1.
        faults: the faults to choose from; by default those from which a retry recovers.
    """

    def choose(request: EmulatedRequest) -> Fault | None:
        rng = Random(f"{seed}:{request.number}")
        return rng.choice(faults) if rng.random() < share else None

    return choose
