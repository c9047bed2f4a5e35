"""Whether work grows with its size and no faster: by the processor's time, or by its instructions.

Whoever shares the machine may slow a try down and can never speed one up, so that one quick try of
the large size is enough. Instructions do not depend on the machine at all: `count_instructions`
counts those of the `WORKLOADS` under Valgrind.
"""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
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


def count_instructions(sizes: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """Return the instructions of workloads at each size, without those of their start.

    One process imports and warms up, and forks a child for each size: to start a process for each
    workload would take most of the time. Its hash seed is fixed.

    Args:
        sizes: the sizes of each of the `WORKLOADS`.
    """
    words = [word for name, of in sizes.items() for word in (name, ",".join(map(str, of)))]
    command = [*_COUNTER, sys.executable, "-m", "tests.linear", *words]
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
    if done.returncode or len(children) != sum(len(of) + 1 for of in sizes.values()):
        raise RuntimeError(f"the counted process failed: {done.stderr[-2000:]}")
    found = iter(counts[pid] for pid in children)
    starts = ((name, next(found), of) for name, of in sizes.items())
    return {name: [next(found) - nothing for _ in of] for name, nothing, of in starts}


def _main(words: list[str]) -> None:
    from tests.workloads import WORKLOADS

    sizes = dict(zip(words[::2], words[1::2], strict=True))
    for name in sizes:
        WORKLOADS[name](4)  # imports, and compiles patterns
    gc.disable()  # it runs at sizes of its own
    for name, of in sizes.items():
        for size in (0, *map(int, of.split(","))):
            child = os.fork()
            if not child:
                WORKLOADS[name](size)
                os._exit(0)
            print(child, flush=True)
            _, status = os.waitpid(child, 0)
            if status:
                sys.exit(f"the workload {name} failed at size {size}")


if __name__ == "__main__":
    _main(sys.argv[1:])
