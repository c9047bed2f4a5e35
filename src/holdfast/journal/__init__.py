"""Journals: append-only storage that accepts one outcome per key, behind one port.

A journal must never interpret events, and must never acknowledge a record that it may still lose.
"""

from __future__ import annotations

from holdfast import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.acts import Act as Act
    from holdfast.core.effects import AcceptTurn as AcceptTurn
    from holdfast.core.effects import CallModel as CallModel
    from holdfast.core.effects import CheckOutput as CheckOutput
    from holdfast.core.effects import CloseTurn as CloseTurn
    from holdfast.core.effects import CopyResult as CopyResult
    from holdfast.core.effects import Effect as Effect
    from holdfast.core.effects import RunTool as RunTool
    from holdfast.core.turn_options import InterruptedRun as InterruptedRun
    from holdfast.core.turn_options import TurnOptions as TurnOptions
    from holdfast.journal.encoding import Line as Line
    from holdfast.journal.memory import MemoryJournal as MemoryJournal
    from holdfast.journal.port import Journal as Journal
    from holdfast.journal.port import Lease as Lease
    from holdfast.journal.port import Record as Record
    from holdfast.journal.port import RunEntry as RunEntry
    from holdfast.journal.port import RunLog as RunLog
    from holdfast.journal.port import SharedJournal as SharedJournal
    from holdfast.journal.postgres.postgres_journal import PostgresJournal as PostgresJournal
    from holdfast.journal.retention import Retention as Retention
    from holdfast.journal.sqlite.backup import JournalCopy as JournalCopy
    from holdfast.journal.sqlite.backup import backup_file as backup_file
    from holdfast.journal.sqlite.read_only import ReadOnlySqliteJournal as ReadOnlySqliteJournal
    from holdfast.journal.sqlite.restoring import mark_restored as mark_restored
    from holdfast.journal.sqlite.restoring import restore_backup as restore_backup
    from holdfast.journal.sqlite.sqlite_journal import SqliteJournal as SqliteJournal
    from holdfast.journal.url import open_journal as open_journal

_HOME: dict[str, str] = {
    "AcceptTurn": "holdfast.core.effects",
    "Act": "holdfast.core.acts",
    "CallModel": "holdfast.core.effects",
    "CheckOutput": "holdfast.core.effects",
    "CloseTurn": "holdfast.core.effects",
    "CopyResult": "holdfast.core.effects",
    "Effect": "holdfast.core.effects",
    "InterruptedRun": "holdfast.core.turn_options",
    "Journal": "holdfast.journal.port",
    "JournalCopy": "holdfast.journal.sqlite.backup",
    "Lease": "holdfast.journal.port",
    "Line": "holdfast.journal.encoding",
    "MemoryJournal": "holdfast.journal.memory",
    "PostgresJournal": "holdfast.journal.postgres.postgres_journal",
    "ReadOnlySqliteJournal": "holdfast.journal.sqlite.read_only",
    "Record": "holdfast.journal.port",
    "Retention": "holdfast.journal.retention",
    "RunEntry": "holdfast.journal.port",
    "RunLog": "holdfast.journal.port",
    "RunTool": "holdfast.core.effects",
    "SharedJournal": "holdfast.journal.port",
    "SqliteJournal": "holdfast.journal.sqlite.sqlite_journal",
    "TurnOptions": "holdfast.core.turn_options",
    "backup_file": "holdfast.journal.sqlite.backup",
    "mark_restored": "holdfast.journal.sqlite.restoring",
    "open_journal": "holdfast.journal.url",
    "restore_backup": "holdfast.journal.sqlite.restoring",
}
"""Public name -> the module that defines it. Sorted."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_names(globals(), _HOME)
