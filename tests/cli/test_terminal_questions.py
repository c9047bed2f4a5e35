"""Questions in a terminal: nothing is approved by accident, and arguments are shown in full."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pytest

from holdfast import Agent, tool
from holdfast.cli.run_printer import RunPrinter, format_error, make_printable, shorten
from holdfast.cli.terminal_questions import (
    ask_in_terminal,
    format_question,
    parse_answer,
    sign_answer,
)
from holdfast.core.deltas import TextDelta
from holdfast.core.errors import ConfigurationError
from holdfast.core.questions import (
    Answer,
    Approved,
    ClarificationQuestion,
    ContinuationQuestion,
    Continued,
    Denied,
    PermissionQuestion,
    Question,
)
from holdfast.runtime.streams.run_stream import RunStream
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.testing.scripted import ToolCall
from holdfast.tools.context import ToolContext

PAY = PermissionQuestion(key="k", tool="pay", arguments={"euros": 10})
MORE = ContinuationQuestion(key="c", iteration=21, limit=20)
WHERE = ClarificationQuestion(key="w", question="Where?", options=("Porto", "Faro"))


class Count(Question[int], frozen=True, kw_only=True):
    what: str


class Say(Question[str], frozen=True, kw_only=True):
    what: str


@pytest.mark.parametrize(
    ("request_", "line", "value"),
    [
        (PAY, "y", Approved()),
        (PAY, " YES ", Approved()),
        (PAY, "s", Approved(remember="call")),
        (PAY, "always", Approved(remember="tool")),
        (PAY, "never", Denied(remember="tool")),
        (PAY, "n", Denied()),
        (PAY, "no too much", Denied(reason="too much")),
        (PAY, 'e {"euros": 3}', Approved(arguments={"euros": 3})),
        (MORE, "y", Continued()),
        (MORE, "y 7", Continued(iterations=7)),
        (MORE, "n", Denied(reason="Continuation denied by user.")),
        (WHERE, "2", "Faro"),
        (WHERE, "Braga", "Braga"),
        (WHERE, "3", "3"),
        (Count(what="x"), "12", 12),
        (Say(what="x"), " as typed ", " as typed "),
    ],
)
def test_a_line_is_an_answer(request_: Question[Any], line: str, value: object) -> None:
    assert parse_answer(request_, line) == Answer(request_.key, value, request_.binding)


@pytest.mark.parametrize(
    ("request_", "line"),
    [
        (PAY, ""),
        (PAY, "yes but only once I have seen it"),
        (PAY, "a moment please"),
        (PAY, "ja"),
        (PAY, "e {euros: 3}"),
        (PAY, "e [3]"),
        (MORE, "y many"),
        (MORE, "y -3"),
        (MORE, "sure"),
        (WHERE, "  "),
        (Count(what="x"), "twelve"),
        (Count(what="x"), '"12"'),
    ],
)
def test_an_invalid_line_is_not_an_answer(request_: Question[Any], line: str) -> None:
    assert parse_answer(request_, line) is None


def test_all_arguments_are_shown_whole_and_without_control_characters() -> None:
    long = "x" * 5000
    request = PermissionQuestion(tool="run\x1b[2J", arguments={"command": long, "n": "\x1b[1A"})
    lines = format_question(request)
    assert long in "\n".join(lines)
    assert "\x1b" not in "\n".join(lines)
    assert "never" in lines[-1]


def test_every_kind_says_what_can_be_typed() -> None:
    assert format_question(MORE)[-1] == "y [how many]: yes, 3 more · n: no"
    assert format_question(WHERE) == ["? Where?", "1: Porto · 2: Faro"]
    assert "type int" in format_question(Count(what="x"))[-1]


@tool(effect="write")
async def pay(ctx: ToolContext) -> str:
    """Pay."""
    answer = await ctx.ask(PermissionQuestion(tool="pay"))
    return type(answer).__name__ + ":" + (answer.because if isinstance(answer, Denied) else "")


async def conversation(*lines: str | None, clock: FakeClock | None = None) -> tuple[str, str]:
    """Return the result of the tool and the error output."""
    typed = iter(lines)
    margin = io.StringIO()
    show = RunPrinter(io.StringIO(), margin)

    async def read() -> str | None:
        line = next(typed, "wait")
        if line == "wait":
            await asyncio.Event().wait()
        return line

    model = ScriptedModel(ToolCall("1", "pay", "{}"), "done")
    agent = Agent(model, tools=[pay], clock=clock or FakeClock(auto=False))
    async with agent.stream("go") as run:
        await _answer(run, read, show)
    return run.result.history[2].parts[0].text, margin.getvalue()  # type: ignore[union-attr]


async def _answer(run: RunStream[str], read: Any, show: RunPrinter) -> None:
    async for item in run:
        if isinstance(item, Question):
            await ask_in_terminal(run, item, read, show)


async def test_edited_arguments_that_do_not_fit_are_asked_for_again() -> None:
    result, margin = await conversation('e {"euros": 3}', "y")
    assert result == "Approved:"
    assert "arguments: do not fit the tool 'pay'" in margin
    assert margin.count("? May pay run") == 2


async def test_an_answer_is_saved_with_the_name_of_the_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOGNAME", "ann")
    answer = sign_answer(PermissionQuestion(tool="pay").approve())
    assert answer.by == "ann"


async def test_a_wrong_line_is_asked_again() -> None:
    result, margin = await conversation("what?", "y")
    assert result == "Approved:"
    assert margin.count("? May pay run with") == 2
    assert "not a valid answer" in margin


async def test_the_end_of_the_input_is_not_an_approval() -> None:
    assert (await conversation(None))[0] == "Denied:cancelled"


async def test_a_question_that_times_out_gives_the_terminal_back() -> None:
    result, margin = await conversation("wait", clock=FakeClock())
    assert result == "Denied:timeout"
    assert "no longer open" in margin


# Zero-width characters, tags and line separators are shown escaped.

HIDDEN = "\u200b\u2028\U000e0041\x1b[8m\u202e"
SHOWN = r"\u200b\u2028\U000e0041\x1b[8m\u202e"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_hidden_text_in_the_arguments_of_an_approval_is_shown() -> None:
    lines = format_question(
        PermissionQuestion(tool="pay", arguments={"to": f"bob{HIDDEN}"}, description=f"Pay{HIDDEN}")
    )
    text = "\n".join(lines)
    assert r"bob\u200b\u2028\U000e0041\u001b[8m\u202e" in text
    assert f"Pay{SHOWN}" in lines
    assert not any(one in text for one in HIDDEN if one not in "[8m")


def test_hidden_text_in_other_questions_is_shown() -> None:
    question = ClarificationQuestion(question=f"Where{HIDDEN}?", options=(f"a{HIDDEN}",))
    assert format_question(question) == [f"? Where{SHOWN}?", f"1: a{SHOWN}"]


def test_hidden_text_in_an_answer_and_beside_it_is_shown() -> None:
    answer, margin = Terminal(), Terminal()
    RunPrinter(answer, margin).print_item(TextDelta(f"Hi{HIDDEN}"))
    assert answer.getvalue().startswith(f"Hi{SHOWN}")
    assert make_printable(HIDDEN) == SHOWN
    assert shorten(f"a{HIDDEN}b") == f"a{SHOWN.replace(chr(92) + 'u2028', ' ')}b"
    assert SHOWN in format_error(ConfigurationError("name", HIDDEN))
