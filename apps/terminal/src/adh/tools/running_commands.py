"""Notes of the commands that run, so that a later start ends what a killed program left running.

A note names the mark that the processes of a command have in their environment. This module must never
signal a process that has no such mark.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from adh.storage.private_files import make_private_folder, read_private_file
from adh.storage.process_notes import describe_own_process, is_process_running
from adh.storage.storage_errors import StorageError, explain_os_error
from adh.tools.process_end import NO_LEADER, find_processes, kill_processes_now

_LONGEST_NOTE = 1_000


class RunningCommands:
    """The commands that run, of all instances of the program.

    Args:
        folder: where the notes are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def note(self, mark: str) -> Iterator[None]:
        """Leave a note of a command while the block runs.

        Args:
            mark: the mark of its processes.

        Raises:
            StorageError: the note cannot be written, so the command must not start.
        """
        path = self._folder / f"{mark}.json"
        make_private_folder(self._folder)
        try:
            # A loss of power ends the processes too, so the note need not survive it.
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                json.dump(describe_own_process(), file)
        except OSError as error:
            raise StorageError(path, *explain_os_error(error)) from error
        try:
            yield
        finally:
            with suppress(OSError):
                path.unlink()

    def end_abandoned(self) -> int:
        """End the processes of commands whose program has ended, and return how many they were."""
        ended = 0
        try:
            notes = sorted(self._folder.glob("*.json"))
        except OSError:
            return 0
        for note in notes:
            if not _is_abandoned(note):
                continue
            processes = find_processes(NO_LEADER, note.stem)
            if processes:
                kill_processes_now(NO_LEADER, note.stem)
            ended += len(processes)
            with suppress(OSError):
                note.unlink()
        return ended


def _is_abandoned(note: Path) -> bool:
    """Whether the program that wrote a note has ended."""
    try:
        content = json.loads(read_private_file(note, _LONGEST_NOTE) or b"")
        return not is_process_running(content)
    except (StorageError, ValueError):
        return True  # it was killed while it wrote the note
