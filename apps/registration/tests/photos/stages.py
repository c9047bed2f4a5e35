"""Conversations that have come to a step, without the chat that leads there."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
from apps.registration.tests.club.registrations import (
    NEW,
    OUTCOMES,
    TODAY,
    answer_of,
    read,
)

from registration.club.codes import RegistrationCode
from registration.club.journey import begin, finish_effect, take
from registration.club.progress import Progress, Said
from registration.flow.conversations import Conversation
from registration.store import Database, Transaction, open_database
from registration.store.registrations import NewRegistration, Player, save_registration
from registration.store.sessions import load_session, save_progress


def walk_to(step: int, registration: str, code: RegistrationCode = NEW) -> tuple[Progress, Said]:
    """The state of a conversation that has come to a step, with a record of this id."""
    stored = walk_to(34, "of last season")[0].answers if code.kind == "100" else None
    progress, said = begin(code, stored)
    saved = {"saved": True, "registration": registration}
    while progress.step != step or progress.pending is not None:
        if progress.pending is None:
            progress, said = take(progress, read(answer_of(progress)), TODAY)
        else:
            outcome = {**OUTCOMES, "save_registration": saved}[progress.pending]
            progress, said = finish_effect(progress, progress.pending, outcome)
    return progress, said


async def reach_step(
    database: Database, session: str, step: int = 34, code: RegistrationCode = NEW
) -> str:
    """Let a session come to a step, with its record; return the id of the record."""
    record = f"record-of-{session}"
    progress, said = walk_to(step, record, code)
    player = Player(code.season, code.team, code.age_group, "Jack", "Jones", session)
    new = NewRegistration(
        id=record,
        session_id=session,
        type=code.kind,
        code=code.text,
        player=player,
        answers=dict(progress.answers),
        payment_day=15,
        fee_pence=4500,
        monthly_pence=2750,
    )
    written = msgspec.json.encode(Conversation(progress, said)).decode()

    def work(tx: Transaction) -> None:
        saved = load_session(tx, session)
        assert saved is not None
        save_registration(tx, new, time.time())
        save_progress(tx, session, written, saved.version, time.time())

    await database.transact(work)
    return record


async def reach_step_in(folder: Path, session: str, **where: int | RegistrationCode) -> str:
    """As `reach_step`, in the database of a club that is served from a folder."""
    database = await open_database(f"sqlite:///{folder}/club.db")
    try:
        return await reach_step(database, session, **where)  # type: ignore[arg-type]
    finally:
        await database.close()
