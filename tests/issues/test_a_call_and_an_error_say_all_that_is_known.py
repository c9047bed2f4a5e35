"""The context of a call has its arguments, an error the provider's type, and a call without a name a word."""

from __future__ import annotations

from typing import Any

from holdfast import (
    Agent,
    ProviderError,
    RetryOptions,
    ToolContext,
    current_tool_call,
    tool,
)
from holdfast.core.messages import ToolCall
from holdfast.testing import Emulator, FakeClock, ScriptedModel
from holdfast.testing.emulator import HttpStatus

BODY = {"error": {"message": "no", "type": "invalid_request_error", "code": "invalid_api_key"}}


async def test_the_context_of_a_call_has_its_arguments() -> None:
    seen: list[Any] = []

    @tool(effect="read")
    def find(context: ToolContext, city: str, days: int = 3) -> str:
        """Find."""
        call = current_tool_call()
        seen.append((context.arguments, call and call.arguments))
        return city

    call = ToolCall("1", "find", '{"city": "Porto"}')
    await Agent(ScriptedModel(call, "done"), tools=[find]).run("go")
    assert seen == [({"city": "Porto", "days": 3}, {"city": "Porto", "days": 3})]


async def test_the_type_of_an_error_is_kept_beside_its_code() -> None:
    async with Emulator(["never"], faults=[HttpStatus(401, body=BODY)]) as provider:
        agent = Agent(
            "openai:demo",
            base_url=provider.base_url,
            api_key="k",
            retry=RetryOptions(include_provider_details=True),
            clock=FakeClock(),
        )
        try:
            await agent.run("go")
        except ProviderError as error:
            info, text = error.info, str(error)
    assert info is not None
    assert (info.code, info.type) == ("invalid_api_key", "invalid_request_error")
    assert "code invalid_api_key, type invalid_request_error" in text


async def test_a_call_without_a_name_is_unknown() -> None:
    result = await Agent(ScriptedModel(ToolCall("1", "", "{}"), "done")).run("go")
    part: Any = result.messages[2].parts[0]
    assert part.text.startswith("Error: Function 'Unknown' was not run: there is no such function")
