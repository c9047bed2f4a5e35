"""`holdfast chat`: a conversation in the terminal.

Ctrl-C stops the turn but not the program; the interrupted turn stays in the conversation. Without a
terminal, each input line is a turn, and Ctrl-C stops the turn and the program. A failed turn does
not end the conversation.
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
    """Add the arguments for the model or agent and the conversation."""
    add_model_arguments(sub)
    add_conversation_arguments(sub)


def main(args: argparse.Namespace) -> int:
    """Chat until the input ends; return 1 when a turn failed and there is no terminal."""
    agent = build_chat_agent(args)
    source = standard_input()
    terminal = source.isatty() and sys.stdout.isatty()
    if terminal:
        print(f"{args.agent or args.model}. Ctrl-C stops a turn, Ctrl-D or /quit ends.")
    lines = LineReader(source.fileno())

    def stop() -> bool:
        return talk.stop_turn()

    def catch() -> None:
        talk.catch_interrupts()

    read = _make_prompt_reader(lines, stop, catch) if terminal else lines.read_line
    talk = _ChatLoop(agent, args.session, read, keep_open=bool(args.journal), prompts=terminal)
    try:
        asyncio.run(talk.run_until_end())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    return 1 if talk.failures and not terminal else 0


class _ChatLoop:
    """Runs the turns of one conversation and handles Ctrl-C.

    Args:
        agent: the agent.
        session: the name of the conversation.
        read: reads the next input line.
        keep_open: whether a question may stay open after the program ends.
        prompts: whether a terminal shows a prompt for each line. Then Ctrl-C stops only the turn,
            since Ctrl-D ends the program.
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
        """Read lines and run a turn for each one, until the input ends."""
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
        """Ask the open questions and resume the turn; return whether the turn is over."""
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
        """Whether the program was stopped, and not only a turn."""
        return self._task is not None and self._task.cancelling() > 0

    def _report_failure(self, error: HoldfastError) -> None:
        self.failures += 1
        self._show.print_note(f"✗ {format_error(error)}")

    @contextmanager
    def _report_failures(self) -> Iterator[None]:
        """Print why a turn failed or stopped, and let the conversation continue."""
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
                # A turn waits: for example, another process answered it and did not resume it.
                if has_waited:
                    raise  # the turn still waits after it was resumed
                if await self._resume_waiting():
                    await self._take_turn(line, has_waited=True)

    async def _watch_turn(self, stream: RunStream[str]) -> bool:
        """Print a turn while it runs and ask its questions; return whether the turn is over."""
        printed = False
        try:
            async with stream as run:
                self._run = run
                async for item in run:
                    printed = True
                    if isinstance(item, Question):
                        await terminal_questions.ask_in_terminal(
                            run, item, self._read, self._show, keep_open=self._keep_open
                        )
                    else:
                        self._show.print_item(item)
        finally:
            self._run = None
            self._show.finish_line()
        if run.result.status is Status.WAITING:
            self._show.print_note(waiting_turns.LATER)
            return False
        if not printed:  # another process resumed and finished the turn
            self._show.print_answer(run.result.text)
        return True

    def catch_interrupts(self) -> None:
        """Make Ctrl-C stop the turn; on platforms without signal handlers it ends the program."""
        with suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._on_interrupt)

    def stop_turn(self) -> bool:
        """Stop the running turn; return whether there is one."""
        if self._run is None:
            return False
        self._run.cancel()
        return True

    def _on_interrupt(self) -> None:
        stopped = self._prompts and self.stop_turn()
        if not stopped and self._task is not None:
            self._task.cancel()  # this also cancels a running turn


def _make_prompt_reader(
    lines: LineReader, stop: Callable[[], bool], catch: Callable[[], None]
) -> ReadLine:
    """Make a prompt with history and editing if prompt_toolkit is installed, else a plain prompt.

    Args:
        lines: reads the lines of the plain prompt.
        stop: called for Ctrl-C at a prompt; stops the turn that asks a question, if there is one.
        catch: called after each prompt, since prompt_toolkit removes the handler of Ctrl-C.
    """
    try:
        from prompt_toolkit import PromptSession
    except ImportError:
        return _make_plain_reader(lines)
    session: PromptSession[str] = PromptSession(history=_open_history())

    async def show_prompt() -> str:
        try:
            return await session.prompt_async("> ")
        finally:
            catch()

    async def read_line() -> str | None:
        while True:
            try:
                return await show_prompt()
            except KeyboardInterrupt:
                if stop():
                    await asyncio.Event().wait()  # the stopped turn cancels this wait
            except EOFError:
                return None

    return read_line


def _make_plain_reader(lines: LineReader) -> ReadLine:
    async def read_line() -> str | None:
        print("> ", end="", flush=True)
        return await lines.read_line()

    return read_line


def _open_history() -> History:
    """Open the file of typed lines, readable by its owner only; use memory if that fails."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    try:
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        folder = state / "holdfast"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = folder / "chat-history"
        file.touch(mode=0o600)
    except (OSError, RuntimeError):  # RuntimeError: the user has no home directory
        return InMemoryHistory()
    return FileHistory(str(file))
