"""A message and its answer: one turn for each message, however often it is sent.

The state of the server decides who answers; a client's word about steps does not count. This module
must never word a reply.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from itertools import count

import msgspec
from msgspec import Struct

from holdfast.client import TurnView
from holdfast.errors import SessionBusyError
from holdfast.server import AcceptedTurn, Service
from registration.club.codes import read_code
from registration.club.progress import Progress
from registration.flow.agents import AGAIN, GENERAL, NEW
from registration.flow.answers import Answer, make_answer
from registration.flow.conversations import (
    Conversation,
    read_conversation,
    to_conversation,
)
from registration.flow.parts import Parts
from registration.flow.photo_verdicts import find_open_photo
from registration.flow.registration_hooks import REGISTRATION
from registration.http.problems import TRY_AGAIN, Problem
from registration.photos.submitting import RECEIVED, STILL_CHECKING
from registration.store import Transaction
from registration.store.messages import (
    Message,
    NewMessage,
    digest_text,
    find_message,
    find_same_text,
    save_answer,
    save_message,
)
from registration.store.photo_jobs import PhotoJob
from registration.store.sessions import Session, load_session

Metadata = Mapping[str, str | int]
USUAL: Metadata = {"call_type": REGISTRATION}
SAME_TEXT_SECONDS = 60.0
_POLL = 0.05
_UNKNOWN = "There is no such conversation."


class Sent(Struct, frozen=True):
    """A message that was accepted.

    Args:
        message: as it is stored; `message.turn` names its turn to the client.
        turn: the turn; None if the answer is stored already.
    """

    message: Message
    turn: AcceptedTurn | None


class Chat:
    """Answers messages.

    Args:
        parts: the parts that the conversations work with.
        service: drives the turns.
    """

    def __init__(self, parts: Parts, service: Service) -> None:
        self._parts = parts
        self._service = service

    async def send(
        self, owner: Session, text: str, message_id: str | None, metadata: Metadata = USUAL
    ) -> Sent:
        """Accept a message; one that was sent before is not answered twice.

        Args:
            owner: the session, as it was when the message came.
            text: the message of the parent.
            message_id: the client's name for the message; None counts the same text within a minute
                and at the same step as the same message.
            metadata: the metadata of the turn: `call_type` names its calls in the metrics, and
                `answers_turn` the question that the parent has seen.

        Raises:
            Problem: the id belongs to another text, or the session stays busy.
            DatabaseUnavailable: nothing was accepted.
            HoldfastError: nothing was accepted.
        """
        session, conversation = owner.id, to_conversation(owner)
        message = await self._save(session, text, message_id, conversation)
        if message.answer is not None:
            return Sent(message, None)
        agent = choose_agent(conversation.progress, text, self._parts.settings.season)
        turn = await self._start(message, agent, text, metadata)
        await self._check_known(session)
        return Sent(message, turn)

    async def _check_known(self, session: str) -> None:
        """Delete the words of a message that was accepted while its session was forgotten."""
        if await self._parts.database.read(lambda tx: load_session(tx, session)) is None:
            await self._service.cancel(session, by="parent")
            await self._service.sessions.delete(session)
            raise Problem("not_found", _UNKNOWN)

    async def _save(
        self, session: str, text: str, message_id: str | None, conversation: Conversation
    ) -> Message:
        now, progress = self._parts.now(), conversation.progress
        step = None if progress is None else progress.step
        turn, name = secrets.token_urlsafe(16), message_id or secrets.token_urlsafe(16)

        def work(tx: Transaction) -> Message:
            if load_session(tx, session) is None:  # it was forgotten since the request came
                raise Problem("not_found", _UNKNOWN)
            photo = find_open_photo(tx, session)
            if photo is not None:
                return _answer_about_photo(tx, photo, NewMessage(session, name, turn, text), now)
            if message_id is None:
                same = find_same_text(tx, session, text, step, now - SAME_TEXT_SECONDS)
                if same is not None:
                    return same
            return save_message(tx, NewMessage(session, name, turn, text, step), now)[0]

        saved = await self._parts.database.transact(work)
        if saved.text_digest != digest_text(session, text):
            raise Problem("invalid", "message_id: it belongs to another message already.")
        return saved

    async def _start(
        self, message: Message, agent: str, text: str, metadata: Metadata
    ) -> AcceptedTurn:
        """Start the turn of a message, or find it; a turn that failed is followed by another."""
        end = time.monotonic() + self._parts.settings.busy_seconds
        for number in count():
            request = make_request(message, number)
            known = await self._service.find_request(request)
            if known is not None:
                view = await self._service.read(known.session, known.number)
                if view.status in _FAILED:
                    continue
                return known
            while True:
                try:
                    return await self._service.start(
                        agent,
                        text,
                        session=message.session_id,
                        request=request,
                        metadata={**metadata, "message": message.message_id},
                    )
                except SessionBusyError:
                    if time.monotonic() >= end:
                        raise Problem(
                            "busy", "I am still answering your last message.", 2.0
                        ) from None
                    await asyncio.sleep(_POLL)
        raise AssertionError("the numbers do not end")

    async def find_turn(self, message: Message) -> AcceptedTurn | None:
        """Return the last turn that was begun for a message; None before the first."""
        found = None
        for number in count():
            known = await self._service.find_request(make_request(message, number))
            if known is None:
                break
            found = known
        return found

    async def wait(self, sent: Sent, seconds: float) -> Answer:
        """Return the answer to a message.

        Args:
            sent: the accepted message.
            seconds: the longest time to wait.

        Raises:
            Problem: the turn failed, or takes longer; it can be asked for again.
        """
        if sent.turn is None:
            return msgspec.convert(sent.message.answer, Answer)
        view = await self._service.wait(sent.turn, seconds=seconds)
        if view.status in ("running", "open"):
            raise Problem("unavailable", "This takes a little longer.", 2.0)
        if view.status in _FAILED:
            raise Problem("unavailable", TRY_AGAIN, find_retry_after(view))
        return await self._find_answer(sent, view)

    async def _find_answer(self, sent: Sent, view: TurnView) -> Answer:
        """Return the answer that the turn has saved; one that could not be saved is made again."""
        session, name = sent.message.session_id, sent.message.message_id
        saved = await self._parts.database.read(lambda tx: find_message(tx, session, name))
        if saved is not None and saved.answer is not None:
            return msgspec.convert(saved.answer, Answer)
        output = view.output if isinstance(view.output, dict) else {}
        return make_answer(session, view.agent, output, view.text)


def _answer_about_photo(tx: Transaction, photo: PhotoJob, new: NewMessage, now: float) -> Message:
    """Store a message that comes while a photo is checked, with its answer; or find it.

    It is stored without a step: when the photo is checked, the same words are another message.
    """
    saved, is_new = save_message(tx, new, now)
    if not is_new:
        return saved
    progress = read_conversation(tx, new.session_id).progress
    agent = choose_agent(progress, new.text, "")
    output = {"routine_number": progress.step} if progress is not None and agent == NEW else {}
    text = (
        photo.message if photo.state == "queued" and photo.message != RECEIVED else STILL_CHECKING
    )
    answer = make_answer(new.session_id, agent, output, text)
    save_answer(tx, new.session_id, new.message_id, msgspec.to_builtins(answer))
    return find_message(tx, new.session_id, new.message_id) or saved


def make_request(message: Message, number: int) -> str:
    """Return the idempotency key of a turn: of a message, and of how many turns failed before."""
    return f"{message.session_id}/{message.message_id}/{number}"


_FAILED = ("failed", "limit", "cancelled", "stopped")


def choose_agent(progress: Progress | None, text: str, season: str) -> str:
    """Return who answers a message.

    Args:
        progress: the registration that is open, or None.
        text: the message.
        season: the season, as in codes.

    >>> choose_agent(None, "200-lions-u10-2526", "2526"), choose_agent(None, "Hello", "2526")
    ('new_registration', 'universal')
    """
    if progress is not None:
        return NEW if progress.code.kind == "200" else AGAIN
    if read_code(text, season, ()) is None:
        return GENERAL
    return NEW if text.strip().startswith("200") else AGAIN


def find_retry_after(view: TurnView) -> float:
    """Return after how many seconds a message is sent again."""
    asked = None if view.error is None else view.error.retry_after
    return min(asked or 5.0, 60.0)
