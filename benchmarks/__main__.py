"""`python -m benchmarks [names] [--quick] [--check] [--save]`"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from benchmarks import report, runner
from benchmarks.cases import CASES
from benchmarks.server import serve_apart


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the named cases, or all; returns the exit status."""
    options = _parser().parse_args(arguments)
    known = {case.name: case for case in CASES}
    if unknown := [name for name in options.names if name not in known]:
        print(f"no such case: {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    chosen = [known[name] for name in options.names or known]
    rows = []
    with serve_apart() as url:
        for case in chosen:
            start = time.monotonic()
            rows += runner.run(case, url, quick=options.quick)
            print(f"{case.name}: {time.monotonic() - start:.0f} s", file=sys.stderr)
    print(report.table(rows))
    if options.save:
        report.save(rows, [case.name for case in CASES])
    return 1 if options.check and any(row.exceeded for row in rows) else 0


def _parser() -> argparse.ArgumentParser:
    names = ", ".join(case.name for case in CASES)
    parser = argparse.ArgumentParser(prog="benchmarks", description="Ours against the floor.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {names}")
    parser.add_argument("--quick", action="store_true", help="fewer samples, for a first look")
    parser.add_argument("--check", action="store_true", help="fail when a limit is exceeded")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results")
    return parser


if __name__ == "__main__":
    sys.exit(main())
