"""How a run looks in a terminal: the text as it comes, and one line for each thing that happens.

The answer goes to one stream and everything else to another, so that `holdfast run ... > file`
keeps the answer alone. It must never print an argument or a result of a tool in full, and never
hand a terminal a control character that a model or a tool wrote.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TextIO

from holdfast.core.deltas import TextDelta
from holdfast.core.errors import ConfigurationError, HoldfastError, explain
from holdfast.core.events import ModelReplied, OutputChecked, ToolFinished, TurnStopped
from holdfast.core.notices import (
    AttemptAbandoned,
    AttemptStarted,
    BreakerChanged,
    RetryScheduled,
    ToolStarted,
)
from holdfast.journal.encoding import OBEYED
from holdfast.runtime.channel import Item

LINE_WIDTH = 79

_CONTROLS = {
    code: "\N{REPLACEMENT CHARACTER}" for code in (*range(0x20), *OBEYED) if chr(code) not in "\t\n"
}
_CONTROLS[ord("\r")] = ""


def make_printable(text: str) -> str:
    r"""The text without what a terminal would obey: escape sequences, bells, turns of the direction.

    >>> make_printable("a\x1b[2Jb\r\n")
    'a�[2Jb\n'
    """
    return text.translate(_CONTROLS)


def shorten(text: str, longest: int = LINE_WIDTH) -> str:
    r"""One printable line of at most `longest` characters.

    >>> shorten("a\nb" * 3, 5)
    'a ba…'
    """
    # Splitting a text of megabytes to show its beginning would be work for nothing.
    line = make_printable(" ".join(text[: longest * 4].split()))
    cut = len(text) > longest * 4
    return line[: longest - 1] + "…" if cut or len(line) > longest else line


def format_error(error: HoldfastError) -> str:
    """One printable line about a failure: what happened, what to do, and why it was not repeated."""
    notes = getattr(error, "__notes__", ())
    about = str(error) if isinstance(error, ConfigurationError) else explain(error.info)
    return " ".join(make_printable(" ".join([about, *(f"({note})" for note in notes)])).split())


def write_lines(lines: Iterable[str]) -> None:
    """Write lines for a program to standard output: in UTF-8, whatever the terminal shows.

    Args:
        lines: without their ends.
    """
    sys.stdout.flush()
    for line in lines:
        sys.stdout.buffer.write(line.encode() + b"\n")


class RunPrinter:
    """Prints the items of one run.

    Args:
        answer: where the text of the model goes.
        margin: where everything else goes.

    In a terminal the text is printed while it comes. Elsewhere each accepted reply is printed
    whole, so that a file never holds the beginning of an attempt that failed; nor does it hold an
    answer that turned out not to be of the wanted type.
    """

    def __init__(self, answer: TextIO, margin: TextIO) -> None:
        self._answer = answer
        self._margin = margin
        self._live = answer.isatty()
        self._open = False
        self._text_printed = False
        """Whether text of the reply that is under way was printed while it came."""
        self._pending_reply = ""
        """An accepted reply that may yet turn out to be no answer."""

    def print_item(self, item: Item) -> None:
        """Print one event or notice."""
        if type(item) is TextDelta:
            if self._live:
                self._text_printed = True
                self._write_text(make_printable(item.text))
            return
        if isinstance(item, OutputChecked) and not item.parsed_by:
            self._pending_reply = ""
        if self._pending_reply:
            self.finish_line()
        if isinstance(item, ModelReplied):
            self._print_reply(item.reply.text)
        elif isinstance(item, TurnStopped) and item.text:
            self.finish_line()
            self.print_answer(item.text)
        elif isinstance(item, AttemptStarted):
            self._text_printed = self._text_printed and item.continues
        elif (line := describe_item(item)) is not None:
            self.finish_line()
            self.print_note(line)

    def _print_reply(self, text: str) -> None:
        if not self._live:
            self._pending_reply = text
            return
        if not self._text_printed:
            # An answer by a tool is no text while it comes.
            self._write_text(make_printable(text))
        self._text_printed = False
        self.finish_line()

    def print_answer(self, text: str) -> None:
        """Print an answer that nobody saw coming."""
        self._write_text(make_printable(text) if self._live else text)
        self.finish_line()

    def print_note(self, line: str) -> None:
        """Print one line beside the answer."""
        print(f"  {line}", file=self._margin, flush=True)

    def _write_text(self, text: str) -> None:
        if text:
            print(text, end="", file=self._answer, flush=True)
            self._open = not text.endswith("\n")

    def finish_line(self) -> None:
        """Print what was held back, and finish the line that is open."""
        held, self._pending_reply = self._pending_reply, ""
        self._write_text(held)
        if self._open:
            print(file=self._answer, flush=True)
            self._open = False


def describe_item(item: Item, width: int = LINE_WIDTH - 2) -> str | None:
    """One line of at most `width` characters about what happened, or None when it is not worth one."""
    if isinstance(item, ToolStarted):
        return f"▸ {shorten(item.name, 30)}({shorten(item.arguments, width - 34)})"
    if isinstance(item, ToolFinished):
        return shorten(_describe_result(item), width)
    if isinstance(item, AttemptAbandoned):
        return shorten(f"⟲ forget the text above: {item.error.safe}", width)
    if isinstance(item, OutputChecked) and item.problems:
        return shorten(f"⟲ the answer does not fit: {item.problems[0]}", width)
    if isinstance(item, RetryScheduled):
        again = f"↻ again in {item.delay:.1f} s ({item.attempt} of {item.max_retries})"
        return shorten(f"{again}: {item.error.safe}", width)
    if isinstance(item, BreakerChanged) and item.after == "open":
        pause = f" for {item.seconds:.0f} s" if item.seconds else ""
        return shorten(f"⊘ {item.target} fails too often and is left alone{pause}", width)
    return None


def _describe_result(item: ToolFinished) -> str:
    name, said = item.result.name, item.result.text[:400]
    if not item.result.is_error:
        return f"✓ {name}: {said}"
    about = f"Error: Function '{name}' "
    return f"✗ {name} {said.removeprefix(about)}" if said.startswith(about) else f"✗ {name}: {said}"
