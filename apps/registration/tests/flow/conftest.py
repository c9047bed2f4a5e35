"""What the tests of the conversations share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from apps.registration.tests.flow.chat_club import Club, open_club


@pytest.fixture
async def club(tmp_path: Path) -> AsyncIterator[Club]:
    """A club where everything works."""
    async with open_club(tmp_path) as opened:
        yield opened
