"""`holdfast serve` as a program, with an agent whose provider is the emulator.

With HOLDFAST_QUEUE=postgresql://..., the service drives no turns, and a worker in another process does.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))

_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
_AGENT = """
name = "demo"
model = "{wire}:emulated-model"
base_url = "{url}"
api_key_env = "HOLDFAST_CONFORMANCE_KEY"
"""


def make_schema(database: str) -> str:
    """Make a schema, so that no two services share a journal; return the address with it."""
    import psycopg  # noqa: PLC0415  # REASON: a front alone needs it

    name = f"conformance_{uuid4().hex}"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    return f"{database.partition('?')[0]}?options=-csearch_path%3D{name}"


@contextmanager
def serving_agent(folder: Path, emulator: str, wire: str = "openai") -> Iterator[str]:
    """Serve the agent `demo`; yield the address of OpenAI's protocols."""
    agent = folder / "demo.toml"
    agent.write_text(_AGENT.format(url=emulator, wire=wire))
    command = [HOLDFAST, "serve", str(agent), "--port", "0"]
    queue, environment = os.environ.get("HOLDFAST_QUEUE"), {"HOLDFAST_CONFORMANCE_KEY": "any"}
    worker = None
    if queue:
        queue = make_schema(queue)
        command += ["--journal", queue, "--no-worker"]
        work = [HOLDFAST, "worker", str(agent), "--journal", queue]
        worker = subprocess.Popen(work, env=environment)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    try:
        found = (_ADDRESS.search(line) for line in process.stdout)
        yield next(f"{one[0]}/v1" for one in found if one)
    finally:
        for one in (process, *((worker,) if worker else ())):
            one.kill()
            one.wait()
        process.stdout.close()
