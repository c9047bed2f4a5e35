"""What every test shares: asyncio is the loop that async tests run on."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
