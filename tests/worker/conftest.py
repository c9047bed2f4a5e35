"""What the tests of the worker share: a NATS server."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator

import pytest
from tests.nats_server import CannotRun, NatsServer


@pytest.fixture(scope="session")
def nats_server() -> Iterator[NatsServer]:
    """A real NATS server, made when the first test asks for it."""
    try:
        server = NatsServer()
    except CannotRun as error:
        said = f"NO TEST OF NATS RUNS HERE: {error}"
        warnings.warn(said, pytest.PytestWarning, stacklevel=1)
        if os.environ.get("CI"):
            pytest.fail(said)
        pytest.skip(said)
    yield server
    server.stop()
