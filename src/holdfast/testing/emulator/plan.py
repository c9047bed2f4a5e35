"""From a reply and the faults of its request to what the server does, act by act. Pure.

Everything that can be said about a fault without a socket is said here. This module must never
wait, send or look at a clock: it only writes down what shall happen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from holdfast.core.messages import Reply, ToolCall
from holdfast.testing.emulator.faults import (
    CloseBeforeHeaders,
    CutToolArguments,
    Delay,
    DropAfter,
    EmptyChoices,
    ErrorEvent,
    ExtraHeaders,
    Fault,
    GarbageLine,
    Html200,
    NoTerminator,
    OddJson,
    Pace,
    Refused,
    ResetAfterHeaders,
    ResetBeforeHeaders,
    ReusedToolIds,
    SplitEveryByte,
    Stall,
    Status,
    TruncatedJson,
    WrongContentType,
)
from holdfast.testing.emulator.wires.framing import as_array
from holdfast.testing.emulator.wires.port import ErrorBody, Rendering, Wire, kind_for

JSON_TYPE = "application/json"
STREAM_TYPE = "text/event-stream; charset=utf-8"

Faults: TypeAlias = Sequence[Fault]
_F = TypeVar("_F")


class Answer(Struct, frozen=True):
    """A response as it would be without anything wrong with the connection."""

    status: int
    headers: Mapping[str, str]
    pieces: tuple[bytes, ...]
    streamed: bool = False
    keep_alive: bytes = b" "


class Head(Struct, frozen=True):
    """Send status and headers; the body has a length, or it comes in chunks."""

    status: int
    headers: Mapping[str, str]
    length: int | None


class Send(Struct, frozen=True):
    """Send a piece of the body."""

    data: bytes


class Wait(Struct, frozen=True):
    """Wait, sending `comment` every so many seconds if there is one."""

    seconds: float
    comment: bytes = b""
    every: float = 1.0


class Reset(Struct, frozen=True):
    """Reset the connection."""


class Close(Struct, frozen=True):
    """Close the connection in order, wherever the body stands."""


class End(Struct, frozen=True):
    """The body is over."""


Act: TypeAlias = Head | Send | Wait | Reset | Close | End


def unanswered(faults: Faults) -> bool:
    """Whether the client will see nothing, so that the brain need not be asked."""
    return any(isinstance(fault, ResetBeforeHeaders | CloseBeforeHeaders) for fault in faults)


def refusal(wire: Wire, faults: Faults) -> Answer | None:
    """The answer that replaces the brain's, if a fault makes one."""
    for fault in faults:
        match fault:
            case Status():
                return _status(wire, fault)
            case Refused():
                return error_answer(wire.error_body(fault.kind), fault.headers)
            case OddJson():
                return _whole(msgspec.json.encode(fault.body))
            case Html200():
                return Answer(200, {"content-type": "text/html"}, (fault.html.encode(),))
    return None


def error_answer(error: ErrorBody, headers: Mapping[str, str] | None = None) -> Answer:
    """A refusal in the provider's words."""
    merged = {"content-type": JSON_TYPE, **error.headers, **(headers or {})}
    return Answer(error.status, merged, (msgspec.json.encode(error.body),))


def listed(answer: Answer) -> Answer:
    """A refusal of a stream that is wanted as one array: an array of it alone."""
    if not answer.headers.get("content-type", "").startswith(JSON_TYPE):
        return answer
    return msgspec.structs.replace(answer, pieces=(b"[", *answer.pieces, b"]"))


def reply_answer(
    wire: Wire, reply: Reply, rendering: Rendering, faults: Faults, *, stream: bool
) -> Answer:
    """The brain's reply on its wire, with the faults that change its words.

    Args:
        wire: how it is said.
        reply: what is said.
        rendering: names, numbers and chunking.
        faults: those of this request.
        stream: whether a stream was asked for.
    """
    reply = _reshaped(reply, faults)
    rendering = msgspec.structs.replace(
        rendering,
        terminate=not _has(faults, NoTerminator),
        choices=not _has(faults, EmptyChoices),
    )
    if stream:
        answer = _stream(wire, reply, rendering, faults)
    else:
        answer = _whole(_spoiled_whole(wire, wire.render_whole(reply, rendering), faults))
    for fault in _of(faults, WrongContentType):
        answer = msgspec.structs.replace(answer, headers={"content-type": fault.content_type})
    for extra in _of(faults, ExtraHeaders):
        answer = msgspec.structs.replace(answer, headers={**answer.headers, **extra.headers})
    return answer


def acts(answer: Answer, faults: Faults) -> list[Act]:
    """What the server does, in order; the last act is `Reset`, `Close` or `End`.

    >>> [type(act).__name__ for act in acts(Answer(200, {}, (b"a", b"b"), True), [DropAfter(1)])]
    ['Head', 'Send', 'Reset']
    """
    done: list[Act] = [Wait(fault.seconds) for fault in _of(faults, Delay)]
    if _has(faults, ResetBeforeHeaders):
        return [*done, Reset()]
    if _has(faults, CloseBeforeHeaders):
        return [*done, Close()]
    pieces = answer.pieces
    if not answer.streamed and any(isinstance(f, DropAfter | Stall | Pace) for f in faults):
        pieces = _halves(b"".join(pieces))
    commented = any(stall.comments for stall in _of(faults, Stall))
    chunked = answer.streamed or commented
    length = None if chunked else sum(len(piece) for piece in pieces)
    done.append(Head(answer.status, answer.headers, length))
    if _has(faults, ResetAfterHeaders):
        return [*done, Reset()]
    for act in _body(msgspec.structs.replace(answer, pieces=pieces), faults):
        done.append(act)
        if isinstance(act, Reset | Close):
            return done
    return [*done, End()]


def _body(answer: Answer, faults: Faults) -> Iterator[Act]:
    pieces, streamed = answer.pieces, answer.streamed
    last = len(pieces)
    alone = _has(faults, SplitEveryByte)
    for index in range(last + 1):
        for stall in _of(faults, Stall):
            if min(stall.after, last) == index:
                said = answer.keep_alive if stall.comments else b""
                yield Wait(stall.seconds, said, stall.every)
        for drop in _of(faults, DropAfter):
            if min(drop.chunks, last if streamed else last - 1) == index:
                yield Reset() if drop.reset else Close()
        if index == last:
            return
        if index:
            yield from (Wait(pace.seconds) for pace in _of(faults, Pace))
        piece = pieces[index]
        if alone:
            yield from (Send(piece[at : at + 1]) for at in range(len(piece)))
        else:
            yield Send(piece)


def _stream(wire: Wire, reply: Reply, rendering: Rendering, faults: Faults) -> Answer:
    pieces = _spoiled_stream(wire, wire.render_chunks(reply, rendering), faults)
    if not rendering.array:
        kind = {"content-type": STREAM_TYPE}
        return Answer(200, kind, tuple(pieces), streamed=True, keep_alive=wire.KEEP_ALIVE)
    closed = rendering.terminate and not _has(faults, TruncatedJson)
    listed = as_array(pieces, closed=closed)
    return Answer(200, {"content-type": JSON_TYPE}, tuple(listed), streamed=True)


def _reshaped(reply: Reply, faults: Faults) -> Reply:
    parts = reply.parts
    for cut in _of(faults, CutToolArguments):
        parts = tuple(
            msgspec.structs.replace(part, arguments=_kept(part.arguments, cut.keep))
            if isinstance(part, ToolCall)
            else part
            for part in parts
        )
    for reused in _of(faults, ReusedToolIds):
        parts = tuple(
            msgspec.structs.replace(part, id=reused.id) if isinstance(part, ToolCall) else part
            for part in parts
        )
    return reply if parts is reply.parts else msgspec.structs.replace(reply, parts=parts)


def _kept(text: str, share: float) -> str:
    return text[: min(int(len(text) * share), len(text) - 1)]


def _spoiled_stream(wire: Wire, pieces: list[bytes], faults: Faults) -> list[bytes]:
    for garbage in _of(faults, GarbageLine):
        pieces.insert(garbage.after, garbage.line + b"\n\n")
    for error in _of(faults, ErrorEvent):
        pieces = [*pieces[: error.after], wire.error_event(_error_json(wire, error))]
    for cut in _of(faults, TruncatedJson):
        at = min(int(len(pieces) * cut.keep), len(pieces) - 1)
        pieces = [*pieces[:at], pieces[at][: len(pieces[at]) // 2]]
    return pieces


def _spoiled_whole(wire: Wire, body: bytes, faults: Faults) -> bytes:
    for error in _of(faults, ErrorEvent):
        body = wire.error_whole(_error_json(wire, error))
    for garbage in _of(faults, GarbageLine):
        body = garbage.line + b"\n" + body
    for cut in _of(faults, TruncatedJson):
        body = body[: min(int(len(body) * cut.keep), len(body) - 1)]
    return body


def _error_json(wire: Wire, error: ErrorEvent) -> bytes:
    body = wire.error_body(error.kind).body if error.body is None else error.body
    return msgspec.json.encode(body)


def _status(wire: Wire, fault: Status) -> Answer:
    if fault.body is None:
        known = wire.error_body(kind_for(fault.status))
        # Headers such as Retry-After belong to the refusal that has them, not to any status.
        headers = known.headers if known.status == fault.status else {}
        return error_answer(ErrorBody(fault.status, known.body, headers), fault.headers)
    if isinstance(fault.body, bytes | str):
        data = fault.body if isinstance(fault.body, bytes) else fault.body.encode()
        kind = "text/html" if data.lstrip()[:1] == b"<" else "text/plain"
        kind = JSON_TYPE if data.lstrip()[:1] in (b"{", b"[") else kind
    else:
        data, kind = msgspec.json.encode(fault.body), JSON_TYPE
    return Answer(fault.status, {"content-type": kind, **fault.headers}, (data,))


def _whole(body: bytes) -> Answer:
    return Answer(200, {"content-type": JSON_TYPE}, (body,))


def _halves(body: bytes) -> tuple[bytes, ...]:
    middle = len(body) // 2
    return (body[:middle], body[middle:])


def _of(faults: Faults, kind: type[_F]) -> list[_F]:
    return [fault for fault in faults if isinstance(fault, kind)]


def _has(faults: Faults, kind: type[Fault]) -> bool:
    return any(isinstance(fault, kind) for fault in faults)
