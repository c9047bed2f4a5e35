"""Runs a line of Python in a fresh interpreter and says what the process used."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

from benchmarks.case import Commands, Pair, Sample

_PEAK = """
try:
    print(open("/proc/self/status").read())
except OSError:
    import resource
    print("VmHWM:", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, "kB")
"""
_PEAK_LINE = re.compile(r"VmHWM:\s+(\d+)")
_COUNT_LINE = re.compile(r"I\s+refs:\s+([\d,]+)")
_COUNTER = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")


def measure(case: Commands, *, quick: bool) -> list[Pair]:
    """Pairs of samples; instructions are counted once, since they hardly vary."""
    count = not quick and shutil.which(_COUNTER[0]) is not None
    for code in (case.floor, case.ours):  # the first start may compile
        _sample(code)
    counted = [_instructions(code) for code in (case.floor, case.ours)] if count else []
    pairs = []
    for _ in range(case.quick if quick else case.pairs):
        pair = (_sample(case.floor), _sample(case.ours))
        for sample, instructions in zip(pair, counted, strict=False):
            sample["cost"] = instructions
        pairs.append(pair)
    return pairs


def _sample(code: str) -> Sample:
    with subprocess.Popen(
        _interpreter(code + _PEAK), env=_environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    found = _PEAK_LINE.search(said)
    if process.returncode or not found:
        raise RuntimeError(f"`{code}` ended with status {process.returncode}")
    return {"cost": usage.ru_utime + usage.ru_stime, "peak": float(found[1]) * 1024}


def _instructions(code: str) -> float:
    run = subprocess.run(
        [*_COUNTER, *_interpreter(code)],
        env=_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    found = _COUNT_LINE.search(run.stderr)
    if not found:
        raise RuntimeError("valgrind did not say how many instructions it saw")
    return float(found[1].replace(",", ""))


def _interpreter(code: str) -> list[str]:
    return [sys.executable, "-s", "-P", "-c", code]


def _environment() -> dict[str, str]:
    # Compiled files must be there, and the order of sets the same each time.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "PYTHONHASHSEED": "0"}
