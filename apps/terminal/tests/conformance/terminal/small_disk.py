"""A disk of a few megabytes for what `adh` saves: a test fills it in the middle of a turn, and makes room again."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from apps.terminal.tests.conformance.terminal.emulated_adh import EmulatedAdh
from apps.terminal.tests.conformance.terminal.tmux_screen import TmuxScreen

BWRAP = shutil.which("bwrap")
needs_small_disk = pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed")
BYTES = 4 << 20
BLOCK = 4096
SECONDS = 60.0


class SmallDisk:
    """The disk under `~/.local` of an `adh` that runs, which only its own processes see.

    Args:
        folder: the disk, by the path through which this process reaches it.
    """

    def __init__(self, folder: Path) -> None:
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Leave no block free."""
        with self._filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(BLOCK))
            except OSError:
                return

    def free(self) -> None:
        """Make room again."""
        self._filler.unlink()


@contextmanager
def open_on_small_disk(adh: EmulatedAdh) -> Iterator[tuple[TmuxScreen, SmallDisk]]:
    """Open `adh` in a terminal with a small disk; once it ends, `adh --resume` opens on the same disk."""
    place = adh.home / ".local"
    place.mkdir(exist_ok=True)
    program = f"{sys.executable} -m adh"
    disk = ["--size", str(BYTES), "--tmpfs", str(place)]
    words = [
        str(BWRAP),
        "--dev-bind",
        "/",
        "/",
        *disk,
        "sh",
        "-c",
        f"{program}; {program} --resume",
    ]
    with TmuxScreen(words, folder=adh.project, environ=adh.environ) as screen:
        yield screen, SmallDisk(_find_disk(screen.process_id, place))


def _find_disk(process: int, place: Path) -> Path:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        for one in _list_descendants(process):
            found = Path(f"/proc/{one}/root{place}")
            if (found / "share").is_dir():
                return found
        time.sleep(0.05)
    raise AssertionError("adh did not begin to save anything")


def _list_descendants(process: int) -> Iterator[int]:
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return
    for child in map(int, children):
        yield child
        yield from _list_descendants(child)
