"""The parts that the approval of one conversation works with, as the workspace opens them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from adh.checks.check_context import resolve_host
from adh.checks.confinement import NOT_CONFINED, Confinement
from adh.rules.rule_set import RuleSet
from adh.storage.audit_log import AuditEntry
from adh.storage.places import Places


class Audit(Protocol):
    """Where the audit lines go: the audit log."""

    def write(self, entry: AuditEntry) -> None:
        """Write one line, and return when it is on disk. Raises AuditError."""
        ...


class SafetySwitch:
    """Whether questions of the level "confirm" are asked in this session. It begins switched on.

    Args:
        audit: where each change is written before it holds.
        is_on: False for a program that was started with `--no-safety`.
    """

    def __init__(self, audit: Audit, *, is_on: bool = True) -> None:
        self._audit = audit
        self._is_on = is_on

    @property
    def is_on(self) -> bool:
        """Whether questions are asked."""
        return self._is_on

    def turn(self, *, on: bool, session: str, at: datetime) -> None:
        """Switch safety on or off.

        Args:
            on: whether questions are asked from now on.
            session: the conversation.
            at: the time, with its zone.

        Raises:
            AuditError: the change cannot be written; then it does not hold.
        """
        word = "safety on" if on else "safety off"
        entry = AuditEntry(
            at=at, event="switch", session=session, decision=word, decided_by="person"
        )
        self._audit.write(entry)
        self._is_on = on


class ApprovalSetup(Struct, frozen=True, kw_only=True):
    """The parts that the approval works with.

    Args:
        places: where the project and the program's own folders are.
        read_rules: returns the rules that hold now.
        effects: the effects that each tool declares, by its name.
        audit: where the audit lines go.
        switch: whether questions are asked.
        save_backup: copies a file into the backups, by its absolute path.
        confinement: how commands can be confined here.
        resolve_host: returns the addresses of a host.
        wait: waits for this many seconds; a test passes its own clock.
    """

    places: Places
    read_rules: Callable[[], RuleSet]
    effects: Mapping[str, frozenset[str]]
    audit: Audit
    switch: SafetySwitch
    save_backup: Callable[[str], object]
    confinement: Confinement = NOT_CONFINED
    resolve_host: Callable[[str], Awaitable[Sequence[str]]] = resolve_host
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep

    @property
    def own_folders(self) -> tuple[str, ...]:
        """The folders of the program, which no tool may change."""
        return (str(self.places.config), str(self.places.data))
