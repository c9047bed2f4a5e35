"""`adh` without a command: the full-screen chat.

It must import the workspace only when the prompt is painted, and must never open the screen in a pipe.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from adh.commands.chat_start import ChatStart, read_chat_start
from adh.commands.command_error import CommandError
from adh.commands.debug_log import set_up_log
from adh.commands.exit_statuses import ExitStatus
from adh.commands.terminal_check import ADVICE, find_screen_problem
from adh.screen.chat_app import ChatApp
from adh.screen.conversation_port import OpenChat
from adh.storage.places import find_places
from adh.storage.settings import load_settings


def main(args: argparse.Namespace) -> int:
    """Open the screen in the current folder; return the exit status when the person leaves it.

    Args:
        args: the words of the program.

    Raises:
        CommandError: there is no terminal that can show a screen, or no such conversation.
        Exception: the workspace cannot be opened.
    """
    return open_screen(read_chat_start(args, os.environ, Path.cwd()))


def open_screen(start: ChatStart, message: str = "", *, tells_resume: bool = True) -> int:
    """Open the screen; return the exit status when the person leaves it.

    Args:
        start: how the conversation is opened.
        message: what the input holds at the start.
        tells_resume: whether to print afterwards how the conversation continues.

    Raises:
        CommandError: as for `main`.
        Exception: as for `main`.
    """
    problem = find_screen_problem(start.environ, sys.stdin, sys.stdout)
    if problem:
        raise CommandError(problem, fix=ADVICE)
    set_up_log(start)
    theme = load_settings(find_places(start.environ, start.project)).theme
    left: list[str] = []
    app = ChatApp(lambda: _open_chat(start, left), theme=theme, message=message)
    app.run()
    if app.failure is not None:
        raise app.failure
    for session in left if tells_resume else ():
        print(f"This conversation continues with: adh --resume {session}")
    return ExitStatus.DONE if app.ended_by is None else 128 + app.ended_by


@asynccontextmanager
async def _open_chat(start: ChatStart, left: list[str]) -> AsyncIterator[OpenChat]:
    module = await asyncio.to_thread(importlib.import_module, "adh.commands.chat_opening")
    async with module.open_chat(start) as chat:
        yield chat
        if chat.conversation.transcript.turn and chat.workspace.settings.session.capture:
            left.append(chat.conversation.session)
