"""The routes `/health`, `/ready` and `/metrics`, for machines that watch the service."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from holdfast.server.health.prometheus import CONTENT_TYPE
from holdfast.server.health.readiness import Readiness
from holdfast.server.health.service_metrics import ServiceMetrics


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
