"""`adh` as a process of its own, with a home, a project and an emulated provider that fails by script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from apps.terminal.tests.conformance.terminal.tmux_screen import SMALL, TmuxScreen

from holdfast.testing.emulator import Emulator

KEY = "sk-emulated-key-4c1f9a7be2d04e65"
"""The key that the program sends; it must never be seen anywhere else."""


class EmulatedAdh:
    """A person's machine: a home, a project, and a provider.

    Args:
        place: an empty folder for all of it.
        replies: the replies of the model, as `Emulator` takes them.
        faults: the faults of the provider.
        files: the files of the project, by name.
    """

    def __init__(
        self,
        place: Path,
        replies: Any = (),
        *,
        faults: Any = (),
        files: dict[str, str] | None = None,
    ) -> None:
        self.home = place / "home"
        self.project = place / "project"
        self.provider = Emulator(replies, faults=faults)
        self.environ = {
            "HOME": str(self.home),
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C.UTF-8",
            "OPENAI_API_KEY": KEY,
        }
        for folder in (self.home, self.project):
            folder.mkdir(parents=True)
        for name, text in (files or {}).items():
            path = self.project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.configure({"model": "openai:emulated-model"})

    def __enter__(self) -> Self:
        self.provider.__enter__()
        self.environ["ADH_BASE_URL"] = self.provider.base_url
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.provider.__exit__(kind, error, trace)

    @property
    def config(self) -> Path:
        """The folder of the settings and rules."""
        return self.home / ".config" / "adh-cli"

    @property
    def data(self) -> Path:
        """The folder of the conversations and logs."""
        return self.home / ".local" / "share" / "adh-cli"

    def configure(self, settings: dict[str, object]) -> None:
        """Write the settings."""
        self.config.mkdir(parents=True, exist_ok=True)
        path = self.config / "config.json"
        path.write_text(json.dumps(settings))
        path.chmod(0o600)

    def add_rules(self, text: str, name: str = "mine.yaml") -> None:
        """Write a file of rules of the person."""
        folder = self.config / "policies"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)

    def open_screen(
        self, *words: str, size: tuple[int, int] = SMALL, in_shell: bool = False
    ) -> TmuxScreen:
        """Return `adh` in a terminal, to be used in `with`."""
        return TmuxScreen(
            [sys.executable, "-m", "adh", *words],
            folder=self.project,
            environ=self.environ,
            size=size,
            in_shell=in_shell,
        )

    def run(
        self, *words: str, text: str = "", seconds: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run `adh` without a terminal until it ends."""
        return subprocess.run(
            [sys.executable, "-m", "adh", *words],
            cwd=self.project,
            env=self.environ,
            input=text,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def read_audit(self) -> Sequence[dict[str, Any]]:
        """Return the lines of the audit log."""
        path = self.data / "audit.log"
        if not path.exists():
            return []
        # A writer that sees another one in the middle of a line begins a new one: such lines are empty.
        return [json.loads(line) for line in path.read_text().splitlines() if line]

    def find_leaks(self, *texts: str) -> list[str]:
        """Return where the key is seen: in these texts, or in a file of the home or the project."""
        found = [text[:200] for text in texts if KEY in text]
        for folder in (self.home, self.project):
            files = [path for path in folder.rglob("*") if path.is_file()]
            found += [str(path) for path in files if KEY.encode() in path.read_bytes()]
        return found
