"""The parts that the tools work with: the stores of changes and backups, the environment of commands, the clock.

It must never hold a part of one call: that comes with the call's context. Its removal of leftovers must never
touch a file or a process of another running instance.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from adh.storage.backups import Backups
from adh.storage.changes import ChangeStore
from adh.storage.pending_writes import PendingWrites
from adh.storage.places import Places
from adh.tools.process_end import RunningCommands
from adh.tools.web_addresses import Resolve, resolve_host


def read_clock() -> datetime:
    """Return the time now."""
    return datetime.now(UTC)


class ToolsContext(Struct, frozen=True, kw_only=True):
    """The parts that the tools work with.

    Args:
        changes: where changes are recorded before they are made.
        backups: where a file is copied before it is deleted.
        pending: the temporary files of writes in progress.
        environ: the environment that commands inherit, without its secrets.
        home: the person's home folder.
        running: the notes of commands that run; None to leave none.
        programs: where programs stand that stand in for others; None for none.
        now: the clock.
        resolve: finds the addresses of a host.
        new_file_mode: the permission bits of new files.
    """

    changes: ChangeStore
    backups: Backups
    pending: PendingWrites
    environ: Mapping[str, str]
    home: str
    running: RunningCommands | None = None
    programs: Path | None = None
    now: Callable[[], datetime] = read_clock
    resolve: Resolve = resolve_host
    new_file_mode: int = 0o644


def make_tools_context(places: Places, environ: Mapping[str, str]) -> ToolsContext:
    """Return the context of the tools for a person and a project.

    Args:
        places: where the stores are.
        environ: the environment of the program.
    """
    return ToolsContext(
        changes=ChangeStore(places.changes),
        backups=Backups(places.backups),
        pending=PendingWrites(places.data / "pending"),
        environ=environ,
        home=str(places.home),
        running=RunningCommands(places.data / "running"),
        programs=places.data / "programs",
        new_file_mode=0o666 & ~read_umask(),
    )


def read_umask() -> int:
    """Return the umask of the process, without changing it where the system shows it."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123  # REASON: no file of a disk
            for line in file:
                if line.startswith("Umask:"):
                    return int(line.split()[1], 8)
    except OSError:
        pass
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


class Leftovers(Struct, frozen=True, kw_only=True):
    """The files and processes that were left and are gone now.

    Args:
        files: the temporary files, which never had their names.
        processes: how many processes were ended.
    """

    files: tuple[str, ...] = ()
    processes: int = 0


def remove_leftovers(context: ToolsContext) -> Leftovers:
    """Remove the leftovers of killed instances of the program. Call it at the start, beside the tools.

    Args:
        context: the parts that the tools work with.
    """
    running = context.running
    return Leftovers(
        files=context.pending.remove_leftovers(),
        processes=0 if running is None else running.end_abandoned(),
    )
