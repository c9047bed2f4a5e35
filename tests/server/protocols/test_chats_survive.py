"""A service is killed, or told to stop, in the middle of a text: the page comes back to exactly that text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.server.protocols.agui_reader import AguiReader
from tests.server.protocols.chat_processes import ChatProcess
from tests.server.protocols.chat_program import LONG
from tests.server.protocols.chatting import build

pytestmark = pytest.mark.slow  # kills services


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ChatProcess]:
    with ChatProcess(tmp_path) as running:
        yield running


def read_events(response: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


def send(service: ChatProcess, path: str, body: object, end: str) -> list[dict[str, Any]]:
    """Send a message, end the process in the middle of the text, and return what came."""
    seen: list[dict[str, Any]] = []
    try:
        with httpx.stream("POST", f"{service.url}{path}", json=body, timeout=60) as response:
            for event in read_events(response):
                seen.append(event)
                if sum("delta" in one for one in seen) == 5:
                    getattr(service, end)()
    except httpx.HTTPError:
        assert end == "kill"
    service.start()
    return seen


MESSAGE = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "long"}]}
RUN = {
    "threadId": "ada",
    "runId": "r",
    "messages": [{"id": "m1", "role": "user", "content": "long"}],
}


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_chat_is_resumed_with_the_exact_text(service: ChatProcess, end: str) -> None:
    body = {"id": "ada", "messages": [MESSAGE]}
    seen = send(service, "/vercel/clerk/chat", body, end)
    if end == "stop":
        assert seen[-1]["finishReason"] == "interrupted"
        assert seen[-1]["messageMetadata"]["end"] == "shutting_down"
    url = f"{service.url}/vercel/clerk/chat/ada/stream?ended=replay"
    with httpx.stream("GET", url, timeout=60) as response:
        again = list(read_events(response))
    assert [part.get("text") for part in build(again)["parts"]] == [None, LONG]
    assert build(again)["id"] == build(seen)["id"] == "ada.t1"
    with httpx.stream(
        "POST", f"{service.url}/vercel/clerk/chat", json=body, timeout=60
    ) as response:
        assert build(list(read_events(response)))["parts"] == build(again)["parts"]


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_thread_is_attached_again_with_the_exact_text(service: ChatProcess, end: str) -> None:
    seen = send(service, "/agui/clerk", RUN, end)
    if end == "stop":
        assert (seen[-1]["type"], seen[-1]["code"]) == ("RUN_ERROR", "shutting_down")
    page = AguiReader([{"id": "m1", "role": "user", "content": "long"}])
    for event in seen:
        page.take(event)
    page.disconnect()
    run = {**RUN, "messages": page.messages}
    with httpx.stream("POST", f"{service.url}/agui/clerk", json=run, timeout=60) as response:
        for event in read_events(response):
            page.take(event)
    assert [one["content"] for one in page.messages] == ["long", LONG]
