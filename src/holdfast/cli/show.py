"""How a run looks in a terminal: the text as it comes, and one line for each thing that happens.

The answer goes to one stream and everything else to another, so that `holdfast run ... > file`
keeps the answer alone. It must never print an argument or a result of a tool in full.
"""

from __future__ import annotations

from typing import TextIO

from holdfast.core.deltas import TextDelta
from holdfast.core.events import ModelReplied, ToolFinished
from holdfast.core.notices import AttemptAbandoned, RetryScheduled, ToolStarted
from holdfast.runtime.notices import Item

_LONGEST = 100


def shorten(text: str, longest: int = _LONGEST) -> str:
    r"""One line of at most `longest` characters.

    >>> shorten("a\nb" * 3, 5)
    'a ba…'
    """
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


class Show:
    """Prints the items of one run.

    Args:
        answer: where the text of the model goes.
        margin: where everything else goes.
        live: print text while it comes. Without, each committed reply is printed whole, so that a
            file never holds the beginning of an attempt that failed.
    """

    def __init__(self, answer: TextIO, margin: TextIO, *, live: bool | None = None) -> None:
        self._answer = answer
        self._margin = margin
        self._live = answer.isatty() if live is None else live
        self._open = False

    def item(self, item: Item) -> None:
        """Print one event or notice."""
        if type(item) is TextDelta:
            if self._live:
                self._text(item.text)
        elif isinstance(item, ModelReplied):
            if not self._live and item.reply.text:
                self._text(item.reply.text)
            self.end()
        elif (line := describe(item)) is not None:
            self.end()
            print(line, file=self._margin, flush=True)

    def _text(self, text: str) -> None:
        print(text, end="", file=self._answer, flush=True)
        self._open = not text.endswith("\n")

    def end(self) -> None:
        """Finish the line that is open."""
        if self._open:
            print(file=self._answer, flush=True)
            self._open = False


def describe(item: Item) -> str | None:
    """One line about what happened, or None for what is not worth one."""
    if isinstance(item, ToolStarted):
        return f"  ▸ {item.name}({shorten(item.arguments, 60)})"
    if isinstance(item, ToolFinished):
        mark = "✗" if item.result.is_error else "✓"
        return f"  {mark} {item.result.name}: {shorten(item.result.text)}"
    if isinstance(item, AttemptAbandoned):
        return f"  ⟲ forget the text above: {shorten(item.error.safe)}"
    if isinstance(item, RetryScheduled):
        said = f"  ↻ {shorten(item.error.safe)}"
        return f"{said}; trying again in {item.delay:.1f} s ({item.attempt}/{item.max_retries})"
    return None
