"""Finds and starts turns for protocols that name messages by ids of the client.

A message starts one turn, however often and from wherever it is sent: the request of the turn is a
digest of the message, and the journal accepts one turn for each request. This module must never take
a history from a client.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.core.client_tools import ClientTool
from holdfast.core.effects import turn_key
from holdfast.core.errors import ConflictError, SessionBusyError
from holdfast.core.events import SessionRewound, TurnOpened
from holdfast.core.messages import Message
from holdfast.core.turn_options import NO_OPTIONS
from holdfast.event_log.display.display_fold import DisplayFold
from holdfast.event_log.display.display_items import DisplayItem
from holdfast.event_log.live.last_turn import LastTurn
from holdfast.event_log.live.reading import TURN_RESTS, ReadingEnd
from holdfast.event_log.positions import Position
from holdfast.event_log.stream_items import EventItem
from holdfast.event_log.text_fold import turn_of_key
from holdfast.hosting.tenant_service import TenantService, new_act
from holdfast.hosting.turns.turn_runner import AcceptedTurn
from holdfast.runtime.arguments.run_keywords import RunKeywords
from holdfast.sessions.session_history import list_surviving_turns

MESSAGE_ID = "message_id"
"""The name of the client's id of the message in the metadata of its turn."""

_SECONDS_TO_CANCEL = 30.0
_TURN = re.compile(r"t(\d+)")
_encode = msgspec.json.Encoder(order="deterministic").encode


class OpenedTurn(Struct, frozen=True):
    """The beginning of a turn.

    Args:
        number: its number in the session.
        sequence: the number of records of the session before it.
        message: the message of the user.
        message_id: the client's id of the message; "" if there is none.
        counts: whether it was not rewound.
    """

    number: int
    sequence: int
    message: Message | None
    message_id: str = ""
    counts: bool = True


class TurnStart(Struct, frozen=True, kw_only=True):
    """The message that starts a turn, with its settings.

    Args:
        agent: the name of the agent.
        session: the session.
        message: the message of the user.
        message_id: the client's id of the message.
        replaces: the number of the turn that this one replaces; 0 if it replaces none.
        metadata: more metadata of the turn.
        tools: the tools that the client runs itself.
        instructions: a text after the instructions of the agent in this turn.
        by: who sends the message.
    """

    agent: str
    session: str
    message: Message
    message_id: str
    replaces: int = 0
    metadata: Mapping[str, object] = {}
    tools: tuple[ClientTool, ...] = ()
    instructions: str = ""
    by: str = ""

    @property
    def request(self) -> str:
        """The idempotency key of the turn: the message, or the turn that it replaces.

        So one turn replaces another, whatever several requests at the same time replace it by.
        """
        parts = (self.session, self.replaces or (self.message_id, self.message))
        return f"message-{blake2b(_encode(parts), digest_size=16).hexdigest()}"


async def list_turns(tenant: TenantService, session: str) -> list[OpenedTurn]:
    """Return the turns of a session, in order; also those that were rewound."""
    keys = await tenant.journal.keys(session)
    places = {key: place for place, key in enumerate(keys) if _TURN.fullmatch(key)}
    events = [record.event for record in await tenant.journal.read_by_keys(session, list(places))]
    rewinds = {turn_of_key(one.key): one.to for one in events if isinstance(one, SessionRewound)}
    counted = set(list_surviving_turns(len(events), rewinds))
    found = []
    for event in events:
        if isinstance(event, TurnOpened):
            metadata = (event.options or NO_OPTIONS).metadata
            name, number = metadata.get(MESSAGE_ID), int(event.key.removeprefix("t"))
            known = name if isinstance(name, str) else ""
            opened = OpenedTurn(number, places[event.key], event.message, known, number in counted)
            found.append(opened)
    return found


def find_message(turns: Sequence[OpenedTurn], message_id: str) -> OpenedTurn | None:
    """Return the latest turn that a message with this id of the client began."""
    for turn in reversed(turns):
        if turn.message_id == message_id:
            return turn
    return None


def user_message_id(session: str, turn: int, metadata: Mapping[str, object]) -> str:
    """Return the id of the message of a turn: the client's, or one of ours.

    Args:
        session: the session.
        turn: the turn.
        metadata: the metadata of the turn.
    """
    name = metadata.get(MESSAGE_ID)
    return name if isinstance(name, str) and name else f"{session}.t{turn}.user"


async def start_once(tenant: TenantService, new: TurnStart) -> OpenedTurn:
    """Start a turn, or return the one that this message has started before.

    Raises:
        SessionBusyError: another turn of the session is in progress.
        ConflictError: the turn was replaced by another message meanwhile.
        ConfigurationError: an argument is wrong.
    """
    if not new.replaces:
        return await _start(tenant, new)
    latest = await tenant.last_turn(new.session)
    known = await tenant.find_request(new.request)
    if known is None:
        await _go_back_once(tenant, new, latest)
    begun = await _start(tenant, new) if known is None else _to_opened(known, new)
    for record in await tenant.journal.read_by_keys(new.session, [turn_key(begun.number)]):
        if isinstance(record.event, TurnOpened) and record.event.message != new.message:
            raise ConflictError("the message was replaced by another one meanwhile")
    return begun


async def _start(tenant: TenantService, new: TurnStart) -> OpenedTurn:
    request = new.request
    keywords: RunKeywords[Any] = {
        "session": new.session,
        "request": request,
        "by": new.by,
        "metadata": {**new.metadata, MESSAGE_ID: new.message_id},
    }
    if new.tools:
        keywords["tools"] = new.tools
    if new.instructions:
        keywords["instructions"] = new.instructions
    try:
        accepted = await tenant.start(new.agent, new.message, **keywords)
    except (SessionBusyError, ConflictError):
        # The same message may have come twice at the same time.
        await tenant.runner.wait_accepted(new.session)
        known = await tenant.find_request(request)
        if known is None:
            raise
        accepted = known
    return _to_opened(accepted, new)


def _to_opened(accepted: AcceptedTurn, new: TurnStart) -> OpenedTurn:
    return OpenedTurn(accepted.number, accepted.sequence, new.message, new.message_id)


async def _go_back_once(tenant: TenantService, new: TurnStart, latest: LastTurn) -> None:
    """Rewind a session to before a turn, unless another request has done so to replace it.

    The rewind is an act with the request of the turn as its id. So one of several requests rewinds the
    session, whichever process they reach, and none cancels the turn that replaces: only the turn is
    cancelled that was the last one before the request was looked for.

    Args:
        tenant: the tenant.
        new: the message.
        latest: the last turn of the session, read before that.

    Raises:
        ConflictError: the session has changed meanwhile.
    """
    act = new_act("rewind", new.session, by=new.by, act_id=new.request, to=new.replaces - 1)
    if await tenant.journal.find_act(act.id) is not None:
        return
    if latest.status in ("running", "open", "waiting"):
        await tenant.cancel(new.session, by=new.by, turn=latest.turn)
        await tenant.runner.wait(new.session, _SECONDS_TO_CANCEL)
    try:
        sessions = tenant.sessions.with_act(act)
        await sessions.rewind(new.session, new.replaces - 1, by=new.by)
    except (SessionBusyError, ConflictError):
        if await tenant.journal.find_act(act.id) is None:
            raise


async def show_turn(
    tenant: TenantService,
    session: str,
    turn: OpenedTurn,
    after: int | None = None,
    *,
    counts_all: bool = True,
) -> AsyncGenerator[tuple[DisplayItem, str, bool]]:
    """Yield the items that a turn shows until it rests, with the position, and whether it is new to the reader.

    Args:
        tenant: the tenant.
        session: the session.
        turn: the turn.
        after: the number of records that the reader has seen; None shows the turn from its beginning.
        counts_all: whether the tokens at the end include those that the reader has seen.
    """
    fold, end = DisplayFold(session), ReadingEnd(turn.number, TURN_RESTS)
    entries = tenant.reader.follow(session, Position(turn.sequence), end)
    async with aclosing(entries):
        async for entry in entries:
            place = entry.position.sequence
            # At the place itself only its record was seen, and not the live items after it.
            is_seen = after is not None and (
                place < after or (place == after and isinstance(entry.item, EventItem))
            )
            for item in fold.feed(entry.item):
                yield item, fold.position, not is_seen
            if is_seen and not counts_all:
                fold.usage.clear()
