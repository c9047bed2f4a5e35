"""What a terminal shows of a run."""

from __future__ import annotations

import io

import pytest

from holdfast.cli.run_printer import LINE_WIDTH, RunPrinter, describe_item, make_printable, shorten
from holdfast.core.deltas import HostedToolFinished, HostedToolStarted, TextDelta
from holdfast.core.errors import ErrorCategory, ErrorInfo
from holdfast.core.events import ModelReplied, OutputChecked, ToolFinished
from holdfast.core.messages import Reply, Text, ToolCall, ToolResult
from holdfast.core.notices import (
    AttemptAbandoned,
    AttemptStarted,
    BreakerChanged,
    CustomNotice,
    OutputModeChanged,
    ReplyReplaced,
    RequestFormChanged,
    RetryScheduled,
    ToolStarted,
)
from holdfast.core.problems import Problem
from holdfast.runtime.turn_state.channel import Item

LONG = "x" * 1000 + "\x1b]0;title\x07\nsecond line"
DOWN = ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe=f"down {LONG}")


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def finished(text: str, *, bad: bool = False) -> ToolFinished:
    result = ToolResult("c", "tool", (Text(text),), is_error=bad)
    return ToolFinished("t1.i0.tool.0", 0.0, result)


class Progress(CustomNotice, frozen=True):
    percent: int
    note: str = LONG


NOTES: list[tuple[Item, str]] = [
    (Progress(50, run_id="r", key="k"), "· Progress percent=50, note='x"),
    (ToolStarted("k", LONG, LONG), "▸ x"),
    (finished(LONG), "✓ tool: x"),
    (finished("Error: Function 'tool' failed.", bad=True), "✗ tool failed."),
    (finished(LONG, bad=True), "✗ tool: x"),
    (AttemptAbandoned("k", 1, DOWN), "⟲ discard the text above: down"),
    (ReplyReplaced("k"), "⟲ discard the text above: a hook replaced the reply"),
    (RetryScheduled("k", 1, 3, 0.25, DOWN), "↻ retry in 0.2 s (1 of 3): down"),
    (
        OutputModeChanged("k", 1, "openai:x", "native", "tool", DOWN),
        "↻ openai:x: native mode refused, tool mode follows: down",
    ),
    (
        RequestFormChanged("k", 1, "a:x", "system_role", "developer", "system", DOWN),
        "↻ a:x: developer refused, system follows: down",
    ),
    (
        RequestFormChanged("k", 1, "a:x", "stream_usage", "stream_options", "", DOWN),
        "↻ a:x: stream_options refused and left out: down",
    ),
    (BreakerChanged("openai:x", "closed", "open", 30.0), "⊘ openai:x fails too often and is not"),
    (OutputChecked("k", 0.0, "", (Problem("a", LONG),)), "⟲ the output is invalid: a: x"),
]


def replied(text: str) -> ModelReplied:
    return ModelReplied("t1.i0.model", 0.0, Reply((Text(text),)))


def shown(screen: io.StringIO, *items: Item) -> str:
    show = RunPrinter(screen, io.StringIO())
    for item in items:
        show.print_item(item)
    show.finish_line()
    return screen.getvalue()


WRONG = OutputChecked("t1.i0.output", 0.0, "", (Problem("", "no"),))
RIGHT = OutputChecked("t1.i1.output", 0.0, "strict")


def test_a_file_holds_the_answer_of_the_wanted_type_alone() -> None:
    assert shown(io.StringIO(), replied("wrong"), WRONG, replied("right"), RIGHT) == "right\n"
    assert shown(io.StringIO(), replied("Hm."), finished("x"), replied("right")) == "Hm.\nright\n"
    assert shown(io.StringIO(), replied("wrong"), WRONG) == ""


def test_an_answer_that_did_not_come_as_text_is_shown_when_it_is_there() -> None:
    came = TextDelta("word")
    assert shown(Screen(), came, replied("word"), RIGHT) == "word\n"
    assert shown(Screen(), replied("by tool"), RIGHT) == "by tool\n"
    again = AttemptStarted("k", 2)
    assert shown(Screen(), came, again, replied("by tool")) == "wordby tool\n"


@pytest.mark.parametrize(("item", "begins"), NOTES, ids=lambda value: str(value)[:16])
def test_a_note_is_one_printable_line_that_fits(item: Item, begins: str) -> None:
    line = describe_item(item, 60)
    assert line is not None
    assert line.startswith(begins)
    assert len(line) <= 60
    assert "\x1b" not in line
    assert "\n" not in line


def test_an_item_without_a_note_prints_nothing() -> None:
    assert describe_item(TextDelta("a")) is None
    searched = HostedToolStarted("", "web_search", '{"query":"Porto"}')
    assert describe_item(searched) == '▸ web_search by the provider {"query":"Porto"}'
    assert describe_item(HostedToolFinished("", "web_search", "", "a.pt")) == "✓ web_search: a.pt"
    failed = HostedToolFinished("", "web_search", "", "unavailable", is_error=True)
    assert describe_item(failed) == "✗ web_search: unavailable"
    assert describe_item(BreakerChanged("openai:x", "open", "closed")) is None


def test_in_a_terminal_text_is_live_and_printable() -> None:
    answer, margin = Screen(), Screen()
    show = RunPrinter(answer, margin)
    for item in (
        TextDelta("one "),
        TextDelta("t\x1bwo"),
        ToolStarted("k", "f", "{}"),
        TextDelta("three"),
    ):
        show.print_item(item)
    show.print_item(ModelReplied("k", 0.0, Reply((Text("one two three"),))))
    assert answer.getvalue() == "one t\\x1bwo\nthree\n"
    assert margin.getvalue() == "  ▸ f({})\n"


def test_in_a_file_only_accepted_text_stands_as_it_is() -> None:
    answer, margin = io.StringIO(), io.StringIO()
    show = RunPrinter(answer, margin)
    show.print_item(TextDelta("half"))
    show.print_item(AttemptAbandoned("k", 1, DOWN))
    show.print_item(ModelReplied("k", 0.0, Reply((Text("whole \x1b[1m"),))))
    show.print_item(ModelReplied("k", 0.0, Reply((Text(""),))))
    assert answer.getvalue() == "whole \x1b[1m\n"


def test_shorten_costs_the_same_for_a_huge_text() -> None:
    assert len(shorten("a " * 10_000_000)) == LINE_WIDTH
    assert shorten("short") == "short"


def test_printable_keeps_letters_tabs_and_line_ends() -> None:
    assert make_printable("Grüße\t👋\n") == "Grüße\t👋\n"
    assert make_printable("a\rb\x00\x9b1m") == "a\\x0db\\x00\\x9b1m"


def test_a_reply_that_a_hook_replaced_is_printed_after_the_void_text() -> None:
    items = (TextDelta("go away"), ReplyReplaced("t1.i0.model"), replied("Good day"))
    assert shown(Screen(), *items) == "go away\nGood day\n"


def test_the_answer_of_an_output_function_is_its_value_and_not_its_arguments() -> None:
    call = ToolCall("output", "book", '{"room": "blue"}')
    checked = OutputChecked("t1.i0.output", 0.0, "strict", call=call)
    items = [replied(call.arguments), checked, finished('"booked"')]
    assert shown(io.StringIO(), *items) == '"booked"\n'
    assert shown(Screen(), *items) == '{"room": "blue"}\n"booked"\n'
    rejected = [replied(call.arguments), checked, finished("Choose again.", bad=True)]
    assert shown(io.StringIO(), *rejected, *items) == '"booked"\n'
    # A tool of the next turn is no answer.
    assert shown(io.StringIO(), *items, replied(""), finished("looked")) == '"booked"\n'
