"""The loop of `holdfast chat`: reads lines, runs the turns of one conversation, and handles Ctrl-C.

It must never end the conversation because a turn failed.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

from holdfast.agent import Agent
from holdfast.cli.chat_commands import QUIT, Conversation, find_command
from holdfast.cli.prompt import ReadLine
from holdfast.cli.run_printer import RunPrinter, format_error
from holdfast.cli.terminal_questions import (
    ask_in_terminal,
    format_question,
    parse_answer,
    print_refusal,
    sign_answer,
)
from holdfast.core.errors import ConfigurationError, HoldfastError, WaitingError
from holdfast.core.events import Status
from holdfast.core.messages import Message
from holdfast.core.questions import AnyQuestion, Question
from holdfast.runtime.streams.run_stream import RunStream


class ChatLoop:
    """Runs the turns of one conversation and handles Ctrl-C.

    Args:
        talk: the agent and the conversation.
        read: reads the next input line.
        keep_open: whether a question may stay open after the program ends.
        prompts: whether a terminal shows a prompt for each line. Then Ctrl-C stops only the turn,
            since Ctrl-D ends the program.
    """

    def __init__(
        self,
        talk: Conversation,
        read: ReadLine,
        *,
        keep_open: bool = False,
        prompts: bool = True,
    ) -> None:
        self._talk = talk
        self._keep_open = keep_open
        self._prompts = prompts
        self.read = read
        self._show = talk.show
        self._run: RunStream[str] | RunStream[object] | None = None
        self._task: asyncio.Task[None] | None = None
        self.failures = 0

    async def run_until_end(self) -> None:
        """Read lines and run a turn for each one, until the input ends."""
        self._task = asyncio.current_task()
        self.catch_interrupts()
        if (
            await is_waiting(self._talk.agent, self._talk.session)
            and not await self._resume_waiting()
        ):
            return
        while (line := await self.read()) is not None and line.strip() not in QUIT:
            if line.strip():
                await self._take_line(line)

    async def _take_line(self, line: str) -> None:
        """Obey a command, or send the line to the agent."""
        with self._report_failures():
            found = find_command(line)
            if found is None:
                await self._take_turn(line)
                return
            command, argument = found
            message = await command.run(self._talk, argument)
            if message is not None:
                await self._take_turn(message)

    async def _resume_waiting(self) -> bool:
        """Ask the open questions and resume the turn; return whether the turn is over."""
        over = True
        with self._report_failures():
            over = await answer_waiting(self._talk.agent, self._talk.session, self.read, self._show)
            if over:
                over = await self._watch_turn(self._talk.resume_stream())
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

    async def _take_turn(self, line: str | Message, *, has_waited: bool = False) -> None:
        try:
            await self._watch_turn(self._talk.stream(line))
        except WaitingError:
            # A turn waits: for example, another process answered it and did not resume it.
            if has_waited:
                raise  # the turn still waits after it was resumed
            if await self._resume_waiting():
                await self._take_turn(line, has_waited=True)

    async def _watch_turn(self, stream: RunStream[str] | RunStream[object]) -> bool:
        """Print a turn while it runs and ask its questions; return whether the turn is over."""
        printed = False
        try:
            async with stream as run:
                self._run = run
                async for item in run:
                    printed = True
                    if isinstance(item, Question):
                        await ask_in_terminal(
                            run, item, self.read, self._show, keep_open=self._keep_open
                        )
                    else:
                        self._show.print_item(item)
        finally:
            self._run = None
            self._show.finish_line()
        self._talk.used += run.result.usage
        if self._prompts:
            self._show.print_note(self._talk.format_footer(run.result.usage))
        if run.result.status is Status.WAITING:
            self._show.print_note(LATER)
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


LATER = "■ the question stays open: start this session again to answer it"

Read = Callable[[], Awaitable[str | None]]


async def answer_waiting(agent: Agent[str], session: str, read: Read, show: RunPrinter) -> bool:
    """Ask the open questions of a session; return whether all of them were answered.

    No turn runs meanwhile, so another process may answer as well.

    Args:
        agent: the agent of the session.
        session: the name of the conversation.
        read: reads the next line; None at the end of the input.
        show: prints the questions.

    Raises:
        HoldfastError: an answer could not be saved.
    """
    for question in await agent.questions(session):
        if not await _ask_until_answered(agent, session, question, (read, show)):
            show.print_note(LATER)
            return False
    return True


async def is_waiting(agent: Agent[str], session: str) -> bool:
    """Whether the session has an open question."""
    try:
        return bool(await agent.questions(session))
    except ConfigurationError:
        return False  # the session does not exist yet


async def _ask_until_answered(
    agent: Agent[str], session: str, question: AnyQuestion, terminal: tuple[Read, RunPrinter]
) -> bool:
    """Ask one question until a line answers it; return whether one did."""
    read, show = terminal
    while True:
        for line in format_question(question):
            show.print_note(line)
        typed = await read()
        if typed is None:
            return False
        answer = parse_answer(question, typed)
        if answer is None:
            show.print_note("this is not a valid answer to the question")
            continue
        try:
            # An earlier answer of another process counts instead.
            await agent.answer(session, sign_answer(answer))
        except ConfigurationError as error:  # the edited arguments do not fit the tool
            print_refusal(error, show)
            continue
        return True
