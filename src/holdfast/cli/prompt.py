"""Reads the messages of `holdfast chat` in a terminal.

A paste is one message, whether it arrives at a prompt or while a turn runs. Lines that are typed
while a turn runs are not shown in its text; they wait for the next prompt.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.input_lines import LineReader

if TYPE_CHECKING:
    from prompt_toolkit.history import History

ReadLine = Callable[[], Awaitable[str | None]]
"""The next message without its end, or None when there are no more."""

_PASTE_ON, _PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"


def make_prompt_reader(
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
        from prompt_toolkit.application import get_app_session
    except ImportError:
        return _make_plain_reader(lines)
    output = get_app_session().output
    # A prompt that ends would otherwise stop the marks of a paste that is just arriving.
    output.disable_bracketed_paste = _keep_pastes_marked  # type: ignore[method-assign]
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


@contextmanager
def hold_typed_text() -> Iterator[None]:
    """Keep the text that is typed between two prompts for the next one, with the marks of a paste.

    Without this the terminal would print it into the text of the turn, and cut a paste into lines.
    Ctrl-C stays a signal. Does nothing without a terminal that can be set.
    """
    try:
        import termios

        before = termios.tcgetattr(sys.stdin)
    except (ImportError, OSError, ValueError):
        yield
        return
    quiet = termios.tcgetattr(sys.stdin)
    quiet[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(sys.stdin, termios.TCSANOW, quiet)
    print(_PASTE_ON, end="", flush=True)
    try:
        yield
    finally:
        print(_PASTE_OFF, end="", flush=True)
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


def _keep_pastes_marked() -> None:
    """Leave the terminal as it is: `hold_typed_text` ends the marks of pastes after the last prompt."""


def _make_plain_reader(lines: LineReader) -> ReadLine:
    async def read_line() -> str | None:
        print("> ", end="", flush=True)
        return await lines.read_line()

    return read_line


def _open_history() -> History:
    """Open the file of typed lines, readable by its owner only; use memory if that fails."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    with suppress(OSError, RuntimeError):  # RuntimeError: the user has no home directory
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        folder = state / "holdfast"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = folder / "chat-history"
        file.touch(mode=0o600)
        return FileHistory(str(file))
    return InMemoryHistory()
