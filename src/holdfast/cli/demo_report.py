"""What the demo saw: the timeline while it happens, and the table of what each fault cost.

Every figure is measured and every row is made of notices and requests that really came. It must
never say of a fault that it was met when it was not.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from holdfast.cli.demo_folder import SECRET
from holdfast.cli.demo_script import TROUBLES, plural, trouble_for
from holdfast.cli.run_printer import LINE_WIDTH, describe_item, make_printable, shorten
from holdfast.core.deltas import TextDelta
from holdfast.core.events import ModelReplied, ToolFinished
from holdfast.core.notices import AttemptAbandoned, RetryScheduled
from holdfast.runtime.channel import Item
from holdfast.testing.emulator import EmulatedRequest
from holdfast.testing.emulator.faults import FaultEntry

_MARGIN = " " * 9
_COLUMNS = (26, 34)


class TimedItem(Struct, frozen=True):
    """One item of the run, and when it came."""

    at: float
    item: Item


class Row(Struct, frozen=True):
    """One line of the table."""

    went_wrong: str
    was_done: str
    cost: str


class Timeline:
    """Prints what happens with the seconds since the beginning, and remembers it."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._items: list[TimedItem] = []
        self._requests: dict[int, float] = {}
        self._faults_met: set[int] = set()
        self._open = False
        self._write_error: OSError | None = None
        self.leaked = False

    def elapsed_seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._begin

    def print_line(self, text: str) -> None:
        """Print one line with its time."""
        self._end_text()
        self._print(f"{self.elapsed_seconds():6.2f}s  {text}\n")

    def choose_fault(self, request: EmulatedRequest) -> FaultEntry:
        """The fault script: looks at what was sent, and says aloud what goes wrong with it."""
        self._requests[request.number] = self.elapsed_seconds()
        self._look_for_secret(msgspec.json.encode(request.body).decode())
        trouble = trouble_for(request)
        if trouble is None:
            return None
        self._faults_met.add(request.number)
        self.print_line(f"⚡ the provider misbehaves: {trouble.name}")
        return trouble.fault

    def print_item(self, item: Item) -> None:
        """Print one item of the run. Raises OSError when nobody reads what is printed."""
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
        """What each fault cost."""
        rows = [self._row_of(number) for number in TROUBLES]
        rows[2:2] = self._tool_rows()
        return rows

    @property
    def secret_was_raised(self) -> bool:
        """Whether a tool failed, so that there was something to hide."""
        return any(True for _ in self._tool_rows())

    @property
    def requests(self) -> int:
        """How often the provider was asked."""
        return len(self._requests)

    def _row_of(self, number: int) -> Row:
        name = TROUBLES[number].name
        if number not in self._faults_met:
            return Row(name, "did not happen in this run", "")
        began = self._requests[number]
        ended = self._requests.get(number + 1)
        if ended is None:
            return Row(name, "was the end of this run", "")
        between = [seen.item for seen in self._items if began <= seen.at < ended]
        return Row(name, _describe_response(between), f"{ended - began:.2f} s, 1 request")

    def _tool_rows(self) -> Iterator[Row]:
        """One row for each call that was tried more than once."""
        retried = {
            seen.item.key
            for seen in self._items
            if isinstance(seen.item, RetryScheduled) and ".tool." in seen.item.key
        }
        for key in sorted(retried):
            of_key = [seen for seen in self._items if getattr(seen.item, "key", "") == key]
            attempts = 1 + sum(isinstance(seen.item, RetryScheduled) for seen in of_key)
            told = any(isinstance(s.item, ToolFinished) and s.item.result.is_error for s in of_key)
            done = (
                f"{attempts} attempts, {'then an error result' if told else 'the last one worked'}"
            )
            took = of_key[-1].at - of_key[0].at
            yield Row("a tool raises a password", done, f"{took:.2f} s")

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
            # Raised by `item`: the provider, which prints too, is no place to fail in.
            self._write_error = error

    def _look_for_secret(self, text: str) -> None:
        self.leaked = self.leaked or SECRET in text


def format_table(rows: list[Row]) -> str:
    """The rows in columns.

    >>> print(format_table([Row("429", "asked again", "1.00 s")]))
    what went wrong            what was done                      what it cost
    429                        asked again                        1.00 s
    """
    head = Row("what went wrong", "what was done", "what it cost")
    first, second = _COLUMNS
    return "\n".join(
        f"{shorten(row.went_wrong, first):<{first}} {shorten(row.was_done, second):<{second}} "
        f"{row.cost}".rstrip()
        for row in (head, *rows)
    )


def _describe_response(items: list[Item]) -> str:
    """What was done about a fault, as the notices tell it."""
    abandoned = any(isinstance(item, AttemptAbandoned) for item in items)
    shown = sum(type(item) is TextDelta for item in items)
    waits = [item for item in items if isinstance(item, RetryScheduled)]
    ended = [item for item in items if isinstance(item, ToolFinished)]
    refused = sum(item.result.is_error for item in ended)
    if refused:
        return f"{refused} of {plural(len(ended), 'call')} not run, model told"
    if not waits:
        return "nothing was needed"
    if abandoned and shown:
        return f"{plural(shown, 'word')} withdrawn, asked again"
    told = " as told" if waits[0].error.retry_after is not None else ""
    return f"waited {waits[0].delay:.1f} s{told}, asked again"
