"""`adh run`: one task without the screen. The answer goes to standard output, everything else to standard error.

The conversation is that of the screen, so the same rules decide. It must never approve a call itself, must never
run one that nobody allowed, and must never leave a command running behind.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from adh.agents.model_aliases import resolve_model
from adh.commands.chat_opening import make_options
from adh.commands.chat_start import ChatStart, read_chat_start
from adh.commands.debug_log import set_up_log
from adh.commands.exit_statuses import CommandError
from adh.commands.question_answers import RunAnswers, drop_typed, read_line
from adh.commands.run_report import (
    RunMetadata,
    RunReport,
    collect_calls,
    format_json,
    format_markdown,
    format_text,
    list_used_tools,
)
from adh.conversation.conversation import Conversation
from adh.transcript.blocks import Block, ToolBlock
from adh.transcript.outcome import Outcome, OutcomeKind
from adh.workspace.assembly import open_workspace
from adh.workspace.workspace import Workspace
from holdfast import Question
from holdfast.middleware import escape_invisible


class TurnTranscript(Protocol):
    """The part of a transcript that a turn without a screen reads."""

    @property
    def blocks(self) -> Sequence[Block]:
        """All blocks, in order."""
        ...

    @property
    def status(self) -> str:
        """The line about the current activity."""
        ...

    @property
    def outcome(self) -> Outcome | None:
        """How the last turn ended; None while one runs."""
        ...


class Asked(Protocol):
    """A question that waits for its answer."""

    @property
    def question(self) -> Question[Any]:
        """The question."""
        ...


class TurnConversation(Protocol):
    """The part of a conversation that a turn without a screen drives."""

    on_change: Callable[[tuple[str, ...]], None]
    on_question: Callable[[Any], None] | None

    @property
    def transcript(self) -> TurnTranscript:
        """The transcript so far."""
        ...

    @property
    def problem(self) -> str:
        """Why no message can be answered; empty if one can."""
        ...

    async def start(self) -> None:
        """Begin; a turn that was interrupted continues."""
        ...

    def send(self, text: str) -> object:
        """Send a message."""
        ...

    def answer(self, question: Any, answer: Any) -> object:
        """Give an answer; the result is false if it came too late."""
        ...

    def stop(self) -> None:
        """Stop the turn in progress."""
        ...


class TurnRecord(Struct, frozen=True, kw_only=True):
    """How a turn ended.

    Args:
        outcome: its outcome.
        answered_by: who answered, by the key of the question.
    """

    outcome: Outcome
    answered_by: dict[str, str]


class HeadlessTurn:
    """A turn without a screen.

    Args:
        conversation: the conversation.
        answers: who answers its questions.
        show: shows a line about the progress; None for none.
    """

    def __init__(
        self,
        conversation: TurnConversation,
        answers: RunAnswers,
        show: Callable[[str], None] | None = None,
    ) -> None:
        self._conversation = conversation
        self._answers = answers
        self._show = show
        self._shown: dict[str, str] = {}
        self._changed = asyncio.Event()
        self._questions: asyncio.Queue[Asked] = asyncio.Queue()
        self._answered_by: dict[str, str] = {}

    async def run(self, prompt: str | None) -> TurnRecord:
        """Run the turn to its end. Ctrl-C stops it; once more ends the program.

        Args:
            prompt: the task; None to finish the turn that was interrupted.

        Raises:
            CommandError: the conversation can answer nothing, such as without an API key.
        """
        conversation = self._conversation
        conversation.on_change = self._record_change
        conversation.on_question = self._questions.put_nowait
        with _stop_on_interrupt(conversation.stop):
            answering = asyncio.ensure_future(self._answer_questions())
            try:
                await conversation.start()
                if conversation.problem:
                    raise CommandError(conversation.problem)
                if prompt is not None:
                    conversation.send(prompt)
                outcome = await self._wait_for_outcome(answering)
            finally:
                answering.cancel()
                await asyncio.gather(answering, return_exceptions=True)
        return TurnRecord(outcome=outcome, answered_by=self._answered_by)

    async def _wait_for_outcome(self, answering: asyncio.Future[None]) -> Outcome:
        while (outcome := self._conversation.transcript.outcome) is None:
            self._changed.clear()
            changed = asyncio.ensure_future(self._changed.wait())
            awaited: set[asyncio.Future[Any]] = {changed, answering}
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()
            if answering.done():
                answering.result()  # it ends by an error alone
        return outcome

    async def _answer_questions(self) -> None:
        while True:
            asked = await self._questions.get()
            question = asked.question
            given = await self._answers.choose(question)
            if given.answer is None:
                self._conversation.stop()
                continue
            if self._conversation.answer(asked, given.answer):
                self._answered_by[question.key] = given.by
            elif self._show is not None:
                self._show("The answer came too late: the question is no longer open.")

    def _record_change(self, ids: tuple[str, ...]) -> None:
        self._changed.set()
        if self._show is None:
            return
        transcript = self._conversation.transcript
        self._show_once("status", transcript.status)
        changed = set(ids)
        for block in transcript.blocks:
            if block.id in changed and isinstance(block, ToolBlock):
                self._show_once(block.id, _describe_tool(block))

    def _show_once(self, place: str, line: str) -> None:
        if line and self._shown.get(place) != line and self._show is not None:
            self._shown[place] = line
            self._show(line)


def _describe_tool(block: ToolBlock) -> str:
    decided = f" [{block.level}, {block.risk}, {block.rule or 'no rule'}]" if block.level else ""
    return f"{block.header}{decided}"


@contextmanager
def _stop_on_interrupt(stop: Callable[[], None]) -> Iterator[None]:
    """Let the first Ctrl-C stop the turn, so that its end is saved and reported."""
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGINT)
    is_enabled = before not in (signal.SIG_IGN, None)

    def on_interrupt() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)
        stop()

    if is_enabled:
        loop.add_signal_handler(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        if is_enabled:
            loop.remove_signal_handler(signal.SIGINT)
            signal.signal(signal.SIGINT, before)


_LONGEST_PROMPT = 1_000_000
_FORMS = {"text": format_text, "json": format_json, "markdown": format_markdown}


def main(args: argparse.Namespace) -> int:
    """Run one turn and print its report; return the exit status.

    Args:
        args: the words of the command.

    Raises:
        CommandError: there is no task, or nothing can answer it.
        Exception: the workspace cannot be opened.
    """
    prompt = read_prompt(args.prompt)
    start = read_chat_start(args, os.environ, Path.cwd())
    set_up_log(start)
    ended_by: list[int] = []
    try:
        report = asyncio.run(_run(args, start, prompt, ended_by))
    except asyncio.CancelledError:
        if not ended_by:
            raise
        return 128 + ended_by[0]
    print(_FORMS[args.output](report))
    if args.output == "text" and report.error:
        show_line(report.error)
    return report.status


def read_prompt(word: str) -> str:
    """Return the task; "-" stands for standard input.

    Args:
        word: the argument of the person.

    Raises:
        CommandError: there is no text, or too much.
    """
    text = sys.stdin.read(_LONGEST_PROMPT + 1) if word == "-" else word
    if len(text) > _LONGEST_PROMPT:
        raise CommandError(f"the task is longer than {_LONGEST_PROMPT:,} characters")
    if not text.strip():
        raise CommandError("there is no task", fix='adh run "what to do"')
    return text


def show_line(line: str) -> None:
    """Show a line that is no answer."""
    print(escape_invisible(line), file=sys.stderr, flush=True)


async def _run(
    args: argparse.Namespace, start: ChatStart, prompt: str, ended_by: list[int]
) -> RunReport:
    began = time.monotonic()
    with _leave_on_signal(ended_by):
        async with open_workspace(make_options(start)) as workspace:
            for note in workspace.start_notes:
                show_line(note)
            conversation = Conversation(workspace)
            answers = RunAnswers(show_line, _find_reader(), says_yes=args.yes)
            turn = HeadlessTurn(conversation, answers, show_line if args.verbose else None)
            try:
                record = await turn.run(prompt)
            finally:
                await conversation.close()
            seconds = time.monotonic() - began
            return make_report(workspace, conversation, record, prompt, seconds)


def make_report(
    workspace: Workspace,
    conversation: Conversation,
    record: TurnRecord,
    prompt: str,
    seconds: float,
) -> RunReport:
    """Return the report of a turn and its end.

    Args:
        workspace: the workspace.
        conversation: the conversation, after the turn.
        record: how the turn ended.
        prompt: the task.
        seconds: how long all of it took.
    """
    outcome, transcript = record.outcome, conversation.transcript
    done = outcome.kind is OutcomeKind.DONE
    settings, aliases = workspace.settings, workspace.catalog.aliases
    usage = transcript.usage
    return RunReport(
        kind=outcome.kind.value,
        response=outcome.text if done else "",
        error="" if done else outcome.text,
        partial=outcome.partial,
        prompt=prompt,
        calls=collect_calls(transcript.blocks, transcript.turn, record.answered_by),
        metadata=RunMetadata(
            execution_time_ms=round(seconds * 1_000),
            tools_used=list_used_tools(transcript.blocks, transcript.turn),
            model=resolve_model(settings.model, aliases).model_id,
            agent=settings.agent,
            session=conversation.session,
            usage={
                "input": usage.input,
                "output": usage.output,
                "cached_input": usage.cached_input,
                "reasoning": usage.reasoning,
            },
        ),
    )


def _find_reader() -> Callable[[str], Awaitable[str | None]] | None:
    """Return the function that asks the person at the terminal; None without one."""
    if not sys.stdin.isatty():
        return None

    async def read(prompt: str) -> str | None:
        drop_typed(sys.stdin)
        print(escape_invisible(prompt), end="", file=sys.stderr, flush=True)
        return await read_line(sys.stdin)

    return read


@contextmanager
def _leave_on_signal(ended_by: list[int]) -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the turn like a crash that is known: commands are ended, the turn stays open."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def leave(number: int) -> None:
        ended_by.append(number)
        if task is not None:
            task.cancel()

    signals = (signal.SIGTERM, signal.SIGHUP)
    for number in signals:
        loop.add_signal_handler(number, leave, number)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
