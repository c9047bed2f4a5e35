"""The answers to `/health`, `/ready` and `/metrics`, for machines that watch the service.

A service is ready if its store can be written, and its journal answers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from starlette.responses import JSONResponse, Response

from holdfast.core.errors import HoldfastError
from holdfast.server.health.prometheus import CONTENT_TYPE
from holdfast.server.health.service_metrics import ServiceMetrics

ReadyCheck: TypeAlias = Callable[[], Awaitable[object]]
"""Returns if all is well, and otherwise raises HoldfastError."""

_CHECK_SECONDS = 5.0
_REMEMBERED_SECONDS = 1.0


class Readiness:
    """Asks all checks, at most once a second.

    Args:
        monotonic: a clock in seconds that does not go back.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._checks: dict[str, ReadyCheck] = {}
        self._at = float("-inf")
        self._problems: dict[str, str] = {}
        self._lock = asyncio.Lock()
        self.is_stopping: Callable[[], bool] = lambda: False
        """Whether the service ends, and new requests are to go elsewhere."""
        self.is_journal_lost: Callable[[], bool] = lambda: False
        """Whether it is known that the journal cannot be reached, so that no check waits for it."""

    def add_check(self, name: str, check: ReadyCheck) -> None:
        """Add a check.

        Args:
            name: names it in the answer.
            check: the check.
        """
        self._checks[name] = check

    async def find_problems(self) -> dict[str, str]:
        """Return the faults, by the names of the checks; nothing if the service is ready."""
        if self.is_stopping():
            return {"service": "is stopping"}
        if self.is_journal_lost():
            return {"journal": "cannot be reached"}
        async with self._lock:
            if self._monotonic() - self._at >= _REMEMBERED_SECONDS:
                found = await asyncio.gather(*map(_perform_check, self._checks.values()))
                named = zip(self._checks, found, strict=True)
                self._problems = {name: problem for name, problem in named if problem}
                self._at = self._monotonic()
        return self._problems


async def _perform_check(check: ReadyCheck) -> str:
    """Return the fault; "" if all is well. Nothing of a server or a path is shown."""
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            await check()
    except TimeoutError:
        return f"does not answer within {_CHECK_SECONDS:g} seconds"
    except HoldfastError as error:
        return f"does not work: {type(error).__name__}"
    return ""


def respond_health() -> Response:
    """Return the answer to `/health`: the process serves requests."""
    return JSONResponse({"status": "ok"})


async def respond_ready(readiness: Readiness) -> Response:
    """Return the answer to `/ready`: 503 with the reasons if the service cannot do its work."""
    problems = await readiness.find_problems()
    if problems:
        body = {"status": "not ready", "problems": problems}
        return JSONResponse(body, 503, {"Retry-After": "1"})
    return JSONResponse({"status": "ready"})


async def respond_metrics(metrics: ServiceMetrics) -> Response:
    """Return the answer to `/metrics`. Raises JournalError."""
    return Response(await metrics.write(), headers={"Content-Type": CONTENT_TYPE})
