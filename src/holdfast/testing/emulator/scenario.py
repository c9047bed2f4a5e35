"""Plans the actions of the server for a reply and the faults of its request.

This module is pure: it makes a list of actions, and neither sends nor waits.
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
    ErrorResponse,
    ExtraHeaders,
    Fault,
    GarbageLine,
    Html200,
    HttpStatus,
    NoTerminator,
    OddJson,
    Pace,
    RepeatedArguments,
    ResetAfterHeaders,
    ResetBeforeHeaders,
    ReusedToolIds,
    SplitEveryByte,
    Stall,
    TruncatedJson,
    WrongContentType,
)
from holdfast.testing.emulator.wires.emulator_wire import (
    EmulatedError,
    EmulatorWire,
    Rendering,
    kind_for,
)

JSON_TYPE = "application/json"
STREAM_TYPE = "text/event-stream; charset=utf-8"

Faults: TypeAlias = Sequence[Fault]
_F = TypeVar("_F")


class EmulatedReply(Struct, frozen=True):
    """A response without faults of the connection."""

    status: int
    headers: Mapping[str, str]
    pieces: tuple[bytes, ...]
    streamed: bool = False
    keep_alive: bytes = b" "


class SendHead(Struct, frozen=True):
    """Send status and headers; without a length the body is sent in chunks."""

    status: int
    headers: Mapping[str, str]
    length: int | None


class Send(Struct, frozen=True):
    """Send a part of the body."""

    data: bytes


class Pause(Struct, frozen=True):
    """Wait; if there is a `comment`, send it every `every` seconds."""

    seconds: float
    comment: bytes = b""
    every: float = 1.0


class Reset(Struct, frozen=True):
    """Reset the connection."""


class Close(Struct, frozen=True):
    """Close the connection normally, even in the middle of the body."""


class End(Struct, frozen=True):
    """End the body."""


ServerAction: TypeAlias = SendHead | Send | Pause | Reset | Close | End


def is_unanswered(faults: Faults) -> bool:
    """Whether a fault prevents any response, so that no reply is needed."""
    return any(isinstance(fault, ResetBeforeHeaders | CloseBeforeHeaders) for fault in faults)


def find_refusal(wire: EmulatorWire, faults: Faults) -> EmulatedReply | None:
    """Return the response that a fault sends instead of the reply, if there is one."""
    for fault in faults:
        match fault:
            case HttpStatus():
                return _render_status(wire, fault)
            case ErrorResponse():
                return make_error_reply(wire.error_body(fault.kind), fault.headers)
            case OddJson():
                return _wrap_json(msgspec.json.encode(fault.body))
            case Html200():
                return EmulatedReply(200, {"content-type": "text/html"}, (fault.html.encode(),))
    return None


def make_error_reply(
    error: EmulatedError, headers: Mapping[str, str] | None = None
) -> EmulatedReply:
    """Make an error response with the provider's text."""
    given = {name.lower(): value for name, value in (headers or {}).items()}
    own = dict(error.headers)
    if "retry-after" in given:
        own.pop("retry-after-ms", None)  # a client would read it first
    merged = {"content-type": JSON_TYPE, **own, **given}
    return EmulatedReply(error.status, merged, (msgspec.json.encode(error.body),))


def wrap_in_array(answer: EmulatedReply) -> EmulatedReply:
    """Wrap an error response in an array, for a client that wants the stream as one array."""
    if not answer.headers.get("content-type", "").startswith(JSON_TYPE):
        return answer
    return msgspec.structs.replace(answer, pieces=(b"[", *answer.pieces, b"]"))


def render_reply(
    wire: EmulatorWire, reply: Reply, rendering: Rendering, faults: Faults, *, stream: bool
) -> EmulatedReply:
    """Render a reply on a wire, with the faults that change its content.

    Args:
        wire: the wire.
        reply: the reply.
        rendering: names, numbers and chunking.
        faults: the faults of the request.
        stream: whether the client wants a stream.
    """
    reply = _change_calls(reply, faults)
    rendering = msgspec.structs.replace(
        rendering,
        terminate=not _has_kind(faults, NoTerminator),
        choices=not _has_kind(faults, EmptyChoices),
        repeats=next((fault.form for fault in _of_kind(faults, RepeatedArguments)), ""),
    )
    if stream:
        answer = _render_stream(wire, reply, rendering, faults)
    else:
        answer = _wrap_json(_spoil_whole(wire, wire.render_whole(reply, rendering), faults))
    for fault in _of_kind(faults, WrongContentType):
        answer = msgspec.structs.replace(answer, headers={"content-type": fault.content_type})
    for extra in _of_kind(faults, ExtraHeaders):
        answer = msgspec.structs.replace(answer, headers={**answer.headers, **extra.headers})
    return answer


def plan_actions(answer: EmulatedReply, faults: Faults) -> list[ServerAction]:
    """Plan the actions of the server, in order; the last one is `Reset`, `Close` or `End`.

    >>> [type(action).__name__ for action in plan_actions(EmulatedReply(200, {}, (b"a", b"b"), True), [DropAfter(1)])]
    ['SendHead', 'Send', 'Reset']
    """
    actions: list[ServerAction] = [Pause(fault.seconds) for fault in _of_kind(faults, Delay)]
    if _has_kind(faults, ResetBeforeHeaders):
        return [*actions, Reset()]
    if _has_kind(faults, CloseBeforeHeaders):
        return [*actions, Close()]
    pieces = answer.pieces
    if not answer.streamed and any(isinstance(f, DropAfter | Stall | Pace) for f in faults):
        pieces = _split_half(b"".join(pieces))
    commented = any(stall.comments for stall in _of_kind(faults, Stall))
    chunked = answer.streamed or commented
    length = None if chunked else sum(len(piece) for piece in pieces)
    actions.append(SendHead(answer.status, answer.headers, length))
    if _has_kind(faults, ResetAfterHeaders):
        return [*actions, Reset()]
    for action in _plan_body(msgspec.structs.replace(answer, pieces=pieces), faults):
        actions.append(action)
        if isinstance(action, Reset | Close):
            return actions
    return [*actions, End()]


def _plan_body(answer: EmulatedReply, faults: Faults) -> Iterator[ServerAction]:
    pieces, streamed = answer.pieces, answer.streamed
    last = len(pieces)
    alone = _has_kind(faults, SplitEveryByte)
    for index in range(last + 1):
        for stall in _of_kind(faults, Stall):
            if min(stall.after, last) == index:
                comment = answer.keep_alive if stall.comments else b""
                yield Pause(stall.seconds, comment, stall.every)
        for drop in _of_kind(faults, DropAfter):
            if min(drop.chunks, last if streamed else last - 1) == index:
                yield Reset() if drop.reset else Close()
        if index == last:
            return
        if index:
            yield from (Pause(pace.seconds) for pace in _of_kind(faults, Pace))
        piece = pieces[index]
        if alone:
            yield from (Send(piece[at : at + 1]) for at in range(len(piece)))
        else:
            yield Send(piece)


def _render_stream(
    wire: EmulatorWire, reply: Reply, rendering: Rendering, faults: Faults
) -> EmulatedReply:
    pieces = _spoil_stream(wire, wire.render_chunks(reply, rendering), faults)
    if not rendering.array:
        kind = {"content-type": STREAM_TYPE}
        return EmulatedReply(200, kind, tuple(pieces), streamed=True, keep_alive=wire.KEEP_ALIVE)
    closed = rendering.terminate and not _has_kind(faults, TruncatedJson)
    listed = as_array(pieces, closed=closed)
    return EmulatedReply(200, {"content-type": JSON_TYPE}, tuple(listed), streamed=True)


def _change_calls(reply: Reply, faults: Faults) -> Reply:
    parts = reply.parts
    for cut in _of_kind(faults, CutToolArguments):
        parts = tuple(
            msgspec.structs.replace(part, arguments=_keep_share(part.arguments, cut.keep))
            if isinstance(part, ToolCall)
            else part
            for part in parts
        )
    for reused in _of_kind(faults, ReusedToolIds):
        parts = tuple(
            msgspec.structs.replace(part, id=reused.id) if isinstance(part, ToolCall) else part
            for part in parts
        )
    return reply if parts is reply.parts else msgspec.structs.replace(reply, parts=parts)


def _keep_share(text: str, share: float) -> str:
    return text[: min(int(len(text) * share), len(text) - 1)]


def _spoil_stream(wire: EmulatorWire, pieces: list[bytes], faults: Faults) -> list[bytes]:
    for garbage in _of_kind(faults, GarbageLine):
        pieces.insert(garbage.after, garbage.line + b"\n\n")
    for error in _of_kind(faults, ErrorEvent):
        body = _error_json(wire, error)
        last = wire.error_event(body) if error.framed else body + b"\n\n"
        pieces = [*pieces[: error.after], last]
    for cut in _of_kind(faults, TruncatedJson):
        at = min(int(len(pieces) * cut.keep), len(pieces) - 1)
        pieces = [*pieces[:at], pieces[at][: len(pieces[at]) // 2]]
    return pieces


def _spoil_whole(wire: EmulatorWire, body: bytes, faults: Faults) -> bytes:
    for error in _of_kind(faults, ErrorEvent):
        body = wire.error_whole(_error_json(wire, error))
    for garbage in _of_kind(faults, GarbageLine):
        body = garbage.line + b"\n" + body
    for cut in _of_kind(faults, TruncatedJson):
        body = body[: min(int(len(body) * cut.keep), len(body) - 1)]
    return body


def _error_json(wire: EmulatorWire, error: ErrorEvent) -> bytes:
    body = wire.error_body(error.kind).body if error.body is None else error.body
    return msgspec.json.encode(body)


def _render_status(wire: EmulatorWire, fault: HttpStatus) -> EmulatedReply:
    if fault.body is None:
        known = wire.error_body(kind_for(fault.status))
        # Headers such as Retry-After belong to one error and not to every status.
        headers = known.headers if known.status == fault.status else {}
        return make_error_reply(EmulatedError(fault.status, known.body, headers), fault.headers)
    if isinstance(fault.body, bytes | str):
        data = fault.body if isinstance(fault.body, bytes) else fault.body.encode()
        kind = "text/html" if data.lstrip()[:1] == b"<" else "text/plain"
        kind = JSON_TYPE if data.lstrip()[:1] in (b"{", b"[") else kind
    else:
        data, kind = msgspec.json.encode(fault.body), JSON_TYPE
    return EmulatedReply(fault.status, {"content-type": kind, **fault.headers}, (data,))


def _wrap_json(body: bytes) -> EmulatedReply:
    return EmulatedReply(200, {"content-type": JSON_TYPE}, (body,))


def _split_half(body: bytes) -> tuple[bytes, ...]:
    middle = len(body) // 2
    return (body[:middle], body[middle:])


def _of_kind(faults: Faults, kind: type[_F]) -> list[_F]:
    return [fault for fault in faults if isinstance(fault, kind)]


def _has_kind(faults: Faults, kind: type[Fault]) -> bool:
    return any(isinstance(fault, kind) for fault in faults)


_DATA = b"data: "


def as_array(events: Sequence[bytes], *, closed: bool) -> list[bytes]:
    r"""Convert events to the elements of one array, one part each.

    Args:
        events: the events of the stream; other bytes stay unchanged.
        closed: whether to add the closing bracket.

    >>> as_array([b'data: {"a": 1}\r\n\r\n', b'data: {"b": 2}\n\n'], closed=True)
    [b'[{"a": 1}\n', b',\r\n{"b": 2}\n', b']']
    """
    pieces = [
        (b",\r\n" if at else b"[") + event.removeprefix(_DATA).rstrip(b"\r\n") + b"\n"
        for at, event in enumerate(events)
    ]
    return [*(pieces or [b"["]), b"]"] if closed else pieces
