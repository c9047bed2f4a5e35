"""The stories of the inbox explorer, and broken rules that it must detect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from tests.crash.inbox_world import InboxActs, InboxStory, Turn

from holdfast.journal.inbox import inbox_statements as sql
from holdfast.journal.inbox.admitting import Offer
from holdfast.journal.inbox.statements import Statement, Transaction
from holdfast.journal.inbox.sweeping import StalledEntry

SAME = InboxStory("two turns of a session", (Turn("as"), Turn("as")), losses=1, doubles=1)
ASKED = InboxStory("a question, then another turn", (Turn("as", asks=True), Turn("as")))
PAUSED = InboxStory("a worker counts as gone", (Turn("as", asks=True),), crashes=0, pauses=1)
LIMITED = InboxStory(
    "one turn of a tenant at once", (Turn("as"), Turn("at"), Turn("bs")), running=1
)

UNHEARD = InboxStory(
    "a worker does not hear what it has", (Turn("as"), Turn("at")), crashes=0, lost_answers=1
)

DEADLY = InboxStory(
    "a turn that kills its workers, then another one",
    (Turn("as", kills=True), Turn("as")),
    crashes=0,
)

INBOX_STORIES = (SAME, ASKED, PAUSED, LIMITED, UNHEARD, DEADLY)

LARGE_INBOX_STORIES = (
    replace(SAME, workers=3, crashes=2),
    replace(ASKED, workers=3, crashes=2, losses=1),
    replace(PAUSED, workers=3, crashes=1, pauses=2),
    replace(LIMITED, turns=(Turn("as"), Turn("at")), workers=3, crashes=2, losses=1),
    replace(UNHEARD, workers=3, crashes=1, lost_answers=2),
    replace(DEADLY, workers=3, crashes=1),
)
"""Three workers, two of which die; `./run crash explore`."""


@dataclass(frozen=True)
class InboxMutant:
    """A broken rule, and the story in which the explorer must detect it."""

    name: str
    story: InboxStory
    acts: type[InboxActs] = InboxActs
    swaps: tuple[tuple[str, str], ...] = ()

    @contextmanager
    def planted(self) -> Iterator[InboxActs]:
        """Break statements while the acts are in use."""
        with ExitStack() as stack:
            for name, wrong in self.swaps:
                stack.enter_context(patch.object(sql, name, wrong))
            yield self.acts()


class NothingPutAgain(InboxActs):
    def find_stalled(self) -> Transaction[Sequence[StalledEntry]]:
        yield Statement("SELECT 1")
        return ()


class NothingHeldFound(InboxActs):
    """A worker never looks for what it has and does not drive."""

    def list_held(self, worker: str) -> Transaction[Sequence[Any]]:
        yield Statement("SELECT 1")
        return ()


class BegunWithoutHaving(InboxActs):
    """A worker begins what it admits without having it in the inbox."""

    def offer(self, worker: str, slots: int) -> Offer:
        return super().offer("w1" if worker == "w0" else "w0", slots)


class NoIndex(InboxActs):
    """Nothing keeps a second turn of a session from beginning."""

    broken = "DROP INDEX holdfast_inbox_active"


class NoJobsOfDeadWorkers(InboxActs):
    """Jobs are put again, and their entries stay with the worker that died."""

    def put_again(self, entries: Sequence[StalledEntry]) -> Transaction[Sequence[Any]]:
        yield Statement("SELECT 1")
        return ()


def _cut(name: str, part: str, wrong: str = "") -> tuple[str, str]:
    text = getattr(sql, name)
    assert part in text
    return name, text.replace(part, wrong)


INBOX_MUTANTS = (
    InboxMutant("what was not heard of is not looked for", UNHEARD, NothingHeldFound),
    InboxMutant("a worker begins what it does not have", SAME, BegunWithoutHaving),
    InboxMutant("nothing is put again", SAME, NothingPutAgain),
    InboxMutant("jobs of dead workers are not put", SAME, NoJobsOfDeadWorkers),
    InboxMutant(
        "begin takes what another worker has",
        SAME,
        swaps=(
            _cut(
                "BEGIN",
                "(worker = '' OR worker = :worker)",
                ":now > 0",
            ),
        ),
    ),
    InboxMutant(
        "a session has any number of active entries",
        SAME,
        NoIndex,
        swaps=(
            (
                "INSERT",
                sql.INSERT.replace(
                    "IN ('ready', 'admitted', 'waiting', 'postponed')", "= 'nothing'"
                ),
            ),
        ),
    ),
    InboxMutant("end does not unblock", SAME, swaps=(("UNBLOCK", "SELECT :tenant, :name"),)),
    InboxMutant(
        "answers are not noted",
        ASKED,
        swaps=(("NOTE_ANSWER", "SELECT :tenant, :name WHERE false"),),
    ),
    InboxMutant(
        "an old answer is never forgotten and a new one not noted",
        ASKED,
        swaps=(
            _cut(
                "END",
                "RETURNING tenant, session_name, cancelled_by, is_answered",
                "RETURNING tenant, session_name, cancelled_by, 0",
            ),
        ),
    ),
    InboxMutant(
        "the count is not kept",
        LIMITED,
        swaps=(_cut("SERVE", "queued = queued - :count", "queued = queued + 0 * :count"),),
    ),
    InboxMutant(
        "running turns are not counted",
        LIMITED,
        swaps=(_cut("FACTS", "WHERE state = 'admitted' GROUP", "WHERE state = 'none' GROUP"),),
    ),
    InboxMutant(
        "nobody counts deaths",
        DEADLY,
        swaps=(_cut("ABANDON", "deaths_alone + :died *", "deaths_alone + 0 * :died *"),),
    ),
    InboxMutant(
        "a death alone counts as one in company",
        DEADLY,
        swaps=(_cut("ISOLATE", "is_alone = 1", "is_alone = 0"),),
    ),
    InboxMutant(
        "what is parked is not remembered",
        DEADLY,
        swaps=(_cut("PARK", "parking = :why", "error = :why"),),
    ),
    InboxMutant(
        "a turn is closed without its entry",
        DEADLY,
        swaps=(("END_WITH_TURN", "SELECT :id, :end WHERE false"),),
    ),
    InboxMutant(
        "the turn after a parked one stays blocked",
        DEADLY,
        swaps=(_cut("UNBLOCK", "state = 'blocked' ORDER", "state = 'nothing' ORDER"),),
    ),
    InboxMutant(
        "a zombie ends the entry of another worker",
        PAUSED,
        swaps=(_cut("END", " AND worker = :worker", " AND :worker <> ''"),),
    ),
)
