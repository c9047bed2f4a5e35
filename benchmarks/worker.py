"""The client process of a case: samples one side or both, and prints the samples as JSON.

Started by `runner`, so that no case sees the heap, the caches or the imports of another.
"""

from __future__ import annotations

import asyncio
import resource
import sys

import msgspec

from benchmarks.case import Case, Commands, Pair, Sample, Side, Timed
from benchmarks.cases import CASES

WARM_UP = 2


async def pairs(case: Case, url: str, count: int) -> list[Pair]:
    """Samples of both sides in turns: floor, ours, floor, ours."""
    found = []
    async with case.floor(url) as floor, case.ours(url) as ours:
        for number in range(WARM_UP + count):
            pair = (await case.sample(floor), await case.sample(ours))
            if number >= WARM_UP:
                found.append(pair)
    return found


async def single(case: Case, side: Side, url: str) -> Sample:
    """One sample of one side, after one turn that opens what is opened once."""
    async with side(url) as turn:
        await turn(case.scenario)
        return await case.sample(turn)


def main() -> None:
    """`python -m benchmarks.worker <case> <floor|ours|both> <url> <pairs>`"""
    name, which, url, count = sys.argv[1:]
    (case,) = (case for case in CASES if case.name == name and not isinstance(case, Commands))
    _allow_files(4096)
    if isinstance(case, Timed):
        result: object = [case.sample() for _ in range(WARM_UP + int(count))][WARM_UP:]
    elif which == "both":
        result = asyncio.run(pairs(case, url, int(count)))
    else:
        result = asyncio.run(single(case, case.floor if which == "floor" else case.ours, url))
    sys.stdout.buffer.write(msgspec.json.encode(result))


def _allow_files(wanted: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))


if __name__ == "__main__":
    main()
