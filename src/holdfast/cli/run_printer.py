"""Prints a run in a terminal: the text while it streams, and one line for each event.

The answer goes to one stream and everything else to another, so `holdfast run ... > file` writes
only the answer to the file. Arguments and results of tools are shortened. Invisible and
control characters in texts of models and tools are printed as escapes, because a terminal would
execute them or hide text.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

from holdfast.cli.markdown_stream import MarkdownStream
from holdfast.core.deltas import (
    CharactersReplaced,
    HostedToolFinished,
    HostedToolStarted,
    TextDelta,
)
from holdfast.core.errors import ConfigurationError, HoldfastError, explain
from holdfast.core.events import ModelReplied, OutputChecked, ToolFinished, TurnStopped
from holdfast.core.notices import (
    AttemptAbandoned,
    AttemptStarted,
    BreakerChanged,
    CustomNotice,
    DuplicateCall,
    OutputModeChanged,
    PermissionRuleUnmatched,
    ReplyReplaced,
    RequestFormChanged,
    RetryScheduled,
    ToolStarted,
)
from holdfast.core.printable import escape_invisible

if TYPE_CHECKING:
    from holdfast.runtime.turn_state.channel import Item

LINE_WIDTH = 79


def make_printable(text: str) -> str:
    r"""Return `text` with the characters that nobody sees, or that a terminal obeys, as escapes.

    >>> print(make_printable("a\x1b[2Jb\r\n"), end="")
    a\x1b[2Jb
    """
    return escape_invisible(text).replace("\r\n", "\n")


def shorten(text: str, longest: int = LINE_WIDTH) -> str:
    r"""Shorten a text to one printable line of at most `longest` characters.

    >>> shorten("a\nb" * 3, 5)
    'a ba…'
    """
    # Cut first: splitting megabytes of text to print its beginning would be slow.
    line = make_printable(" ".join(text[: longest * 4].split()))
    cut = len(text) > longest * 4
    return line[: longest - 1] + "…" if cut or len(line) > longest else line


def format_error(error: HoldfastError) -> str:
    """Format a failure as one printable line: the failure, the fix, and why it was not retried."""
    notes = getattr(error, "__notes__", ())
    about = str(error) if isinstance(error, ConfigurationError) else explain(error.info)
    return " ".join(make_printable(" ".join([about, *(f"({note})" for note in notes)])).split())


def write_lines(lines: Iterable[str]) -> None:
    """Write lines for another program to standard output, in UTF-8 under every locale.

    Args:
        lines: the lines without their ends.
    """
    sys.stdout.flush()
    for line in lines:
        sys.stdout.buffer.write(line.encode() + b"\n")


class RunPrinter:
    """Prints the items of one run.

    Args:
        answer: the stream for the text of the model.
        margin: the stream for everything else.
        markdown: renders the text; None prints it as it is.

    In a terminal the text is printed while it streams. Otherwise each accepted reply is printed as
    a whole, so a file contains neither the text of a failed attempt nor an output of a wrong type.
    """

    def __init__(
        self, answer: TextIO, margin: TextIO, markdown: MarkdownStream | None = None
    ) -> None:
        self._answer = answer
        self._margin = margin
        self._markdown = markdown
        self._live = answer.isatty()
        self._open = False
        self._text_printed = False
        """Whether text of the current reply was printed while it streamed."""
        self._pending_reply = ""
        """An accepted reply whose output may still be rejected."""
        self._awaits_function = False
        """Whether the next result of a tool is the return value of an output function."""

    def print_item(self, item: Item) -> None:
        """Print one event or notice."""
        if type(item) is TextDelta:
            if self._live:
                self._text_printed = True
                self._write_text(make_printable(item.text))
            return
        self._forget_void_text(item)
        if self._pending_reply:
            self.finish_line()
        if isinstance(item, ModelReplied):
            self._awaits_function = False
            self._print_reply(item.reply.text)
        elif isinstance(item, ToolFinished) and self._awaits_function and not item.result.is_error:
            self.finish_line()
            self.print_answer(item.result.text)
        elif isinstance(item, TurnStopped) and not self._live:
            # In a terminal its text arrives as a delta.
            self.finish_line()
            self.print_answer(item.text)
        elif isinstance(item, AttemptStarted):
            self._text_printed = self._text_printed and item.continues
        elif (line := describe_item(item)) is not None:
            self.finish_line()
            self.print_note(line)

    def _forget_void_text(self, item: Item) -> None:
        """Forget a reply that is not the answer: it was replaced, or did not fit, or a function answers."""
        if isinstance(item, ReplyReplaced):
            self._text_printed = False
        elif isinstance(item, OutputChecked):
            self._awaits_function = item.call is not None
            if not item.parsed_by or self._awaits_function:
                self._pending_reply = ""

    def _print_reply(self, text: str) -> None:
        if not self._live:
            self._pending_reply = text
            return
        if not self._text_printed:
            # An output by a tool call does not stream as text.
            self._write_text(make_printable(text))
        self._text_printed = False
        self.finish_line()

    def print_answer(self, text: str) -> None:
        """Print an answer that was not streamed."""
        self._write_text(make_printable(text) if self._live else text)
        self.finish_line()

    def print_note(self, line: str) -> None:
        """Print one line beside the answer."""
        print(f"  {line}", file=self._margin, flush=True)

    def _write_text(self, text: str) -> None:
        if text and self._markdown is not None:
            self._markdown.write(text)
            self._open = True
        elif text:
            print(text, end="", file=self._answer, flush=True)
            self._open = not text.endswith("\n")

    def finish_line(self) -> None:
        """Print the pending reply and end the current line."""
        reply, self._pending_reply = self._pending_reply, ""
        self._write_text(reply)
        if self._open and self._markdown is not None:
            self._markdown.finish()
        elif self._open:
            print(file=self._answer, flush=True)
        self._open = False


def describe_item(item: Item, width: int = LINE_WIDTH - 2) -> str | None:
    """Describe an item in a line of at most `width` characters; None if it needs no line."""
    return _describe_work(item, width) or _describe_trouble(item, width)


def _describe_work(item: Item, width: int) -> str | None:
    """Describe an action of a tool or of the user's own code."""
    if isinstance(item, ToolStarted) and item.attempt == 1:
        # The line about a retry stands for the attempts after the first one.
        return f"▸ {shorten(item.name, 30)}({shorten(item.arguments, width - 34)})"
    if isinstance(item, HostedToolStarted | HostedToolFinished):
        return shorten(_describe_hosted(item), width)
    if isinstance(item, ToolFinished) and not item.same_as:
        return shorten(_describe_result(item), width)
    if isinstance(item, DuplicateCall):
        return shorten(f"= {item.name}: the reply has this call twice, and it runs once", width)
    if isinstance(item, CustomNotice):
        return shorten(f"· {_describe_custom(item)}", width)
    return None


def _describe_trouble(item: Item, width: int) -> str | None:
    """Describe a failure and its consequence."""
    if isinstance(item, AttemptAbandoned):
        return shorten(f"⟲ discard the text above: {item.error.safe}", width)
    if isinstance(item, ReplyReplaced):
        return "⟲ discard the text above: a hook replaced the reply"
    if isinstance(item, CharactersReplaced):
        return "⚠ \ufffd stands for bytes of the reply that are not characters"
    if isinstance(item, OutputChecked) and item.problems:
        return shorten(f"⟲ the output is invalid: {item.problems[0]}", width)
    if isinstance(item, RetryScheduled):
        retry = f"↻ retry in {item.delay:.1f} s ({item.attempt} of {item.max_retries})"
        return shorten(f"{retry}: {item.error.safe}", width)
    if isinstance(item, OutputModeChanged):
        ways = f"{item.before} mode refused, {item.after} mode follows"
        return shorten(f"↻ {item.target}: {ways}: {item.error.safe}", width)
    if isinstance(item, RequestFormChanged):
        ways = (
            f"{item.before} refused, {item.after} follows"
            if item.after
            else f"{item.before} refused and left out"
        )
        return shorten(f"↻ {item.target}: {ways}: {item.error.safe}", width)
    if isinstance(item, BreakerChanged) and item.after == "open":
        pause = f" for {item.seconds:.0f} s" if item.seconds else ""
        return shorten(f"⊘ {item.target} fails too often and is not called{pause}", width)
    if isinstance(item, PermissionRuleUnmatched):
        meant = f"; did you mean {item.near}?" if item.near else ""
        return shorten(f"⚠ the rule {item.permission} {item.rule} matched no tool{meant}", width)
    return None


def _describe_hosted(item: HostedToolStarted | HostedToolFinished) -> str:
    if isinstance(item, HostedToolStarted):
        return f"▸ {item.name} by the provider {item.arguments[:400]}"
    return f"{'✗' if item.is_error else '✓'} {item.name}: {(item.result or item.arguments)[:400]}"


def _describe_custom(notice: CustomNotice) -> str:
    """Return the class and the fields of a notice, without the place that it comes from."""
    inherited = CustomNotice.__struct_fields__
    own = [name for name in notice.__struct_fields__ if name not in inherited]
    return f"{type(notice).__name__} {', '.join(f'{one}={getattr(notice, one)!r}' for one in own)}"


def _describe_result(item: ToolFinished) -> str:
    name, text = item.result.name, item.result.text[:400]
    if not item.result.is_error:
        return f"✓ {name}: {text}"
    about = f"Error: Function '{name}' "
    return f"✗ {name} {text.removeprefix(about)}" if text.startswith(about) else f"✗ {name}: {text}"
