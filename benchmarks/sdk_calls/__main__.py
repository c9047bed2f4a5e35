"""`python -m benchmarks.sdk_calls`: let each caller meet each fault, save the result, and write the docs' table.

The callers of others are run if `./run bench --peers` has installed them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.sdk_calls.faults import FAULTS, Met, meet_fault
from benchmarks.sdk_calls.table import RESULT, write_page

_FOLDER = Path(__file__).parent
_PEERS = _FOLDER.parent / "sdk_peers" / ".venv" / "bin" / "python"
WAYS = ("the SDK alone", "tenacity", "stamina", "instructor", "Holdfast")

Caller: TypeAlias = "subprocess.Popen[str]"


@contextmanager
def start_caller(way: str) -> Iterator[Caller]:
    """Start the process of a caller."""
    python = sys.executable if way == "Holdfast" else str(_PEERS)
    command = [python, "-W", "ignore", "-m", "benchmarks.sdk_calls.callers", way]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def ask_caller(caller: Caller, url: str, *, is_stream: bool) -> dict[str, Any]:
    """Let a caller make a call, and return what it was told."""
    assert caller.stdin is not None
    assert caller.stdout is not None
    caller.stdin.write(json.dumps({"url": url, "is_stream": is_stream}) + "\n")
    caller.stdin.flush()
    told: dict[str, Any] = json.loads(caller.stdout.readline())
    return told


def main() -> int:
    """Run everything; returns the exit status."""
    if not _PEERS.exists():
        print("the callers of others are not installed: ./run bench --peers", file=sys.stderr)
        return 2
    result: dict[str, dict[str, Met]] = {fault.name: {} for fault in FAULTS}
    for way in WAYS:
        with start_caller(way) as caller:
            for fault in FAULTS:
                met = meet_fault(
                    fault, lambda url, stream: ask_caller(caller, url, is_stream=stream)
                )
                result[fault.name][way] = met
                print(f"{way}, {fault.name}: {met}", flush=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    write_page(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
