"""A saved failure of a connection that was refused became `RefusedError`: the model had refused nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.server.processes import free_port

from adh.transcript.outcome import OutcomeKind, describe_failure
from holdfast import Agent, SqliteJournal
from holdfast.core.errors import RefusedError, TransportError, exception_for
from holdfast.testing import FakeClock


async def test_what_is_saved_of_it_says_what_the_turn_said(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "talk.db") as journal:
        address = f"http://127.0.0.1:{free_port()}/v1"
        agent = Agent("openai:x", base_url=address, api_key="k", journal=journal, clock=FakeClock())
        with pytest.raises(TransportError) as caught:
            await agent.run("Hi.", session="s")
    saved = caught.value.info
    assert saved.code == "connection_refused"
    again = exception_for(saved)
    assert isinstance(again, TransportError)
    assert not isinstance(again, RefusedError)
    outcome = describe_failure(saved)
    assert outcome.kind is OutcomeKind.FAILED
    assert "declined" not in outcome.text
