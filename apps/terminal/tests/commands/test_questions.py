"""Questions of a run without a screen: their text, and who answers them."""

from __future__ import annotations

import asyncio
import os
import pty
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adh.approval.question import ApprovalQuestion
from adh.checks.check_context import CheckOutcome
from adh.commands.question_answers import (
    NOBODY,
    PROCEED,
    YES_FLAG,
    RunAnswers,
    find_user,
    format_approval,
    format_prompt,
    is_yes,
    read_line,
)
from holdfast import Approved, ClarificationQuestion, ContinuationQuestion, Denied

WRITE = ApprovalQuestion(
    key="t1.i0.tool.0.ask.0",
    tool="write_file",
    arguments={"file_path": "a.py", "content": "new text", "create_dirs": True},
    level="confirm",
    risk="medium",
    rule="files.write (built-in)",
    agent="tester",
    folder="/project",
    diff="--- a.py\n+++ a.py\n-old\n+new text",
    checks=(CheckOutcome("permission", passed=True),),
    restrictions=("at most 10 MB",),
)
DELETE = msgspec.structs.replace(
    WRITE, tool="delete_file", level="manual", risk="high", must_type="a.py", diff=""
)


def test_everything_that_decides_the_answer_is_shown() -> None:
    text = "\n".join(format_approval(WRITE))
    for part in (
        "⚠️ Confirmation Required: write_file",
        "risk medium, level confirm, rule files.write (built-in)",
        "asked by tester, in /project",
        "file_path: a.py",
        "create_dirs: true",
        "    +new text",
        "permission: passed",
        "at most 10 MB",
    ):
        assert part in text
    assert "content:" not in text  # the change shows it


def test_without_a_diff_the_content_is_shown_whole() -> None:
    content = "\n".join(f"line {number}" for number in range(1000))
    question = msgspec.structs.replace(WRITE, diff="", arguments={"content": content})
    assert [f"    line {number}" for number in range(1000)] == format_approval(question)[-1002:-2]


@given(st.text(), st.text(), st.text())
def test_no_text_of_a_model_moves_the_cursor(argument: str, command: str, diff: str) -> None:
    question = msgspec.structs.replace(
        WRITE, arguments={"x": argument}, commands=(command,), diff=diff
    )
    shown = "".join(format_approval(question))
    assert not any(ord(sign) < 32 and sign != "\t" for sign in shown)
    assert "\x9b" not in shown


@pytest.mark.parametrize(
    ("line", "agreed"),
    [("y", True), (" YES ", True), ("", False), ("n", False), ("yep", False), ("y y", False)],
)
def test_only_yes_is_a_yes(line: str, agreed: bool) -> None:
    assert format_prompt(WRITE) == PROCEED
    assert is_yes(WRITE, line) is agreed


def test_a_name_must_be_typed_exactly() -> None:
    assert format_prompt(DELETE) == "Type a.py to proceed: "
    assert is_yes(DELETE, "a.py ")
    assert not is_yes(DELETE, "y")
    assert not is_yes(DELETE, "A.py")


class Person:
    """Somebody at a terminal who types the given lines."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.shown: list[str] = []

    async def read(self, prompt: str) -> str | None:
        self.shown.append(prompt)
        return self.lines.pop(0) if self.lines else None


def choose(question: Any, person: Person | None, *, says_yes: bool = False) -> tuple[str, Any]:
    shown = [] if person is None else person.shown
    answers = RunAnswers(shown.append, person.read if person else None, says_yes=says_yes)
    given_answer = asyncio.run(answers.choose(question))
    return given_answer.by, given_answer.answer and given_answer.answer.value


def test_without_a_terminal_the_answer_is_no() -> None:
    by, value = choose(WRITE, None)
    assert by == NOBODY
    assert isinstance(value, Denied)
    assert "nobody is there to answer" in value.reason


def test_the_flag_answers_confirm_and_nothing_stricter() -> None:
    assert isinstance(choose(WRITE, None, says_yes=True)[1], Approved)
    assert choose(WRITE, None, says_yes=True)[0] == YES_FLAG
    manual = msgspec.structs.replace(WRITE, level="manual")
    typed = msgspec.structs.replace(WRITE, must_type="a.py")
    for question in (manual, typed, DELETE):
        by, value = choose(question, None, says_yes=True)
        assert by == NOBODY
        assert isinstance(value, Denied)


def test_at_a_terminal_a_person_answers_what_the_flag_does_not() -> None:
    person = Person("a.py")
    by, value = choose(DELETE, person, says_yes=True)
    assert by == find_user()
    assert isinstance(value, Approved)
    assert value.typed == "a.py"
    assert person.shown[-1] == "Type a.py to proceed: "


@pytest.mark.parametrize(("line", "kind"), [("y", Approved), ("n", Denied), ("", Denied)])
def test_a_person_answers(line: str, kind: type) -> None:
    by, value = choose(WRITE, Person(line))
    assert by == find_user()
    assert isinstance(value, kind)


def test_the_end_of_the_input_is_nobody() -> None:
    by, value = choose(WRITE, Person())
    assert by == NOBODY
    assert isinstance(value, Denied)


def test_other_questions() -> None:
    more = ContinuationQuestion(iteration=10, limit=10)
    assert isinstance(choose(more, None)[1], Denied)
    assert choose(more, None, says_yes=True)[1].iterations == 0
    assert choose(more, Person("y"))[1].iterations == 0
    where = ClarificationQuestion(question="Where?", options=("Porto", "Faro"))
    assert choose(where, None) == (NOBODY, None)
    assert choose(where, Person("2"))[1] == "Faro"
    assert choose(where, Person("Lagos"))[1] == "Lagos"
    assert choose(where, Person(""))[1] is None


@pytest.fixture
def terminal() -> Iterator[tuple[int, Any]]:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "r") as stream:
        yield ours, stream
    os.close(ours)


async def test_lines_are_read_from_a_terminal_one_by_one(terminal: tuple[int, Any]) -> None:
    ours, stream = terminal
    waiting = asyncio.ensure_future(read_line(stream))
    await asyncio.sleep(0)
    assert not waiting.done()
    os.write(ours, "yés\n".encode())
    assert await waiting == "yés"
    os.write(ours, b"\x04")  # the end of the input
    assert await read_line(stream) is None


async def test_a_wait_for_a_line_can_be_cancelled(terminal: tuple[int, Any]) -> None:
    ours, stream = terminal
    waiting = asyncio.ensure_future(read_line(stream))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    os.write(ours, b"next\n")
    assert await read_line(stream) == "next"


async def test_the_rest_of_a_pipe_stays_for_the_next_question() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"y\nn\nlast")
    os.close(writing)
    with os.fdopen(reading, "r") as stream:
        assert [await read_line(stream) for _ in range(4)] == ["y", "n", "last", None]
