"""`holdfast replay` counted every change of a session as a turn, and also turns that had been rewound."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from holdfast import Agent, SqliteJournal
from holdfast.cli.main import main
from holdfast.testing import ScriptedModel


async def talk(path: Path) -> int:
    """Number 3 is rewound by 4, and 6 sums up; how many turns the session has."""
    with SqliteJournal(path) as journal:
        agent = Agent(ScriptedModel("One.", "Two.", "Three.", "Four."), journal=journal)
        for said in ("one", "two", "three"):
            await agent.run(said, session="ada")
        await agent.sessions.rename("ada", "Numbers")
        await agent.sessions.rewind("ada", 2)
        await agent.run("four", session="ada")
        await agent.sessions.compact("ada", keep=1, summary="They counted.")
        return (await agent.sessions.info("ada")).turns


def test_a_replay_numbers_turns_as_sessions_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "talk.db"
    turns = asyncio.run(talk(path))
    assert main(["replay", str(path), "ada"]) == 0
    first, *blocks = capsys.readouterr().out.split("\n\n")
    assert first == f"run ada: {turns} turns, 14 records"
    heads = [block.splitlines()[0] for block in blocks]
    names = ["turn 1", "turn 2", "turn 3", "change 4", "turn 5", "change 6"]
    assert [head.partition("  ")[0] for head in heads] == names
    assert [head.endswith(" (rewound)") for head in heads] == [False, False, True, *[False] * 3]
    assert main(["replay", str(path), "ada", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["turns"]
    counted = [one for one in found if one.get("counts", True) and "kind" not in one]
    assert len(counted) == turns
    assert main(["replay", str(path), "ada", "--turn", "7"]) == 2
    assert "there is no turn 7; the last is 6" in capsys.readouterr().err
