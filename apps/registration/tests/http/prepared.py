"""Conversations that begin at a later step, so that a test of that step is quick."""

from __future__ import annotations

import datetime as dt
import secrets
import time

import msgspec
from apps.registration.tests.club.registrations import Parent
from msgspec.structs import replace

from registration.club.codes import RegistrationCode
from registration.flow.conversations import Conversation
from registration.http.running import Time
from registration.store import Database, Transaction
from registration.store.sessions import create_session, save_progress

_BEGINNING = dt.datetime(2025, 8, 1, 12, tzinfo=dt.UTC).timestamp()
_STARTED = time.monotonic()


async def no_wait(_seconds: float) -> None:
    """Wait not at all."""


BEFORE_SEASON = Time(lambda: _BEGINNING + time.monotonic() - _STARTED, no_wait)
"""The time of a test: a day before the season, which never waits for a model."""

LIONS = RegistrationCode("200", "Lions", "u10s", "2526")


async def prepare_session(
    database: Database, child: str, step: int, code: RegistrationCode = LIONS
) -> tuple[str, str]:
    """Store a conversation in which a step was just asked for; return its id and its token.

    Args:
        database: the database.
        child: the child's first name.
        step: the number of the step.
        code: the code that was typed.
    """
    parent = Parent(code).go_to(step)
    answers = {**parent.progress.answers, "child_name": {"first": child, "last": "Jones"}}
    conversation = Conversation(replace(parent.progress, answers=answers), parent.said)
    written = msgspec.json.encode(conversation).decode()
    session, token = secrets.token_urlsafe(16), secrets.token_urlsafe(16)

    def work(tx: Transaction) -> None:
        create_session(tx, session, token, "universal", time.time())
        save_progress(tx, session, written, 0, time.time())

    await database.transact(work)
    return session, token
