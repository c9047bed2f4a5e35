"""A turn that ends its worker, in every way: at most four deaths, and nobody else is hurt.

`HOLDFAST_FULL=1` tries every way with every engine.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.nats_server import NatsServer
from tests.postgres_server import PostgresServer
from tests.worker.poison_turns import check_poison
from tests.worker.poison_worker import KINDS

pytestmark = pytest.mark.anyio


PAIRS = [(("postgres", "nats")[number % 2], kind) for number, kind in enumerate(KINDS)]
ALL_PAIRS = [(engine, kind) for engine in ("postgres", "nats") for kind in KINDS]


@pytest.mark.parametrize(
    ("engine", "kind"), ALL_PAIRS if os.environ.get("HOLDFAST_FULL") else PAIRS
)
async def test_a_turn_that_ends_its_worker_is_parked_after_four_deaths(
    engine: str, kind: str, postgres: PostgresServer, nats_server: NatsServer, tmp_path: Path
) -> None:
    address = nats_server.url if engine == "nats" else None
    deaths = await check_poison(postgres.new_url(), address, kind, tmp_path, neighbours=12)
    print(f"{engine}, {kind}: {deaths}")
    assert len(deaths) == 4
