"""Fuzzed lines, for crashes and time only: a million of them with `--full`."""

from __future__ import annotations

import os
import posixpath
import random
import time
from datetime import UTC, datetime

import pytest
from apps.terminal.tests.conformance.shell.generated_lines import DAMAGE, LineGenerator

from adh.rules.facts import CallFacts
from adh.rules.restrictions import Moment
from adh.rules.rule_files import built_in_files, load_rules
from adh.shell import find_uses, parse_command_line

# Starts no processes, so that it may run beside those that do.
pytestmark = pytest.mark.xdist_group("lines")

FULL = os.environ.get("HOLDFAST_FULL") == "1"
LINES = int(os.environ.get("LINES", "0")) or (1_000_000 if FULL else 3_000)
SEED = int(os.environ.get("HOLDFAST_SEED", "20"))
LONGEST_SECONDS = 2.0
ALPHABET = DAMAGE + "abefnrx01./^%@,:?\u00e9\u4e2d\u202e\x00\x1b\r\ud800"
RULES = load_rules(built_in_files())
MOMENT = Moment(datetime(2026, 7, 1, 12, tzinfo=UTC), lambda _: ())


class FuzzedLines:
    """Makes lines of four kinds: generated ones, noise, a repeated piece, and two lines spliced.

    Args:
        seed: the seed; the same one gives the same lines.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._generator = LineGenerator(seed)

    def make_line(self) -> str:
        """Return the next line."""
        kind = self._random.random()
        if kind < 0.6:
            return self._generator.make_line()
        if kind < 0.85:
            return self._make_noise(self._random.randint(1, 120))
        if kind < 0.99:
            first, second = self._generator.make_line(), self._generator.make_line()
            return first[: self._random.randrange(len(first) + 1)] + second
        return self._make_noise(self._random.randint(1, 6)) * self._random.randint(2, 300)

    def _make_noise(self, length: int) -> str:
        return "".join(self._random.choices(ALPHABET, k=length))


def judge(text: str) -> None:
    """Do all that is done to a line before anybody is asked."""
    line = parse_command_line(text)
    facts = CallFacts(
        tool="execute_command",
        arguments={"command": text},
        commands=find_uses(line, "/p", "/h", posixpath.normpath),
        unparsed=line.problem,
        project="/p",
        folder="/p",
        home="/h",
    )
    RULES.decide(facts, MOMENT)


@pytest.mark.timeout(14_400)
def test_no_fuzzed_line_crashes_it_or_takes_long() -> None:
    lines = FuzzedLines(SEED)
    slowest, slowest_line = 0.0, ""
    for number in range(LINES):
        text = lines.make_line()
        started = time.process_time()
        try:
            judge(text)
        except Exception as error:
            raise AssertionError(f"line {number} of seed {SEED}: {text!r}") from error
        took = time.process_time() - started
        if took > slowest:
            slowest, slowest_line = took, text
    print(f"{LINES} lines, the slowest took {slowest * 1000:.0f} ms: {slowest_line[:80]!r}")
    assert slowest < LONGEST_SECONDS, slowest_line
