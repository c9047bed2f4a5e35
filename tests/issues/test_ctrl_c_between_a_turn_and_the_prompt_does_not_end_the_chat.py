"""Ctrl-C just after the end of a turn, which was meant for the turn, ended `holdfast chat`.

It came before the prompt had the terminal, and was taken for a wish to end the program.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from tests.cli.terminal import conversation

from holdfast import Agent
from holdfast.cli.chat_loop import ChatLoop
from holdfast.cli.input_lines import LineReader
from holdfast.cli.prompt import make_prompt_reader
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio


async def test_the_next_line_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        came = iter(["one\r", "two\r", "/quit\r"])

        async def read() -> str | None:
            # The signal is there, and nobody has looked at it, when the prompt begins.
            os.kill(os.getpid(), signal.SIGINT)
            keys.send_text(next(came))
            return await prompt()

        talk = ChatLoop(conversation(Agent(ScriptedModel("One.", "Two."))), read)
        prompt = make_prompt_reader(LineReader(0), talk.stop_turn, talk.catch_interrupts)
        try:
            async with asyncio.timeout(20):
                await asyncio.ensure_future(talk.run_until_end())
        finally:
            asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
    printed = capsys.readouterr().out.replace("\x1b[?2004h", "")  # asks for the marks of a paste
    assert printed == "One.\nTwo.\n"
