"""A script sees the bytes of a picture, as every wire sent them."""

import pytest

from holdfast import Agent, Media
from holdfast.testing import Emulator
from holdfast.testing.emulator import EmulatedRequest

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
MODELS = {
    "openai:gpt-5.2": "/v1",
    "openai-responses:gpt-5.2": "/v1",
    "anthropic:claude-sonnet-4-5": "",
    "gemini:gemini-3-pro": "/v1beta",
}


@pytest.mark.parametrize("model", MODELS)
async def test_a_script_sees_a_picture(model: str) -> None:
    seen: list[Media] = []

    def look(request: EmulatedRequest) -> str:
        parts = [part for message in request.messages for part in message.parts]
        seen.extend(part for part in parts if isinstance(part, Media))
        return "A picture."

    async with Emulator(look) as emulator:
        address = emulator.base_url.removesuffix("/v1") + MODELS[model]
        agent = Agent(model, base_url=address, api_key="key")
        await agent.run(["What is this?", Media("image/png", PICTURE)])
    assert seen == [Media("image/png", PICTURE)]


async def test_a_script_sees_the_address_of_a_picture() -> None:
    seen: list[object] = []

    def look(request: EmulatedRequest) -> str:
        seen.extend(request.messages[-1].parts)
        return "A picture."

    async with Emulator(look) as emulator:
        agent = Agent("openai:gpt-5.2", base_url=emulator.base_url, api_key="key")
        await agent.run([Media("image/png", url="https://pictures.example/1.png")])
    assert seen == [Media("image/*", url="https://pictures.example/1.png")]
