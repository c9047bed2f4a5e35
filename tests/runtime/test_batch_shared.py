"""A batch that two processes run at once, with a journal that they share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.slow  # starts processes

PROGRAM = """
import asyncio, sys
from pathlib import Path
from holdfast import Agent, tool
from holdfast.testing import ScriptedModel

log = Path(sys.argv[2])

def book(room: str) -> str:
    with log.open("a") as file:
        file.write(room + "\\n")
    return f"{room} is booked"

async def answer(request):
    await asyncio.sleep(0.01)
    return '{"room": "%s"}' % request.messages[0].text

async def main():
    agent = Agent(ScriptedModel(*[answer] * 200), name="hotel", output=book)
    rooms = [f"room {number}" for number in range(30)]
    result = await agent.map(rooms, journal=sys.argv[1], parallel=4)
    print(result.outputs == [f"{room} is booked" for room in rooms], result.failures)

asyncio.run(main())
"""


@pytest.mark.timeout(120)
def test_each_item_runs_once_and_both_have_all_results(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    program, log = tmp_path / "program.py", tmp_path / "booked.txt"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), postgres.new_url(), str(log)]
    both = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in both:
        said, problems = process.communicate(timeout=100)
        assert said.split() == ["True", "()"], problems
    booked = log.read_text().splitlines()
    assert sorted(booked) == sorted({f"room {number}" for number in range(30)})
