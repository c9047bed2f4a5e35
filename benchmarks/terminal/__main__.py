"""`python -m benchmarks.terminal [--quick] [--check]`: the screen in a real terminal, next to its budgets.

Most budgets are about processor time, as it is the same on a busy machine; what a person waits is shown
beside it and means something on a calm machine only. The two starts are timed in turns.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from msgspec import Struct

from benchmarks.terminal.empty_app import READY
from benchmarks.terminal.long_chat import LAST
from benchmarks.terminal.pty_program import PtyProgram
from holdfast.testing.emulator import Emulator, Pace

ROOT = Path(__file__).parents[2]
MESSAGES = 10_000
KEY_LIMIT = 0.016
START_LIMIT = 1.5
DELTAS_A_SECOND = 500
KEY = b"q"  # in no sequence that moves the cursor or sets a colour
BACKSPACE = b"\x7f"
PROMPT = "Initializing agent"
READY_CHAT = "Policy-Aware Chat Ready"
END = "ZZZZ"
RESULT = ROOT / "benchmarks" / "results" / "terminal.md"


class Row(Struct, frozen=True):
    """One line of the table.

    Args:
        what: what was measured.
        figure: the figure, in words.
        limit: the most that it may be, in words; empty if it only informs.
        exceeded: whether it is more than that.
    """

    what: str
    figure: str
    limit: str = ""
    exceeded: bool = False


@contextmanager
def open_home(base_url: str = "") -> Iterator[tuple[dict[str, str], Path]]:
    """Yield the environment of a person with a home of their own, and a project."""
    with tempfile.TemporaryDirectory() as folder:
        home, project = Path(folder, "home"), Path(folder, "project")
        home.mkdir()
        project.mkdir()
        environ = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "TERM": "xterm-256color",
            "LC_ALL": "C.UTF-8",
            "OPENAI_API_KEY": "benchmark",
            "ADH_BASE_URL": base_url,
        }
        yield environ, project


def measure_start(times: int) -> list[Row]:
    """Start `adh` and an empty application of Textual in turns, each until its prompt is painted."""
    ours: list[tuple[float, float]] = []
    empty: list[tuple[float, float]] = []
    sides = (
        (["-m", "benchmarks.terminal.empty_app"], READY, empty),
        (["-m", "adh", "--model", "openai:emulated-model"], PROMPT, ours),
    )
    with open_home() as (environ, project):
        for number in range(times + 1):
            for words, text, samples in sides:
                with PtyProgram(words, environ, project) as program:
                    painted = program.wait_for(text)
                    if number:  # the first start may compile
                        samples.append((program.cpu_seconds, painted - program.started))
    cpu = median(one[0] / other[0] for one, other in zip(ours, empty, strict=True))
    wall = median(one[1] / other[1] for one, other in zip(ours, empty, strict=True))
    middle = median(one[0] for one in ours), median(one[0] for one in empty)
    return [
        Row(
            "start until the prompt is painted, against an empty application of Textual",
            f"{wall:.2f} x",
            f"{START_LIMIT} x",
            wall > START_LIMIT,
        ),
        # What is imported behind the painted prompt counts here, as far as it has got by then.
        Row(
            "the same: processor time",
            f"{cpu:.2f} x ({middle[0] * 1000:.0f} ms, {middle[1] * 1000:.0f} ms)",
        ),
    ]


def measure_keys(times: int) -> list[Row]:
    """Type into a chat with many messages, key by key."""
    words = ["-m", "benchmarks.terminal.long_chat", str(MESSAGES)]
    waits: list[float] = []
    with open_home() as (environ, project), PtyProgram(words, environ, project) as program:
        program.wait_for(LAST)
        program.drain(1.0)
        before = program.cpu_seconds
        for _ in range(times):
            begun = time.monotonic()
            program.type_bytes(KEY)
            waits.append(program.wait_for(KEY.decode()) - begun)
            program.type_bytes(BACKSPACE)
            program.drain(0.03)
        cpu = (program.cpu_seconds - before) / (2 * times)
    return [
        Row(
            f"one key with {MESSAGES:,} messages: processor time",
            f"{cpu * 1000:.1f} ms",
            f"{KEY_LIMIT * 1000:.0f} ms",
            cpu > KEY_LIMIT,
        ),
        Row(
            "the same: time until it is painted",
            f"{median(waits) * 1000:.1f} ms, at most {max(waits) * 1000:.1f} ms",
        ),
    ]


def measure_stream(seconds: int) -> list[Row]:
    """Stream an answer of many deltas into `adh`."""
    deltas = DELTAS_A_SECOND * seconds
    answer = " ".join(f"word{number}" for number in range(deltas - 1)) + f" {END}"
    pace = Pace(1 / DELTAS_A_SECOND / 4)  # the emulator needs time of its own between two
    ended: list[float] = []
    with (
        Emulator(
            [answer], faults=lambda _: pace, on_request=lambda _: ended.append(time.monotonic())
        ) as provider,
        open_home(provider.base_url) as (environ, project),
        PtyProgram(["-m", "adh", "--model", "openai:emulated-model"], environ, project) as program,
    ):
        program.wait_for(READY_CHAT)
        program.drain(0.5)
        before = program.cpu_seconds
        program.type_bytes(b"go\r")
        painted = program.wait_for(END, 20 * seconds)
        cpu = program.cpu_seconds - before
        (request,) = [one for one in provider.requests if one.number == 1]
    sent = (request.ended or 0.0) - (request.first_byte or 0.0)
    share = cpu / deltas * DELTAS_A_SECOND
    return [
        Row(
            f"an answer of {deltas:,} deltas: share of one processor at {DELTAS_A_SECOND} a second",
            f"{share * 100:.0f} %",
            "100 %",
            share > 1.0,
        ),
        Row("the same: how many came in a second", f"{deltas / sent:.0f}"),
        Row(
            "the same: time from the last delta until it is painted",
            f"{(painted - ended[-1]) * 1000:.0f} ms",
        ),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and, with `--save`, keep; return the exit status."""
    parser = argparse.ArgumentParser(prog="benchmarks.terminal")
    parser.add_argument("--quick", action="store_true", help="fewer samples, for a first look")
    parser.add_argument("--check", action="store_true", help="fail when a limit is exceeded")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/terminal.md")
    options = parser.parse_args(arguments)
    parts: list[tuple[Callable[[int], list[Row]], int]] = [
        (measure_start, 3 if options.quick else 15),
        (measure_keys, 50 if options.quick else 300),
        (measure_stream, 3 if options.quick else 10),
    ]
    rows = [row for measure, times in parts for row in measure(times)]
    lines = [
        "# The terminal agent in a real terminal",
        "",
        "`python -m benchmarks.terminal --save` makes this.",
        "",
        "| what | figure | at most |",
        "|---|---|---|",
        *(f"| {row.what} | {row.figure} | {row.limit} |" for row in rows),
    ]
    print("\n".join(lines))
    if options.save:
        RESULT.write_text("\n".join(lines) + "\n", "utf-8")
    return 1 if options.check and any(row.exceeded for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
