import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from apps.terminal.tests.tools.workbench import Workbench

from adh.storage.places import find_places
from adh.storage.process_notes import describe_own_process
from adh.tools.process_end import RunningCommands, find_processes
from adh.tools.tools_context import Leftovers, make_tools_context, remove_leftovers

pytestmark = pytest.mark.slow  # kills processes

PROGRAM = """
import asyncio, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from apps.terminal.tests.tools.workbench import Workbench
bench = Workbench(Path(sys.argv[1]))
asyncio.run(bench.call("execute_command", command="setsid sleep 401 & echo > started; sleep 402"))
"""
ROOT = Path(__file__).parents[4]


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_a_killed_program_left_running_is_ended_at_the_next_start(tmp_path: Path) -> None:
    places = find_places({"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}, tmp_path)
    context = make_tools_context(places, {})
    place = places.data
    place.mkdir(parents=True)
    command = [sys.executable, "-c", PROGRAM, str(place), str(ROOT)]
    with subprocess.Popen(command, cwd=ROOT) as process:
        wait_for(place / "project" / "started")
        (note,) = (place / "running").iterdir()
        assert remove_leftovers(context) == Leftovers()  # it still runs
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        # Nobody has asked yet how it ended, so its number is still in use.
        assert Path(f"/proc/{process.pid}/stat").read_text().split(") ")[1][0] == "Z"
        assert len(find_processes(-1, note.stem)) >= 2
        assert remove_leftovers(context).processes >= 2
    assert find_processes(-1, note.stem) == ()
    assert list((place / "running").iterdir()) == []
    assert remove_leftovers(context) == Leftovers()


async def test_a_note_is_there_only_while_its_command_runs(bench: Workbench) -> None:
    notes = bench.root.parent / "running"
    ended = await bench.call_json("execute_command", command="ls ../running")
    assert len(ended["stdout"].split()) == 1
    assert list(await asyncio.to_thread(os.listdir, notes)) == []


async def test_without_a_note_no_command_starts(bench: Workbench) -> None:
    (bench.root.parent / "running").touch()
    text = await bench.call("execute_command", command="touch started")
    assert text.startswith(
        "StorageError: nothing was done, because a file of the program is not a folder."
    )
    assert not (bench.root / "started").exists()


def test_a_note_of_this_process_or_a_torn_one_harms_nobody(tmp_path: Path) -> None:
    (tmp_path / "ours.json").write_text(json.dumps(describe_own_process()))
    (tmp_path / "torn.json").write_text('{"pro')
    (tmp_path / "odd.json").write_text("[]")
    assert RunningCommands(tmp_path).end_abandoned() == 0
    assert [path.name for path in tmp_path.iterdir()] == ["ours.json"]
