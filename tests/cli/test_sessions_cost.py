"""`holdfast sessions cost`: what the turns of a journal used and cost, by day, model or agent."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from holdfast import Agent, SqliteJournal
from holdfast.cli.main import main
from holdfast.core.errors import ErrorCategory, ErrorInfo, ProviderError
from holdfast.core.messages import Reply, Text, Usage
from holdfast.models import Prices
from holdfast.testing import ScriptedModel

PRICES = Prices({"dear": {"input": 10, "output": 100}, "cheap": {"input": 1, "output": 2}})


def reply(model: str, usage: Usage) -> Reply:
    return Reply((Text("Done."),), usage=usage, model=model)


async def talk(file: Path) -> None:
    info = ErrorInfo(category=ErrorCategory.AUTH_ERROR, safe="No.")
    partial = reply("dear", Usage(1000, 0))
    with SqliteJournal(file) as journal:
        failing = ScriptedModel(ProviderError("No.", info=info, partial=partial), name="a:dear")
        cheap = ScriptedModel(reply("cheap", Usage(1_000_000, 0)), name="b:cheap")
        one = Agent(failing, fallback=[cheap], name="one", journal=journal, prices=PRICES)
        await one.run("Go", session="a")
        model = ScriptedModel(reply("new", Usage(7, 0)), reply("cheap", Usage(1_000_000, 0)))
        two = Agent(model, name="two", journal=journal, prices=PRICES)
        await two.run("Go", session="b")
        await two.run("Go", session="b")
        free = Agent(ScriptedModel(reply("new", Usage(3, 0))), name="free", journal=journal)
        await free.run("Go", session="c")


@pytest.fixture
def path(tmp_path: Path) -> str:
    asyncio.run(talk(tmp_path / "talk.db"))
    return str(tmp_path / "talk.db")


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["sessions", "cost", *words]) == 0
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_costs_are_added_up_by_the_unit(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, path, "--by", "agent") == [
        "one 1 turn 1,001,000 in 0 out 1.01 USD",
        "two 2 turns 1,000,007 in 0 out at least 1 USD",
        "free 1 turn 3 in 0 out no prices",
    ]
    assert shown(capsys, path, "--by", "model") == [
        "cheap 2 turns 2,000,000 in 0 out 2 USD",
        "a:dear 1 turn 1,000 in 0 out 0.01 USD",
        "new 2 turns 10 in 0 out not known",
    ]
    (day,) = shown(capsys, path)
    assert day.endswith("4 turns 2,001,010 in 0 out at least 2.01 USD")


def test_json_has_exact_amounts(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = shown(capsys, path, "--by", "agent", "--json")
    found = json.loads(line)
    assert found["by"] == "agent"
    one = found["totals"][0]
    assert (one["name"], one["turns"], one["known"]) == ("one", 1, True)
    assert one["cost"] == {"amount": "1.01", "currency": "USD", "known": True}
    assert found["totals"][2]["cost"] is None


def test_a_journal_without_sessions_has_no_totals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    SqliteJournal(tmp_path / "new.db").close()
    assert shown(capsys, str(tmp_path / "new.db")) == []
    assert main(["sessions", "cost", str(tmp_path / "none.db")]) != 0
