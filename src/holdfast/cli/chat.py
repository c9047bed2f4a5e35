"""`holdfast chat`: a conversation in the terminal.

Ctrl-C stops the turn and not the program; what was attempted stays in the conversation. When
standard input is no terminal, each line is a turn and the answers are plain lines. It must never
end because a turn failed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from holdfast.agent import Agent
from holdfast.cli.options import add_model_arguments, agent_from
from holdfast.cli.show import Show
from holdfast.core.errors import HoldfastError, explain
from holdfast.runtime.stream import RunStream

_SESSION = "chat"

ReadLine = Callable[[], Awaitable[str | None]]
"""The next line without its end, or None when there are no more."""


def add_arguments(sub: argparse.ArgumentParser) -> None:
    """The model, and nothing else."""
    add_model_arguments(sub)


def main(given: argparse.Namespace) -> int:
    """Talk until the input ends."""
    agent = agent_from(given)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    read = _prompting() if terminal else _plain
    if terminal:
        print(f"{given.model}. Ctrl-C stops a turn, Ctrl-D or an empty /quit ends.")
    asyncio.run(_talk(agent, read))
    return 0


async def _talk(agent: Agent[str], read: ReadLine) -> None:
    while (line := await read()) is not None:
        if line.strip() in ("/quit", "/exit"):
            return
        if line.strip():
            await _turn(agent, line)


async def _turn(agent: Agent[str], line: str) -> None:
    """One turn; SIGINT while it runs cancels it."""
    show = Show(sys.stdout, sys.stderr)
    loop = asyncio.get_running_loop()
    try:
        async with agent.stream(line, session=_SESSION) as run:
            loop.add_signal_handler(signal.SIGINT, run.cancel)
            try:
                async for item in run:
                    show.item(item)
                show.end()
                _outcome(run)
            finally:
                loop.remove_signal_handler(signal.SIGINT)
    except HoldfastError as error:
        print(f"  ✗ {explain(error.info)}", file=sys.stderr)


def _outcome(run: RunStream[str]) -> None:
    try:
        run.result  # noqa: B018  # raises what the run raised
    except asyncio.CancelledError:
        print("  ■ stopped", file=sys.stderr)


async def _plain() -> str | None:
    line = await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    return line.rstrip("\r\n") if line else None


def _prompting() -> ReadLine:
    """A prompt with history and editing when prompt_toolkit is there, else the plain one."""
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import FileHistory
    except ImportError:
        return _asking
    session: PromptSession[str] = PromptSession(history=FileHistory(str(_history_file())))

    async def ask() -> str | None:
        while True:
            try:
                return await session.prompt_async("> ")
            except KeyboardInterrupt:
                continue
            except EOFError:
                return None

    return ask


async def _asking() -> str | None:
    print("> ", end="", flush=True)
    return await _plain()


def _history_file() -> Path:
    """The lines typed before, readable by nobody else."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    folder = state / "holdfast"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = folder / "chat-history"
    file.touch(mode=0o600)
    return file
