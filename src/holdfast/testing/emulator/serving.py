"""Serves one request after the other: reads it, asks the brain, does what the plan says, logs it.

It must never choose what goes wrong (faults do) and never know how a socket breaks (connections do).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Reasoning, Refusal, Reply, Text, ToolCall, Usage
from holdfast.testing.emulator.brain import Script, Turn, as_reply
from holdfast.testing.emulator.connection import ClientGone, Connection, RawRequest
from holdfast.testing.emulator.faults import (
    DESTROYS,
    Fault,
    FaultScript,
    SplitEveryByte,
    faults_for,
)
from holdfast.testing.emulator.log import LoggedRequest, masked_headers, masked_path
from holdfast.testing.emulator.plan import (
    Act,
    Answer,
    Close,
    Head,
    Reset,
    Send,
    Wait,
    acts,
    error_answer,
    listed,
    refusal,
    reply_answer,
    unanswered,
)
from holdfast.testing.emulator.request import EmulatedRequest, MalformedRequest
from holdfast.testing.emulator.wires.port import Chunking, ErrorBody, Rendering, Wire
from holdfast.testing.emulator.wires.registry import named, wire_for

_T = TypeVar("_T")
_NOTHING = Answer(0, {}, ())


class Behaviour(Struct, frozen=True):
    """How the emulator behaves.

    Args:
        script: what the model says.
        faults: what goes wrong.
        chunking: how streamed texts are cut.
        models: the names that `GET /v1/models` lists.
        on_request: told about every request when it is over.
    """

    script: Script
    faults: FaultScript
    chunking: Chunking
    models: Sequence[str]
    on_request: Callable[[LoggedRequest], None] | None


class Service:
    """The state of a running emulator: its log and its counters.

    Args:
        behaviour: the brain, the faults and the rest.
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
        """Answer one request, whatever the faults make of that."""
        entry = self._entry(connection, raw)
        self._active += 1
        self.idle.clear()
        turn: Turn | None = None
        whole = False
        try:
            plan, turn = await self._decide(raw, entry)
            await self._perform(connection, plan, entry)
            whole = not any(isinstance(fault, DESTROYS) for fault in entry.faults)
        except ClientGone:
            entry.client_gone = True
        finally:
            if turn is not None and not whole:
                turn.give_back()
            entry.ended = self._now()
            self._active -= 1
            if not self._active:
                self.idle.set()
            if self._behaviour.on_request is not None:
                self._behaviour.on_request(entry)

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _entry(self, connection: Connection, raw: RawRequest) -> LoggedRequest:
        entry = LoggedRequest(
            number=0,
            method=raw.method,
            path=masked_path(raw.path),
            headers=masked_headers(raw.headers),
            body=None,
            connection=connection.number,
            received=self._now(),
        )
        self.log.append(entry)
        return entry

    async def _decide(self, raw: RawRequest, entry: LoggedRequest) -> tuple[list[Act], Turn | None]:
        path = raw.path.partition("?")[0]
        wire = wire_for(path) if raw.method == "POST" else None
        if wire is None:
            return acts(self._other(raw.method, path), ()), None
        entry.wire = wire.NAME
        try:
            request = wire.parse_request(raw.path, entry.headers, raw.body)
        except MalformedRequest as error:
            entry.problem = str(error)
            entry.body = _decoded(raw.body)
            return acts(error_answer(wire.invalid_request(str(error))), ()), None
        self._calls += 1
        request = msgspec.structs.replace(request, number=self._calls)
        entry.number = self._calls
        entry.body = request.body
        return await self._answer(wire, request, entry)

    async def _answer(
        self, wire: Wire, request: EmulatedRequest, entry: LoggedRequest
    ) -> tuple[list[Act], Turn | None]:
        turn: Turn | None = None
        try:
            entry.faults = await self._choose_faults(request)
            replaced = _NOTHING if unanswered(entry.faults) else refusal(wire, entry.faults)
            if replaced is not None:
                return acts(listed(replaced) if request.array else replaced, entry.faults), None
            turn = self._behaviour.script.take()
            reply = as_reply(await _guarded(turn.answer(request)), request.number)
            answer = self._render(wire, reply, request, entry.faults)
        except (LookupError, ConfigurationError, BrainError) as error:
            entry.problem = str(error)
            # A 400, so that no client repeats what cannot get better.
            problem = wire.invalid_request(f"The emulator has no answer: {error}")
            return acts(error_answer(problem), ()), turn
        return acts(answer, entry.faults), turn

    async def _choose_faults(self, request: EmulatedRequest) -> tuple[Fault, ...]:
        script = self._behaviour.faults
        if callable(script):
            return await _guarded(_chosen(script, request))
        return faults_for(script, request)

    def _render(
        self, wire: Wire, reply: Reply, request: EmulatedRequest, faults: tuple[Fault, ...]
    ) -> Answer:
        rendering = Rendering(
            model=request.model,
            number=request.number,
            created=int(time.time()),
            usage=reply.usage if reply.usage.total else _estimate(request, reply),
            chunking=self._behaviour.chunking,
            include_usage=request.include_usage,
            include_state=request.include_state,
            array=request.array,
        )
        return reply_answer(wire, reply, rendering, faults, stream=request.stream)

    def _other(self, method: str, path: str) -> Answer:
        if method == "GET" and path.endswith("/models"):
            models = [
                {"id": name, "object": "model", "created": 0, "owned_by": "emulator"}
                for name in self._behaviour.models
            ]
            return error_answer(ErrorBody(200, {"object": "list", "data": models}))
        message = f"Unknown request URL: {method} {path}. The emulator does not speak this wire."
        problem = {"message": message, "type": "invalid_request_error", "code": "unknown_url"}
        return error_answer(ErrorBody(404, {"error": problem}))

    def _request_id(self, entry: LoggedRequest) -> dict[str, str]:
        name = named(entry.wire).REQUEST_ID if entry.wire else "x-request-id"
        return {name: f"req_emulated_{len(self.log)}"} if name else {}

    async def _perform(self, connection: Connection, plan: list[Act], entry: LoggedRequest) -> None:
        alone = any(isinstance(fault, SplitEveryByte) for fault in entry.faults)
        pending = b""
        for act in plan:
            # The head travels with what follows it, unless something happens in between.
            if pending and (alone or not isinstance(act, Send)):
                await _emit(connection, pending, alone=alone)
                pending = b""
            match act:
                case Head(status=status, headers=headers, length=length):
                    named = {**self._request_id(entry), **headers}
                    pending = connection.head(status, named, length)
                    entry.status = status
                case Send(data=data):
                    await connection.write(pending + connection.framed(data))
                    pending = b""
                    # The plan has cut the body already; what frames a byte travels with it. After
                    # two turns of the loop a client in this process has read it.
                    for _ in range(2 if alone else 0):
                        await asyncio.sleep(0)
                    entry.chunks += 1
                    if entry.first_byte is None:
                        entry.first_byte = self._now()
                case Wait():
                    await _wait(connection, act)
                case Reset():
                    await connection.reset()
                case Close():
                    await connection.close()
                case _:
                    await connection.end()


class BrainError(Exception):
    """The brain or the fault script raised."""


async def _guarded(work: Coroutine[object, object, _T]) -> _T:
    """Run a function of the user; whatever it raises becomes a BrainError."""
    # A task, because only a task can hold any exception without a broad except clause, and a
    # function that raises must become an answer and not a hanging client.
    asking = asyncio.ensure_future(work)
    try:
        await asyncio.wait({asking})
    finally:
        asking.cancel()
    if error := asking.exception():
        raise BrainError(f"it raised {type(error).__name__}: {error}") from error
    return asking.result()


async def _chosen(script: FaultScript, request: EmulatedRequest) -> tuple[Fault, ...]:
    return faults_for(script, request)


async def _emit(connection: Connection, data: bytes, *, alone: bool) -> None:
    if not alone:
        await connection.write(data)
        return
    for at in range(len(data)):
        await connection.write(data[at : at + 1])
        await asyncio.sleep(0)


async def _wait(connection: Connection, act: Wait) -> None:
    if not act.comment:
        await connection.wait(act.seconds)
        return
    ends = time.monotonic() + act.seconds
    while (left := ends - time.monotonic()) > 0:
        await connection.write(connection.framed(act.comment))
        await connection.wait(min(act.every, left))


def _decoded(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None


def _estimate(request: EmulatedRequest, reply: Reply) -> Usage:
    """About four characters to a token, as English has it."""
    said = sum(
        len(part.text) if isinstance(part, Text | Reasoning | Refusal) else len(part.arguments)
        for part in reply.parts
        if isinstance(part, Text | Reasoning | Refusal | ToolCall)
    )
    return Usage(input=request.size // 4 + 1, output=said // 4 + 1)
