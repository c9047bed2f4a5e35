"""`chat` and `replay` had no `--tenant`, so they reached only the tenant without a name."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast import SqliteJournal
from holdfast.cli import options
from holdfast.cli.main import main
from holdfast.testing.journal_conformance import make_turn_opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "talk.db"
    with SqliteJournal(path) as journal:
        asyncio.run(journal.append("ada", make_turn_opened(1, "of nobody")))
        asyncio.run(journal.for_tenant("acme").append("ada", make_turn_opened(1, "of acme")))
    return path


def test_replay_shows_the_run_of_a_tenant(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(path), "ada", "--tenant", "acme"]) == 0
    assert "of acme" in capsys.readouterr().out
    assert main(["replay", str(path), "ada"]) == 0
    assert "of nobody" in capsys.readouterr().out
    assert main(["replay", str(path), "ada", "--tenant", "other"]) == 2
    assert "ada" in capsys.readouterr().err


def test_an_export_has_no_tenant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export = tmp_path / "ada.jsonl"
    export.write_text("")
    assert main(["replay", str(export), "--tenant", "acme"]) == 2
    assert "tenant" in capsys.readouterr().err


def test_chat_saves_in_the_tenant(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import argparse

    parser = argparse.ArgumentParser()
    options.add_model_arguments(parser)
    options.add_conversation_arguments(parser)
    words = ["--model", "ollama:llama3.2", "--journal", f"sqlite:///{path}", "--tenant", "acme"]
    agent = options.build_chat_agent(parser.parse_args(words))
    journal = agent._engine.session_pool.journal
    assert journal.tenant == "acme"
    assert isinstance(journal, SqliteJournal)
    journal.close()


def test_chat_refuses_a_tenant_without_a_journal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", "--model", "ollama:llama3.2", "--tenant", "acme"]) == 2
    assert "--tenant" in capsys.readouterr().err
