"""A person's machine within this process: a home, a project, and an emulated provider."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from adh.commands.arguments import parse_arguments
from adh.commands.program import run_command
from holdfast.testing.emulator import Emulator

KEY = "sk-emulated-key-93c1e5f0a7d84b21"


class Printed(Struct, frozen=True):
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str


class Person:
    """Runs commands of `adh` in a project.

    Args:
        place: an empty folder.
        monkeypatch: sets the environment of this process.
        capsys: reads what is printed.
    """

    def __init__(
        self,
        place: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self.home, self.project = place / "home", place / "project"
        self._monkeypatch, self._capsys = monkeypatch, capsys
        self.provider = Emulator()
        for folder in (self.home, self.project):
            folder.mkdir()
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(self.home))
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setattr("adh.workspace.assembly.open_keychain", lambda: None)
        monkeypatch.chdir(self.project)

    @contextmanager
    def provide(self, *replies: Any, faults: Any = ()) -> Iterator[Emulator]:
        """Emulate the provider with these replies."""
        with Emulator(list(replies), faults=faults) as self.provider:
            self._monkeypatch.setenv("ADH_BASE_URL", self.provider.base_url)
            yield self.provider

    @property
    def config(self) -> Path:
        """The folder of settings and rules."""
        return self.home / ".config" / "adh-cli"

    @property
    def data(self) -> Path:
        """The folder of conversations and logs."""
        return self.home / ".local" / "share" / "adh-cli"

    def adh(self, *words: str, text: str = "") -> Printed:
        """Run a command; standard input is no terminal."""
        self._monkeypatch.setattr("sys.stdin", io.StringIO(text))
        self._capsys.readouterr()
        status = run_command(parse_arguments(words))
        printed = self._capsys.readouterr()
        return Printed(int(status), printed.out, printed.err)

    def run(self, *words: str, text: str = "") -> Printed:
        """Run `adh run` with the emulated model."""
        return self.adh("run", "--model", "openai:emulated-model", *words, text=text)

    def read_audit(self) -> list[dict[str, Any]]:
        """Return the lines of the audit log."""
        return [json.loads(line) for line in (self.data / "audit.log").read_text().splitlines()]
