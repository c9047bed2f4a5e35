"""`holdfast chat`: a conversation in the terminal.

Ctrl-C stops the turn and not the program; what was attempted stays in the conversation. Without a
terminal each line is a turn, the answers are plain lines, and Ctrl-C stops both. It must never end
because a turn failed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.agent import Agent
from holdfast.cli import terminal_questions, waiting_turns
from holdfast.cli.input_lines import LineReader, standard_input
from holdfast.cli.options import (
    add_conversation_arguments,
    add_model_arguments,
    build_chat_agent,
)
from holdfast.cli.run_printer import RunPrinter, format_error
from holdfast.core.errors import HoldfastError, WaitingError
from holdfast.core.events import Status
from holdfast.core.questions import Question
from holdfast.runtime.run_stream import RunStream

if TYPE_CHECKING:
    from prompt_toolkit.history import History

ReadLine = Callable[[], Awaitable[str | None]]
"""The next line without its end, or None when there are no more."""


def add_arguments(sub: argparse.ArgumentParser) -> None:
    """The model or the agent, and which conversation."""
    add_model_arguments(sub)
    add_conversation_arguments(sub)


def main(given: argparse.Namespace) -> int:
    """Talk until the input ends; 1 when a turn failed and nobody sat there to see it."""
    agent = build_chat_agent(given)
    source = standard_input()
    terminal = source.isatty() and sys.stdout.isatty()
    if terminal:
        print(f"{given.agent or given.model}. Ctrl-C stops a turn, Ctrl-D or /quit ends.")
    lines = LineReader(source.fileno())

    def stop() -> bool:
        return talk.stop_turn()

    def catch() -> None:
        talk.catch_interrupts()

    read = _make_prompt_reader(lines, stop, catch) if terminal else lines.read_line
    talk = _ChatLoop(agent, given.session, read, keep_open=bool(given.journal), prompts=terminal)
    try:
        asyncio.run(talk.run_until_end())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    return 1 if talk.failures and not terminal else 0


class _ChatLoop:
    """The turns of one conversation, and what Ctrl-C means at each moment of it.

    Args:
        agent: whom to talk to.
        session: the conversation.
        read: the next line that is typed.
        keep_open: whether a question may stay open until another time.
        prompts: whether somebody is asked for each line, and so has another way to end it all.
    """

    def __init__(
        self,
        agent: Agent[str],
        session: str,
        read: ReadLine,
        *,
        keep_open: bool = False,
        prompts: bool = True,
    ) -> None:
        self._agent = agent
        self._session = session
        self._keep_open = keep_open
        self._prompts = prompts
        self._read = read
        self._show = RunPrinter(sys.stdout, sys.stderr)
        self._run: RunStream[str] | None = None
        self._task: asyncio.Task[None] | None = None
        self.failures = 0

    async def run_until_end(self) -> None:
        """Read a line, take a turn, and so on."""
        self._task = asyncio.current_task()
        self.catch_interrupts()
        if (
            await waiting_turns.is_waiting(self._agent, self._session)
            and not await self._resume_waiting()
        ):
            return
        while (line := await self._read()) is not None and line.strip() not in ("/quit", "/exit"):
            if line.strip():
                await self._take_turn(line)

    async def _resume_waiting(self) -> bool:
        """Answer what the conversation waits for; whether it is over with that."""
        over = True
        with self._report_failures():
            over = await waiting_turns.answer_waiting(
                self._agent, self._session, self._read, self._show
            )
            if over:
                over = await self._watch_turn(self._agent.resume_stream(self._session))
        return over

    @property
    def _is_ending(self) -> bool:
        """Whether it is the program that was stopped, and not a turn."""
        return self._task is not None and self._task.cancelling() > 0

    def _report_failure(self, error: HoldfastError) -> None:
        self.failures += 1
        self._show.print_note(f"✗ {format_error(error)}")

    @contextmanager
    def _report_failures(self) -> Iterator[None]:
        """A turn that fails or is stopped is told, and the conversation goes on."""
        try:
            yield
        except HoldfastError as error:
            self._report_failure(error)
        except asyncio.CancelledError:
            if self._is_ending:
                raise
            self._show.print_note("■ stopped")

    async def _take_turn(self, line: str, *, has_waited: bool = False) -> None:
        with self._report_failures():
            try:
                await self._watch_turn(self._agent.stream(line, session=self._session))
            except WaitingError:
                # Answered elsewhere, and nobody went on with it.
                if has_waited:
                    raise  # nor could it go on now
                if await self._resume_waiting():
                    await self._take_turn(line, has_waited=True)

    async def _watch_turn(self, stream: RunStream[str]) -> bool:
        """Show a turn as it goes, and put its questions to whoever sits there; whether it is over."""
        told = False
        try:
            async with stream as run:
                self._run = run
                async for item in run:
                    told = True
                    if isinstance(item, Question):
                        await terminal_questions.ask_in_terminal(
                            run, item, self._read, self._show, keep_open=self._keep_open
                        )
                    else:
                        self._show.print_item(item)
            self._show.finish_line()
            if run.result.status is Status.WAITING:
                self._show.print_note(waiting_turns.LATER)
                return False
            if not told:  # somebody else was faster to let it go on
                self._show.print_answer(run.result.text)
            return True
        finally:
            self._run = None

    def catch_interrupts(self) -> None:
        """Let Ctrl-C stop the turn; where the platform has no such handler, it ends the program."""
        with suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._on_interrupt)

    def stop_turn(self) -> bool:
        """Stop the turn under way; whether there is one."""
        if self._run is None:
            return False
        self._run.cancel()
        return True

    def _on_interrupt(self) -> None:
        stopped = self._prompts and self.stop_turn()
        if not stopped and self._task is not None:
            self._task.cancel()  # and with it the turn, if there is one


def _make_prompt_reader(
    lines: LineReader, stop: Callable[[], bool], catch: Callable[[], None]
) -> ReadLine:
    """A prompt with history and editing when prompt_toolkit is there, else a plain one.

    Args:
        lines: for the plain one.
        stop: called for Ctrl-C at a prompt: stops the turn that asks something, if there is one.
        catch: called after each prompt, which has a handler of its own and leaves none behind.
    """
    try:
        from prompt_toolkit import PromptSession
    except ImportError:
        return _make_plain_reader(lines)
    session: PromptSession[str] = PromptSession(history=_open_history())

    async def prompted() -> str:
        try:
            return await session.prompt_async("> ")
        finally:
            catch()

    async def ask() -> str | None:
        while True:
            try:
                return await prompted()
            except KeyboardInterrupt:
                if stop():
                    await asyncio.Event().wait()  # until the question is taken back
            except EOFError:
                return None

    return ask


def _make_plain_reader(lines: LineReader) -> ReadLine:
    async def ask() -> str | None:
        print("> ", end="", flush=True)
        return await lines.read_line()

    return ask


def _open_history() -> History:
    """The lines typed before, in a file that nobody else may read; in memory when that cannot be."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    try:
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        folder = state / "holdfast"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = folder / "chat-history"
        file.touch(mode=0o600)
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return InMemoryHistory()
    return FileHistory(str(file))
