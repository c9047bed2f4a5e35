"""Whether work grows with its size and no faster: by the processor's time, or by its instructions.

Whoever shares the machine may slow a try down and can never speed one up, so that one quick try of
the large size is enough. Instructions do not depend on the machine at all: `measure_growth` counts
those of one of the `WORKLOADS` under Valgrind.
"""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

_COUNT = re.compile(r"==(\d+)==\s+I\s+refs:\s+([\d,]+)")
_COUNTER = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")


def is_linear(
    seconds: Callable[[int], float],
    few: int,
    many: int,
    *,
    slack: float = 5.0,
    least: float = 0.002,
) -> bool:
    """Whether `many` take no longer than their share of what `few` take.

    Args:
        seconds: does the work for so many, and returns the processor's seconds.
        few: a small size.
        many: a large one; with quadratic work it would take `many / few` times its share.
        slack: how many times its share it may take.
        least: seconds that `few` count for at least.
    """
    share = max(min(seconds(few) for _ in range(3)), least) * many / few
    return any(seconds(many) < share * slack for _ in range(4))


def count_instructions(workload: str, *sizes: int) -> list[int]:
    """Return the instructions of a workload at each size, without those of its start.

    One process imports and warms up, and forks a child for each size. Its hash seed is fixed.
    """
    command = [*_COUNTER, sys.executable, "-m", "tests.linear", workload, *map(str, sizes)]
    clean = {name: value for name, value in os.environ.items() if "PYTHON" not in name}
    root = Path(__file__).parent.parent
    done = subprocess.run(
        command,
        cwd=root,
        env={**clean, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    counts = {int(pid): int(count.replace(",", "")) for pid, count in _COUNT.findall(done.stderr)}
    children = [int(pid) for pid in done.stdout.split()]
    if done.returncode or len(children) != len(sizes) + 1:
        raise RuntimeError(f"the counted process failed: {done.stderr[-2000:]}")
    nothing, *counted = (counts[pid] for pid in children)
    return [count - nothing for count in counted]


def measure_growth(workload: str, size: int) -> float:
    """Return by how much the instructions of a workload grow when its size doubles."""
    once, twice = count_instructions(workload, size, 2 * size)
    return twice / once


def _main(name: str, sizes: list[int]) -> None:
    from tests.workloads import WORKLOADS

    work = WORKLOADS[name]
    work(4)  # imports, and compiles patterns
    gc.disable()  # it runs at sizes of its own
    for size in (0, *sizes):
        child = os.fork()
        if not child:
            work(size)
            os._exit(0)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        if status:
            sys.exit(f"the workload {name} failed at size {size}")


if __name__ == "__main__":
    _main(sys.argv[1], [int(size) for size in sys.argv[2:]])
