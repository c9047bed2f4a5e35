"""The question about a call: what it shows, and every way to answer it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from apps.terminal.tests.screen.scripted_chat import (
    Asked,
    CheckShown,
    Receipt,
    RuleQuestion,
    ScriptedChat,
)
from textual.widgets import TextArea

from adh.screen.question_panel import QuestionPanel
from holdfast import Answer, Approved, ContinuationQuestion, Denied, PermissionQuestion, Question

pytestmark = pytest.mark.slow  # drives the screen of an emulated terminal

DIFF = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-old line\n+new line\x1b[2J\n"
WRITE = RuleQuestion(
    key="q1",
    tool="write_file",
    arguments={"file_path": "a.py", "content": "new [red]line[/red]\n"},
    diff=DIFF,
    checks=(
        CheckShown("backup", passed=True),
        CheckShown("sandbox", passed=False, detail="outside"),
    ),
    restrictions=("not *.env",),
    may_remember=True,
)
RUN = RuleQuestion(
    key="q2",
    tool="execute_command",
    arguments={"command": "rm -r build && ls", "timeout": 300},
    commands=("rm -r build", "ls"),
    level="manual",
    risk="high",
    rule="commands.remove (built-in/commands.yaml:40)",
    agent="tester",
    may_edit=True,
)


def _value(chat: ScriptedChat) -> object:
    assert len(chat.conversation.answers) == 1
    _, answer = chat.conversation.answers[0]
    assert isinstance(answer, Answer)
    return answer.value


async def _answer(question: PermissionQuestion, *keys: str) -> object:
    chat = ScriptedChat()
    async with chat.open() as pilot:
        chat.conversation.ask(question)
        await chat.settle(pilot)
        await chat.press(pilot, *keys)
        assert len(chat.app.screen_stack) == 1
    return _value(chat)


async def test_a_question_shows_everything_that_a_person_needs() -> None:
    chat = ScriptedChat()
    async with chat.open(100, 40) as pilot:
        chat.conversation.ask(WRITE)
        await chat.settle(pilot)
        text = chat.read()

    for words in (
        "⚠  Confirmation Required: write_file",  # in one cell, and a space
        "⚠  medium",
        "confirm",
        "files.write (built-in/files.yaml:30)",
        "orchestrator",
        "/srv/shop",
        "-old line",
        "+new line\\x1b[2J",
        "file_path: a.py",
        "new [red]line[/red]",
        "✓ backup passed",
        "✗ sandbox failed: outside",
        "not *.env",
        "No answer counts as no",
    ):
        assert words in text


async def test_a_command_is_shown_in_its_parts() -> None:
    chat = ScriptedChat()
    async with chat.open(100, 40) as pilot:
        chat.conversation.ask(RUN)
        await chat.settle(pilot)
        text = chat.read()
        assert chat.app.screen.query_one(QuestionPanel).has_class("danger")

    for words in ("$ rm -r build", "$ ls", "⛔ high", "manual", "tester", "Modify m"):
        assert words in text
    assert "Holds for" not in text


async def test_a_question_fits_into_a_small_screen_and_shows_its_buttons() -> None:
    chat = ScriptedChat()
    async with chat.open(80, 24) as pilot:
        long = RuleQuestion(key="q", tool="t", arguments={"text": "x\n" * 500}, must_type="t")
        chat.conversation.ask(long)
        await chat.settle(pilot)
        assert "Confirm y" in chat.read()
        await chat.press(pilot, "d")
        assert "Confirm y" in chat.read()
        await pilot.resize_terminal(60, 16)
        await chat.settle(pilot)
        assert "Confirm y" in chat.read()
        await pilot.resize_terminal(200, 60)
        await chat.settle(pilot)
        await chat.press(pilot, "n")
        await chat.press(pilot, "escape")

    assert isinstance(_value(chat), Denied)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("y",), Approved()),
        (("n",), Denied(reason="")),
        (("escape",), Denied(reason="")),
        (("enter",), Denied(reason="")),
        (("r", "y"), Approved(remember="call")),
        (("r", "r", "y"), Approved(remember="tool")),
        (("r", "r", "r", "y"), Approved()),
        (("b", "n", "o", "enter"), Denied(reason="no")),
        (("b", "escape", "y"), Approved()),
        (("m", "y"), Approved()),
    ],
)
async def test_a_key_answers(keys: tuple[str, ...], value: object) -> None:
    assert await _answer(WRITE, *keys) == value


async def test_a_plain_question_has_a_plain_no() -> None:
    question = PermissionQuestion(key="q", tool="pay")

    assert await _answer(question, "n") == Denied(reason="Tool 'pay' execution cancelled by user")


async def test_keys_that_were_meant_for_the_input_answer_nothing() -> None:
    chat = ScriptedChat()
    async with chat.open() as pilot:
        chat.conversation.ask(WRITE)
        await pilot.pause()
        await pilot.press("y", "enter", "n", "escape")
        await pilot.pause()
        assert chat.conversation.answers == []
        await chat.press(pilot, "y")

    assert _value(chat) == Approved()


async def test_a_high_risk_cannot_be_remembered() -> None:
    assert await _answer(RUN, "r", "y") == Approved()


async def test_details_show_every_parameter_whole() -> None:
    chat = ScriptedChat()
    question = RuleQuestion(key="q", tool="t", arguments={"text": "\n".join(map(str, range(30)))})
    async with chat.open(100, 60) as pilot:
        chat.conversation.ask(question)
        await chat.settle(pilot)
        assert "Details shows all" in chat.read()
        assert " 29 " not in chat.read()
        await chat.press(pilot, "d")
        assert " 29 " in chat.read()
        await chat.press(pilot, "d")
        assert " 29 " not in chat.read()


async def test_edited_arguments_are_asked_again_with() -> None:
    chat = ScriptedChat()
    async with chat.open() as pilot:
        chat.conversation.ask(RUN)
        await chat.settle(pilot)
        await chat.press(pilot, "m")
        editor = chat.app.screen.query_one(TextArea)
        assert '"command": "rm -r build && ls"' in editor.text
        editor.load_text('{"command": ')
        await chat.press(pilot, "ctrl+s")
        assert "line 1, column 13: Expecting value. Write valid JSON." in chat.read()
        editor.load_text('{"command": "ls", "command": "rm"}')
        await chat.press(pilot, "ctrl+s")
        assert "The parameter 'command' is there twice. Delete one." in chat.read()
        editor.load_text("[1]")
        await chat.press(pilot, "ctrl+s")
        assert "must be an object" in chat.read()
        assert chat.conversation.answers == []
        editor.load_text('{"command": "ls"}')
        await chat.press(pilot, "ctrl+s")

    assert _value(chat) == Approved(arguments={"command": "ls"})


class TypedAnswer(Approved, frozen=True, kw_only=True, tag="approved"):
    typed: str = ""


class NamedQuestion(RuleQuestion, Question[TypedAnswer | Denied], frozen=True, kw_only=True):
    def approve(  # type: ignore[override]
        self, *, remember: str, arguments: Mapping[str, object] | None, typed: str
    ) -> Answer[Approved | Denied]:
        return self.answer(TypedAnswer(remember=remember, arguments=arguments, typed=typed))  # type: ignore[arg-type]


async def test_a_name_must_be_typed_where_the_rules_say_so() -> None:
    chat = ScriptedChat()
    async with chat.open() as pilot:
        chat.conversation.ask(NamedQuestion(key="q", tool="delete_file", must_type="notes.txt"))
        await chat.settle(pilot)
        await chat.press(pilot, *"notes", "enter")
        assert "Type notes.txt to confirm." in chat.read()
        assert chat.conversation.answers == []
        await chat.press(pilot, *".txt", "enter")

    assert _value(chat) == TypedAnswer(typed="notes.txt")


async def test_several_questions_come_one_after_the_other() -> None:
    chat = ScriptedChat()
    async with chat.open() as pilot:
        for number in range(3):
            chat.conversation.ask(RuleQuestion(key=f"q{number}", tool=f"tool{number}"))
            await chat.settle(pilot)
        assert "1 of 3" in chat.read()
        assert "tool0" in chat.read()
        await chat.press(pilot, "y")
        assert "2 of 3" in chat.read()
        assert "tool1" in chat.read()
        await chat.press(pilot, "n")
        assert "3 of 3" in chat.read()
        await chat.press(pilot, "y")
        assert len(chat.app.screen_stack) == 1

    asked = [question for question, _ in chat.conversation.answers]
    assert [one.key for one in asked if isinstance(one, RuleQuestion)] == ["q0", "q1", "q2"]


async def test_a_question_that_comes_twice_is_asked_once() -> None:
    chat = ScriptedChat()
    async with chat.open() as pilot:
        chat.conversation.ask(WRITE)
        chat.conversation.on_question(Asked(WRITE))
        await chat.settle(pilot)
        await chat.press(pilot, "y")
        assert len(chat.app.screen_stack) == 1

    assert _value(chat) == Approved()


async def test_a_question_whose_time_is_over_is_taken_back() -> None:
    chat = ScriptedChat()
    async with chat.open() as pilot:
        chat.conversation.open_turn("write")
        first = chat.conversation.ask(WRITE)
        second = chat.conversation.ask(RUN)
        await chat.settle(pilot)
        chat.conversation.on_question_closed(first)
        await chat.settle(pilot)
        assert "execute_command" in chat.read()
        await chat.press(pilot, "ctrl+q")
        chat.conversation.on_question_closed(second)
        await chat.settle(pilot)
        assert len(chat.app.screen_stack) == 1
        assert not chat.session.is_asking_to_leave

    assert chat.conversation.answers == []


async def test_an_answer_that_came_too_late_is_told() -> None:
    chat = ScriptedChat()
    chat.conversation.receipt = Receipt("late")
    async with chat.open() as pilot:
        chat.conversation.ask(WRITE)
        await chat.settle(pilot)
        await chat.press(pilot, "y")
        assert "The answer was not taken: late" in chat.read()


async def test_a_low_risk_is_asked_between_the_chat_and_the_input() -> None:
    chat = ScriptedChat()
    question = RuleQuestion(key="q", tool="ls", risk="low", inline=True)
    async with chat.open() as pilot:
        chat.conversation.ask(question)
        await chat.settle(pilot)
        assert len(chat.app.screen_stack) == 1
        assert "Confirmation Required: ls" in chat.read()
        await chat.press(pilot, "y")
        assert "Confirmation Required" not in chat.read()
        assert chat.app.focused is chat.app.prompt

    assert _value(chat) == Approved()


async def test_a_question_in_passing_does_not_take_the_keys_of_a_message() -> None:
    chat = ScriptedChat()
    async with chat.open() as pilot:
        await chat.press(pilot, *"why")
        chat.conversation.ask(RuleQuestion(key="q", tool="ls", risk="low", inline=True))
        await chat.settle(pilot)
        await chat.press(pilot, "y", "n")
        assert chat.app.prompt.text == "whyyn"
        assert chat.conversation.answers == []
        await chat.press(pilot, "shift+tab", "y")

    assert _value(chat) == Approved()


async def test_closing_the_chat_leaves_a_question_open() -> None:
    chat = ScriptedChat()
    async with chat.open() as pilot:
        chat.conversation.open_turn("write")
        chat.conversation.ask(WRITE)
        await chat.settle(pilot)
        await chat.press(pilot, "ctrl+q")
        assert "Leave while a turn runs?" in chat.read()
        await pilot.press("y")
        assert not chat.app.is_running

    assert chat.conversation.answers == []
    assert chat.conversation.calls[-1] == "close"


async def test_more_model_calls_are_asked_for() -> None:
    chat = ScriptedChat()
    async with chat.open() as pilot:
        question = ContinuationQuestion(key="q", iteration=11, limit=10, extension=5)
        chat.conversation.on_question(Asked(question))
        await chat.settle(pilot)
        assert "The turn has made 10 model calls" in chat.read()
        await chat.press(pilot, "y")

    assert _value(chat) == question.approve().value


class Budget(Question[str], frozen=True, kw_only=True):
    purpose: str = "trip"


async def test_another_question_is_answered_with_text() -> None:
    chat = ScriptedChat()
    async with chat.open() as pilot:
        chat.conversation.on_question(Asked(Budget(key="q")))
        await chat.settle(pilot)
        assert "The agent asks" in chat.read()
        assert "trip" in chat.read()
        await chat.press(pilot, *"500", "enter")

    assert _value(chat) == "500"
