"""Reads a segment of a turn for a protocol: from the journal first, and then as it happens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager, aclosing, nullcontext
from typing import Any

from msgspec import Struct
from typing_extensions import Unpack

from holdfast.core.errors import ConfigurationError, SessionBusyError
from holdfast.core.events import Event
from holdfast.core.json_schema import JsonSchema
from holdfast.core.messages import Message
from holdfast.core.turn_options import NO_OPTIONS
from holdfast.event_log.live.reading import TURN_RESTS, ReadingEnd
from holdfast.event_log.positions import Position
from holdfast.event_log.stream_items import EndItem
from holdfast.event_log.text_fold import turn_of_key
from holdfast.hosting.bound_agents import plan_of
from holdfast.hosting.tenant_service import TenantService
from holdfast.hosting.turn_claims import HeldTurn
from holdfast.runtime.arguments.run_keywords import RunKeywords
from holdfast.server.api.idempotency import check_digest
from holdfast.server.problem_responses import ProblemError, make_problem
from holdfast.server.protocols.openai_shapes import REQUEST_KEY, SegmentName
from holdfast.server.protocols.segments import (
    Hold,
    SegmentedTurn,
    SegmentEnded,
    SegmentEvent,
    SegmentFold,
    split_turn,
)
from holdfast.server.protocols.session_turns import list_turns


class SavedTurn(Struct, frozen=True):
    """A turn as the journal has it.

    Args:
        before: the number of records of the session before it.
        events: its events so far.
        segmented: the turn in segments, as its caller gets it.
        hold: when its text is sent.
        latest: the number of the last turn or change of the session.
    """

    before: int
    events: tuple[Event, ...]
    segmented: SegmentedTurn
    hold: Hold
    latest: int


class TurnReading:
    """Reads the turns of a tenant for protocols of requests and responses.

    Args:
        tenant: the tenant.
        held: the turn that the request holds, if it has no idempotency key.
        may_repeat: whether the request gets the same turn if it is sent again.
        comes_back: whether its client can come back for the answer with another request. A process that
            stops serves any other to its end.
    """

    def __init__(
        self,
        tenant: TenantService,
        held: HeldTurn | None = None,
        *,
        may_repeat: bool = False,
        comes_back: bool = True,
    ) -> None:
        self._tenant = tenant
        self.held = held
        self.may_repeat = may_repeat or held is not None
        self.has_ended = False
        """Whether `follow` has yielded the end of its segment."""
        self._comes_back = comes_back

    def _holding(self, session: str | None) -> AbstractContextManager[None]:
        if self._comes_back or session is None:
            return nullcontext()
        return self._tenant.watch.holding(session)

    async def start(
        self,
        agent: str,
        message: Message,
        output: JsonSchema | None,
        **keywords: Unpack[RunKeywords[Any]],
    ) -> tuple[SegmentName, SavedTurn]:
        """Start a turn, or return the one that another call with the same request has started.

        Args:
            agent: the name of the agent.
            message: the message.
            output: the type of the output; None for that of the agent.
            keywords: as for `TenantService.start`.

        Raises:
            ProblemError: the request was used with another body.
        """
        key = keywords.get("request")
        try:
            with self._holding(keywords.get("session")):
                begun = await self._tenant.start(agent, message, output, **keywords)
        except (SessionBusyError, ConfigurationError):
            known = await self._tenant.find_request(key) if key else None
            if known is None:
                raise
            begun = known
        name = SegmentName(begun.session, begun.number)
        saved = await self.require_segment(name, "model")
        if key:
            check_same_request(saved, _find_digest(keywords.get("metadata")))
        return name, saved

    async def find_turn(self, session: str, turn: int) -> SavedTurn | None:
        """Return a turn as the journal has it; None if there is no such turn."""
        journal = self._tenant.journal
        keys = list(await journal.keys(session))
        before = next((at for at, key in enumerate(keys) if turn_of_key(key) == turn), None)
        if before is None:
            return None
        records = await journal.read(session, before)
        events = tuple(one.event for one in records if turn_of_key(one.event.key) == turn)
        return self._make_saved(before, events, max(map(turn_of_key, keys)))

    def _make_saved(self, before: int, events: tuple[Event, ...], latest: int) -> SavedTurn | None:
        told = split_turn(events, "accepted")
        if told is None:
            return None
        hold = self._find_hold(told)
        if hold == "output":
            told = split_turn(events, hold) or told
        return SavedTurn(before, events, told, hold, latest)

    async def list_turns(self, session: str) -> list[tuple[int, SavedTurn]]:
        """Return the turns of a session that were not rewound, with their numbers, in order."""
        counted = {one.number for one in await list_turns(self._tenant, session) if one.counts}
        events: dict[int, list[Event]] = {}
        for record in await self._tenant.journal.read(session):
            events.setdefault(turn_of_key(record.event.key), []).append(record.event)
        latest = max(events, default=0)
        found = ((turn, self._make_saved(0, tuple(events[turn]), latest)) for turn in events)
        return [(turn, saved) for turn, saved in found if saved is not None and turn in counted]

    def _find_hold(self, told: SegmentedTurn) -> Hold:
        """Return when text is sent: that of a typed output once it fits."""
        agent = told.opened.agent
        options = told.opened.options or NO_OPTIONS
        if options.output is not None or "output" in options.fingerprints:
            return "output"
        known = self._tenant.find_agent(agent)
        if known is not None and plan_of(known).output is not None:
            return "output"
        return "accepted" if agent in self._tenant.holding else "no"

    async def require_segment(self, name: SegmentName | None, field: str) -> SavedTurn:
        """Return the turn of a segment. Raises ProblemError with 404 if there is no such segment."""
        saved = None if name is None else await self.find_turn(name.session, name.turn)
        if name is None or saved is None or name.segment >= len(saved.segmented.segments):
            raise ProblemError(
                make_problem(404, "not_found", "There is no such response.", field=field)
            )
        return saved

    async def follow(
        self, name: SegmentName, saved: SavedTurn, *, is_streamed: bool = True
    ) -> AsyncIterator[SegmentEvent]:
        """Yield the events of a segment until it ends.

        Args:
            name: the segment.
            saved: its turn.
            is_streamed: whether text is sent before it is accepted.
        """
        hold = saved.hold if is_streamed or saved.hold != "no" else "accepted"
        fold = SegmentFold(name.segment, hold, saved.segmented.void)
        end = ReadingEnd(name.turn, TURN_RESTS)
        entries = self._tenant.reader.follow(name.session, Position(saved.before), end)
        with self._holding(name.session):
            async with aclosing(entries):
                async for entry in entries:
                    for told in fold.feed(entry.item):
                        self.has_ended = self.has_ended or type(told) is SegmentEnded
                        yield told
                    if fold.is_over:
                        return

    async def read(self, name: SegmentName, saved: SavedTurn) -> list[SegmentEvent]:
        """Return the events of a segment that the journal has, and do not wait for more."""
        hold = "accepted" if saved.hold == "no" else saved.hold
        fold = SegmentFold(name.segment, hold, saved.segmented.void)
        told: list[SegmentEvent] = []
        latest = await self._tenant.last_turn(name.session)
        async with aclosing(
            self._tenant.reader.read_saved(name.session, Position(saved.before))  # type: ignore[type-var]  # REASON: it is a generator
        ) as entries:
            async for entry in entries:
                told.extend(fold.feed(entry.item))
                if fold.is_over:
                    return told
        if latest.turn == name.turn and latest.status == "waiting":
            told.extend(fold.feed(EndItem("", "turn_ended")))
        return told


def check_same_request(saved: SavedTurn, digest: str) -> None:
    """Raise ProblemError if an idempotency key was used for a request with another body.

    Args:
        saved: the turn of the key.
        digest: the digest of the body.
    """
    options = saved.segmented.opened.options
    check_digest("" if options is None else _find_digest(options.metadata), digest)


def _find_digest(metadata: Mapping[str, object] | None) -> str:
    noted = (metadata or {}).get(REQUEST_KEY)
    return str(noted.get("body", "")) if isinstance(noted, Mapping) else ""
