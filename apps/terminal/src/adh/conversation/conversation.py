"""A conversation: messages wait in a queue, and one turn after another answers them.

One task drives all turns. Each item of a turn goes into the transcript, and listeners get the ids of the
changed blocks. A question that nobody answers in time counts as no. This module must never end with a turn: an
error of a turn becomes a note.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from adh.agents.agent_file import AgentFileError
from adh.approval.notices import AuditBroken, CallJudged
from adh.conversation.export import ExportPaths, write_export
from adh.conversation.history import load_history
from adh.conversation.undo import UndoPlan, UndoTurn
from adh.rules.levels import Level
from adh.storage.call_context import ToolOutput
from adh.storage.storage_errors import StorageError
from adh.transcript.blocks import PersonBlock
from adh.transcript.fold import Item, Transcript, place_of
from adh.workspace.open_session import MissingKeyError, OpenSession
from adh.workspace.session_files import SessionError
from adh.workspace.workspace import Workspace
from holdfast import Answer, ErrorCategory, ErrorInfo, HoldfastError, Question, Receipt, RunStream
from holdfast.events import CustomNotice, FromAgent


def apply_item(transcript: Transcript, item: Item, at: float) -> tuple[str, ...]:
    """Apply an item of a turn to a transcript; return the ids of the changed blocks.

    Args:
        transcript: the transcript that the person sees.
        item: an event, a notice or a question.
        at: when it came, in seconds of a clock that never jumps.
    """
    chain: tuple[str, ...] = ()
    notice: object = item
    if isinstance(item, FromAgent):
        chain, notice = (item.key, *item.chain), item.item
    if not isinstance(notice, CustomNotice):
        return transcript.apply(item, at)
    place = place_of(notice.key, chain)
    if isinstance(notice, ToolOutput):
        return transcript.add_output(place, notice.stream, notice.text)
    if isinstance(notice, CallJudged):
        return transcript.judge(place, level=notice.level, risk=notice.risk, rule=notice.rule)
    if isinstance(notice, AuditBroken):
        transcript.add_note(f"Nothing runs but automatic reads: {notice.problem}")
    return transcript.take_changed()


def describe_notice(item: Item) -> str:
    """Return the line that a person reads for a few seconds; empty if the item needs none."""
    notice = item.item if isinstance(item, FromAgent) else item
    if not isinstance(notice, CallJudged) or notice.level != Level.NOTIFY.word:
        return ""
    rule = f" · {notice.rule}" if notice.rule else ""
    return f"ℹ️ {notice.tool} runs{rule}" if notice.outcome == "runs" else ""  # noqa: RUF001  # REASON: a sign


ANSWER_SECONDS = 300.0
"""Seconds that a question waits for its answer."""


class OpenQuestion(Struct, frozen=True):
    """A question that waits for the person.

    Args:
        question: the question of the library.
        number: its place among the open ones when it came, from 1.
    """

    question: Question[Any]
    number: int = 1


class QuestionDesk:
    """The questions that wait for the person.

    Args:
        wait: waits for this many seconds; a test passes its own clock.
    """

    def __init__(self, wait: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._wait = wait
        self._open: dict[str, OpenQuestion] = {}
        self._left = asyncio.Event()
        self.on_question: Callable[[OpenQuestion], None] | None = None
        """Shows a question. Without it nobody is there to answer."""
        self.on_closed: Callable[[OpenQuestion], None] = lambda _opened: None
        """Called with each question that waits no longer, however it ended."""

    @property
    def questions(self) -> tuple[OpenQuestion, ...]:
        """The open questions, the oldest first."""
        return tuple(self._open.values())

    def leave(self) -> None:
        """Leave all questions open: the program ends, and they are asked again when it goes on."""
        self._left.set()

    async def ask(self, question: Question[Any]) -> Answer[Any] | None:
        """Show a question and wait until the library takes it back, as it does once it is answered.

        Returns:
            The answer that counts when there was none: no. None after `leave`.

        Raises:
            UnansweredError: this kind of question has no "no".
        """
        if self.on_question is None:
            return question.answer(question.default_answer("nobody"), by="nobody")
        opened = OpenQuestion(question, len(self._open) + 1)
        self._open[question.key] = opened
        try:
            self.on_question(opened)
            if await self._wait_for_end():
                return None
        finally:
            self._open.pop(question.key, None)
            self.on_closed(opened)
        return question.answer(question.default_answer("timeout"), by="timeout")

    async def _wait_for_end(self) -> bool:
        """Wait until the time is over; return whether the questions were left before."""
        left = asyncio.ensure_future(self._left.wait())
        late = asyncio.ensure_future(self._wait(ANSWER_SECONDS))
        try:
            await asyncio.wait((left, late), return_when=asyncio.FIRST_COMPLETED)
            return left.done()
        finally:
            for one in (left, late):
                one.cancel()
            await asyncio.gather(left, late, return_exceptions=True)


_log = logging.getLogger("adh")

CLOSE_SECONDS = 5.0
"""Seconds that writing tools have to end when the program ends."""

NO_KEY_TEXT = "⚠️ Agent not initialized. API key may be missing."

UnableError = (AgentFileError, HoldfastError, SessionError, StorageError)
"""Why a conversation cannot answer: the text names the fix."""


class Conversation:
    """A conversation of a person with an agent.

    Args:
        workspace: the open workspace.
        session: the id of a saved conversation; None begins another one.
        monotonic: a clock in seconds that never jumps.
        wait: waits for this many seconds.
    """

    def __init__(
        self,
        workspace: Workspace,
        session: str | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.transcript = Transcript(workspace.compute_cost)
        self.on_change: Callable[[tuple[str, ...]], None] = lambda _ids: None
        """Called with the ids of changed blocks after each item; also when only the status changed."""
        self.on_notify: Callable[[str], None] = lambda _line: None
        """Called with a line to show for a few seconds."""
        self.problem = ""
        """Why no message can be answered; empty if one can."""
        self._workspace = workspace
        self._wanted = session
        self._id = session or ""
        self._monotonic = monotonic
        self._desk = QuestionDesk(wait)
        self._queue: deque[PersonBlock] = deque()
        self._filled = asyncio.Event()
        self._idle = asyncio.Event()
        self._opened: OpenSession | None = None
        self._revision = 0
        self._stream: RunStream[str] | None = None
        self._worker: asyncio.Task[None] | None = None

    @property
    def session(self) -> str:
        """The id of the conversation; empty before `start`, unless it was asked for."""
        return self._id

    @property
    def queue(self) -> Sequence[str]:
        """The messages that wait for the turns before them."""
        return [block.text for block in self.transcript.queued]

    @property
    def is_running(self) -> bool:
        """Whether a turn is in progress."""
        return self._stream is not None

    @property
    def questions(self) -> tuple[OpenQuestion, ...]:
        """The questions that wait for the person, the oldest first."""
        return self._desk.questions

    @property
    def on_question(self) -> Callable[[OpenQuestion], None] | None:
        """Shows a question. Without it nobody is there to answer, and the answer is no."""
        return self._desk.on_question

    @on_question.setter
    def on_question(self, show: Callable[[OpenQuestion], None] | None) -> None:
        self._desk.on_question = show

    @property
    def on_question_closed(self) -> Callable[[OpenQuestion], None]:
        """Called with each question that waits no longer, however it ended."""
        return self._desk.on_closed

    @on_question_closed.setter
    def on_question_closed(self, close: Callable[[OpenQuestion], None]) -> None:
        self._desk.on_closed = close

    async def start(self) -> None:
        """Open the session, and continue the turn that a crash or an exit left open.

        Raises:
            SessionError: the session that was asked for cannot be opened.
        """
        is_open = await self._open_session()
        for text in self._workspace.start_notes:
            self._add_note(text)
        self._workspace.on_note = self._add_note
        self._worker = asyncio.create_task(self._work(resume=is_open), name="adh-conversation")

    async def _open_session(self) -> bool:
        """Open the session; return whether its last turn has not ended."""
        try:
            opened = self._workspace.open_session(self._wanted, self._desk.ask)
        except SessionError:
            raise
        except UnableError as error:
            self._explain(error)
            return False
        self._opened, self._id = opened, opened.id
        self._revision, self.problem = self._workspace.revision, ""
        is_open = await load_history(opened.journal, opened.id, self.transcript)
        self.on_change(tuple(block.id for block in self.transcript.blocks))
        return is_open

    def _explain(self, error: Exception) -> None:
        self.problem = str(error)
        known = isinstance(error, MissingKeyError)
        self._add_note(f"{NO_KEY_TEXT}\n{self.problem}" if known else self.problem)

    def _add_note(self, text: str) -> None:
        self.transcript.add_note(text)
        self._notify()

    def send(self, text: str) -> None:
        """Send a message; it waits for the turns before it."""
        if not text.strip():
            return
        waiting = self.is_running or bool(self._queue)
        self._queue.append(self.transcript.send(text, queued=waiting))
        self._idle.clear()
        self._filled.set()
        self._notify()

    def answer(self, question: OpenQuestion | Question[Any], answer: Any) -> Receipt:
        """Answer a question.

        Args:
            question: the question.
            answer: an answer, such as `question.approve()`, or its value.

        Returns:
            A receipt that is false, with the reason, if the answer came too late.

        Raises:
            AnswerTypeError: the question asks for another type; it stays open.
            ConfigurationError: the edited arguments do not fit the tool; the question stays open.
        """
        asked = question.question if isinstance(question, OpenQuestion) else question
        if self._stream is None:
            return Receipt("unknown")
        if not isinstance(answer, Answer):
            answer = asked.answer(answer)
        return self._stream.answer(msgspec.structs.replace(answer, by=self._workspace.parts.user))

    def stop(self) -> None:
        """Stop the turn in progress, also while it waits for another attempt or for an answer."""
        if self._stream is not None:
            self._stream.cancel(by=self._workspace.parts.user)

    async def wait_until_idle(self) -> None:
        """Wait until every message was answered."""
        await self._idle.wait()

    async def close(self, *, grace: float = CLOSE_SECONDS) -> None:
        """Close the conversation; a turn in progress stays open and continues when it is opened again.

        Args:
            grace: seconds that writing tools have to end.
        """
        self._desk.leave()
        if self._stream is not None:
            await self._stream.leave_open(grace=grace)
        await self._end_work()

    async def _end_work(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.cancel()
            await asyncio.wait([worker])
        opened, self._opened = self._opened, None
        if opened is not None:
            await self._workspace.close_session(opened)

    async def clear(self) -> None:
        """Close this session, whose turn in progress is stopped, and begin another one."""
        self._queue.clear()
        self.stop()
        if self._stream is not None:
            await self._idle.wait()
        await self._end_work()
        self.transcript, self._wanted = Transcript(self._workspace.compute_cost), None
        await self.start()

    async def export(self) -> ExportPaths:
        """Write the conversation as Markdown and as JSON lines; return the files. Raises StorageError."""
        settings, places = self._workspace.settings, self._workspace.parts.places
        facts = {
            "project": str(places.project),
            "agent": settings.agent,
            "model": settings.model,
            "input_tokens": self.transcript.usage.input,
            "output_tokens": self.transcript.usage.output,
        }
        blocks = [*self.transcript.blocks]
        return await asyncio.to_thread(write_export, places.exports, self.session, blocks, facts)

    async def undo_preview(self) -> UndoPlan | None:
        """Return the plan to undo the newest turn; None if there is nothing to undo.

        Raises:
            UndoError: a turn is in progress.
            StorageError: the changes cannot be read.
        """
        undo = self._make_undo()
        return await undo.plan() if undo is not None else None

    async def undo(self, plan: UndoPlan) -> tuple[str, ...]:
        """Take a turn back, with its changes of files; return the paths that changed.

        Raises:
            UndoError: a file changed since, or a turn is in progress. Nothing was done.
            StorageError: a file cannot be restored; the undo can be planned again.
        """
        undo = self._make_undo()
        if undo is None:
            return ()
        changed = await undo.run(plan)
        for record in (await undo.opened.journal.read(undo.opened.id))[-1:]:
            self.transcript.apply(record.event, self._monotonic())
        self._notify()
        return changed

    def _make_undo(self) -> UndoTurn | None:
        if self._opened is None:
            return None
        return UndoTurn(self._workspace, self._opened, is_running=self.is_running)

    async def _work(self, *, resume: bool) -> None:
        if resume and self._opened is not None:
            opened = self._opened
            await self._drive(
                opened, opened.agent.resume_stream(opened.id, deps=_name_request(opened))
            )
            if self.transcript.running:
                self._show(self.transcript.pause())
        while True:
            if not self._queue:
                self._filled.clear()
                self._idle.set()
            await self._filled.wait()
            await self._answer_next()

    async def _answer_next(self) -> None:
        block = self._queue.popleft()
        self._show(self.transcript.begin(block))
        opened = await self._prepare()
        if opened is None:
            self._show(self.transcript.give_up_sent())
            return
        stream = opened.agent.stream(block.text, session=opened.id, deps=_name_request(opened))
        await self._drive(opened, stream)
        if self.transcript.running:
            self._show(self.transcript.pause())

    async def _prepare(self) -> OpenSession | None:
        """Return the session with an agent of the settings that hold now; None if there is none."""
        if self._opened is None:
            await self._open_session()
        elif self._revision != self._workspace.revision:
            try:
                self._opened = self._workspace.renew_agent(self._opened, self._desk.ask)
            except UnableError as error:
                self._explain(error)
                return None
            self._revision, self.problem = self._workspace.revision, ""
        return self._opened

    async def _drive(self, opened: OpenSession, stream: RunStream[str]) -> None:
        """Show a turn until it ends, and its error."""
        self._stream = stream
        last, was_running = self.transcript.turn, self.transcript.running
        try:
            async with stream as run:
                async for item in run:
                    self._show(apply_item(self.transcript, item, self._monotonic()))
                    if line := describe_notice(item):
                        self.on_notify(line)
        except HoldfastError as error:
            begun = was_running or self.transcript.turn != last
            if self.transcript.running or not begun:
                self._show(self.transcript.fail(error.info.to_public()))
                await self._give_up(opened)
        except Exception as error:  # noqa: BLE001  # REASON: the conversation goes on after any error of a turn
            _log.exception("A turn of session %s failed", opened.id)
            problem = f"A bug of adh ended the turn ({type(error).__name__}). `adh --debug` logs the details."
            info = ErrorInfo(category=ErrorCategory.PROGRAMMING, safe=problem)
            self._show(self.transcript.fail(info))
        finally:
            self._stream = None
            self._notify()  # that no turn is in progress any more

    async def _give_up(self, opened: OpenSession) -> None:
        """Close a turn that cannot continue, so that the session accepts the next message."""
        try:
            await opened.agent.abandon(opened.id, by=self._workspace.parts.user)
        except HoldfastError as error:
            _log.warning("The turn of session %s stays open: %s", opened.id, error)

    def _notify(self) -> None:
        self.on_change(self.transcript.take_changed())

    def _show(self, changed: tuple[str, ...]) -> None:
        self.on_change(changed)


def _name_request(opened: OpenSession) -> Any:
    return msgspec.structs.replace(opened.context, request_id=secrets.token_hex(8))
