"""Short forms of replies, and scripts that serve a reply until it was delivered."""

from __future__ import annotations

import pytest

from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import FinishReason, Reply, Text, ToolCall
from holdfast.testing.emulator.brain import Script, as_reply, call, thinking
from holdfast.testing.emulator.request import EmulatedRequest

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
    with pytest.raises(ConfigurationError, match="brain"):
        as_reply(7, 1)  # type: ignore[arg-type]


async def test_a_reply_that_was_not_delivered_comes_again() -> None:
    script = Script(["one", "two"])
    first = script.take()
    assert await first.answer(ASK) == "one"
    first.give_back()
    first.give_back()
    assert await script.take().answer(ASK) == "one"
    assert await script.take().answer(ASK) == "two"
    with pytest.raises(LookupError, match="2 replies"):
        script.take()


async def test_functions_may_be_sync_async_or_part_of_a_list() -> None:
    async def later(request: EmulatedRequest) -> str:
        return f"later {request.number}"

    script = Script([lambda request: f"now {request.number}", later])
    assert await script.take().answer(ASK) == "now 1"
    assert await script.take().answer(ASK) == "later 1"
    forever = Script(later)
    for _ in range(3):
        assert await forever.take().answer(ASK) == "later 1"


def test_calls_have_json_arguments() -> None:
    assert call("a") == ToolCall(id="", name="a", arguments="{}")
