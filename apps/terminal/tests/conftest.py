"""What the tests of the terminal agent share: the event loop and the number of examples of the library, and a folder."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.conftest import anyio_backend

__all__ = ["anyio_backend"]


@pytest.fixture(autouse=True)
def kept_loggers() -> Iterator[None]:
    """Give the loggers back as they were: the log of a command is that of a process, and its file goes."""
    loggers = [logging.getLogger(name) for name in ("adh", "holdfast")]
    before = [(one.level, one.propagate, set(one.handlers)) for one in loggers]
    yield
    for logger, (level, propagate, handlers) in zip(loggers, before, strict=True):
        for handler in set(logger.handlers) - handlers:
            logger.removeHandler(handler)
            handler.close()
        logger.setLevel(level)
        logger.propagate = propagate


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """An empty folder outside `/dev`, where `./run test` puts the others and every place is protected."""
    with TemporaryDirectory(prefix="holdfast-", ignore_cleanup_errors=True) as folder:
        yield Path(folder).resolve()
