"""`holdfast run` and a question that nobody answers.

Without a journal it waited for five minutes and then told the model that somebody was too late. With a
journal the command that it printed could not be used, and a second message got names of Python methods.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.terminal import holdfast

from holdfast.testing import Emulator
from holdfast.testing.emulator import EmulatedRequest, call

Start = Callable[..., Emulator]

TOOLS = '''
from holdfast import tool

@tool(effect="write")
def book(hotel: str) -> str:
    """Book a hotel."""
    return f"booked {hotel}"
'''


def reply(request: EmulatedRequest) -> object:
    if request.tool_results:
        return f"I read: {request.tool_results[-1].text}"
    return [call("book", {"hotel": "Ribeira"})]


@pytest.fixture
def agent(emulator: Start, tmp_path: Path) -> str:
    """The path of an agent that asks before it books."""
    (tmp_path / "booking.py").write_text(TOOLS)
    file = tmp_path / "my agent.toml"
    lines = ['model = "openai:any"', f'base_url = "{emulator(reply).base_url}"']
    file.write_text(
        "\n".join([*lines, 'tools = ["booking:book"]', "[permissions]", 'ask = ["book"]'])
    )
    return str(file)


@pytest.mark.timeout(60)
def test_without_a_journal_it_counts_as_no_at_once(agent: str) -> None:
    done = holdfast("run", "Book.", "--agent", agent)
    assert (done.returncode, done.stdout) == (0, "I read: Permission request was cancelled.\n")
    assert "May book run with" in done.stderr
    assert "nobody can answer it here, which counts as no; --journal keeps it open" in done.stderr


@pytest.mark.parametrize("session", [("--session", "ana"), ()])
def test_the_printed_command_can_be_used(
    agent: str, tmp_path: Path, session: tuple[str, ...]
) -> None:
    journal = ("--journal", f"sqlite:///{tmp_path}/talk.db")
    done = holdfast("run", "Book.", "--agent", agent, *journal, *session)
    assert done.returncode == 3
    program, *command = shlex.split(done.stderr.splitlines()[-1].partition("answer: ")[2])
    assert program == "holdfast"
    answered = holdfast(*command, said="y\n")
    assert (answered.returncode, answered.stdout) == (0, "I read: booked Ribeira\n")


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_second_message_gets_the_command_too(agent: str, tmp_path: Path, output: str) -> None:
    kept = ("--agent", agent, "--journal", f"sqlite:///{tmp_path}/talk.db", "--session", "ana")
    holdfast("run", "Book.", *kept)
    done = holdfast("run", "And?", *kept, "--output", output)
    assert done.returncode == 3
    assert "the session waits for an answer: holdfast chat --session ana --agent" in done.stderr
    assert "agent.answer" not in done.stderr
    assert output == "text" or json.loads(done.stdout)["status"] == "waiting"


@pytest.mark.parametrize(
    "option", ["--model=openai:x", "--base-url=http://x", "--instructions=x", "--max-retries=1"]
)
@pytest.mark.parametrize("command", ["run", "chat"])
def test_an_option_without_an_effect_is_refused(agent: str, command: str, option: str) -> None:
    question = ["Book."] if command == "run" else []
    done = holdfast(command, *question, "--agent", agent, option, said="")
    name = option.partition("=")[0]
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"holdfast: {name}: has no effect with --agent. Write it into")


def test_the_model_of_the_environment_is_no_option(agent: str) -> None:
    done = holdfast("run", "Book.", "--agent", agent, env={"HOLDFAST_MODEL": "openai:other"})
    assert done.returncode == 0
