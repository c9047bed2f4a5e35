"""Conversations: the queue, questions, stop, restart, failures, undo and export."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from apps.terminal.tests.conversation.desk import make_workspace, talking, until
from msgspec.structs import replace

from adh.conversation.conversation import ANSWER_SECONDS, Conversation, OpenQuestion
from adh.storage.settings import SessionSettings
from adh.transcript.blocks import AnswerBlock, NoteBlock, PersonBlock, ToolBlock, ToolState
from adh.transcript.outcome import OutcomeKind
from adh.workspace.session_files import SessionError
from holdfast import (
    ConfigurationError,
    Denied,
    ErrorCategory,
    ErrorInfo,
    PermissionQuestion,
    Reply,
    Text,
    Tool,
    ToolCall,
    tool,
)
from holdfast.errors import TransportError, UnterminatedError
from holdfast.middleware import UsageLimits
from holdfast.testing import FakeClock, ScriptedModel

ERASE = ToolCall("e", "erase", '{"path": "a"}')


def _make_erase(ran: list[str]) -> Tool:
    @tool(effect="write")
    async def erase(path: str) -> str:
        """Erase a path."""
        ran.append(path)
        return f"erased {path}"

    return erase


def _texts(conversation: Conversation, kind: type = AnswerBlock) -> list[str]:
    return [block.text for block in conversation.transcript.blocks if isinstance(block, kind)]


def _tool(conversation: Conversation) -> ToolBlock:
    return next(one for one in conversation.transcript.blocks if isinstance(one, ToolBlock))


def test_messages_wait_for_each_other_and_are_answered_in_order(tmp_path: Path) -> None:
    async def talk() -> None:
        gate = asyncio.Event()

        async def slowly(_request: object) -> str:
            await gate.wait()
            return "First."

        workspace = make_workspace(tmp_path, ScriptedModel(slowly, "Second.", "Third."))
        async with talking(workspace) as conversation:
            for text in ("one", "two", " ", "three"):
                conversation.send(text)
            await until(lambda: conversation.is_running)
            assert conversation.queue == ["two", "three"]
            gate.set()
            await conversation.wait_until_idle()

            assert conversation.queue == []
            shown = [(type(block).__name__, block.text) for block in conversation.transcript.blocks]
            assert shown == [
                ("PersonBlock", "one"),
                ("AnswerBlock", "First."),
                ("PersonBlock", "two"),
                ("AnswerBlock", "Second."),
                ("PersonBlock", "three"),
                ("AnswerBlock", "Third."),
            ]

    asyncio.run(talk())


def test_a_question_waits_for_its_answer_and_the_call_runs_once(tmp_path: Path) -> None:
    ran: list[str] = []
    shown: list[OpenQuestion] = []

    async def talk() -> None:
        workspace = make_workspace(tmp_path, ScriptedModel(ERASE, "Done."), (_make_erase(ran),))
        async with talking(workspace) as conversation:
            closed: list[OpenQuestion] = []
            conversation.on_question = shown.append
            conversation.on_question_closed = closed.append
            conversation.send("Erase a.")
            await until(lambda: bool(shown))
            assert _tool(conversation).state is ToolState.CONFIRMING
            question = shown[0].question
            assert isinstance(question, PermissionQuestion)
            with pytest.raises(ConfigurationError):
                conversation.answer(shown[0], question.approve(arguments={"path": 7}))
            assert conversation.questions == (shown[0],)
            assert conversation.answer(shown[0], question.approve(arguments={"path": "b"}))
            assert not conversation.answer(shown[0], question.deny())
            await conversation.wait_until_idle()

            assert (conversation.questions, closed) == ((), shown)
            assert _tool(conversation).state is ToolState.SUCCESS

    asyncio.run(talk())

    assert ran == ["b"]


@pytest.mark.parametrize("listening", [True, False])
def test_a_question_that_nobody_answers_is_a_no(tmp_path: Path, *, listening: bool) -> None:
    ran: list[str] = []
    waited: list[float] = []

    async def wait(seconds: float) -> None:
        waited.append(seconds)

    async def talk() -> None:
        model = ScriptedModel(ERASE, "Then not.")
        workspace = make_workspace(tmp_path, model, (_make_erase(ran),))
        async with talking(workspace, wait=wait) as conversation:
            if listening:
                conversation.on_question = lambda _question: None
            conversation.send("Erase a.")
            await conversation.wait_until_idle()

            assert _tool(conversation).state is ToolState.CANCELLED
            assert _texts(conversation) == ["Then not."]

    asyncio.run(talk())

    assert ran == []
    assert waited == ([ANSWER_SECONDS] if listening else [])


def test_a_program_that_ends_at_a_question_asks_it_again(tmp_path: Path) -> None:
    ran: list[str] = []

    async def begin() -> str:
        workspace = make_workspace(tmp_path, ScriptedModel(ERASE), (_make_erase(ran),))
        shown: list[OpenQuestion] = []
        async with talking(workspace) as conversation:
            conversation.on_question = shown.append
            conversation.send("Erase a.")
            await until(lambda: bool(shown))
            return conversation.session

    async def go_on(session: str) -> None:
        workspace = make_workspace(tmp_path, ScriptedModel("Done."), (_make_erase(ran),))
        conversation = Conversation(workspace, session)
        shown: list[OpenQuestion] = []
        conversation.on_question = shown.append
        await conversation.start()
        await until(lambda: bool(shown))
        assert ran == []
        assert _tool(conversation).state is ToolState.CONFIRMING
        question = shown[0].question
        assert isinstance(question, PermissionQuestion)
        assert conversation.answer(shown[0], question.approve())
        await conversation.wait_until_idle()

        assert _texts(conversation) == ["Done."]
        assert _tool(conversation).state is ToolState.SUCCESS
        await conversation.close()

    asyncio.run(go_on(asyncio.run(begin())))

    assert ran == ["a"]


def test_a_call_that_was_cut_by_the_end_of_the_program_is_in_doubt(tmp_path: Path) -> None:
    begun = asyncio.Event()
    ran: list[str] = []

    @tool(effect="write")
    async def build(path: str) -> str:
        """Build a path."""
        ran.append(path)
        begun.set()
        await asyncio.sleep(3_600)
        return path

    call = ToolCall("b", "build", '{"path": "a"}')

    async def begin() -> str:
        workspace = make_workspace(tmp_path, ScriptedModel(call), (build,))
        conversation = Conversation(workspace)
        await conversation.start()
        conversation.send("Build a.")
        await begun.wait()
        session = conversation.session
        await conversation.close(grace=0.0)
        return session

    async def go_on(session: str) -> None:
        model = ScriptedModel("I shall look.")
        workspace = make_workspace(tmp_path, model, (build,))
        async with talking(workspace, session) as conversation:
            await conversation.wait_until_idle()
            assert _tool(conversation).state is ToolState.IN_DOUBT
            assert _texts(conversation) == ["I shall look."]
            result = model.requests[0].messages[-1].parts[0]
            assert getattr(result, "in_doubt", False)

    asyncio.run(go_on(asyncio.run(begin())))

    assert ran == ["a"]


def test_a_turn_is_stopped_and_the_next_message_is_answered(tmp_path: Path) -> None:
    async def hang(_request: object) -> str:
        await asyncio.sleep(3_600)
        return "never"

    async def talk() -> None:
        workspace = make_workspace(tmp_path, ScriptedModel(hang, "Second."))
        async with talking(workspace) as conversation:
            conversation.stop()
            conversation.send("one")
            await until(lambda: conversation.transcript.running)
            conversation.stop()
            conversation.stop()
            await conversation.wait_until_idle()
            assert conversation.transcript.outcome is not None
            assert conversation.transcript.outcome.kind is OutcomeKind.CANCELLED
            conversation.send("two")
            await conversation.wait_until_idle()

            assert _texts(conversation) == ["Second."]

    asyncio.run(talk())


def test_the_wait_before_a_retry_counts_down_and_can_be_stopped(tmp_path: Path) -> None:
    async def talk() -> None:
        lost = TransportError("the connection was lost")
        clock = FakeClock(auto=False)
        workspace = make_workspace(tmp_path, ScriptedModel(lost, "never"), clock=clock)
        async with talking(workspace, monotonic=clock.monotonic) as conversation:
            conversation.send("one")
            await until(lambda: conversation.transcript.countdown is not None)
            assert conversation.transcript.countdown is not None
            line = conversation.transcript.countdown.describe(clock.monotonic())
            assert "the connection was lost" in line
            conversation.stop()
            await conversation.wait_until_idle()

            assert conversation.transcript.countdown is None

    asyncio.run(talk())


def test_a_failed_turn_says_why_and_keeps_the_partial_text(tmp_path: Path) -> None:
    async def talk() -> None:
        info = ErrorInfo(
            category=ErrorCategory.TRANSIENT, safe="the stream was cut", code="unterminated"
        )
        cut = UnterminatedError("cut", info=info, partial=Reply((Text("Half of"),)))
        workspace = make_workspace(tmp_path, ScriptedModel(*[cut] * 9), clock=FakeClock())
        async with talking(workspace) as conversation:
            conversation.send("one")
            await conversation.wait_until_idle()
            outcome = conversation.transcript.outcome
            assert outcome is not None
            assert (outcome.kind, outcome.partial) == (OutcomeKind.BROKEN_OFF, "Half of")
            assert _texts(conversation) == ["Half of"]
            assert "The answer stopped before its end" in _texts(conversation, NoteBlock)[0]

    asyncio.run(talk())


def test_a_session_that_is_not_there_is_told(tmp_path: Path) -> None:
    async def talk() -> None:
        conversation = Conversation(make_workspace(tmp_path, ScriptedModel()), "absent")
        with pytest.raises(SessionError, match="does not exist"):
            await conversation.start()
        await conversation.close()

    asyncio.run(talk())


def test_without_a_model_each_message_is_told_what_to_do_and_nothing_breaks(tmp_path: Path) -> None:
    problems = [ConfigurationError("api_key", "is missing", fix="Set GEMINI_API_KEY")] * 2
    model = ScriptedModel("Now it works.")

    def open_model(_alias: object) -> ScriptedModel:
        if problems:
            raise problems.pop()
        return model

    async def talk() -> None:
        workspace = make_workspace(tmp_path, model, open_model=open_model)
        async with talking(workspace) as conversation:
            assert "Set GEMINI_API_KEY" in conversation.problem
            conversation.send("one")
            await conversation.wait_until_idle()
            assert _texts(conversation) == []
            conversation.send("two")
            await conversation.wait_until_idle()

            assert conversation.problem == ""
            assert _texts(conversation, PersonBlock) == ["one", "two"]
            assert _texts(conversation) == ["Now it works."]

    asyncio.run(talk())


def test_other_settings_hold_from_the_next_turn_on(tmp_path: Path) -> None:
    async def talk() -> None:
        model = ScriptedModel("One.", "Two.")
        workspace = make_workspace(tmp_path, model)
        async with talking(workspace) as conversation:
            conversation.send("one")
            await conversation.wait_until_idle()
            settings = workspace.settings
            workspace.use_settings(replace(settings, temperature=0.25))
            conversation.send("two")
            await conversation.wait_until_idle()

            assert [one.settings.temperature for one in model.requests] == [None, 0.25]
            assert len(model.requests[1].messages) == 3

    asyncio.run(talk())


def test_a_limit_of_the_session_ends_every_further_turn(tmp_path: Path) -> None:
    async def talk() -> None:
        limit = UsageLimits(tokens=10, per="session")
        workspace = make_workspace(tmp_path, ScriptedModel("One.", "Two."), session_rules=(limit,))
        async with talking(workspace) as conversation:
            for text in ("one", "two"):
                conversation.send(text)
            await conversation.wait_until_idle()
            assert _texts(conversation) == ["One."]
            assert conversation.transcript.outcome is not None
            assert conversation.transcript.outcome.kind is OutcomeKind.LIMIT
            assert "Begin another session" in conversation.transcript.outcome.text

    asyncio.run(talk())


def test_clearing_begins_another_session_and_keeps_the_old_one(tmp_path: Path) -> None:
    async def talk() -> None:
        async def hang(_request: object) -> str:
            await asyncio.sleep(3_600)
            return "never"

        workspace = make_workspace(tmp_path, ScriptedModel("One.", hang, "Three."))
        async with talking(workspace) as conversation:
            conversation.send("one")
            await conversation.wait_until_idle()
            first = conversation.session
            conversation.send("two")
            await until(lambda: conversation.transcript.running)
            conversation.send("waits")
            await conversation.clear()
            assert (conversation.session != first, _texts(conversation)) == (True, [])
            conversation.send("three")
            await conversation.wait_until_idle()
            assert _texts(conversation) == ["Three."]
            row = await workspace.parts.files.read_row(first)
            assert row.info is not None
            assert (row.info.turns, row.info.status) == (2, "closed")

    asyncio.run(talk())


def test_a_session_without_a_word_leaves_nothing(tmp_path: Path) -> None:
    async def talk() -> None:
        workspace = make_workspace(tmp_path, ScriptedModel())
        async with talking(workspace):
            pass
        assert workspace.parts.files.list_ids() == ()

    asyncio.run(talk())


def test_without_capture_nothing_is_saved(tmp_path: Path) -> None:
    async def talk() -> None:
        session = SessionSettings(capture=False)
        workspace = make_workspace(tmp_path, ScriptedModel("Hi."), session=session)
        async with talking(workspace) as conversation:
            conversation.send("one")
            await conversation.wait_until_idle()
            assert _texts(conversation) == ["Hi."]
        assert not workspace.parts.places.journals.exists()

    asyncio.run(talk())


def test_a_bug_in_a_tool_of_ours_ends_the_turn_and_not_the_conversation(tmp_path: Path) -> None:
    async def talk() -> None:
        workspace = make_workspace(tmp_path, ScriptedModel("One.", "Two."))
        async with talking(workspace) as conversation:
            conversation.on_change = _raise_once(conversation)
            conversation.send("one")
            await conversation.wait_until_idle()
            assert any("A bug of adh" in text for text in _texts(conversation, NoteBlock))
            conversation.send("two")
            await conversation.wait_until_idle()
            assert "Two." in _texts(conversation)

    asyncio.run(talk())


def _raise_once(conversation: Conversation) -> Any:
    raised: list[bool] = []

    def on_change(_changed: tuple[str, ...]) -> None:
        if conversation.transcript.running and not raised:
            raised.append(True)
            raise RuntimeError("a bug")

    return on_change


def test_an_export_is_markdown_and_json_lines_and_never_overwrites(tmp_path: Path) -> None:
    async def talk() -> None:
        ran: list[str] = []
        workspace = make_workspace(
            tmp_path, ScriptedModel(ERASE, "Done ``` so."), (_make_erase(ran),)
        )
        async with talking(workspace) as conversation:
            conversation.send("Erase a.")
            await conversation.wait_until_idle()
            first, second = await conversation.export(), await conversation.export()

        assert first.jsonl != second.jsonl
        lines = [json.loads(line) for line in first.jsonl.read_text().splitlines()]
        assert [line["type"] for line in lines] == ["session", "chat_turn", "tool_invocation"]
        assert (lines[1]["user"], lines[1]["assistant"]) == ("Erase a.", "Done ``` so.")
        assert (lines[2]["tool"], lines[2]["state"]) == ("erase", "cancelled")
        markdown = first.markdown.read_text()
        assert markdown.index("## You") < markdown.index("### ⊗ erase") < markdown.index("## Agent")
        assert first.markdown.stat().st_mode & 0o777 == 0o600

    asyncio.run(talk())


def test_a_denial_with_a_reason_reaches_the_model(tmp_path: Path) -> None:
    async def talk() -> None:
        model = ScriptedModel(ERASE, "Then not.")
        workspace = make_workspace(tmp_path, model, (_make_erase([]),))
        shown: list[OpenQuestion] = []
        async with talking(workspace) as conversation:
            conversation.on_question = shown.append
            conversation.send("Erase a.")
            await until(lambda: bool(shown))
            assert conversation.answer(shown[0], Denied(reason="Keep it."))
            await conversation.wait_until_idle()
            result = model.requests[1].messages[-1].parts[0]
            assert "Keep it." in getattr(result, "text", "")

    asyncio.run(talk())
