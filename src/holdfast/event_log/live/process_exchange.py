"""Connects the runs and readers of this process with those of the other processes of a journal.

A process sends a run only while another one wants it. When the link is down, readers are woken by
the records of the journal. This module must never decide what a reader sees.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import TypeAlias, TypeVar

from msgspec import Raw

from holdfast.core.errors import HoldfastError
from holdfast.event_log.live.change_feed import MOST_SESSIONS
from holdfast.event_log.live.live_run import LiveRun
from holdfast.event_log.live.relay import (
    ActAsked,
    ActDone,
    Changed,
    ItemsShown,
    LimitsTold,
    LinkMessage,
    ListWanted,
    Mirror,
    Present,
    Relay,
    RunBegun,
    RunEnded,
    TextTold,
    Wanted,
    Woken,
    decode_message,
    encode_message,
)
from holdfast.event_log.live.session_watch import SessionWatch
from holdfast.journal.live_link import LARGEST_MESSAGE, OpenLink
from holdfast.resilience.system_clock import new_run_id
from holdfast.sessions.session_index import SessionIndex

SECONDS_WANTED = 30.0
"""How long a run is sent after another process has wanted it."""

_SECONDS_BETWEEN_WISHES = 5.0
_SECONDS_BETWEEN_CHANGES = 0.5
_MOST_UNSENT = 2_000
_USES_AT_ONCE = 40  # each has less than 150 bytes

_log = logging.getLogger("holdfast.event_log")

T = TypeVar("T")

NoteLink: TypeAlias = Callable[[bool], None]
"""Is called on the event loop with whether messages of other processes arrive."""

NoteLimits: TypeAlias = Callable[[str, Sequence[Raw]], None]

Name: TypeAlias = tuple[str, str]
"""A tenant and a session."""


class TenantRuns:
    """The runs of one tenant that this process drives, or that others send.

    Args:
        tenant: the tenant.
        journal: its journal.
        watch: its readers.
        find_live: finds a run that this process drives.
        look_for_acts: performs the acts for a run that this process drives.
    """

    def __init__(
        self,
        tenant: str,
        journal: SessionIndex,
        watch: SessionWatch,
        find_live: Callable[[str], LiveRun | None],
        look_for_acts: Callable[[str], None],
    ) -> None:
        self.tenant = tenant
        self.journal = journal
        self.watch = watch
        self.find_live = find_live
        self.look_for_acts = look_for_acts


class LiveExchange:
    """The link of this process, and the messages that it sends and receives.

    Args:
        open_link: opens the link, such as `open_link` of the journal.
        note_link: is called when the link is lost or found, until the exchange is closed.
    """

    def __init__(self, open_link: OpenLink, note_link: NoteLink) -> None:
        self._loop = asyncio.get_running_loop()
        self._note_link_outside = note_link
        self._is_closed = False
        self._me = new_run_id()
        self._tenants: dict[str, TenantRuns] = {}
        self._wanted: dict[Name, float] = {}
        self._relays: dict[Name, tuple[Relay, asyncio.Task[None]]] = {}
        self._mirrors: dict[Name, Mirror] = {}
        self._wishes: dict[Name, float] = {}
        self._results: dict[str, asyncio.Event] = {}
        self._unsent: deque[LinkMessage] = deque()
        self._woken: set[Name] = set()
        self._wanted_lists: dict[str, float] = {}
        self._changed: set[Name] = set()
        self._telling: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None
        self._peer_heard_at = -SECONDS_WANTED
        self.note_limits: NoteLimits = _ignore_limits
        """Is called with the use of endpoints by another process: its id, and its uses."""
        self.link = open_link(self._receive_in_thread, self._note_link_in_thread)

    @property
    def is_up(self) -> bool:
        """Whether messages of other processes arrive."""
        return self.link.is_up

    def add_tenant(self, runs: TenantRuns) -> None:
        """Connect the runs of a tenant."""
        self._tenants[runs.tenant] = runs
        runs.watch.on_wake = lambda session: self._note_change(runs, session)
        runs.watch.on_record = lambda session: self._note_record(runs.tenant, session)
        runs.watch.on_end = lambda: self._drop_ended(runs)
        runs.watch.feed.on_reader.append(lambda: self._want_list(runs.tenant))

    def find_mirror(self, tenant: str, session: str) -> LiveRun | None:
        """Return a run that another process drives, if that process sends it."""
        mirror = self._mirrors.get((tenant, session))
        return mirror.live if mirror is not None and mirror.is_ready else None

    def want(self, tenant: str, session: str) -> None:
        """Ask the process that drives a run to send it, unless that was just asked."""
        name, now = (tenant, session), monotonic()
        last = self._wishes.get(name, -_SECONDS_BETWEEN_WISHES)
        if self.has_peers and now - last >= _SECONDS_BETWEEN_WISHES:
            self._wishes[name] = now
            self._send(Wanted(self._me, *name))

    @property
    def has_peers(self) -> bool:
        """Whether another process was heard of lately."""
        return monotonic() - self._peer_heard_at < SECONDS_WANTED

    def announce_act(self, tenant: str, session: str) -> None:
        """Notify the driver of a run that there is an act for it."""
        self._send(ActAsked(self._me, tenant, session))

    def announce_result(self, tenant: str, session: str, act: str) -> None:
        """Notify whoever asked for an act that it has a result."""
        self._send(ActDone(self._me, tenant, session, act))

    def send_limits(self, uses: Sequence[Raw]) -> None:
        """Send the use of endpoints to the other processes. An empty list asks them for their uses."""
        for first in range(0, max(len(uses), 1), _USES_AT_ONCE):
            self._send(LimitsTold(self._me, "", "", tuple(uses[first : first + _USES_AT_ONCE])))

    def expect_result(self, act: str) -> asyncio.Event:
        """Return an event that is set when an act has a result."""
        return self._results.setdefault(act, asyncio.Event())

    def forget_result(self, act: str) -> None:
        """Expect the result of an act no longer."""
        self._results.pop(act, None)

    def tidy(self) -> None:
        """Ask again for the runs and lists that readers follow, and forget the others; called regularly."""
        self._send(Present(self._me, "", ""))
        now = monotonic()
        self._tidy_lists(now)
        for name, mirror in list(self._mirrors.items()):
            if mirror.is_broken or not mirror.live.readers:
                self._drop_mirror(name)
            else:
                self.want(*name)
        for name, until in list(self._wanted.items()):
            if now > until:
                del self._wanted[name]
                self._stop_relay(name)
        for name, at in list(self._wishes.items()):
            if now - at > SECONDS_WANTED:
                del self._wishes[name]

    def _tidy_lists(self, now: float) -> None:
        for runs in self._tenants.values():
            if runs.watch.feed.has_readers:
                self._want_list(runs.tenant)
        for tenant, until in list(self._wanted_lists.items()):
            if now > until:
                del self._wanted_lists[tenant]

    def close(self) -> None:
        """Stop sending and receiving."""
        self._is_closed = True
        self.link.close()
        if self._telling is not None:
            self._telling.cancel()
        for name in list(self._relays):
            self._stop_relay(name)
        for name in list(self._mirrors):
            self._drop_mirror(name)

    def _note_change(self, runs: TenantRuns, session: str) -> None:
        """Notify others that a session of this process has changed, and send its run if one wants it."""
        name = (runs.tenant, session)
        if self.has_peers:
            self._woken.add(name)
            self._begin_sending()
        live = runs.find_live(session)
        if live is not None:
            self._drop_mirror(name)
            if name in self._wanted:
                self._begin_relay(name, live)

    def _want_list(self, tenant: str) -> None:
        self._send(ListWanted(self._me, tenant, ""))

    def _note_record(self, tenant: str, session: str) -> None:
        """Notify others that records were saved, if they show lists; some times a second at most."""
        if tenant not in self._wanted_lists or self._is_closed:
            return
        self._changed.add((tenant, session))
        if self._telling is None:
            self._telling = self._loop.call_later(_SECONDS_BETWEEN_CHANGES, self._send_changed)

    def _send_changed(self) -> None:
        self._telling = None
        counts = Counter(tenant for tenant, _ in self._changed)
        for tenant, session in self._changed:
            if counts[tenant] <= MOST_SESSIONS:
                self._send(Changed(self._me, tenant, session))
        for tenant, count in counts.items():
            if count > MOST_SESSIONS:  # they are too many to be named by the readers of lists
                self._send(Changed(self._me, tenant, ""))
        self._changed.clear()

    def _begin_relay(self, name: Name, live: LiveRun) -> None:
        known = self._relays.get(name)
        if known is None or known[0].is_over:
            relay = Relay((self._me, *name), live, self._send)
            self._relays[name] = (relay, asyncio.create_task(relay.run()))
        self._relays[name][0].send_all()

    def _stop_relay(self, name: Name) -> None:
        known = self._relays.pop(name, None)
        if known is not None:
            known[1].cancel()

    def _drop_mirror(self, name: Name) -> None:
        mirror = self._mirrors.pop(name, None)
        if mirror is not None:
            mirror.close()

    def _drop_ended(self, runs: TenantRuns) -> None:
        """Show no more items of the sessions whose streams end in this process."""
        for tenant, session in list(self._mirrors):
            if tenant == runs.tenant and runs.watch.has_ended(session):
                self._drop_mirror((tenant, session))

    def _send(self, message: LinkMessage) -> None:
        if len(self._unsent) < _MOST_UNSENT:
            self._unsent.append(message)
        self._begin_sending()

    def _begin_sending(self) -> None:
        if self._sending is None or self._sending.done():
            self._sending = self._loop.create_task(self._send_all())

    async def _send_all(self) -> None:
        while self._unsent or self._woken:
            for tenant, session in self._woken:
                self._unsent.append(Woken(self._me, tenant, session))
            self._woken.clear()
            messages = [encode_message(message) for message in self._unsent]
            self._unsent.clear()
            try:
                await self.link.send(
                    [text for text in messages if len(text.encode()) <= LARGEST_MESSAGE]
                )
            except HoldfastError as error:
                _log.info("messages to other processes are lost: %s", error)

    def _receive_in_thread(self, text: str) -> None:
        message = decode_message(text)
        if message is not None and (message.sender != self._me or isinstance(message, ActDone)):
            self._call_soon(self._receive, message)

    def _note_link_in_thread(self, is_up: bool) -> None:  # REASON: a callback
        self._call_soon(self._note_link, is_up)

    def _call_soon(self, callback: Callable[[T], None], value: T) -> None:
        """Call back on the event loop; nobody is left to be notified when that is closed."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, value)

    def _note_link(self, is_up: bool) -> None:  # REASON: a callback
        """Let all readers look again, since messages were lost."""
        if not self._is_closed:
            self._note_link_outside(is_up)
        if is_up:
            self._send(Present(self._me, "", ""))
        else:
            for name in list(self._mirrors):
                self._drop_mirror(name)
        self._wishes.clear()
        for runs in self._tenants.values():
            runs.watch.feed.note_all()
            for session in runs.watch.sessions:
                runs.watch.wake_here(session)

    def _receive(self, message: LinkMessage) -> None:
        runs = self._tenants.get(message.tenant)
        if message.sender != self._me:
            if not self.has_peers:
                self._send(Present(self._me, "", ""))  # so that the other one knows this process
            self._peer_heard_at = monotonic()
        if isinstance(message, ActDone):
            done = self._results.get(message.act)
            if done is not None:
                done.set()
        elif isinstance(message, LimitsTold):
            self.note_limits(message.sender, message.uses)
        elif isinstance(message, ListWanted):
            self._wanted_lists[message.tenant] = monotonic() + SECONDS_WANTED
        elif runs is not None and not isinstance(message, Present):
            self._hear_of_session(runs, message)

    def _hear_of_session(
        self,
        runs: TenantRuns,
        message: Woken | Changed | Wanted | ActAsked | RunBegun | TextTold | ItemsShown | RunEnded,
    ) -> None:
        if isinstance(message, Changed) and not message.session:
            runs.watch.feed.note_sessions()
        elif isinstance(message, Changed):
            runs.watch.feed.note_session(message.session)
        elif isinstance(message, Woken):
            self._hear_change(runs, message.session)
        elif isinstance(message, Wanted):
            self._hear_wish(runs, message.session)
        elif isinstance(message, ActAsked):
            runs.look_for_acts(message.session)
        else:
            self._hear_of_run(runs, message)

    def _hear_change(self, runs: TenantRuns, session: str) -> None:
        name = (runs.tenant, session)
        self._wishes.pop(name, None)
        if name in self._mirrors:
            self.want(*name)  # another run may be in progress now
        runs.watch.wake_here(session)

    def _hear_wish(self, runs: TenantRuns, session: str) -> None:
        name = (runs.tenant, session)
        self._wanted[name] = monotonic() + SECONDS_WANTED
        live = runs.find_live(session)
        if live is not None and not live.is_closed:
            self._begin_relay(name, live)

    def _hear_of_run(
        self, runs: TenantRuns, message: RunBegun | TextTold | ItemsShown | RunEnded
    ) -> None:
        name = (message.tenant, message.session)
        mirror = self._mirrors.get(name)
        if isinstance(message, RunBegun):
            if mirror is not None and mirror.run == message.run and not mirror.is_broken:
                return
            is_read = runs.watch.has_readers(message.session) or mirror is not None
            if not is_read or runs.watch.has_ended(message.session):
                return  # nobody reads it here
            self._drop_mirror(name)
            mirror = self._mirrors[name] = Mirror(message, runs.journal)
        elif mirror is None or mirror.run != message.run:
            return
        elif isinstance(message, TextTold):
            mirror.add_text(message)
        elif isinstance(message, ItemsShown):
            mirror.add_items(message)
            if mirror.is_broken:
                self._drop_mirror(name)
        else:
            self._drop_mirror(name)
        runs.watch.wake_here(message.session)


def _ignore_limits(_sender: str, _uses: Sequence[Raw]) -> None:
    """Nobody shares limits."""
