"""`McpEmulator`: an MCP server with a script of faults, on stdio and HTTP, of both eras of the protocol.

It is a program of its own, so that a test can kill it: all that it does is a line in a file of its folder, which outlives
it. It is written against the specification and not with an SDK, and only with the standard library, so that it starts at
once. This module must never use a network but loopback.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

McpEra: TypeAlias = Literal["2026-07-28", "2025-11-25"]
"""The version of the protocol: without sessions, or with a handshake."""

McpFault: TypeAlias = Literal[
    "die-before",
    "die-in",
    "die-after",
    "silent",
    "twice",
    "other-id",
    "huge",
    "expire",
    "unauthorized",
    "half",
    "noise",
    "change",
    "refuse",
    "internal",
    "error",
    "garbage",
]
"""The fault of one call of a tool. `die-before` ends the process before the tool ran, `die-in` after it ran and before the
answer, `die-after` after the answer. `silent` runs the tool and never answers, `twice` answers twice, `other-id` with the
id of another request, `huge` with 100 MB, `half` with half a message and its death, `garbage` with a result that breaks the
protocol. `expire` ends the session of HTTP (404), `unauthorized` answers 401 until the headers change. `noise` writes lines
that are no message before the answer. `change` takes the tool away and announces it. `refuse` (-32602), `internal` (-32603)
and `error` are errors; the last one is a result of the tool."""

_HUGE: Final = 100 * 1024 * 1024
_TOOLS: Final = (
    {
        "name": "look",
        "description": "Look at what was done.",
        "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": "pay",
        "description": "Pay an amount.",
        "inputSchema": {
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
        },
    },
)
_METHOD_NOT_FOUND: Final = -32601
_INVALID_PARAMS: Final = -32602
_INTERNAL: Final = -32603
_WRONG_VERSION: Final = -32022

_Send: TypeAlias = Callable[[bytes], Awaitable[None]]


class McpEmulator:
    """An emulated MCP server, whose script and log lie in a folder.

    Args:
        folder: an existing folder for the script and the log.
        faults: the fault of each call of a tool in order, over all processes; None for none.
        era: the version of the protocol.
        tools: the descriptions of its tools, as on the wire; by default `look`, which reads, and `pay`, which writes.
            One with a schema as `form` asks a person for it before it runs, from 2026-07-28 on.
        ttl: for how many milliseconds the list of tools holds, from 2026-07-28 on.

    Raises:
        ConfigurationError: there is no such fault or era.

    >>> import tempfile
    >>> McpEmulator(tempfile.mkdtemp(), faults=["die-in"]).effects
    []
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        faults: Sequence[McpFault | None] = (),
        era: McpEra = "2026-07-28",
        tools: Sequence[Mapping[str, object]] = _TOOLS,
        ttl: int = 0,
    ) -> None:
        # Imported here, so that the program itself starts at once.
        from holdfast.core.argument_checks import check_value

        check_value("faults", faults, Sequence[McpFault | None])
        check_value("era", era, McpEra)
        self.folder = Path(folder)
        script = {
            "faults": list(faults),
            "era": era,
            "tools": [dict(one) for one in tools],
            "ttl": ttl,
        }
        (self.folder / "script.json").write_text(json.dumps(script), "utf-8")

    @property
    def command(self) -> list[str]:
        """The program that is the server on stdio, with its arguments."""
        return [sys.executable, "-m", "holdfast.testing.mcp_emulator", str(self.folder)]

    @property
    def log(self) -> list[dict[str, Any]]:
        """All that it did, over all processes: each has a `kind`, such as "start", "call" or "effect"."""
        try:
            lines = (self.folder / "log.jsonl").read_text("utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines]

    @property
    def effects(self) -> list[dict[str, Any]]:
        """The arguments of each run of a tool that is no `look`, in order."""
        return [one["arguments"] for one in self.log if one["kind"] == "effect"]

    @property
    def processes(self) -> list[int]:
        """The ids of the processes that were started, in order."""
        return [one["pid"] for one in self.log if one["kind"] == "start"]

    @asynccontextmanager
    async def serve_http(self, port: int = 0) -> AsyncIterator[str]:
        """Serve over HTTP in a process of its own, which is started again when it dies; yield the URL.

        Args:
            port: the port; 0 for a free one.
        """
        address = self.folder / "address"
        address.unlink(missing_ok=True)
        task = asyncio.create_task(self._keep_serving(port))
        try:
            while not address.exists() or not address.read_text("utf-8").endswith("\n"):
                if task.done():
                    task.result()
                await asyncio.sleep(0.01)
            yield address.read_text("utf-8").strip()
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _keep_serving(self, port: int) -> None:
        while True:
            process = await asyncio.create_subprocess_exec(
                *self.command,
                "--http",
                str(port),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
            )
            try:
                await process.wait()
            finally:
                if process.returncode is None:
                    with suppress(ProcessLookupError):
                        process.kill()
                    await process.wait()
            if port == 0:
                text = (self.folder / "address").read_text("utf-8")
                port = int(text.rpartition(":")[2].partition("/")[0])


class _Server:
    """The server itself, in its own process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        script = json.loads((folder / "script.json").read_text("utf-8"))
        self._faults: list[str | None] = script["faults"]
        self.era: str = script["era"]
        self._tools: list[dict[str, Any]] = script["tools"]
        self._ttl: int = script["ttl"]
        self._removed: set[str] = set()
        self.session = 0
        self._log = os.open(folder / "log.jsonl", os.O_APPEND | os.O_CREAT | os.O_RDWR, 0o600)
        self.note(kind="start", pid=os.getpid())

    def note(self, **facts: object) -> None:
        """Write a line into the log. The process may be killed right after it."""
        os.write(self._log, json.dumps(facts).encode() + b"\n")

    def take_fault(self, name: str, arguments: object) -> str | None:
        """Note a call, and return its fault."""
        text = (self._folder / "log.jsonl").read_bytes()
        number = text.count(b'{"kind": "call"')
        self.note(kind="call", tool=name, arguments=arguments)
        return self._faults[number] if number < len(self._faults) else None

    def answer(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer to a request that calls no tool; None for a notification."""
        method, request_id = message.get("method"), message.get("id")
        if request_id is None:
            return None
        if method == "tools/list":
            left = [one for one in self._tools if one["name"] not in self._removed]
            tools = [{key: value for key, value in one.items() if key != "form"} for one in left]
            result: dict[str, Any] = {"tools": tools}
            self.note(kind="list")
        elif method == "server/discover" and self.era == "2026-07-28":
            result = {"supportedVersions": [self.era], "capabilities": {"tools": {}}}
        elif method == "initialize" and self.era != "2026-07-28":
            result = {
                "protocolVersion": self.era,
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "emulator", "version": "1"},
            }
        elif method == "ping":
            result = {}
        else:
            return _make_error(request_id, _METHOD_NOT_FOUND, f"no method {method}")
        if self.era == "2026-07-28":
            result |= {"resultType": "complete", "ttlMs": self._ttl, "cacheScope": "private"}
        return {"jsonrpc": "2.0", "id": request_id, "result": result}

    def call(self, message: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
        """Run a tool, and return the fault of the call and the answer; die where the fault says so."""
        params = message["params"]
        fault = self.take_fault(params["name"], params.get("arguments"))
        if fault == "die-before":
            _die()
        if fault == "expire":
            self.session += 1
        if fault in ("expire", "unauthorized"):
            return fault, {}
        answer = self.run_tool(message, fault)
        if fault == "die-in":
            _die()
        if fault == "other-id":
            answer["id"] = 987_654
        return fault, answer

    def run_tool(self, message: dict[str, Any], fault: str | None) -> dict[str, Any]:
        """Run a tool, and return the answer."""
        params, request_id = message["params"], message["id"]
        name, arguments = params["name"], params.get("arguments") or {}
        if fault == "change":
            self._removed.add(name)
        asking = self._find_question(message)
        if asking is not None:
            return asking
        known = {one["name"] for one in self._tools} - self._removed
        if name not in known or fault == "refuse":
            return _make_error(request_id, _INVALID_PARAMS, f"there is no tool {name}")
        if name != "look":
            self.note(kind="effect", tool=name, arguments=arguments)
        if fault == "internal":
            return _make_error(request_id, _INTERNAL, "the server has a fault")
        text = "it went wrong" if fault == "error" else f"{name} {json.dumps(arguments)}"
        if fault == "huge":
            text = "x" * _HUGE
        result: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
        if fault == "error":
            result["isError"] = True
        if fault == "garbage":
            result = {"content": "no list", "isError": []}
        if self.era == "2026-07-28":
            result["resultType"] = "complete"
        return {"jsonrpc": "2.0", "id": request_id, "result": result}

    def _find_question(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer to a call of a tool that asks for input first; None for every other call.

        A tool asks if its description has `form`. Its state is the arguments, and counts once.
        """
        params, request_id = message["params"], message["id"]
        tool = next((one for one in self._tools if one["name"] == params["name"]), {})
        if "form" not in tool:
            return None
        state = json.dumps(params.get("arguments"))
        if "requestState" in params or "inputResponses" in params:
            used = b'"state": ' + json.dumps(state).encode()
            if (
                params.get("requestState") != state
                or used in (self._folder / "log.jsonl").read_bytes()
            ):
                return _make_error(request_id, _INVALID_PARAMS, "invalid or expired requestState")
            answer = params["inputResponses"]["form"]
            self.note(kind="answer", state=state, answer=answer)
            if answer["action"] == "accept":
                return None
            text = {"content": [{"type": "text", "text": f"no input: {answer['action']}"}]}
            return {
                "jsonrpc": "2.0",
                "id": request_id,
                "result": {**text, "resultType": "complete"},
            }
        question = {
            "method": "elicitation/create",
            "params": {"mode": "form", "message": "How?", "requestedSchema": tool["form"]},
        }
        result = {
            "resultType": "input_required",
            "inputRequests": {"form": question},
            "requestState": state,
        }
        return {"jsonrpc": "2.0", "id": request_id, "result": result}


def _make_error(request_id: object, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


def _die() -> None:
    os._exit(9)


async def _serve_stdio(server: _Server) -> None:
    loop = asyncio.get_running_loop()
    reader = StreamReader(limit=64 * 1024 * 1024)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    tasks = set()

    async def send(data: bytes) -> None:
        await loop.run_in_executor(None, _write_all, data)

    while line := await reader.readline():
        task = asyncio.create_task(_handle_line(server, line, send))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


def _write_all(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


async def _handle_line(server: _Server, line: bytes, send: _Send) -> None:
    message = json.loads(line)
    if message.get("method") != "tools/call":
        answer = server.answer(message)
        if answer is not None:
            await send(_encode(answer))
        return
    fault, answer = server.call(message)
    data = _encode(answer)
    if fault == "silent":
        return
    if fault == "half":
        await send(data[:20])
        _die()
    if fault == "noise":
        await send(b"Listening on 127.0.0.1\n{'no': json}\n[1, 2]\n")
    if fault == "change" and server.era != "2026-07-28":
        changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        await send(_encode(changed))
    await send(data * (2 if fault == "twice" else 1))
    if fault == "die-after":
        _die()


def _encode(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


async def _serve_http(server: _Server, folder: Path, port: int) -> None:
    async def handle(reader: StreamReader, writer: StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while await _handle_request(server, reader, writer):
                pass
        with suppress(ConnectionError):
            writer.close()

    listening = await asyncio.start_server(handle, "127.0.0.1", port, limit=64 * 1024 * 1024)
    number = listening.sockets[0].getsockname()[1]
    url = f"http://127.0.0.1:{number}/mcp"
    (folder / "address").write_text(f"{url}\n", "utf-8")
    sys.stdout.write(f"listening on {url}\n")
    sys.stdout.flush()
    await listening.serve_forever()


async def _handle_request(server: _Server, reader: StreamReader, writer: StreamWriter) -> bool:
    """Answer one request of HTTP; return whether the connection stays open."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = {
        key.lower(): value.strip() for key, _, value in (one.partition(":") for one in lines)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    if not lines[0].startswith("POST "):
        await _respond(writer, 405 if lines[0].startswith("GET ") else 200, b"")
        return True
    message = json.loads(body)
    is_legacy = server.era != "2026-07-28"
    current = f"s{server.session}-{os.getpid()}"
    opens = message.get("method") in ("initialize", "server/discover")
    if is_legacy and not opens and headers.get("mcp-session-id") != current:
        await _respond(writer, 404, b"")
        return True
    if message.get("method") != "tools/call":
        answer = server.answer(message)
        extra = f"mcp-session-id: {current}\r\n" if is_legacy else ""
        status = 202 if answer is None else 200
        await _respond(writer, status, b"" if answer is None else _encode(answer), extra)
        return True
    return await _call_over_http(server, message, writer)


async def _call_over_http(server: _Server, message: dict[str, Any], writer: StreamWriter) -> bool:
    fault, answer = server.call(message)
    if fault in ("unauthorized", "expire"):
        await _respond(writer, 401 if fault == "unauthorized" else 404, b"")
        return True
    if fault == "silent":
        await asyncio.sleep(3_600)
    data, kind = _encode(answer), "application/json"
    if fault == "noise":
        data = b"<html>Listening</html>"
    if fault == "twice":
        data = b"".join(b"event: message\ndata: " + data + b"\n" for _ in range(2))
        kind = "text/event-stream"
    head = _make_head(200, len(data), kind=kind)
    writer.write(head + (data[:20] if fault == "half" else data))
    await writer.drain()
    if fault in ("half", "die-after"):
        _die()
    return True


def _make_head(status: int, length: int, extra: str = "", kind: str = "application/json") -> bytes:
    lines = (f"HTTP/1.1 {status} X", f"content-type: {kind}", f"content-length: {length}")
    return ("\r\n".join(lines) + "\r\n" + extra + "\r\n").encode()


async def _respond(writer: StreamWriter, status: int, data: bytes, extra: str = "") -> None:
    writer.write(_make_head(status, len(data), extra) + data)
    await writer.drain()


def main() -> None:
    """Serve the script of a folder, on stdio or over HTTP, until stdin ends or the process is killed."""
    parser = argparse.ArgumentParser(prog="mcp-emulator")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--http", type=int, metavar="PORT")
    args = parser.parse_args()
    server = _Server(args.folder)
    serving = (
        _serve_stdio(server) if args.http is None else _serve_http(server, args.folder, args.http)
    )
    with suppress(KeyboardInterrupt):
        asyncio.run(serving)


if __name__ == "__main__":
    main()
