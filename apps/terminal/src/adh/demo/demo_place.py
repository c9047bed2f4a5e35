"""The place of the demo: a folder with the sandbox project and a home of its own, and the emulated provider.

It must never read the settings, keys or conversations of the person who tries it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from adh.demo.demo_model import choose_faults, choose_reply
from adh.demo.sandbox_project import make_sandbox
from adh.storage.places import find_places
from adh.storage.trust import TrustedFolders
from holdfast.testing.emulator import Emulator

MODEL = "openai:demo"
PROJECT = "shop"
_KEY = "demo"
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "COLORTERM", "NO_COLOR", "TMPDIR", "TZ")


class DemoPlace(Struct, frozen=True, kw_only=True):
    """What the demo works with.

    Args:
        project: the folder of the sandbox project.
        environ: the environment, with a home of its own.
        base_url: the address of the emulated provider.
    """

    project: Path
    environ: Mapping[str, str]
    base_url: str


@contextmanager
def open_demo(
    environ: Mapping[str, str], folder: Path | None = None, *, keep: bool = False
) -> Iterator[DemoPlace]:
    """Make the sandbox and start the emulated provider; end both afterwards.

    Args:
        environ: the environment of the program; only what a terminal needs is taken from it.
        folder: where everything is; one that a demo has used goes on. None for a temporary folder.
        keep: whether a temporary folder stays.

    Raises:
        FileExistsError: the folder has files of somebody.
        OSError: it cannot be written.
    """
    place = folder.absolute() if folder is not None else Path(tempfile.mkdtemp(prefix="adh-demo-"))
    try:
        project, home = place / PROJECT, place / "home"
        if not (project / "prices.py").is_file():
            _check_empty(place)
            make_sandbox(project)
        home.mkdir(mode=0o700, exist_ok=True)
        own = {name: environ[name] for name in _PASSED_ON if name in environ}
        own |= {"HOME": str(home), "OPENAI_API_KEY": _KEY}
        TrustedFolders(find_places(own, project).trust_file).trust(project)
        with Emulator(choose_reply, faults=choose_faults) as provider:
            yield DemoPlace(project=project, environ=own, base_url=provider.base_url)
    finally:
        if folder is None and not keep:
            shutil.rmtree(place, ignore_errors=True)


def _check_empty(place: Path) -> None:
    if place.exists() and any(place.iterdir()):
        raise FileExistsError(17, "is not empty; name a new folder", str(place))
