"""Programs with the clients of others that stay for all scenarios: one that imports litellm needs seconds to begin."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from typing import IO, Any, Self

Drive = Callable[[str, str, str, str], dict[str, Any]]
"""Runs a scenario: the name of a program, an API, a scenario and a base URL; returns what happened."""


class ClientProgram:
    """A program that reads scenarios, one JSON list a line, and prints what happened, one JSON object a line.

    Args:
        command: of the program.
        folder: where it runs.
    """

    def __init__(self, command: Sequence[str], folder: str) -> None:
        self._errors: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115  # REASON: `close` closes it
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def run(self, api: str, scenario: str, url: str) -> dict[str, Any]:
        """Run one scenario."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps([api, scenario, url]) + "\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            self._process.wait(60)
            self._errors.seek(0)
            raise AssertionError(self._errors.read())
        happened: dict[str, Any] = json.loads(line)
        assert "crash" not in happened, happened["crash"]
        return happened

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()


class ClientPrograms:
    """Those that were started, by their names.

    Args:
        command: returns the command of a program, and the folder where it runs.
    """

    def __init__(self, command: Callable[[str], tuple[Sequence[str], str]]) -> None:
        self._command = command
        self._started: dict[str, ClientProgram] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for program in self._started.values():
            program.close()

    def drive(self, name: str, api: str, scenario: str, url: str) -> dict[str, Any]:
        """Run a scenario of a program, which is started if it was not."""
        program = self._started.pop(name, None) or ClientProgram(*self._command(name))
        try:
            happened = program.run(api, scenario, url)
        except BaseException:
            program.close()  # a late answer would be taken for the next one
            raise
        self._started[name] = program
        return happened
