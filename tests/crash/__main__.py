"""`python -m tests.crash [ROUNDS] [SEED]`: more kills than the test suite has time for."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.crash.rounds import crash


def main(words: list[str]) -> int:
    rounds = int(words[0]) if words else 500
    seed = int(words[1]) if len(words) > 1 else int(time.time())
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        fell, _ = crash(Path(folder), rounds, seed)
        took = time.monotonic() - start
    print(
        f"{rounds} kills in {took:.0f} s (seed {seed}), {fell} while appends were acknowledged: "
        "0 acknowledged records lost, 0 torn, every file whole"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
