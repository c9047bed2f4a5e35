"""Drives one entry of the inbox: begins or continues its turn, and returns its outcome.

The journal decides: a turn with the request of the entry that has ended is not begun again. A turn that
fails here without an end in the journal, or that workers die of, is closed before its entry is over. This
module must never admit or begin an entry.
"""

from __future__ import annotations

import logging
import math
import time

from holdfast.core.effects import closed_key
from holdfast.core.errors import ConfigurationError, HoldfastError, SessionBusyError
from holdfast.core.events import Status, TurnClosed
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.hosting.tenant_service import TenantService
from holdfast.hosting.token_quota import TokenQuota
from holdfast.hosting.turns.turn_runner import AcceptedTurn, ShuttingDownError
from holdfast.journal.inbox.driving import NEVER, EntryOutcome
from holdfast.journal.inbox.entries import EntryState, InboxEntry
from holdfast.journal.inbox.inbox import Inbox
from holdfast.journal.inbox.queue_limits import QUOTA_REACHED
from holdfast.journal.inbox.submitting import SECONDS_OF_A_DAY
from holdfast.journal.journal_errors import JournalError
from holdfast.runtime.finalize import Parking
from holdfast.runtime.open_runs.recovery import read_time_to_continue
from holdfast.runtime.open_runs.turn_entries import find_entry_of_turn
from holdfast.runtime.queued_runs.queued_turn import decode_turn
from holdfast.telemetry.observers import SUBMITTED_AT

MOST_DELIVERIES = 20
"""How often an entry is begun that never ends, although no worker dies: it is postponed each time."""

SECONDS_TO_RETRY = 1.0
"""Seconds after which a turn is tried again whose session is busy."""

_LONGEST_PAUSE = 300.0

_log = logging.getLogger("holdfast.worker")


class EntryDriver:
    """Drives entries with the agents of this process.

    Args:
        tenants: the agents, for each tenant.
        quota: stops the turns of tenants that have used up their tokens.
        inbox: learns which turns are parked.
        most_deaths_alone: how many workers may die of a turn that is driven alone.
    """

    def __init__(
        self,
        tenants: ServiceTenants,
        quota: TokenQuota,
        inbox: Inbox,
        most_deaths_alone: int = 2,
    ) -> None:
        self._tenants = tenants
        self._quota = quota
        self._inbox = inbox
        self._most_deaths_alone = most_deaths_alone

    async def drive(self, entry: InboxEntry) -> EntryOutcome | None:
        """Begin or continue the turn of an entry; return its outcome when it rests.

        Returns:
            The outcome; None if another worker is to have the entry, since this one stops or lacks
            the agent.

        Raises:
            JournalError: the journal cannot be used now; the entry stays as it is.
        """
        tenant = self._tenants.for_tenant(entry.tenant)
        if tenant.find_agent(entry.agent) is None:
            return None
        try:
            why = self._find_reason_to_park(entry)
            if why:
                return await self._park(tenant, entry, why)
            return await self._begin_or_continue(tenant, entry)
        except ShuttingDownError:
            return None
        except SessionBusyError:
            return _wait_for_session(entry)
        except JournalError:
            raise
        except HoldfastError as error:
            text = error.info.safe
        except Exception as error:  # noqa: BLE001  # REASON: an agent's own error ends its turn only
            _log.error("a turn could not begin: %s", type(error).__name__)
            text = f"An unexpected {type(error).__name__}; the log of the worker has the details."
        return await self._fail(tenant, entry, text)

    def _find_reason_to_park(self, entry: InboxEntry) -> str:
        """Return why nobody is to drive an entry any more; "" if there is no reason."""
        if entry.parking:  # whoever said so has died since
            return entry.parking
        if entry.cancelled_by is not None:
            return ""
        if entry.deaths_alone >= self._most_deaths_alone:
            deaths = entry.deaths + entry.deaths_alone
            return (
                f"{deaths} workers died while they drove it, the last {entry.deaths_alone} of them"
                " with no other turn."
            )
        if entry.deliveries > MOST_DELIVERIES:
            return f"It was begun {MOST_DELIVERIES} times and never ended."
        return ""

    async def _park(self, tenant: TenantService, entry: InboxEntry, why: str) -> EntryOutcome:
        """Close the turn of an entry, if the journal has it, and the entry with it.

        The inbox learns of it first, and its entry is over in the transaction that closes the turn. Whoever finds
        the entry in between goes on here.
        """
        known = await tenant.find_request(entry.request)
        if known is None:
            return EntryOutcome(state=EntryState.PARKED, error=why)
        last = await tenant.last_turn(known.session)
        owner = await find_entry_of_turn(self._inbox, tenant.journal, known.session, last.turn)
        if (
            owner is None or owner.id != entry.id
        ):  # another turn has begun since: this one is closed
            return await _read_end(tenant, known.session, known.number)
        if last.status == "running":
            return _wait_for_session(entry)
        if last.status not in ("open", "waiting"):
            return await _read_end(tenant, known.session, last.turn)
        if await self._inbox.park(entry.id, entry.worker, last.turn, why):
            _log.error("the turn %d of the queue is parked: %s", entry.id, why)
            await tenant.park(known.session, Parking(why, entry.deliveries))
        return EntryOutcome(state=EntryState.PARKED, turn=last.turn, error=why)

    async def _fail(self, tenant: TenantService, entry: InboxEntry, why: str) -> EntryOutcome:
        """Return that a turn failed. It is closed, should the journal have it open."""
        try:
            known = await tenant.find_request(entry.request)
            last = None if known is None else await tenant.last_turn(known.session)
            if last is not None and last.status in ("open", "waiting"):
                return await self._park(tenant, entry, why)
        except SessionBusyError:
            return _wait_for_session(entry)
        except JournalError:
            raise
        except HoldfastError as error:
            why = error.info.safe  # the journal has a turn that cannot be closed
        return EntryOutcome(state=EntryState.FAILED, error=why)

    async def _begin_or_continue(
        self, tenant: TenantService, entry: InboxEntry
    ) -> EntryOutcome | None:
        if entry.cancelled_by is None and await self._quota.is_used_up(entry.tenant):
            return _wait_for_next_day(entry, entry.turn)
        known = await tenant.find_request(entry.request)
        if known is not None:
            return await self._continue(tenant, entry, known)
        if entry.cancelled_by is not None:
            return EntryOutcome(state=EntryState.DROPPED)
        return await self._wait(tenant, entry, await self._begin(tenant, entry))

    async def _begin(self, tenant: TenantService, entry: InboxEntry) -> AcceptedTurn:
        turn = decode_turn(entry.body)
        token = SUBMITTED_AT.set(entry.created_at)  # for the task of the turn, which copies it
        try:
            return await tenant.begin_new(
                entry.agent,
                turn.message,
                turn.output,
                session=entry.session,
                request=entry.request,
                **turn.make_keywords(),
            )
        finally:
            SUBMITTED_AT.reset(token)

    async def _continue(
        self, tenant: TenantService, entry: InboxEntry, known: AcceptedTurn
    ) -> EntryOutcome | None:
        """Continue a turn that the journal has, unless it has ended."""
        session = known.session
        if not tenant.runner.is_driven(session):
            last = await tenant.last_turn(session)
            if entry.cancelled_by is not None:
                await tenant.cancel(session, by=entry.cancelled_by, turn=last.turn)
            elif last.status == "running":  # another process drives it
                return _wait_for_session(entry)
            elif last.status in ("open", "waiting"):
                if await is_answered(tenant, session):
                    tenant.runner.recover(session, tenant.agent(entry.agent))
            elif last.status in ("failed", "limit") and entry.turn:  # somebody wants it tried again
                tenant.runner.resume(session, await tenant.agent_of(session))
        return await self._wait(tenant, entry, known)

    async def _wait(
        self, tenant: TenantService, entry: InboxEntry, turn: AcceptedTurn
    ) -> EntryOutcome | None:
        """Wait until a turn rests, and return its state in the journal."""
        driven = tenant.runner.find(turn.session)
        await tenant.runner.wait(turn.session)
        is_left = driven is not None and driven.is_left
        was_crowded = await self._quota.settle(entry.tenant, turn.session)
        last = await tenant.last_turn(turn.session)
        if last.status in ("open", "running"):
            if tenant.runner.is_closing:
                return None
            if await self._quota.is_used_up(entry.tenant):
                return _wait_for_next_day(entry, last.turn)
            if was_crowded:  # the quota left the turn, and not a quarantine
                return _wait_for_session(entry, last.turn)
            if is_left:
                return None
            seconds = min(SECONDS_TO_RETRY * 2.0 ** min(entry.deliveries, 9), _LONGEST_PAUSE)
            return EntryOutcome(state=EntryState.POSTPONED, turn=entry.turn, retry_after=seconds)
        if last.status == "waiting":
            at = await _time_to_continue(tenant, turn.session)
            due_at = NEVER if at == math.inf else max(at, 0.0)
            return EntryOutcome(state=EntryState.WAITING, turn=last.turn, due_at=due_at)
        return await _read_end(tenant, turn.session, last.turn)


async def _read_end(tenant: TenantService, session: str, turn: int) -> EntryOutcome:
    for record in await tenant.journal.read_by_keys(session, [closed_key(turn)]):
        event = record.event
        if isinstance(event, TurnClosed):
            error = event.error.safe if event.error is not None else ""
            has_failed = event.status in (Status.FAILED, Status.LIMIT)
            state = EntryState.FAILED if has_failed else EntryState.DONE
            return EntryOutcome(state=state, turn=turn, error=error)
    raise ConfigurationError("session", f"the turn {turn} of {session!r} was rewound")


async def is_answered(tenant: TenantService, session: str) -> bool:
    """Whether a turn that waits can go on: an answer came, or it is too late for one."""
    return await _time_to_continue(tenant, session) <= tenant.clock.now()


async def _time_to_continue(tenant: TenantService, session: str) -> float:
    return await read_time_to_continue(tenant.journal, session)


def _wait_for_next_day(entry: InboxEntry, turn: int) -> EntryOutcome:
    """Let the turn of a tenant that has used up its tokens go on when the day ends."""
    now = time.time()
    due_at = now - now % SECONDS_OF_A_DAY + SECONDS_OF_A_DAY
    return EntryOutcome(
        state=EntryState.POSTPONED, turn=turn or entry.turn, error=QUOTA_REACHED, due_at=due_at
    )


def _wait_for_session(entry: InboxEntry, turn: int = 0) -> EntryOutcome:
    return EntryOutcome(
        state=EntryState.POSTPONED,
        turn=turn or entry.turn,
        retry_after=SECONDS_TO_RETRY,
        was_busy=True,
    )
