"""A conversation that does what a test says: real items of the library in a real transcript, without a model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from textual.geometry import Size
from textual.pilot import Pilot

from adh.conversation.undo import UndoFile
from adh.screen.chat_app import ChatApp
from adh.screen.chat_session import ChatSession
from adh.screen.conversation_port import (
    ChatOpener,
    Choice,
    FooterFacts,
    OpenChat,
    RuleRow,
    UndoView,
)
from adh.storage.settings import Settings
from adh.transcript.fold import Item, Transcript
from holdfast import (
    ErrorInfo,
    ModelReplied,
    PermissionQuestion,
    Reply,
    Status,
    Text,
    TextDelta,
    ToolCall,
    ToolFinished,
    ToolResult,
    ToolStarted,
    TurnClosed,
    Usage,
    user,
)
from holdfast.events import AttemptStarted, QuestionAsked, TurnOpened

RULES = (
    RuleRow(
        name="system.protected",
        pattern="*",
        level="deny",
        risk="critical",
        priority=100,
        origin="built-in/files.yaml:12",
        conditions="path_matches /etc/*",
    ),
    RuleRow(
        name="commands.remove",
        pattern="execute_command",
        level="manual",
        risk="high",
        priority=20,
        origin="built-in/commands.yaml:40",
        conditions="command_starts_with rm",
        checks="backup, command_validator",
    ),
    RuleRow(
        name="files.write",
        pattern="write_file",
        level="confirm",
        risk="medium",
        priority=0,
        origin="built-in/files.yaml:30",
        restrictions="not *.env, *.key, *.pem",
    ),
    RuleRow(
        name="files.read",
        pattern="read_file",
        level="automatic",
        risk="low",
        priority=0,
        origin="policies/team.yaml:3",
        restrictions="at most 10 MB",
    ),
)


class CheckShown(Struct, frozen=True):
    name: str
    passed: bool
    detail: str = ""


class RuleQuestion(PermissionQuestion, frozen=True, kw_only=True):
    """The fields of a question of the rules that the screen shows."""

    level: str = "confirm"
    risk: str = "medium"
    rule: str = "files.write (built-in/files.yaml:30)"
    agent: str = "orchestrator"
    folder: str = "/srv/shop"
    commands: tuple[str, ...] = ()
    diff: str = ""
    checks: tuple[CheckShown, ...] = ()
    restrictions: tuple[str, ...] = ()
    may_remember: bool = False
    may_edit: bool = False
    inline: bool = False
    must_type: str = ""


class Asked(Struct, frozen=True):
    question: object


class Receipt(Struct, frozen=True):
    reason: str = ""

    def __bool__(self) -> bool:
        return not self.reason


class Plan(Struct, frozen=True):
    summary: str
    files: Sequence[UndoFile]


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class ScriptedConversation:
    """A conversation whose turns a test writes."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.transcript = Transcript(price=lambda usage: usage.total * 2e-6)
        self.queue: list[str] = []
        self.on_change: Callable[[tuple[str, ...]], None] = lambda _: None
        self.on_question: Callable[[Any], None] | None = None
        self.on_question_closed: Callable[[Any], None] = lambda _: None
        self.on_notify: Callable[[str], None] = lambda _: None
        self.sent: list[str] = []
        self.answers: list[tuple[object, object]] = []
        self.calls: list[str] = []
        self.receipt = Receipt()
        self.plan: UndoView | None = None
        self.problem = ""
        self.failure: Exception | None = None
        self.turn = 0

    @property
    def is_running(self) -> bool:
        return self.transcript.running

    async def start(self) -> None:
        self.calls.append("start")

    def send(self, text: str) -> None:
        self.sent.append(text)
        if self.is_running:
            self.queue.append(text)

    def answer(self, question: object, answer: object) -> Receipt:
        self.answers.append((question, answer))
        return self.receipt

    def stop(self) -> None:
        self.calls.append("stop")

    async def close(self) -> None:
        self.calls.append("close")

    async def undo_preview(self) -> UndoView | None:
        return self.plan

    async def undo(self, plan: UndoView) -> None:
        assert plan is self.plan
        self.calls.append("undo")
        if self.failure is not None:
            raise self.failure

    async def clear(self) -> None:
        self.calls.append("clear")
        self.transcript = Transcript()

    async def export(self) -> Sequence[Path]:
        if self.failure is not None:
            raise self.failure
        return (Path("/data/s-1.md"), Path("/data/s-1.jsonl"))

    def show(self, *items: Item) -> None:
        """Apply items, as a turn does."""
        for item in items:
            self.on_change(self.transcript.apply(item, self.clock()))

    def open_turn(self, text: str) -> str:
        """Begin a turn with this message, and return its key."""
        self.turn += 1
        key = f"t{self.turn}"
        self.show(TurnOpened(key=key, at=0.0, message=user(text)))
        return key

    def close_turn(self, status: Status = Status.COMPLETED, error: ErrorInfo | None = None) -> None:
        self.show(TurnClosed(key=f"t{self.turn}.close", at=9.0, status=status, error=error))

    def begin_reply(self, number: int = 0) -> None:
        self.show(AttemptStarted(key=f"t{self.turn}.i{number}.model", attempt=1))

    def stream(self, text: str) -> None:
        self.show(TextDelta(text))

    def reply(self, text: str, number: int = 0) -> None:
        """Finish a reply with this text."""
        reply = Reply((Text(text),), usage=Usage(900, 100))
        self.show(ModelReplied(key=f"t{self.turn}.i{number}.model", at=1.0, reply=reply))

    def call(
        self, name: str, arguments: Mapping[str, object], text: str = "", number: int = 0
    ) -> str:
        """Reply with a call, and return the key of its block."""
        call = ToolCall(f"c{number}", name, msgspec.json.encode(arguments).decode())
        parts = (Text(text), call) if text else (call,)
        reply = Reply(parts, usage=Usage(900, 100))
        key = f"t{self.turn}.i{number}"
        self.show(ModelReplied(key=f"{key}.model", at=1.0, reply=reply))
        return f"{key}.tool.0"

    def run(self, key: str, name: str) -> None:
        self.show(ToolStarted(key=key, name=name, arguments="{}"))

    def finish(self, key: str, text: str, error: ErrorInfo | None = None) -> None:
        call_id = f"c{key.split('.')[1][1:]}"
        result = ToolResult(call_id, "tool", (Text(text),), is_error=error is not None)
        self.show(ToolFinished(key=key, at=3.0, result=result, error=error))

    def ask(self, question: PermissionQuestion, tool_key: str = "") -> Asked:
        """Ask a question, as a run does."""
        if tool_key:
            self.show(
                QuestionAsked(
                    key=f"{tool_key}.ask.0",
                    at=2.0,
                    kind="permission",
                    question=msgspec.to_builtins(question),
                )
            )
        asked = Asked(question)
        assert self.on_question is not None
        self.on_question(asked)
        return asked

    def say(self, prompt: str, answer: str) -> None:
        """A whole turn of one message and one answer."""
        self.open_turn(prompt)
        self.begin_reply()
        self.reply(answer)
        self.close_turn()


class ScriptedWorkspace:
    """A workspace in memory."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.facts = FooterFacts(
            folder="~/shop",
            branch="main",
            agent="orchestrator",
            model="gemini-2.5-flash",
            session="s-1",
        )
        self.saved: list[Mapping[str, object]] = []
        self.keys: list[tuple[str, str]] = []
        self.untrusted: Sequence[str] = ()
        self.trusted = False
        self.failure: Exception | None = None

    def change_settings(self, changes: Mapping[str, object]) -> None:
        if self.failure is not None:
            raise self.failure
        self.saved.append(changes)
        self.settings = msgspec.structs.replace(self.settings, **changes)

    def trust_project(self) -> None:
        self.trusted = True
        self.untrusted = ()

    def list_rules(self) -> Sequence[RuleRow]:
        return RULES

    def list_models(self) -> Sequence[Choice]:
        return (Choice("gemini-2.5-flash", "fast"), Choice("gemini-2.5-pro", "thorough"))

    def list_agents(self) -> Sequence[Choice]:
        return (Choice("orchestrator", "has all tools"), Choice("planner", "plans"))

    def list_key_names(self) -> Sequence[Choice]:
        return (Choice("GEMINI_API_KEY"), Choice("OPENAI_API_KEY"))

    def set_safety(self, on: bool) -> None:
        self.facts = msgspec.structs.replace(self.facts, safety=on)

    def save_key(self, name: str, key: str) -> str:
        self.keys.append((name, key))
        return "the system's keychain"


class ScriptedChat:
    """A chat whose conversation a test writes: the application, and what it drives."""

    def __init__(self, theme: str = "dark") -> None:
        self.clock = Clock()
        self.conversation = ScriptedConversation(self.clock)
        self.workspace = ScriptedWorkspace()
        self.workspace.settings = msgspec.structs.replace(self.workspace.settings, theme=theme)
        self.failure: Exception | None = None
        self.app = ChatApp(self._make_opener(), self.clock, theme)

    def _make_opener(self) -> ChatOpener:
        @asynccontextmanager
        async def opener() -> AsyncIterator[OpenChat]:
            if self.failure is not None:
                raise self.failure
            yield OpenChat(self.conversation, self.workspace)

        return opener

    @asynccontextmanager
    async def open(self, width: int = 80, height: int = 24) -> AsyncIterator[Pilot[None]]:
        """Run the application until its agent is ready."""
        async with self.app.run_test(size=(width, height)) as pilot:
            await self.wait(pilot, lambda: "start" in self.conversation.calls)
            await self.settle(pilot)
            yield pilot
        if self.app.failure is not None:
            raise self.app.failure

    async def wait(self, pilot: Pilot[None], is_done: Callable[[], bool]) -> None:
        """Wait until something is so."""
        for _ in range(500):
            await pilot.pause()
            if is_done():
                return
        raise AssertionError("It never became so.")

    async def settle(self, pilot: Pilot[None]) -> None:
        """Wait until everything that changed is on the screen."""
        await self.wait(pilot, lambda: self.session.is_up_to_date)
        await pilot.pause()

    async def press(self, pilot: Pilot[None], *keys: str) -> None:
        """Press keys, after the time in which a question takes none."""
        self.clock.now += 1.0
        await pilot.press(*keys)
        await self.settle(pilot)

    @property
    def session(self) -> ChatSession:
        assert self.app.session is not None
        return self.app.session

    def read(self) -> str:
        """Return the screen as text."""
        screen = self.app.screen
        width, height = self.app.size
        lines = screen._compositor.render_strips(Size(width, height))
        return "\n".join(strip.text for strip in lines)
