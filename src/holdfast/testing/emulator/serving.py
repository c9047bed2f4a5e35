"""Serves a request: parses it, chooses reply and faults, performs the planned actions, and logs it.

An entry of the log is updated while its request is served. Secrets are masked before an entry is created.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Reasoning, Refusal, Reply, Text, ToolCall, Usage
from holdfast.testing.emulator.connection import ClientGoneError, Connection, RawRequest
from holdfast.testing.emulator.emulated_request import EmulatedRequest, MalformedRequest
from holdfast.testing.emulator.faults import (
    DESTROYS,
    Fault,
    FaultScript,
    SplitEveryByte,
    faults_for,
)
from holdfast.testing.emulator.scenario import (
    Close,
    EmulatedReply,
    Pause,
    Reset,
    Send,
    SendHead,
    ServerAction,
    find_refusal,
    is_unanswered,
    make_error_reply,
    plan_actions,
    render_reply,
    wrap_in_array,
)
from holdfast.testing.emulator.script import EmulatedTurn, Script, as_reply
from holdfast.testing.emulator.wires.dresses import Dress
from holdfast.testing.emulator.wires.emulator_wire import (
    Chunking,
    EmulatedError,
    EmulatorWire,
    Rendering,
    get_wire,
    wire_for,
)
from holdfast.testing.emulator.wires.request_checks import CHECKS

MASK = "[masked]"
_SECRET_HEADERS = frozenset(
    {
        "api-key",
        "authorization",
        "cookie",
        "proxy-authorization",
        "x-api-key",
        "x-goog-api-key",
    }
)
_SECRET_QUERY = re.compile(r"(?i)([?&](?:key|api[-_]?key|access_token|token)=)[^&]*")


class LoggedRequest(Struct, kw_only=True):
    """A request and its response. Times are seconds since the emulator started.

    Args:
        number: the number of the model call, from 1; 0 for other requests.
        method: the method, such as POST.
        path: the path and the query as sent, with secrets masked.
        headers: the headers as sent, with secrets masked.
        body: the parsed JSON, or None.
        wire: the name of the wire, or "".
        faults: the faults of the response.
        status: the status of the response; 0 if none was sent.
        connection: the number of the connection, from 1.
        chunks: the number of parts of the body that were sent.
        received: when the request had arrived.
        first_byte: when the first byte of the response was sent; None before.
        ended: when the response ended; None before.
        client_gone: whether the client closed the connection before the end of the response.
        problem: an error of the request or of the script, or "".
    """

    number: int
    method: str
    path: str
    headers: Mapping[str, str]
    body: object
    connection: int
    received: float
    wire: str = ""
    faults: tuple[Fault, ...] = ()
    status: int = 0
    chunks: int = 0
    first_byte: float | None = None
    ended: float | None = None
    client_gone: bool = False
    problem: str = ""

    def format_line(self) -> str:
        """Format the request as one line for a terminal.

        >>> LoggedRequest(number=1, method="GET", path="/v1/models", headers={}, body=None,
        ...     connection=1, received=0.0, status=200).format_line()
        '#1 GET /v1/models 200'
        """
        faults = ", ".join(type(fault).__name__ for fault in self.faults)
        parts = [f"#{self.number} {self.method} {self.path} {self.status or 'no response'}"]
        if faults:
            parts.append(f"faults: {faults}")
        if self.client_gone:
            parts.append("the client closed the connection")
        if self.problem:
            parts.append(self.problem)
        return "; ".join(parts)


def mask_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Replace the values of secret headers.

    >>> mask_headers({"authorization": "Bearer sk-1", "accept": "*/*"})
    {'authorization': '[masked]', 'accept': '*/*'}
    """
    return {k: MASK if k in _SECRET_HEADERS else v for k, v in headers.items()}


def mask_path(path: str) -> str:
    """Replace the keys in the query of a path.

    >>> mask_path("/v1beta/models?key=abc&alt=sse")
    '/v1beta/models?key=[masked]&alt=sse'
    """
    return _SECRET_QUERY.sub(rf"\1{MASK}", path)


_T = TypeVar("_T")
_NOTHING = EmulatedReply(0, {}, ())


class Behaviour(Struct, frozen=True):
    """The settings of an emulator.

    Args:
        script: the replies of the model.
        faults: the faults.
        chunking: how streamed texts are cut.
        models: the names that `GET /v1/models` lists.
        on_request: called with the log entry of each request when it has ended.
        strict: whether requests are judged; if not, only their histories are.
        dress: the endpoint of the Chat Completions wire.
        dress_name: its name.
    """

    script: Script
    faults: FaultScript
    chunking: Chunking
    models: Sequence[str]
    on_request: Callable[[LoggedRequest], None] | None
    strict: bool
    dress: Dress
    dress_name: str


class EmulatorService:
    """The state of a running emulator: its log and its counters.

    Args:
        behaviour: the settings of the emulator.
    """

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._calls = 0
        self._began = time.monotonic()
        self._active = 0
        self.log: list[LoggedRequest] = []
        self.idle = asyncio.Event()
        self.idle.set()

    async def serve(self, connection: Connection, raw: RawRequest) -> None:
        """Respond to one request, with its faults."""
        entry = self._log_request(connection, raw)
        self._active += 1
        self.idle.clear()
        turn: EmulatedTurn | None = None
        is_delivered = False
        try:
            plan, turn = await self._decide_actions(raw, entry)
            await self._perform_actions(connection, plan, entry)
            is_delivered = not any(isinstance(fault, DESTROYS) for fault in entry.faults)
        except ClientGoneError:
            entry.client_gone = True
        finally:
            if turn is not None and not is_delivered:
                turn.give_back()
            entry.ended = self._elapsed_seconds()
            self._active -= 1
            if not self._active:
                self.idle.set()
            if self._behaviour.on_request is not None:
                self._behaviour.on_request(entry)

    def _elapsed_seconds(self) -> float:
        return time.monotonic() - self._began

    def _log_request(self, connection: Connection, raw: RawRequest) -> LoggedRequest:
        entry = LoggedRequest(
            number=0,
            method=raw.method,
            path=mask_path(raw.path),
            headers=mask_headers(raw.headers),
            body=None,
            connection=connection.number,
            received=self._elapsed_seconds(),
        )
        self.log.append(entry)
        return entry

    async def _decide_actions(
        self, raw: RawRequest, entry: LoggedRequest
    ) -> tuple[list[ServerAction], EmulatedTurn | None]:
        path = raw.path.partition("?")[0]
        wire = wire_for(path) if raw.method == "POST" else None
        if wire is None:
            return plan_actions(self._answer_other(raw.method, path), ()), None
        entry.wire = wire.NAME
        judged_as = ""
        dress = self._behaviour.dress
        try:
            request = wire.parse_request(raw.path, entry.headers, raw.body)
            if self._behaviour.strict:
                judged_as = self._behaviour.dress_name if wire.NAME == "openai_chat" else ""
                CHECKS[wire.NAME](request, dress)
        except MalformedRequest as error:
            # An agent of another provider would not find out why its request is refused here.
            rules = (
                f" (by the rules of {judged_as!r}; choose others with dress=)" if judged_as else ""
            )
            entry.problem = f"{error}{rules}"
            entry.body = _decode_or_none(raw.body)
            return plan_actions(make_error_reply(wire.invalid_request(error)), ()), None
        self._calls += 1
        request = msgspec.structs.replace(request, number=self._calls)
        entry.number = self._calls
        entry.body = request.body
        if wire.NAME == "openai_chat":
            request = dress.read_request(request)
        return await self._answer_request(wire, request, entry)

    async def _answer_request(
        self, wire: EmulatorWire, request: EmulatedRequest, entry: LoggedRequest
    ) -> tuple[list[ServerAction], EmulatedTurn | None]:
        turn: EmulatedTurn | None = None
        try:
            entry.faults = await self._choose_faults(request)
            replaced = _NOTHING if is_unanswered(entry.faults) else find_refusal(wire, entry.faults)
            if replaced is not None:
                return plan_actions(
                    wrap_in_array(replaced) if request.array else replaced, entry.faults
                ), None
            turn = self._behaviour.script.next_turn()
            reply = as_reply(await _call_user(turn.reply_to(request)), request.number, wire.NAME)
            answer = self._render_answer(wire, reply, request, entry.faults)
        except (LookupError, ConfigurationError, ScriptError) as error:
            entry.problem = str(error)
            # Status 400, because a retry cannot succeed.
            problem = wire.invalid_request(MalformedRequest(f"The emulator has no reply: {error}"))
            return plan_actions(make_error_reply(problem), ()), turn
        return plan_actions(answer, entry.faults), turn

    async def _choose_faults(self, request: EmulatedRequest) -> tuple[Fault, ...]:
        script = self._behaviour.faults
        if callable(script):
            return await _call_user(_call_script(script, request))
        return faults_for(script, request)

    def _render_answer(
        self, wire: EmulatorWire, reply: Reply, request: EmulatedRequest, faults: tuple[Fault, ...]
    ) -> EmulatedReply:
        rendering = Rendering(
            model=request.model,
            number=request.number,
            created=int(time.time()),
            usage=reply.usage if reply.usage.total else _estimate_usage(request, reply),
            chunking=self._behaviour.chunking,
            include_usage=request.include_usage,
            include_state=request.include_state,
            array=request.array,
            dress=self._behaviour.dress,
            namespaces=request.namespaces,
        )
        return render_reply(wire, reply, rendering, faults, stream=request.stream)

    def _answer_other(self, method: str, path: str) -> EmulatedReply:
        if method == "GET" and path.endswith("/models"):
            models = [
                {"id": name, "object": "model", "created": 0, "owned_by": "emulator"}
                for name in self._behaviour.models
            ]
            return make_error_reply(EmulatedError(200, {"object": "list", "data": models}))
        message = f"Unknown request URL: {method} {path}. The emulator does not speak this wire."
        problem = {"message": message, "type": "invalid_request_error", "code": "unknown_url"}
        return make_error_reply(EmulatedError(404, {"error": problem}))

    def _request_id(self, entry: LoggedRequest) -> dict[str, str]:
        name = get_wire(entry.wire).REQUEST_ID if entry.wire else "x-request-id"
        return {name: f"req_emulated_{len(self.log)}"} if name else {}

    async def _perform_actions(
        self, connection: Connection, plan: list[ServerAction], entry: LoggedRequest
    ) -> None:
        alone = any(isinstance(fault, SplitEveryByte) for fault in entry.faults)
        pending = b""
        for action in plan:
            # The head is sent together with the first part of the body, unless a pause follows.
            if pending and (alone or not isinstance(action, Send)):
                await _send_bytes(connection, pending, alone=alone)
                pending = b""
            match action:
                case SendHead(status=status, headers=headers, length=length):
                    merged = {**self._request_id(entry), **headers}
                    pending = connection.encode_head(status, merged, length)
                    entry.status = status
                case Send(data=data):
                    await connection.write(pending + connection.frame_body(data))
                    pending = b""
                    # With SplitEveryByte each part is one byte. After two passes of the loop, a
                    # client in this process has read it.
                    for _ in range(2 if alone else 0):
                        await asyncio.sleep(0)
                    entry.chunks += 1
                    if entry.first_byte is None:
                        entry.first_byte = self._elapsed_seconds()
                case Pause():
                    await _wait_pause(connection, action)
                case Reset():
                    await connection.reset()
                case Close():
                    await connection.close()
                case _:
                    await connection.end_body()


class ScriptError(Exception):
    """The reply function or the fault function raised an exception."""


async def _call_user(work: Coroutine[object, object, _T]) -> _T:
    """Run a function of the user; raise ScriptError for any exception."""
    # A task stores any exception without a broad except clause. The client must get a response
    # and not wait for ever.
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task})
    finally:
        task.cancel()
    if error := task.exception():
        raise ScriptError(f"it raised {type(error).__name__}: {error}") from error
    return task.result()


async def _call_script(script: FaultScript, request: EmulatedRequest) -> tuple[Fault, ...]:
    return faults_for(script, request)


async def _send_bytes(connection: Connection, data: bytes, *, alone: bool) -> None:
    if not alone:
        await connection.write(data)
        return
    for at in range(len(data)):
        await connection.write(data[at : at + 1])
        await asyncio.sleep(0)


async def _wait_pause(connection: Connection, action: Pause) -> None:
    if not action.comment:
        await connection.wait(action.seconds)
        return
    ends = time.monotonic() + action.seconds
    while (left := ends - time.monotonic()) > 0:
        await connection.write(connection.frame_body(action.comment))
        await connection.wait(min(action.every, left))


def _decode_or_none(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return None


def _estimate_usage(request: EmulatedRequest, reply: Reply) -> Usage:
    """Estimate four characters per token, as in English."""
    length = sum(
        len(part.text) if isinstance(part, Text | Reasoning | Refusal) else len(part.arguments)
        for part in reply.parts
        if isinstance(part, Text | Reasoning | Refusal | ToolCall)
    )
    return Usage(input=request.size // 4 + 1, output=length // 4 + 1)
