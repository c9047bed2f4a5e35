"""The web page of the guide for FastAPI works in a browser: text taken back, a reload at a question, an approval."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from queue import Queue

import pytest
import uvicorn
from fastapi import FastAPI, Request
from tests.docs.providers import answer_for

pytestmark = pytest.mark.slow  # needs a browser

PAGE = "docs/how-to/serve-with-fastapi.md"
ROOT = Path(__file__).parents[2]
BROWSER = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
TITLED = re.compile(r'^```\w+ title="(?P<name>[^"]+)"\n(?P<text>.*?)^```', re.DOTALL | re.MULTILINE)

# Does what a person does: sends a message, reloads the page at the question, and presses Yes.
PERSON = """
<script>
if (!sessionStorage.reloaded) {
  document.getElementById("text").value = "I want my 10 euros back.";
  document.getElementById("form").requestSubmit();
}
const timer = setInterval(() => {
  const yes = talk.querySelector("button");
  if (yes && !sessionStorage.reloaded) {
    if (!talk.querySelector("[data-status=waiting]")) return;
    sessionStorage.reloaded = talk.textContent;
    clearInterval(timer);
    location.reload();
    return;
  }
  yes?.click();
  if (!talk.querySelector("[data-status=completed], .problem")) return;
  clearInterval(timer);
  fetch("/shown", { method: "POST", body: `${sessionStorage.reloaded}|${talk.innerHTML}` });
}, 50);
</script>
</html>
"""


@pytest.mark.timeout(120)
@pytest.mark.skipif(BROWSER is None, reason="needs the browser chromium")
def test_a_person_reads_an_answer_and_approves_a_refund(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for block in TITLED.finditer((ROOT / PAGE).read_text("utf-8")):
        (tmp_path / block["name"]).write_text(block["text"])
    page = tmp_path / "chat.html"
    page.write_text(page.read_text("utf-8").replace("</html>\n", PERSON))
    monkeypatch.syspath_prepend(tmp_path)
    with (
        chdir(tmp_path),
        answer_for(PAGE),
        _serve() as (address, shown),
        _open_in_browser(address, tmp_path / "profile"),
    ):
        before, _, talk = shown.get(timeout=60).partition("|")
    assert before.endswith("YesNo"), "the page was reloaded at the question"
    assert ">I want my 10 euros back.</p>" in talk
    assert ">I ask for your 10 euros.</p>" in talk, "the text that was taken back is gone"
    assert "refund {" in talk
    assert ">Done.</p>" in talk
    assert 'class="problem"' not in talk


@contextmanager
def _open_in_browser(address: str, profile: Path) -> Iterator[None]:
    assert BROWSER is not None
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    quiet = subprocess.DEVNULL
    # With a port for its debugger, a browser without a window stays open.
    browser = subprocess.Popen(
        [BROWSER, *options, "--remote-debugging-port=0", address], stdout=quiet, stderr=quiet
    )
    try:
        yield
    finally:
        browser.terminate()
        browser.wait(timeout=20)


@contextmanager
def _serve() -> Iterator[tuple[str, Queue[str]]]:
    """Run the service, and collect what the page says that it shows."""
    app: FastAPI = importlib.import_module("service").app
    shown: Queue[str] = Queue()

    async def keep(request: Request) -> None:
        shown.put((await request.body()).decode())

    app.post("/shown")(keep)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/", shown
    finally:
        server.should_exit = True
        thread.join()
        del sys.modules["service"]
