"""The files of the guide for front ends run as they are shown, with the clients that they name."""

from __future__ import annotations

import importlib
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from tempfile import mkdtemp

import pytest
import uvicorn
from conformance.node_clients import FOLDER, needs_node, run_node
from tests.docs.providers import answer_for

PAGE = "docs/how-to/connect-a-front-end.md"
ROOT = Path(__file__).parents[1]
TITLED = re.compile(r'^```\w+ title="(?P<name>[^"]+)"\n(?P<text>.*?)^```', re.DOTALL | re.MULTILINE)


@pytest.fixture
def pages() -> Iterator[Path]:
    """A folder where the clients are found."""
    folder = Path(mkdtemp(dir=FOLDER, prefix=".pages-"))
    yield folder
    shutil.rmtree(folder)


@contextmanager
def served() -> Iterator[str]:
    """Serve the service of the page."""
    service = importlib.import_module("service")
    server = uvicorn.Server(
        uvicorn.Config(service.app, port=0, log_level="warning", log_config=None)
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        del sys.modules["service"]


@needs_node
def test_both_pages_approve_and_come_back(pages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = {one["name"]: one["text"] for one in TITLED.finditer((ROOT / PAGE).read_text())}
    (pages / "service.py").write_text(blocks.pop("service.py"))
    monkeypatch.syspath_prepend(pages)
    with chdir(pages), answer_for(PAGE), served() as host:
        for name, text in blocks.items():
            (pages / name).write_text(text.replace("127.0.0.1:8000", host))
        shown = run_node("front_end.mjs", str(pages))
    paid = "10 euros for order A1 are on their way"
    parts = [part for part in shown["chat"][1]["parts"] if part["type"] != "step-start"]
    assert [part["type"] for part in parts] == ["text", "tool-refund", "text"]
    assert (parts[1]["output"], parts[2]["text"]) == (paid, "Done.")
    assert shown["cancelled"][1]["metadata"]["status"] == "cancelled"
    assert [one["metadata"]["tool"] for one in shown["interrupts"]] == ["refund"]
    assert [one["role"] for one in shown["thread"]] == ["user", "assistant", "tool", "assistant"]
    assert shown["thread"][2]["content"] == paid
