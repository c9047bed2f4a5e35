"""An `append` that a test had replaced on one journal was not called."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import Agent, SqliteJournal
from holdfast.core.effects import Effect
from holdfast.core.events import Event
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio


async def test_it_is_asked_for_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    with SqliteJournal(tmp_path / "talk.db") as journal:
        append = journal.append

        async def counting(
            run: str, event: Event, effect: Effect | None = None, *, marker: Event | None = None
        ) -> None:
            seen.extend(one.key for one in (event, marker) if one is not None)
            await append(run, event, effect, marker=marker)

        monkeypatch.setattr(journal, "append", counting)
        await Agent(ScriptedModel("Hi."), journal=journal).run("Hello")
    assert seen == ["t1", "t1.i0.model", "t1.closed"]
