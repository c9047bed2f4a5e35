"""`Sessions`: everything that can be done with a conversation beside speaking in it.

Every change is one record that is appended, so it happened or it did not; two at the same time are
one change and one ConflictError. Nothing here may run a turn: that is `agent.run(session=...)`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from holdfast.core.argument_checks import check_callable, check_optional_callable, check_port
from holdfast.core.effects import turn_key
from holdfast.core.errors import ConfigurationError, ConflictError, SessionBusyError
from holdfast.core.events import HistoryCompacted, SessionRewound, SessionTitled
from holdfast.core.limits import check_count
from holdfast.core.session_state import Phase
from holdfast.journal.port import Journal, Record, RunLog, SharedJournal
from holdfast.sessions import overview, session_export
from holdfast.sessions.compaction import Pinned, Summarize, make_summary, plan_compaction
from holdfast.sessions.names import check_session_name, find_related_runs, new_name, title_run
from holdfast.sessions.overview import SessionInfo
from holdfast.sessions.search import SearchHit, search_sessions
from holdfast.sessions.session_history import History, Replay, fold_history
from holdfast.sessions.session_index import list_heads, to_index

HoldSession = Callable[[str], AbstractAsyncContextManager[RunLog]]
"""Keeps a session for one change: what it gives is where the change is appended."""


class Sessions:
    """The sessions of a journal.

    Get it as `agent.sessions`, where changes wait for the turn that is under way and a model makes
    the summaries; or make one for a journal that no agent of this process uses.

    Args:
        journal: where the sessions are.
        hold: keeps a session while it is changed.
        summarize: makes a summary when `compact` is given none.
        clock: seconds since the epoch.

    >>> import asyncio
    >>> from holdfast import Agent
    >>> from holdfast.testing import ScriptedModel
    >>> async def talk():
    ...     agent = Agent(ScriptedModel("Hello, Ada!"))
    ...     await agent.run("I am Ada.", session="ada")
    ...     for info in await agent.sessions.list():
    ...         print(info.session, info.title, info.turns, info.messages, info.status)
    >>> asyncio.run(talk())
    ada I am Ada. 1 2 closed
    """

    def __init__(
        self,
        journal: Journal,
        *,
        hold: HoldSession | None = None,
        summarize: Summarize | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        check_port("journal", journal, ("append", "read", "runs", "delete"), optional=False)
        check_optional_callable("hold", hold)
        check_optional_callable("summarize", summarize)
        check_callable("clock", clock)
        self._journal = to_index(journal)
        self._shared = journal if isinstance(journal, SharedJournal) else None
        self._hold = hold or self._claim_session
        self._summarize = summarize
        self._now = clock

    @asynccontextmanager
    async def _claim_session(self, session: str) -> AsyncIterator[RunLog]:
        if self._shared is None:
            yield self._journal  # one process only: of two appends with one key one is refused
            return
        lease = await self._shared.claim(session)
        try:
            yield lease
        finally:
            await lease.release()

    async def create(self, title: str, *, session: str | None = None) -> str:
        """Make an empty session with a title; returns its id.

        A session needs no making: it begins with its first turn. This is for one that is to be
        listed before anything is said.

        Args:
            title: for people.
            session: the id; without one, a new one.

        Raises:
            ConfigurationError: there is such a session already.
        """
        name = new_name() if session is None else check_session_name(session)
        _check_title(title)
        if await self._journal.read(name) or await self._journal.read(title_run(name)):
            raise _session_exists_error(name)
        await self.rename(name, title)
        return name

    async def list(
        self, *, limit: int = 50, before: SessionInfo | None = None
    ) -> Sequence[SessionInfo]:
        """The sessions, the one that changed last first.

        Args:
            limit: the most of them.
            before: the last one of the page before.
        """
        _check_count("limit", limit, at_least=1)
        found = await overview.list_entries(self._journal)
        if before is not None and not isinstance(before, SessionInfo):
            raise ConfigurationError("before", f"must be a SessionInfo, got {before!r}")
        if before is not None:
            last = (-before.changed_at, before.session)
            found = [entry for entry in found if (-entry.changed_at, entry.run) > last]
        return [await overview.info_of(self._journal, entry) for entry in found[:limit]]

    async def info(self, session: str) -> SessionInfo:
        """What a list shows of one session. Raises ConfigurationError for an unknown one."""
        for entry in await overview.list_entries(self._journal):
            if entry.run == session:
                return await overview.info_of(self._journal, entry)
        raise _unknown_session_error(session)

    async def read(self, session: str) -> History:
        """What a session holds: its messages, and its turns and changes with their numbers.

        Raises:
            ConfigurationError: there is no such session.
        """
        records = await self._journal.read(check_session_name(session))
        if not records and not await self._journal.read(title_run(session)):
            raise _unknown_session_error(session)
        return fold_history(records)

    async def search(self, text: str, *, limit: int = 20) -> Sequence[SearchHit]:
        """The latest places where something was said, whatever its case, also in titles.

        Turns that were rewound or compacted are looked at too. The time grows with the journal:
        there is no index, since that would be a second copy of what people said.

        Args:
            text: what was said, as one piece; line breaks count as spaces.
            limit: the most places.

        Raises:
            ConfigurationError: there is nothing to look for.
        """
        _check_count("limit", limit, at_least=1)
        return await search_sessions(self._journal, text, limit)

    async def fork(self, session: str, at: int | None = None, *, to: str | None = None) -> str:
        """Make another session that begins with this one's turns; returns its id.

        The session itself is not touched. The other one has copies of the records, so it goes on,
        replays and rewinds as this one does.

        Args:
            session: where to begin.
            at: the number of the last turn, or change, that the other one has; `read` shows them.
                Without one, all that are over.
            to: the other one's id; without one, a new one.

        Raises:
            ConfigurationError: there is no such session or number, or `to` exists.
        """
        name = new_name() if to is None else check_session_name(to, "to")
        records = await self._require_records(session)
        lengths = _count_records(records)
        number = len(lengths) - 1 if at is None else at
        _check_number("at", number, 1, len(lengths) - 1)
        await self._restore_runs({name: records[: lengths[number]]}, "to")
        return name

    async def rewind(self, session: str, to: int) -> int:
        """Go back: the turns after number `to` no longer count. Nothing is destroyed.

        The rewind has a number too, and no number is used twice: going back to one from before the
        rewind takes it back.

        Args:
            session: which.
            to: the number of a turn, or change, as `read` shows them; 0 for the beginning.

        Returns:
            The number of the rewind.

        Raises:
            ConfigurationError: there is no such session or number.
            SessionBusyError: its last turn is not over.
            ConflictError: something else happened in the session at the same time.
        """
        async with self._hold(check_session_name(session)) as log:
            machine = (await self._replay_idle(session)).machine
            _check_number("to", to, 0, machine.turn)
            number = machine.turn + 1
            await log.append(session, SessionRewound(turn_key(number), self._now(), to))
        return number

    async def compact(
        self,
        session: str,
        *,
        keep: int = 4,
        summary: str | Summarize | None = None,
        pinned: Pinned | None = None,
    ) -> int | None:
        """Let a summary stand for the older turns. The original stays in the journal.

        `rewind` to the number before takes it back.

        Args:
            session: which.
            keep: how many turns at the end stay as they are.
            summary: the text, or an async function of the messages that makes it; "" leaves the
                turns out. Without it, the model of `agent.sessions` makes one.
            pinned: whether a message, and with it its turn, stays as it is.

        Returns:
            The number of the compaction; None when there was nothing to take away.

        Raises:
            ConfigurationError: there is no such session, or nobody to make a summary.
            SessionBusyError: its last turn is not over.
            ConflictError: something else happened in the session at the same time.
        """
        _check_count("keep", keep, at_least=0)
        if pinned is not None and not callable(pinned):
            raise ConfigurationError("pinned", f"must be a function, got {pinned!r}")
        given = self._summarize if summary is None else summary
        async with self._hold(check_session_name(session)) as log:
            machine = (await self._replay_idle(session)).machine
            found = plan_compaction(machine.transcript, keep, pinned)
            if not found.removed:
                return None
            text = await make_summary(found.removed, given)
            number = machine.turn + 1
            event = HistoryCompacted(turn_key(number), self._now(), found.kept_ranges, text)
            await log.append(session, event)
        return number

    async def rename(self, session: str, title: str) -> None:
        """Give a session another title, also while a turn is under way. Its id stays.

        Raises:
            ConfigurationError: the title is empty.
            ConflictError: it got another title at the same time.
        """
        run = title_run(check_session_name(session))
        named = _check_title(title)
        key = turn_key(len(await self._journal.read(run)) + 1)
        await self._journal.append(run, SessionTitled(key, self._now(), named))

    async def delete(self, session: str) -> int:
        """Forget a session for good, with its titles and what agents did as tools of it.

        Forks of it are sessions of their own, and stay.

        Returns:
            How many records there were.

        Raises:
            ConfigurationError: there is no such session.
        """
        async with self._hold(check_session_name(session)):
            runs = [entry.run for entry in await list_heads(self._journal)]
            own = find_related_runs(session, runs)
            if session not in runs and not own:
                raise _unknown_session_error(session)
            gone = 0
            # The session itself goes last: until then it is listed, and can be deleted again.
            for run in [*own, *([session] if session in runs else ())]:
                gone += await self._journal.delete(run)
        return gone

    async def export(self, session: str) -> AsyncIterator[str]:
        """The session as lines of JSON, without line ends, that `import_` reads again exactly.

        Raises:
            ConfigurationError: there is no such session.
        """
        runs = [entry.run for entry in await list_heads(self._journal)]
        own = [
            run
            for run in (check_session_name(session), *find_related_runs(session, runs))
            if run in runs
        ]
        if not own:
            raise _unknown_session_error(session)
        kept = {run: await self._journal.read(run) for run in own}
        for line in session_export.export_lines(kept):
            yield line

    async def import_(
        self, given: Iterable[str], *, session: str | None = None, name: str = "import"
    ) -> str:
        """Take in a session that was exported; returns its id. All of it, or nothing.

        Args:
            given: the lines, such as an open text file.
            session: another id than the exported one.
            name: where the lines come from, for errors.

        Raises:
            JournalCorruptError: a line is damaged, missing or too many; the error names it.
            JournalVersionError: a newer Holdfast wrote it.
            ConfigurationError: there is such a session already.
        """
        if isinstance(given, str | bytes):
            raise ConfigurationError("given", "must be lines", fix="Give an open file, or a list")
        runs = session_export.import_lines(given, name)
        old = check_session_name(next(iter(runs), "").removesuffix("/:title"))
        new = old if session is None else check_session_name(session)
        strange = set(runs) - {old, *find_related_runs(old, runs)}
        if strange:
            raise ConfigurationError(
                "given", f"holds more than one session: {min(strange)!r} as well"
            )
        await self._restore_runs(
            {new + run[len(old) :]: kept for run, kept in runs.items()}, "session"
        )
        return new

    async def _restore_runs(self, runs: dict[str, Sequence[Record]], argument: str) -> None:
        first = next(iter(runs))
        there = {entry.run for entry in await list_heads(self._journal)}
        if there & {first, *runs, *find_related_runs(first, there)}:
            raise _session_exists_error(first, argument)
        try:
            await self._journal.restore(runs)
        except ConflictError as error:
            raise _session_exists_error(first, argument) from error

    async def _require_records(self, session: str) -> Sequence[Record]:
        records = await self._journal.read(check_session_name(session))
        if not records:
            raise _unknown_session_error(session)
        return records

    async def _replay_idle(self, session: str) -> Replay:
        """The session with its last turn over."""
        replay = Replay(await self._require_records(session))
        for _ in replay.records:
            replay.apply_next()
        if replay.machine.phase is not Phase.IDLE:
            raise SessionBusyError(
                session, "its last turn is not over; agent.resume(...) goes on with it"
            )
        return replay


def _count_records(records: Sequence[Record]) -> Sequence[int]:
    """How many records there are when each number is over, from number 0 on."""
    replay, lengths = Replay(records), [0]
    for count, _ in enumerate(records, 1):
        replay.apply_next()
        if replay.machine.phase is Phase.IDLE and len(lengths) <= replay.machine.turn:
            lengths.append(count)
    return lengths


def _check_count(argument: str, number: object, *, at_least: int) -> None:
    if number is None:
        raise ConfigurationError(argument, "must be a whole number, got None")
    check_count(argument, number, at_least=at_least)


def _check_number(argument: str, number: object, least: int, most: int) -> None:
    whole = isinstance(number, int) and not isinstance(number, bool)
    if not whole or not least <= number <= most:  # type: ignore[operator]  # a whole number
        numbers = f"from {least} to {most}" if most >= least else "of which there is none yet"
        raise ConfigurationError(
            argument, f"must be the number of a turn that is over, {numbers}, got {number!r}"
        )


def _check_title(given: object) -> str:
    if isinstance(given, str) and given.strip():
        return given
    raise ConfigurationError("title", f"must be a text that is not empty, got {given!r}")


def _unknown_session_error(session: str) -> ConfigurationError:
    return ConfigurationError(
        "session", f"there is no session {session!r}", fix="`list` shows those that there are"
    )


def _session_exists_error(session: str, argument: str = "session") -> ConfigurationError:
    return ConfigurationError(
        argument, f"there is a session {session!r} already", fix="Choose another id"
    )
