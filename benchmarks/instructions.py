"""`python -m benchmarks.instructions [--save]`: instructions of one turn, one iteration, one delta.

Valgrind counts what the client process executes. A count hardly depends on what else the machine
does, so a change of a few percent can be seen, which a time would hide. Two things do vary: the start
of the process, so the least of several counts is used, and a full garbage collection, which visits
every object of the imported modules and falls into one run or the other by chance. The objects that
exist after the first turns are therefore frozen.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks.case import Case
from benchmarks.cases import CASES, hooks, one_turn
from benchmarks.server import serve_apart

RESULTS = Path(__file__).parent / "results" / "instructions.json"
WARM_UP = 3
COUNTS = 3
_COUNT_LINE = re.compile(r"I\s+refs:\s+([\d,]+)")
_COUNTER = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")


class Workload(Struct, frozen=True):
    """What is counted: `turns` more turns of a scenario, each of `parts` equal parts."""

    what: str
    case: str
    scenario: str
    turns: int
    parts: int


WORKLOADS = (
    Workload("turn", "one-turn", "text", 200, 1),
    Workload("iteration", "tool-iteration", "tools-10", 24, 10),
    Workload("delta", "delta", "stream-2000", 8, 2000),
    Workload("in-process iteration", "in-process", "memory", 10, hooks.ITERATIONS),
    Workload("streamed turn", "streamed-turn", "text", 60, 1),
    Workload("streamed turn on Responses", "responses-turn", "text", 60, 1),
)
COUNTED = (*CASES, hooks.IN_PROCESS, one_turn.RESPONSES)


async def run_turns(case: Case, scenario: str, url: str, turns: int) -> None:
    """Run our side of a case; this is the process that is counted."""
    async with case.ours(url) as turn:
        for done in range(turns):
            if done == WARM_UP - 1:
                gc.collect()
                gc.freeze()
            await turn(scenario)


def count_instructions(workload: Workload, url: str) -> float:
    """Instructions of one part: runs of two lengths, and the difference of the least of each."""
    short = min(_count(workload, url, WARM_UP) for _ in range(COUNTS))
    long = min(_count(workload, url, WARM_UP + workload.turns) for _ in range(COUNTS))
    return (long - short) / workload.turns / workload.parts


def _count(workload: Workload, url: str, turns: int) -> float:
    command = [sys.executable, "-m", "benchmarks.instructions"]
    counted = ["--count", workload.case, workload.scenario, url, str(turns)]
    environment = {name: value for name, value in os.environ.items() if "PYTHON" not in name}
    done = subprocess.run(
        [*_COUNTER, *command, *counted],
        env={**environment, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    found = _COUNT_LINE.search(done.stderr)
    if done.returncode or found is None:
        raise RuntimeError(f"the counted process failed: {done.stderr[-2000:]}")
    return float(found[1].replace(",", ""))


def main() -> None:
    """Count, and print each figure beside the saved one."""
    parser = argparse.ArgumentParser(prog="benchmarks.instructions", description=__doc__)
    names = [workload.what for workload in WORKLOADS]
    parser.add_argument("--only", choices=names, help="count one of them and print its figure")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    parser.add_argument("--count", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.count:
        name, scenario, url, turns = options.count
        (case,) = (one for one in COUNTED if isinstance(one, Case) and one.name == name)
        asyncio.run(run_turns(case, scenario, url, int(turns)))
        return
    saved = msgspec.json.decode(RESULTS.read_bytes()) if RESULTS.exists() else {}
    counts = {}
    with serve_apart() as url:
        for workload in WORKLOADS:
            if options.only not in (None, workload.what):
                continue
            counts[workload.what] = count = round(count_instructions(workload, url))
            before = saved.get(workload.what)
            ratio = f"{count / before:.3f} x the saved {before:,}" if before else "nothing saved"
            print(f"{workload.what}: {count:,} instructions, {ratio}", flush=True)
    if options.save and options.only is None:
        RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(counts)) + b"\n")


if __name__ == "__main__":
    main()
