"""Journals that were recorded once replay to the same messages for ever."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from holdfast.core.effects import effect_digest
from holdfast.core.events import TurnClosed
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import Message
from holdfast.core.session_state import Phase
from holdfast.journal.encoding import decode, encode, record_of, to_line

JOURNALS = Path(__file__).parent / "journals"
NAMES = sorted(file.stem for file in JOURNALS.glob("*.jsonl"))


def test_there_are_some() -> None:
    assert {"answer", "answer-checked", "changes", "failures", "tools"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_journal_replays_to_the_same_messages(name: str) -> None:
    machine = SessionMachine()
    for line in (JOURNALS / f"{name}.jsonl").read_bytes().splitlines():
        record = record_of(decode(line))
        if record.digest:
            planned = {effect.key: effect_digest(effect) for effect in machine.pending_effects()}
            assert planned[record.event.key] == record.digest
        machine.apply(record.event)
    wanted = msgspec.json.decode(
        (JOURNALS / f"{name}.messages.json").read_bytes(), type=list[Message]
    )
    assert list(machine.transcript) == wanted
    assert machine.phase is Phase.IDLE


@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_is_written_again_without_loss(name: str) -> None:
    for text in (JOURNALS / f"{name}.jsonl").read_bytes().splitlines():
        line = decode(text)
        again = decode(encode(to_line(line.run, line.seq, record_of(line))))
        assert record_of(again) == record_of(line)


def test_recorded_costs_add_up_to_the_same_sums() -> None:
    machine, found = SessionMachine(), []
    for line in (JOURNALS / "costs.jsonl").read_bytes().splitlines():
        record = record_of(decode(line))
        machine.apply(record.event)
        if isinstance(record.event, TurnClosed):
            found.append((str(machine.cost), machine.status.value))
    assert found == [
        ("at least 0.00240435 USD", "completed"),  # sound has no price
        ("0.00094675 USD", "completed"),
        ("0.00030135 USD", "limit"),
    ]


def test_a_journal_without_costs_has_none() -> None:
    machine = SessionMachine()
    for line in (JOURNALS / "failures.jsonl").read_bytes().splitlines():
        machine.apply(record_of(decode(line)).event)
    assert machine.usage.total
    assert machine.cost is None
