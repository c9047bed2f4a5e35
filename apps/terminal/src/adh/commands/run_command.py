"""`adh run`: one task without the screen. The answer goes to standard output, everything else to standard error.

It must never run a call that nobody allowed, and must never leave a command running behind.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from adh.agents.model_aliases import resolve_model
from adh.commands.chat_opening import make_options
from adh.commands.chat_start import ChatStart, read_chat_start
from adh.commands.command_error import CommandError
from adh.commands.debug_log import set_up_log
from adh.commands.headless_turn import HeadlessTurn, TurnRecord
from adh.commands.judged_blocks import collect_calls, list_used_tools
from adh.commands.line_input import drop_typed, read_line
from adh.commands.question_answers import RunAnswers
from adh.commands.run_report import (
    RunMetadata,
    RunReport,
    format_json,
    format_markdown,
    format_text,
)
from adh.conversation.conversation import Conversation
from adh.transcript.outcome import OutcomeKind
from adh.workspace.assembly import open_workspace
from adh.workspace.workspace import Workspace
from holdfast.middleware import escape_invisible

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
        word: what the person wrote.

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
    """Return what a turn did and how it ended.

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
    """Return what asks the person at the terminal; None without one."""
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
