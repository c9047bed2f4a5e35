"""`holdfast serve` as a program, with an agent whose provider is the emulator."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))

_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
_AGENT = """
name = "demo"
model = "{wire}:emulated-model"
base_url = "{url}"
api_key_env = "HOLDFAST_CONFORMANCE_KEY"
"""


@contextmanager
def serving_agent(folder: Path, emulator: str, wire: str = "openai") -> Iterator[str]:
    """Serve the agent `demo`; yield the address of OpenAI's protocols."""
    agent = folder / "demo.toml"
    agent.write_text(_AGENT.format(url=emulator, wire=wire))
    command = [HOLDFAST, "serve", str(agent), "--port", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={"HOLDFAST_CONFORMANCE_KEY": "any"}
    )
    assert process.stdout is not None
    try:
        found = (_ADDRESS.search(line) for line in process.stdout)
        yield next(f"{one[0]}/v1" for one in found if one)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
