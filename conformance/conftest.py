"""The emulator as a program of its own, as programs in other languages use it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))

Serve = Callable[..., str]
"""Starts `holdfast emulate` with arguments, and returns the base URL."""


@contextmanager
def serving(arguments: tuple[str, ...]) -> Iterator[str]:
    process = subprocess.Popen([HOLDFAST, "emulate", *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().removeprefix("listening on ").strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture(scope="session")
def emulator() -> Iterator[str]:
    """The base URL of an emulator without faults, which all tests share."""
    with serving(()) as url:
        yield url


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start emulators for one test."""
    with ExitStack() as started:
        yield lambda *arguments: started.enter_context(serving(arguments))
