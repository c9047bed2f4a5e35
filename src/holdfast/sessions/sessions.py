"""`Sessions`: lists, searches, changes and moves the conversations of a journal.

Every change is one appended record, so it is complete or absent. Of two changes at the same time,
one raises ConflictError. A compaction keeps or removes a turn as a whole, so that no tool call loses its
result; the caller passes the function that writes the summary. Turns are run by
`agent.run(session=...)`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from typing import TypeAlias

import msgspec
from msgspec import Struct

from holdfast.core.acts import Act
from holdfast.core.argument_checks import check_arguments, check_value
from holdfast.core.constraints import NonNegativeInt, PositiveInt
from holdfast.core.effects import TITLES, RunTool, effect_digest, interrupted_key, turn_key
from holdfast.core.errors import ConfigurationError, ConflictError, NoTextError, SessionBusyError
from holdfast.core.events import (
    Event,
    HistoryCompacted,
    QuestionAnswered,
    QuestionAsked,
    QuestionUnanswered,
    SessionRewound,
    SessionTitled,
    TurnClosed,
    TurnInterrupted,
    TurnOpened,
)
from holdfast.core.messages import Message
from holdfast.core.question_log import asked_key
from holdfast.core.session_state import Phase
from holdfast.journal.encoding import corrupt_record
from holdfast.journal.journal_errors import RequestExistsError
from holdfast.journal.port import Journal, Record, RunLog, SharedJournal
from holdfast.journal.readable_events import make_readable
from holdfast.journal.retention import Retention
from holdfast.resilience.system_clock import new_nonce
from holdfast.sessions import overview, session_export
from holdfast.sessions.names import (
    check_session_name,
    check_title,
    find_related_runs,
    find_turn_number,
    new_name,
    title_run,
)
from holdfast.sessions.overview import SessionInfo
from holdfast.sessions.pruning import HoldSession, PruneResult, Pruning
from holdfast.sessions.search import SearchHit, search_sessions
from holdfast.sessions.session_history import History, Replay, fold_history
from holdfast.sessions.session_index import to_index

Summarize: TypeAlias = Callable[[Sequence[Message]], Awaitable[str]]
"""An async function from messages to their summary."""

Pinned: TypeAlias = Callable[[Message], bool]
"""A function that says whether a message, and so its whole turn, is kept."""


class Sessions:
    """The sessions of a journal.

    With `agent.sessions`, changes wait for a running turn, and the agent's model writes summaries.
    Create `Sessions` directly for a journal that no agent of this process uses.

    Args:
        journal: the journal of the sessions.
        hold: reserves a session while it is changed.
        summarize: writes a summary if `compact` is called without one.
        clock: returns the time in seconds since the epoch.

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

    @check_arguments
    def __init__(
        self,
        journal: Journal,
        *,
        hold: HoldSession | None = None,
        summarize: Summarize | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._journal = to_index(journal)
        self._shared = journal if isinstance(journal, SharedJournal) else None
        self._hold = hold or self._claim_session
        self._summarize = summarize
        self._now = clock
        self._act: Act | None = None

    def with_act(self, act: Act) -> Sessions:
        """Return the same sessions; the next change that is made through them saves an act with it.

        The act and the change are saved in one transaction, so each is there if the other is.

        Args:
            act: who makes the change, and which; `rewind` and `compact` add the number of the change to it, and
                `import_` the session.
        """
        sessions = copy(self)
        sessions._act = act  # noqa: SLF001  # REASON: an object of this class
        return sessions

    async def _append(self, log: RunLog, session: str, event: Event, **details: object) -> None:
        """Append a change, with the act that makes it."""
        event = make_readable(event)
        if self._act is None:
            await log.append(session, event)
        else:
            await log.append(session, event, act=self._act.with_details(**details))

    @asynccontextmanager
    async def _claim_session(self, session: str) -> AsyncIterator[RunLog]:
        if self._shared is None:
            yield self._journal  # one process only: the second append of a key is refused
            return
        lease = await self._shared.claim(session)
        try:
            yield lease
        finally:
            await lease.release()

    async def create(self, title: str, *, session: str | None = None, by: str = "") -> str:
        """Create an empty session with a title; return its id.

        This is only needed to list a session before its first turn, since a turn creates its
        session.

        Args:
            title: the title.
            session: the id; default: a new one.
            by: who gives the title; it is saved.

        Raises:
            ConfigurationError: the session already exists.
        """
        name = new_name() if session is None else check_session_name(session)
        check_title(title)
        if await self._journal.read(name) or await self._journal.read(title_run(name)):
            raise _session_exists_error(name)
        await self.rename(name, title, by=by)
        return name

    async def list(
        self, *, limit: int = 50, before: SessionInfo | None = None
    ) -> Sequence[SessionInfo]:
        """List the sessions, the latest change first.

        Args:
            limit: the maximum number of sessions.
            before: the last session of the previous page.
        """
        check_value("limit", limit, PositiveInt)
        check_value("before", before, SessionInfo | None)
        return list(map(overview.make_info, await overview.list_rows(self._journal, limit, before)))

    async def info(self, session: str) -> SessionInfo:
        """Describe one session. Raises ConfigurationError if it does not exist."""
        row = await overview.find_row(self._journal, session)
        if row is None:
            raise _unknown_session_error(session)
        return overview.make_info(row)

    async def read(self, session: str) -> History:
        """Read the messages of a session, and its turns and changes with their numbers.

        Raises:
            ConfigurationError: the session does not exist.
        """
        records = await self._journal.read(check_session_name(session))
        if not records and not await self._journal.read(title_run(session)):
            raise _unknown_session_error(session)
        return fold_history(records)

    async def search(self, text: str, *, limit: int = 20) -> Sequence[SearchHit]:
        """Find the latest messages and titles that contain a text, in upper or lower case.

        The search includes rewound and compacted turns. Its time grows with the journal, because
        there is no index: an index would be a second copy of the messages.

        Args:
            text: the text to find, as one string; line breaks count as spaces.
            limit: the maximum number of results.

        Raises:
            ConfigurationError: the text is blank or too long.
        """
        check_value("limit", limit, PositiveInt)
        return await search_sessions(self._journal, text, limit)

    async def fork(self, session: str, at: int | None = None, *, to: str | None = None) -> str:
        """Copy a session, or its turns up to a number, to a new session; return the new id.

        The original session does not change. The records are copied, so the new session continues,
        replays and rewinds as the original does. Only permissions that somebody gave or denied for later calls
        are not copied, because an answer is for one session.

        Args:
            session: the id of the original session.
            at: the number of the last turn or change to copy, as in `read`; default: all turns that
                have ended.
            to: the id of the new session; default: a new id.

        Raises:
            ConfigurationError: the session or number does not exist, or `to` exists.
        """
        name = new_name() if to is None else check_session_name(to, "to")
        records = await self._require_records(session)
        lengths = _count_records(records)
        number = len(lengths) - 1 if at is None else at
        _check_number("at", number, 1, len(lengths) - 1)
        copied: dict[str, Sequence[Record]] = {name: detach_answers(records[: lengths[number]])}
        await self._restore_runs(copied, "to", self._act)
        return name

    async def rewind(self, session: str, to: int, *, by: str = "") -> int:
        """Go back to a number: later turns no longer count, but stay in the journal.

        The rewind has a number too, and no number is used twice. A rewind to the number before it
        undoes it.

        Args:
            session: the id of the session.
            to: the number of a turn or change, as in `read`; 0 for the beginning.
            by: who does it; it is saved.

        Returns:
            The number of the rewind.

        Raises:
            ConfigurationError: the session or number does not exist.
            SessionBusyError: the last turn has not ended.
            ConflictError: the session changed at the same time.
        """
        async with self._hold(check_session_name(session)) as log:
            machine = (await self._replay_idle(session)).machine
            _check_number("to", to, 0, machine.turn)
            number = machine.turn + 1
            event = SessionRewound(turn_key(number), self._now(), to, by)
            await self._append(log, session, event, number=number)
        return number

    async def compact(
        self,
        session: str,
        *,
        keep: int = 4,
        summary: str | Summarize | None = None,
        pinned: Pinned | None = None,
        by: str = "",
    ) -> int | None:
        """Replace the older turns by a summary. The original stays in the journal.

        A rewind to the number before the compaction undoes it.

        Args:
            session: the id of the session.
            keep: the number of turns to keep at the end.
            summary: the text, or an async function that makes it from the messages; "" removes the
                turns without a replacement. By default the model of `agent.sessions` writes it.
            pinned: says whether to keep a message, and so its whole turn.
            by: who does it; it is saved.

        Returns:
            The number of the compaction; None if there was nothing to remove.

        Raises:
            ConfigurationError: the session does not exist, or there is no model for the summary.
            SessionBusyError: the last turn has not ended.
            ConflictError: the session changed at the same time.
        """
        check_value("keep", keep, NonNegativeInt)
        check_value("pinned", pinned, Pinned | None)
        summary = self._summarize if summary is None else summary
        async with self._hold(check_session_name(session)) as log:
            machine = (await self._replay_idle(session)).machine
            plan = plan_compaction(machine.transcript, keep, pinned)
            if not plan.removed:
                return None
            text = await make_summary(plan.removed, summary)
            number = machine.turn + 1
            event = HistoryCompacted(turn_key(number), self._now(), plan.kept_ranges, text, by)
            await self._append(log, session, event, number=number)
        return number

    async def rename(self, session: str, title: str, *, by: str = "") -> None:
        """Change the title of a session. Its id does not change. A turn may be running.

        Args:
            session: the id of the session.
            title: the title.
            by: who gives it; it is saved.

        Raises:
            ConfigurationError: the title is empty, or has more than 500 characters.
            ConflictError: the title was changed at the same time.
        """
        run = title_run(check_session_name(session))
        check_title(title)
        key = turn_key(len(await self._journal.read(run)) + 1)
        await self._append(self._journal, run, SessionTitled(key, self._now(), title, by))

    async def delete(self, session: str) -> int:
        """Delete a session permanently, with its titles and the runs of agents that it used as tools.

        Forks of it are independent sessions and are not deleted.

        Returns:
            The number of deleted records.

        Raises:
            ConfigurationError: the session does not exist.
        """
        async with self._hold(check_session_name(session)):
            runs = await overview.find_session_runs(self._journal, session)
            if not runs:
                raise _unknown_session_error(session)
            # A title that is set meanwhile is deleted too.
            names = {session, title_run(session), *runs}
            if self._act is None:
                return await self._journal.delete(*names)
            return await self._journal.delete(*names, act=self._act)

    async def prune(self, retention: Retention, *, dry_run: bool = False) -> PruneResult:
        """Delete the sessions that a retention no longer keeps, and give their space back.

        A session is deleted with its titles and the runs of agents that it used as tools. A session
        whose last turn has not ended stays, and so does one that changes meanwhile.

        Args:
            retention: the limits.
            dry_run: whether to return the sessions that would be deleted, and delete nothing.
        """
        check_value("retention", retention, Retention)
        pruning = Pruning(self._journal, self._hold, self._now)
        expired = await pruning.find_expired(retention)
        deleted = expired if dry_run else await pruning.delete_expired(expired)
        names = tuple(one.session for one in deleted)
        return PruneResult(names, sum(one.bytes for one in deleted))

    async def export(self, session: str) -> AsyncIterator[str]:
        """Yield the session as lines of JSON, without line ends, for `import_`.

        Raises:
            ConfigurationError: the session does not exist.
        """
        exported = await overview.find_session_runs(self._journal, check_session_name(session))
        if not exported:
            raise _unknown_session_error(session)
        records = {run: await self._journal.read(run) for run in exported}
        for line in session_export.export_lines(records):
            yield line

    async def import_(
        self,
        lines: Iterable[str],
        *,
        session: str | None = None,
        name: str = "import",
        open_turns: bool = False,
    ) -> str:
        """Import an exported session; return its id. On an error nothing is imported.

        The session arrives as history, and nothing in it continues: a turn that has not ended is
        interrupted, and no answer in it allows anything. The records are saved together with these
        ends, read again, and each one is compared with the saved one.

        Args:
            lines: the exported lines, such as an open text file.
            session: the id of the session; default: the exported id.
            name: names the source of the lines in errors.
            open_turns: leave open turns open, to be resumed with the answers that they have. This is
                for moving your own journal: the author of the lines decides about the calls that run.

        Raises:
            JournalCorruptError: a line is damaged, missing or superfluous; the error names it.
            JournalVersionError: a newer Holdfast wrote it.
            ConfigurationError: the session already exists, or the lines contain a run of a turn that
                it does not have.
        """
        check_value("lines", lines, Iterable[str])
        check_value("open_turns", open_turns, bool)
        runs = session_export.import_lines(lines, name)
        old = check_session_name(next(iter(runs), "").removesuffix("/:title"))
        new = old if session is None else check_session_name(session)
        others = set(runs) - {old, *find_related_runs(old, runs)}
        if others:
            raise ConfigurationError("lines", f"contain another session as well: {min(others)!r}")
        if early := find_early_runs(old, runs):
            problem = f"contain {early[0]!r}, and the session has no such turn"
            raise ConfigurationError("lines", problem, fix="Export the session again")
        renamed: dict[str, Sequence[Record]] = {
            new + run[len(old) :]: detach_answers(
                records if open_turns else close_open_turn(records, self._now())
            )
            for run, records in runs.items()
        }
        act = None if self._act is None else msgspec.structs.replace(self._act, session=new)
        await self._restore_runs(renamed, "session", act)
        await self._compare_runs(renamed)
        return new

    async def _compare_runs(self, runs: Mapping[str, Sequence[Record]]) -> None:
        """Read imported runs and compare each record; delete them if one differs."""
        for run, records in runs.items():
            saved = await self._journal.read(run)
            if list(saved[: len(records)]) != list(records):
                await self._journal.delete(*runs)
                raise corrupt_record(
                    f"run {run!r}", "the journal does not return what was imported"
                )

    async def _restore_runs(
        self, runs: dict[str, Sequence[Record]], argument: str, act: Act | None
    ) -> None:
        first = next(iter(runs))
        if await overview.find_session_runs(self._journal, first.removesuffix(TITLES)):
            raise _session_exists_error(first, argument)
        try:
            if act is None:
                await self._journal.restore(runs)
            else:
                await self._journal.restore(runs, act=act)
        except RequestExistsError:
            raise
        except ConflictError as error:
            raise _session_exists_error(first, argument) from error

    async def _require_records(self, session: str) -> Sequence[Record]:
        records = await self._journal.read(check_session_name(session))
        if not records:
            raise _unknown_session_error(session)
        return records

    async def _replay_idle(self, session: str) -> Replay:
        """Replay a session. Raises SessionBusyError if its last turn has not ended."""
        replay = Replay(await self._require_records(session))
        for _ in replay.records:
            replay.apply_next()
        if replay.machine.phase is not Phase.IDLE:
            raise SessionBusyError(
                session, "its last turn has not ended; agent.resume(...) continues it"
            )
        return replay


def _count_records(records: Sequence[Record]) -> Sequence[int]:
    """Return the number of records up to the end of each turn or change, from number 0 on."""
    replay, lengths = Replay(records), [0]
    for count, _ in enumerate(records, 1):
        replay.apply_next()
        if replay.machine.phase is Phase.IDLE and len(lengths) <= replay.machine.turn:
            lengths.append(count)
    return lengths


def _check_number(argument: str, number: object, least: int, most: int) -> None:
    is_whole = isinstance(number, int) and not isinstance(number, bool)
    if not is_whole or not least <= number <= most:  # type: ignore[operator]  # a whole number
        numbers = f"from {least} to {most}" if most >= least else "of which there is none yet"
        raise ConfigurationError(
            argument, f"must be the number of a turn that has ended, {numbers}, got {number!r}"
        )


def _unknown_session_error(session: str) -> ConfigurationError:
    return ConfigurationError(
        "session", f"there is no session {session!r}", fix="`list` shows the sessions"
    )


def _session_exists_error(session: str, argument: str = "session") -> ConfigurationError:
    return ConfigurationError(
        argument, f"the session {session!r} already exists", fix="Choose another id"
    )


_NUMBERED = (TurnOpened, SessionRewound, HistoryCompacted, SessionTitled)


def detach_answers(records: Sequence[Record]) -> list[Record]:
    """Return the records of a copy: open questions get a new binding, and no answer is remembered.

    An answer is for one session: a copy refuses an answer to the original, and does not remember the permissions that somebody
    gave or denied for later calls. A copy from elsewhere could otherwise bring its own approvals.

    Args:
        records: all records of the original run.
    """
    ended = {
        asked_key(record.event.key)
        for record in records
        if isinstance(record.event, QuestionAnswered | QuestionUnanswered)
    }
    return [_detach(record, ended) for record in records]


def _detach(record: Record, ended: set[str]) -> Record:
    event: Event = record.event
    if isinstance(event, QuestionAsked) and event.key not in ended:
        event = msgspec.structs.replace(event, nonce=new_nonce())
    elif isinstance(event, QuestionAnswered) and isinstance(event.answer, dict):
        once = {name: value for name, value in event.answer.items() if name != "remember"}
        is_permission = once.get("type") in ("approved", "denied")
        event = msgspec.structs.replace(event, answer=once) if is_permission else event
    return record if event is record.event else msgspec.structs.replace(record, event=event)


def close_open_turn(records: Sequence[Record], at: float) -> list[Record]:
    """Return the records of a run with the end of its last turn, if that has not ended.

    The turn is interrupted: its questions, answers and markers have no effect any more. Each of its
    calls without a result gets an error result that says that the call is in doubt, whatever the
    records say: the original may have run it, or may still run it. A turn that only had to be
    closed gets the end that it has planned.

    Args:
        records: all records of the run.
        at: when it is closed, in seconds since the epoch.
    """
    replay = Replay(records)
    for _ in records:
        replay.apply_next()
    machine, closed = replay.machine, list(records)
    if machine.phase is Phase.IDLE:
        return closed
    if machine.allows_event(TurnInterrupted):
        started = tuple(one.key for one in machine.pending_effects() if isinstance(one, RunTool))
        event = TurnInterrupted(interrupted_key(machine.turn), at, "imported", started)
        machine.apply(event)
        closed.append(Record(event))
    (end,) = machine.pending_effects()
    status, error = machine.status, machine.error
    closed.append(Record(TurnClosed(end.key, at, status, error), effect_digest(end)))
    return closed


def find_early_runs(session: str, runs: Mapping[str, Sequence[Record]]) -> list[str]:
    """List the runs of tools that belong to a turn that the session does not have.

    A later turn would take such a run for its own, with all that it brings.

    Args:
        session: the name of the session.
        runs: the records of the session and of the runs that belong to it.
    """
    last = sum(isinstance(record.event, _NUMBERED) for record in runs.get(session, ()))
    return [run for run in runs if find_turn_number(session, run) > last]


class CompactionPlan(Struct, frozen=True):
    """The index ranges of the messages that are kept, and the removed messages."""

    kept_ranges: tuple[tuple[int, int], ...]
    removed: tuple[Message, ...]


def plan_compaction(history: Sequence[Message], keep: int, pinned: Pinned | None) -> CompactionPlan:
    """Choose the messages that a compaction keeps. System messages are always kept.

    Args:
        history: all messages.
        keep: the number of turns to keep at the end.
        pinned: says which earlier messages to keep with their turns.

    >>> from holdfast.core.messages import assistant, system, user
    >>> history = [system("Be kind."), user("a"), assistant("b"), user("c"), assistant("d")]
    >>> plan_compaction(history, 1, None).kept_ranges
    ((0, 1), (3, 5))
    """
    turns = _find_turn_ranges(history)
    first = max(len(turns) - keep, 0)
    ranges: list[tuple[int, int]] = []
    removed: list[Message] = []
    for number, (start, end) in enumerate(turns):
        messages = history[start:end]
        if number < first and messages[0].role != "system" and not _is_pinned(messages, pinned):
            removed += messages
        elif ranges and ranges[-1][1] == start:
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((start, end))
    return CompactionPlan(tuple(ranges), tuple(removed))


def _is_pinned(turn: Sequence[Message], pinned: Pinned | None) -> bool:
    return pinned is not None and any(pinned(message) for message in turn)


def _find_turn_ranges(history: Sequence[Message]) -> list[tuple[int, int]]:
    """Return the range from each user or system message to the next one."""
    starts = [index for index, message in enumerate(history) if message.role in ("user", "system")]
    # Not strict: without a start, the second list still has one item.
    return list(zip(starts, [*starts[1:], len(history)], strict=False))


async def make_summary(removed: Sequence[Message], summary: str | Summarize | None) -> str:
    """Make the text that replaces these messages; "" means no replacement.

    Raises:
        ConfigurationError: there is neither a summary nor a model to write one.
        NoTextError: the function returned no text.
    """
    if summary is None:
        raise ConfigurationError(
            "summary",
            "is required: there is no model to write it",
            fix="Pass a text, a function, or '' to remove the turns; or use agent.sessions",
        )
    check_value("summary", summary, str | Summarize)
    if isinstance(summary, str):
        return summary
    text: object = await summary(removed)
    if isinstance(text, str) and text.strip():
        return text
    raise NoTextError("the summary is empty; the history was not changed")
