"""Worker processes over one journal, turns for them, and what is wrong after they were disturbed."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from tests.postgres_server import PostgresServer
from tests.worker.paying_worker import Deed, Ledger, PayingSettings, make_agent

from holdfast import PostgresJournal
from holdfast.core.errors import HoldfastError
from holdfast.core.events import Status, ToolFinished, TurnClosed, TurnOpened
from holdfast.journal.inbox.inbox_errors import QueueFullError
from holdfast.journal.inbox.opening_inbox import open_inbox
from holdfast.runtime.queued_runs.queued_run import QueuedRun

PROGRAM = [sys.executable, "-m", "tests.worker.paying_worker"]

_AUDIT = """
CREATE TABLE audit (n bigserial PRIMARY KEY, at float8 NOT NULL, act bigint DEFAULT txid_current(), entry bigint NOT NULL, tenant text NOT NULL,
  session text NOT NULL, request text NOT NULL, before text NOT NULL, after text NOT NULL, owner_before text NOT NULL,
  owner text NOT NULL);
CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO audit (at, entry, tenant, session, request, before, after, owner_before, owner)
    VALUES (extract(epoch FROM clock_timestamp()), NEW.id, NEW.tenant, NEW.session, NEW.request, '', NEW.state, '', '');
  ELSIF NEW.state <> OLD.state OR NEW.worker <> OLD.worker THEN
    INSERT INTO audit (at, entry, tenant, session, request, before, after, owner_before, owner)
    VALUES (extract(epoch FROM clock_timestamp()), NEW.id, NEW.tenant, NEW.session, NEW.request, OLD.state, NEW.state,
      OLD.worker, NEW.worker);
  END IF;
  RETURN NULL; END $$;
CREATE TRIGGER note_change AFTER INSERT OR UPDATE ON holdfast_inbox FOR EACH ROW
  EXECUTE FUNCTION note_change();
"""
"""Whatever happens to an entry is noted in the transaction that does it."""


class Change(Struct, frozen=True):
    """A change of an entry.

    Args:
        number: its number; changes of different transactions may be mixed.
        at: when it was made, by the clock of the server.
        act: the number of the transaction that made it.
        entry: the number of the entry.
        tenant: its tenant.
        session: its session.
        order: its request, which is what the turn is about.
        before: its state before; "" when it was submitted.
        after: its state from now on.
        owner_before: the worker that had it; "" for none.
        owner: the worker that has it.
    """

    number: int
    at: float
    act: int
    entry: int
    tenant: str
    session: str
    order: str
    before: str
    after: str
    owner_before: str
    owner: str


def watch_inbox(postgres: PostgresServer, url: str) -> None:
    """Begin to note every change of the inbox."""
    with PostgresJournal(url) as journal:
        asyncio.run(open_inbox(journal).read_limits())  # its tables are there now
    for statement in (_AUDIT,):
        postgres.rows(url, statement)


def read_changes(postgres: PostgresServer, url: str) -> list[Change]:
    """Return every change so far."""
    text = "SELECT n, at, act, entry, tenant, session, request, before, after, owner_before, owner FROM audit ORDER BY n"
    return [_to_change(row) for row in postgres.rows(url, text)]


def _to_change(row: Sequence[object]) -> Change:
    number, at, *others = row
    act, entry = int(str(others[0])), int(str(others[1]))
    return Change(int(str(number)), float(str(at)), act, entry, *map(str, others[2:]))


@contextmanager
def serve_model(seconds: float) -> Iterator[str]:
    """Serve the model in a process of its own; yield its address."""
    process = subprocess.Popen([*PROGRAM, "model", str(seconds)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


class WorkerProcess:
    """A worker in a process of its own.

    Args:
        settings: its settings.
        log: the file of what it logs.
    """

    def __init__(self, settings: PayingSettings, log: Path) -> None:
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [*PROGRAM, msgspec.json.encode(settings).decode()],
                stdout=subprocess.PIPE,
                stderr=out,
            )
        self.id = ""
        self.ended_at = float("inf")

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    async def wait_until_begun(self) -> Self:
        """Wait until it works, or was killed before."""
        self.id = await asyncio.to_thread(self._read_id)
        return self

    def _read_id(self) -> str:
        assert self._process.stdout is not None
        try:
            return self._process.stdout.readline().decode().strip()
        except ValueError:  # it is closed
            return ""

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()
        self._note_end()

    def _note_end(self) -> int:
        code = self._process.wait(60)
        self.ended_at = time.monotonic()
        if self._process.stdout is not None:
            self._process.stdout.close()  # after whoever reads it, for whom it has ended
        return code

    async def stop(self) -> int:
        """Tell it to stop, and return its exit code."""
        self.send(signal.SIGTERM)
        return await asyncio.to_thread(self._note_end)


class WorkerCluster:
    """Some workers: `async with WorkerCluster(settings, folder, 4) as cluster`.

    Args:
        settings: their settings.
        folder: where they log.
        count: how many.
    """

    def __init__(self, settings: PayingSettings, folder: Path, count: int) -> None:
        self.settings = settings
        self._folder = folder
        self._count = count
        self.workers: list[WorkerProcess] = []
        self.ended: list[WorkerProcess] = []
        self.kills = 0

    def start_one(self, settings: PayingSettings | None = None) -> WorkerProcess:
        """Start one more worker."""
        worker = WorkerProcess(settings or self.settings, self._folder / "workers.log")
        self.workers.append(worker)
        return worker

    async def __aenter__(self) -> Self:
        started = [self.start_one() for _ in range(self._count)]
        await asyncio.gather(*(worker.wait_until_begun() for worker in started))
        return self

    async def __aexit__(self, *_: object) -> None:
        for worker in list(self.workers):
            self.kill(worker)

    def kill(self, worker: WorkerProcess) -> None:
        """Kill a worker."""
        worker.kill()
        self._forget(worker)

    def _forget(self, worker: WorkerProcess) -> None:
        self.workers.remove(worker)
        self.ended.append(worker)

    async def replace(self, worker: WorkerProcess) -> None:
        """Kill a worker and start another one; return when it works."""
        self.kill(worker)
        self.kills += 1
        await self.start_one().wait_until_begun()

    async def stop(self, worker: WorkerProcess) -> int:
        """Tell a worker to stop, and return its exit code."""
        code = await worker.stop()
        self._forget(worker)
        return code

    async def kill_regularly(self, seconds: float, rng: random.Random) -> None:
        """Kill one worker after another, and start others in their place, until cancelled.

        On a slow machine a worker that has not begun yet is left alone, and so is the last one.
        """
        async with asyncio.TaskGroup() as starting:
            while True:
                await asyncio.sleep(seconds)
                begun = [worker for worker in self.workers if worker.id]
                if len(begun) > 1:
                    starting.create_task(self.replace(rng.choice(begun)))

    def find_log(self) -> str:
        """Return what the workers logged."""
        path = self._folder / "workers.log"
        return path.read_text() if path.exists() else ""


class Load:
    """Turns of some tenants and sessions, submitted one after another within a session.

    Args:
        settings: the settings of the workers.
        turns: how many turns.
        tenants: how many tenants.
        turns_of_session: how many turns each session has.
    """

    def __init__(
        self, settings: PayingSettings, turns: int, tenants: int, turns_of_session: int
    ) -> None:
        self.settings = settings
        self.orders: dict[tuple[str, str], list[str]] = defaultdict(list)
        for number in range(turns):
            tenant, round_ = f"t{number % tenants}", number // tenants
            session = f"s{round_ // turns_of_session}"
            self.orders[tenant, session].append(f"{tenant}/{session}/{round_ % turns_of_session}")
        self.runs: dict[str, QueuedRun[str]] = {}
        self.turns = turns

    async def submit(self) -> None:
        """Submit all turns, as fast as the inbox takes them."""
        agent = make_agent(self.settings)
        limit = asyncio.Semaphore(8)

        async def submit_session(tenant: str, session: str, orders: Sequence[str]) -> None:
            for order in orders:
                async with limit:
                    self.runs[order] = await self._submit_one(agent, tenant, session, order)

        async with asyncio.TaskGroup() as group:
            for (tenant, session), orders in self.orders.items():
                group.create_task(submit_session(tenant, session, orders))

    async def _submit_one(
        self, agent: object, tenant: str, session: str, order: str
    ) -> QueuedRun[str]:
        while True:
            try:
                return await agent.submit(  # type: ignore[attr-defined, no-any-return]
                    order, session=session, tenant=tenant, request=order
                )
            except QueueFullError as error:
                await asyncio.sleep(error.info.retry_after or 1.0)
            except HoldfastError:
                await asyncio.sleep(0.2)


async def wait_until_over(postgres: PostgresServer, url: str, turns: int, seconds: float) -> None:
    """Wait until at least so many turns are over; the server may be away meanwhile."""
    end = time.monotonic() + seconds
    text = "SELECT state, count(*) FROM holdfast_inbox GROUP BY state"
    states: dict[object, object] = {}
    while time.monotonic() < end:
        try:
            states = dict(await asyncio.to_thread(postgres.rows, url, text))  # type: ignore[arg-type]
        except Exception:  # noqa: BLE001  # REASON: the server is away
            await asyncio.sleep(0.5)
            continue
        over = sum(int(str(states.get(state, 0))) for state in ("done", "failed", "dropped"))
        if over >= turns:
            return
        await asyncio.sleep(0.2)
    raise TimeoutError(f"not done: {states}")


def find_waits(
    changes: Sequence[Change], worker: str, at: float, writing: Collection[str]
) -> list[float]:
    """Return how long the turns of a worker waited for the next one after it was told to stop.

    Args:
        changes: every change of the inbox.
        worker: the worker.
        at: when it was told to stop, by the clock of the server.
        writing: the orders whose writing tool ran then; they are left out.
    """
    owners: dict[int, str] = {}
    orders: dict[int, str] = {}
    for change in changes:
        if change.at <= at:
            owners[change.entry] = change.owner
            orders[change.entry] = change.order
    mine = {entry for entry, owner in owners.items() if owner == worker}
    waits: dict[int, float] = {}
    ended: set[int] = set()
    for change in changes:
        if change.entry in mine and change.at > at and change.entry not in ended | waits.keys():
            if change.owner not in ("", worker):
                waits[change.entry] = change.at - at
            elif change.after != "admitted":  # it ended before the worker did
                ended.add(change.entry)
    return [wait for entry, wait in waits.items() if orders[entry] not in writing]


def find_durations(changes: Sequence[Change]) -> list[float]:
    """Return how long the turns took that one worker alone had, from their begin to their end."""
    began: dict[int, Change] = {}
    found: list[float] = []
    for change in changes:
        if change.owner and change.owner != change.owner_before:
            began[change.entry] = change
        elif change.after == "done" and change.entry in began:
            begin = began.pop(change.entry)
            if begin.owner == change.owner_before:
                found.append(change.at - begin.at)
    return found


class Findings(Struct):
    """What was found after a load.

    Args:
        turns: how many turns ended well.
        in_doubt: how many payments were told as in doubt.
        looks: how often the reading tool ran.
        running: the largest number of turns at once, by tenant; "" for all.
        problems: what must not be.
    """

    turns: int = 0
    in_doubt: int = 0
    looks: int = 0
    running: dict[str, int] = {}
    problems: list[str] = []


async def check_load(load: Load, changes: Sequence[Change], caps: Mapping[str, int]) -> Findings:
    """Look for everything that must not be after a load.

    Args:
        load: the load; all its turns are over.
        changes: every change of the inbox.
        caps: the largest number of turns at once, of each tenant; "" for all.
    """
    found = Findings()
    ledger = Ledger(Path(load.settings.ledger))
    paid = Counter(deed.order for deed in ledger.read("pay"))
    found.looks = len(ledger.read("look"))
    with PostgresJournal(load.settings.journal, lease=load.settings.lease) as journal:
        for (tenant, session), orders in load.orders.items():
            await _check_session(journal.for_tenant(tenant), session, orders, paid, found)
        tenants = {tenant for tenant, _ in load.orders}
        for tenant in sorted(tenants):
            open_runs = [run.run for run in await journal.for_tenant(tenant).runs(turn_open=True)]
            found.problems += [f"{tenant}/{run} is open" for run in open_runs]
    found.running = count_running(changes)
    for tenant, most in found.running.items():
        if most > caps.get(tenant, most):
            found.problems.append(f"{tenant or 'all'} ran {most} at once")
    found.problems += find_wrong_order(changes)
    return found


async def _check_session(
    journal: PostgresJournal,
    session: str,
    orders: Sequence[str],
    paid: Mapping[str, int],
    found: Findings,
) -> None:
    events = [record.event for record in await journal.read(session)]
    requests = [event.request for event in events if isinstance(event, TurnOpened)]
    if requests != list(orders):
        found.problems.append(f"{journal.tenant}/{session} has {requests} instead of {orders}")
        return
    ends = [event for event in events if isinstance(event, TurnClosed)]
    found.turns += sum(event.status is Status.COMPLETED for event in ends)
    found.problems += [
        f"{journal.tenant}/{session} {event.key}: {event.status}"
        for event in ends
        if event.status is not Status.COMPLETED
    ]
    payments = [
        event for event in events if isinstance(event, ToolFinished) and event.result.name == "pay"
    ]
    if len(payments) != len(orders):
        found.problems.append(f"{journal.tenant}/{session} has {len(payments)} payments")
    for order, payment in zip(orders, payments, strict=False):
        is_in_doubt = payment.result.in_doubt
        found.in_doubt += is_in_doubt
        if paid[order] > 1 or (paid[order] == 0 and not is_in_doubt):
            found.problems.append(f"{order} was paid {paid[order]} times, in doubt: {is_in_doubt}")
        if payment.result.is_error and not is_in_doubt:
            found.problems.append(f"{order}: {payment.result.text}")


def count_running(changes: Sequence[Change]) -> dict[str, int]:
    """Return the largest number of admitted turns at once, by tenant, and of all as "".

    The changes are in the order in which the lock of the inbox let them happen.
    """
    now: Counter[str] = Counter()
    most: dict[str, int] = {}
    for change in changes:
        step = (change.after == "admitted") - (change.before == "admitted")
        for scope in ("", change.tenant):
            now[scope] += step
            most[scope] = max(most.get(scope, 0), now[scope])
    return most


def find_wrong_order(changes: Sequence[Change]) -> list[str]:
    """Return where a turn was admitted before an earlier one of its session was over."""
    problems: list[str] = []
    open_entries: dict[tuple[str, str], list[int]] = defaultdict(list)
    for change in changes:
        entries = open_entries[change.tenant, change.session]
        if not change.before:
            entries.append(change.entry)
        elif change.after == "admitted" and change.entry != min(entries):
            problems.append(f"{change.session}: {change.entry} before {min(entries)}")
        elif change.after in ("done", "failed", "dropped"):
            entries.remove(change.entry)
    return problems


def find_unfair(
    changes: Sequence[Change], after: int, few: str, many: str, cap: int | None
) -> list[str]:
    """Return where a turn of one tenant was admitted although the other one ran fewer and had one ready.

    Args:
        changes: every change of the inbox.
        after: the number of the change after which it is looked for; nothing is submitted then.
        few: the tenant that must not wait.
        many: the tenant whose turns are looked at.
        cap: how many turns each tenant may run.
    """
    states: Counter[tuple[str, str]] = Counter()
    problems: list[str] = []
    for _, group in groupby(changes, key=lambda change: change.act):
        act = list(group)
        for change in act:
            states[change.tenant, change.before] -= 1
            states[change.tenant, change.after] += 1
        if not any(change.tenant == many and _is_admitted(change) for change in act):
            continue
        if act[0].number <= after:
            continue
        ready, running = states[few, "ready"], states[few, "admitted"]
        # What was admitted together has no order: whoever was behind may have caught up to one less.
        if ready and running < min(cap or sys.maxsize, states[many, "admitted"] - 1):
            problems.append(
                f"{many} has {states[many, 'admitted']}, {few} {running} of {ready} more"
            )
    return problems


def _is_admitted(change: Change) -> bool:
    return change.after == "admitted" and change.before != "admitted"


def count_deeds_at_once(deeds: Sequence[Deed], ended: Mapping[int, float]) -> dict[str, int]:
    """Return the largest number of deeds at once, by tenant, by the times of the ledger.

    Args:
        deeds: the rows.
        ended: when each process ended; what it had not done by then ended with it.
    """
    steps: list[tuple[float, int, str]] = []
    for deed in deeds:
        tenant = deed.order.partition("/")[0]
        end = deed.ended if deed.ended is not None else ended.get(deed.process, float("inf"))
        steps += [(deed.began, 1, tenant), (end, -1, tenant)]
    now: Counter[str] = Counter()
    most: dict[str, int] = {}
    for _, step, tenant in sorted(steps):
        now[tenant] += step
        most[tenant] = max(most.get(tenant, 0), now[tenant])
    return most


def with_clock(settings: PayingSettings, path: Path, ahead: float) -> PayingSettings:
    """Return settings with a clock that is ahead by what the file says."""
    path.write_text(str(ahead))
    return replace(settings, clock=str(path))
