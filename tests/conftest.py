"""What all tests share: the event loop, the number of examples, and a PostgreSQL server."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.postgres_server import PostgresServer

# No deadline: a loaded machine is no bug. People draw new examples each time, and so need few.
settings.register_profile(
    "suite",
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
# `HYPOTHESIS_PROFILE=thorough ./run test` looks longer.
settings.register_profile("thorough", settings.get_profile("suite"), max_examples=1000)
# What `.ci/run` asks for: the same examples each time.
settings.register_profile("fixed", settings.get_profile("suite"), derandomize=True, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


# Imports and collected tests are kept until the end, so that collections meanwhile find little and cost seconds.
gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave the imported modules and the collected tests out of every later garbage collection.

    A full one visits millions of objects otherwise, and takes half a second.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real PostgreSQL server, made when the first test asks for it."""
    from tests.postgres_server import CannotRun, PostgresServer

    try:
        server = PostgresServer()
    except CannotRun as error:
        said = f"NO TEST OF POSTGRESQL RUNS HERE: {error}"
        warnings.warn(said, pytest.PytestWarning, stacklevel=1)
        if os.environ.get("CI"):
            pytest.fail(said)
        pytest.skip(said)
    yield server
    server.stop()


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """The address of a new, empty database on the PostgreSQL server."""
    return postgres.new_url()
