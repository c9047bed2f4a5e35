"""google-genai runs the tools of a streamed reply itself, and streams the next reply after it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.calls import asend_message_streaming, send_message, send_message_streaming
from holdfast.testing import Emulator
from holdfast.testing.emulator import call

genai = pytest.importorskip("google.genai")


def look(name: str) -> str:
    """Look something up."""
    return f"found {name}"


def make_client(provider: Emulator) -> tuple[Any, dict[str, Any]]:
    options = genai.types.HttpOptions(base_url=provider.base_url.removesuffix("/v1"))
    config = genai.types.GenerateContentConfig(tools=[look])
    request = {"model": "gemini-2.5-flash", "contents": "go", "config": config}
    return genai.Client(api_key="any", http_options=options), request


@pytest.mark.parametrize("streamed", [True, False])
async def test_automatic_function_calling_gives_the_text_after_the_tool(*, streamed: bool) -> None:
    async with Emulator([call("look", {"name": "x"}), "it is there"]) as provider:
        client, request = make_client(provider)
        models, shown = client.models, []
        if streamed:
            result = await asyncio.to_thread(
                lambda: send_message_streaming(
                    lambda: models.generate_content_stream(**request), status_callback=shown.append
                )
            )
            assert "🔧 Using look..." in shown
        else:
            result = await asyncio.to_thread(
                lambda: send_message(lambda: models.generate_content(**request))
            )
        second = provider.requests[1].body["contents"][-1]["parts"][0]
    assert (result.ok, result.text) == (True, "it is there")
    assert second["functionResponse"]["response"] == {"result": "found x"}
    assert not [line for line in shown if line[0] in "❌⚠"]


@pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_a_streamed_chat_with_tools_is_read_message_after_message(*, is_async: bool) -> None:
    script = [call("look", {"name": "x"}), "it is there", call("look", {"name": "y"}), "so is y"]
    results, shown = [], []
    async with Emulator(script) as provider:
        client, request = make_client(provider)
        chats = client.aio.chats if is_async else client.chats
        chat = chats.create(model=request["model"], config=request["config"])
        for question in ("x?", "y?"):
            if is_async:
                stream = chat.send_message_stream
                result = await asend_message_streaming(
                    stream, question, status_callback=shown.append
                )
            else:
                result = await asyncio.to_thread(
                    send_message_streaming,
                    chat.send_message_stream,
                    question,
                    status_callback=shown.append,
                )
            results.append((result.ok, result.text))
        assert len(provider.requests) == 4
    assert results == [(True, "it is there"), (True, "so is y")]
    assert shown.count("🔧 Using look...") == 2
    assert not [line for line in shown if line[0] in "❌⚠"]


@pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")
async def test_the_same_with_the_asynchronous_client() -> None:
    async with Emulator([call("look", {"name": "x"}), "it is there"]) as provider:
        client, request = make_client(provider)
        result = await asend_message_streaming(
            lambda: client.aio.models.generate_content_stream(**request)
        )
    assert (result.ok, result.text) == (True, "it is there")
