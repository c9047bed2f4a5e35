"""What the long tests of workers share with the short ones: the servers."""

from __future__ import annotations

from tests.conftest import anyio_backend, postgres, url
from tests.worker.conftest import nats_server

__all__ = ["anyio_backend", "nats_server", "postgres", "url"]
