"""What the tests of the terminal agent share: the event loop and the number of examples of the library, and a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.conftest import anyio_backend

__all__ = ["anyio_backend"]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """An empty folder outside `/dev`, where `./run test` puts the others and every place is protected."""
    with TemporaryDirectory(prefix="holdfast-", ignore_cleanup_errors=True) as folder:
        yield Path(folder).resolve()
