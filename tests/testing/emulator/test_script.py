"""Short forms of replies, and scripts that repeat a reply until it was delivered."""

from __future__ import annotations

import pytest

from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import FinishReason, Reply, Text, ToolCall
from holdfast.testing.emulator.emulated_request import EmulatedRequest
from holdfast.testing.emulator.script import Script, as_reply, call, thinking

ASK = EmulatedRequest(number=1)


def test_short_forms() -> None:
    assert as_reply("Hi", 1).text == "Hi"
    assert as_reply(Text("Hi"), 1).text == "Hi"
    reply = as_reply([thinking("Hm"), "Hi", call("a", {"x": 1}), call("b", id="mine")], 7)
    assert [part.id for part in reply.calls] == ["call_7_2", "mine"]
    assert reply.finish is FinishReason.TOOL_CALLS
    assert as_reply(Reply(parts=(call("a"),), finish=FinishReason.LENGTH), 1).finish is (
        FinishReason.LENGTH
    )
    with pytest.raises(ConfigurationError, match="replies"):
        as_reply(7, 1)  # type: ignore[arg-type]


async def test_a_reply_that_was_not_delivered_comes_again() -> None:
    script = Script(["one", "two"])
    first = script.next_turn()
    assert await first.reply_to(ASK) == "one"
    first.give_back()
    first.give_back()
    assert await script.next_turn().reply_to(ASK) == "one"
    assert await script.next_turn().reply_to(ASK) == "two"
    with pytest.raises(LookupError, match="2 replies"):
        script.next_turn()


async def test_functions_may_be_sync_async_or_part_of_a_list() -> None:
    async def later(request: EmulatedRequest) -> str:
        return f"later {request.number}"

    script = Script([lambda request: f"now {request.number}", later])
    assert await script.next_turn().reply_to(ASK) == "now 1"
    assert await script.next_turn().reply_to(ASK) == "later 1"
    forever = Script(later)
    for _ in range(3):
        assert await forever.next_turn().reply_to(ASK) == "later 1"


def test_calls_have_json_arguments() -> None:
    assert call("a") == ToolCall(id="", name="a", arguments="{}")
