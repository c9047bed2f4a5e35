"""The event loop of the tests, and a project with tools."""

from pathlib import Path

import pytest
from apps.terminal.tests.tools.workbench import Workbench
from tests.conftest import anyio_backend

__all__ = ["anyio_backend", "bench"]


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path)
