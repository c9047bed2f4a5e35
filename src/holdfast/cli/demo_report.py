"""The demo's output: a timeline while it runs, and a table of the cost of each fault.

Every figure is measured, and every row comes from notices and requests of this run. A fault that
did not happen is reported as such.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from holdfast.cli.demo_folder import SECRET
from holdfast.cli.demo_script import TROUBLES, trouble_for
from holdfast.cli.run_printer import LINE_WIDTH, describe_item, make_printable, shorten
from holdfast.cli.times import format_count
from holdfast.core.deltas import TextDelta
from holdfast.core.events import ModelReplied, ToolFinished
from holdfast.core.notices import AttemptAbandoned, RetryScheduled
from holdfast.runtime.turn_state.channel import Item
from holdfast.testing.emulator import EmulatedRequest
from holdfast.testing.emulator.faults import FaultEntry

_MARGIN = " " * 9
_COLUMNS = (26, 34)


class TimedItem(Struct, frozen=True):
    """One item of the run, and its time in seconds since the beginning."""

    at: float
    item: Item


class Row(Struct, frozen=True):
    """One line of the table."""

    went_wrong: str
    was_done: str
    cost: str


class Timeline:
    """Prints each item with the seconds since the beginning, and collects the items."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._items: list[TimedItem] = []
        self._requests: dict[int, float] = {}
        self._faults_met: set[int] = set()
        self._open = False
        self._write_error: OSError | None = None
        self.leaked = False

    def elapsed_seconds(self) -> float:
        """Return the seconds since the beginning."""
        return time.monotonic() - self._begin

    def print_line(self, text: str) -> None:
        """Print one line with its time."""
        self._end_text()
        self._print(f"{self.elapsed_seconds():6.2f}s  {text}\n")

    def choose_fault(self, request: EmulatedRequest) -> FaultEntry:
        """Choose the fault for a request and print it; this is the emulator's fault script."""
        self._requests[request.number] = self.elapsed_seconds()
        self._look_for_secret(msgspec.json.encode(request.body).decode())
        trouble = trouble_for(request)
        if trouble is None:
            return None
        self._faults_met.add(request.number)
        self.print_line(f"⚡ the provider fails: {trouble.name}")
        return trouble.fault

    def print_item(self, item: Item) -> None:
        """Print one item of the run. Raises OSError if the output is closed."""
        if self._write_error is not None:
            raise self._write_error
        self._items.append(TimedItem(self.elapsed_seconds(), item))
        if type(item) is TextDelta:
            self._print_text(make_printable(item.text))
        elif isinstance(item, ModelReplied):
            self._end_text()
        elif (line := describe_item(item, LINE_WIDTH - len(_MARGIN))) is not None:
            self.print_line(line)

    def build_rows(self) -> list[Row]:
        """Return a row for each fault."""
        rows = [self._row_of(number) for number in TROUBLES]
        rows[2:2] = self._tool_rows()
        return rows

    @property
    def secret_was_raised(self) -> bool:
        """Whether a tool raised the password."""
        return any(True for _ in self._tool_rows())

    @property
    def requests(self) -> int:
        """The number of requests to the provider."""
        return len(self._requests)

    def _row_of(self, number: int) -> Row:
        name = TROUBLES[number].name
        if number not in self._faults_met:
            return Row(name, "did not happen in this run", "")
        began = self._requests[number]
        ended = self._requests.get(number + 1)
        if ended is None:
            return Row(name, "ended this run", "")
        between = [timed.item for timed in self._items if began <= timed.at < ended]
        return Row(name, _describe_response(between), f"{ended - began:.2f} s, 1 request")

    def _tool_rows(self) -> Iterator[Row]:
        """Yield one row for each tool call that was tried more than once."""
        retried = {
            timed.item.key
            for timed in self._items
            if isinstance(timed.item, RetryScheduled) and ".tool." in timed.item.key
        }
        for key in sorted(retried):
            of_key = [timed for timed in self._items if getattr(timed.item, "key", "") == key]
            items = [timed.item for timed in of_key]
            attempts = 1 + sum(isinstance(item, RetryScheduled) for item in items)
            failed = any(isinstance(item, ToolFinished) and item.result.is_error for item in items)
            outcome = "then an error result" if failed else "the last one succeeded"
            seconds = of_key[-1].at - of_key[0].at
            yield Row(
                "a tool raises a password", f"{attempts} attempts, {outcome}", f"{seconds:.2f} s"
            )

    def _print_text(self, text: str) -> None:
        if text:
            indented = text.replace("\n", f"\n{_MARGIN}")
            self._print(indented if self._open else _MARGIN + indented)
            self._open = True

    def _end_text(self) -> None:
        if self._open:
            self._print("\n")
            self._open = False

    def _print(self, text: str) -> None:
        self._look_for_secret(text)
        try:
            print(text, end="", flush=True)
        except OSError as error:
            # `print_item` raises it. The provider prints too, and an error would make it fail.
            self._write_error = error

    def _look_for_secret(self, text: str) -> None:
        self.leaked = self.leaked or SECRET in text


def format_table(rows: list[Row]) -> str:
    """Format the rows as a table.

    >>> print(format_table([Row("429", "retried", "1.00 s")]))
    what went wrong            what was done                      what it cost
    429                        retried                            1.00 s
    """
    head = Row("what went wrong", "what was done", "what it cost")
    first, second = _COLUMNS
    return "\n".join(
        f"{shorten(row.went_wrong, first):<{first}} {shorten(row.was_done, second):<{second}} "
        f"{row.cost}".rstrip()
        for row in (head, *rows)
    )


def _describe_response(items: list[Item]) -> str:
    """Describe the reaction to a fault, from its notices."""
    abandoned = any(isinstance(item, AttemptAbandoned) for item in items)
    words = sum(type(item) is TextDelta for item in items)
    waits = [item for item in items if isinstance(item, RetryScheduled)]
    ended = [item for item in items if isinstance(item, ToolFinished)]
    refused = sum(item.result.is_error for item in ended)
    if refused:
        return f"{refused} of {format_count(len(ended), 'call')} not run"
    if not waits:
        return "nothing was needed"
    if abandoned and words:
        return f"{format_count(words, 'word')} discarded, retried"
    reason = " as asked" if waits[0].error.retry_after is not None else ""
    return f"waited {waits[0].delay:.1f} s{reason}, retried"
