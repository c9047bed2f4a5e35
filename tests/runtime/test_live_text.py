"""`run.text(live=True)`: piece by piece, and an error when text that was shown is void."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from holdfast import Agent, Middleware, Reply, RunStream, StructuredOutput
from holdfast.core.errors import ProviderError, TruncatedError
from holdfast.errors import TextWithdrawn
from holdfast.events import ReplyReplaced
from holdfast.middleware import ModelCall, UseReply
from holdfast.testing import Emulator, FakeClock, ScriptedModel
from holdfast.testing.emulator import DropAfter, call

Shown = list[str | None]
AskModel = Callable[[ModelCall], Awaitable[Reply]]


async def read_live(run: RunStream[object]) -> Shown:
    """Read as a user interface does: None means that the text before it was withdrawn."""
    shown: Shown = []
    while True:
        try:
            async for text in run.text(live=True):
                shown.append(text)
        except TextWithdrawn as void:
            was_shown = void.text == "".join(one for one in shown if one)
            shown = [None] if was_shown else ["the withdrawn text was never shown"]
        else:
            return shown


async def read_carelessly(agent: Agent) -> None:
    async with agent.stream("Count.") as run:
        async for _ in run.text(live=True):
            pass


async def test_text_of_an_attempt_that_breaks_off_is_withdrawn() -> None:
    async with Emulator(["one two three four"], faults=[DropAfter(3)]) as provider:
        agent = Agent("openai:m", base_url=provider.base_url, api_key="k", clock=FakeClock())
        async with agent.stream("Count.") as run:
            shown = await read_live(run)
    assert shown[0] is None
    assert "".join(one for one in shown if one) == run.result.output == "one two three four"
    assert len(shown) > 2


async def test_a_reader_that_does_not_expect_a_withdrawal_never_takes_void_text_for_whole() -> None:
    async with Emulator(["one two three four"], faults=[DropAfter(3)]) as provider:
        agent = Agent("openai:m", base_url=provider.base_url, api_key="k", clock=FakeClock())
        with pytest.raises(TextWithdrawn) as caught:
            await read_carelessly(agent)
    assert str(caught.value).startswith("The text that was shown is void: ")


async def test_committed_text_is_never_withdrawn() -> None:
    async with Emulator(["one two three four"], faults=[DropAfter(3)]) as provider:
        agent = Agent("openai:m", base_url=provider.base_url, api_key="k", clock=FakeClock())
        async with agent.stream("Count.") as run:
            assert [text async for text in run.text()] == ["one two three four"]


async def test_a_run_that_fails_raises_its_own_error_after_the_text() -> None:
    cut = TruncatedError("Cut.", partial=UseReply("half a").as_reply())
    async with Agent(ScriptedModel(cut)).stream("Hi") as run:
        with pytest.raises(TruncatedError):
            await read_live(run)
        with pytest.raises(TruncatedError):
            await anext(run.text(live=True))


async def test_an_attempt_that_showed_nothing_withdraws_nothing() -> None:
    model = ScriptedModel(ProviderError("down"), "done")
    async with Agent(model, clock=FakeClock()).stream("Hi") as run:
        assert await read_live(run) == ["done"]


class Polite(Middleware):
    def __init__(self, reply: str) -> None:
        self.reply = reply

    async def after_reply(self, context: object) -> UseReply:
        return UseReply(self.reply)


async def test_a_reply_that_a_hook_replaces_withdraws_what_was_shown() -> None:
    agent = Agent(ScriptedModel("go away"), middleware=[Polite("Good day, Ann")])
    async with agent.stream("Hi") as run:
        assert await read_live(run) == [None, "Good day, Ann"]
    async with Agent(ScriptedModel("hi"), middleware=[Polite("yo")]).stream("Hi") as run:
        assert ReplyReplaced("t1.i0.model") in [item async for item in run]


async def test_a_hook_that_gives_the_same_text_withdraws_nothing() -> None:
    agent = Agent(ScriptedModel("one two"), middleware=[Polite("one two")])
    async with agent.stream("Hi") as run:
        assert await read_live(run) == ["one", " two"]


class Instead(Middleware):
    async def before_iteration(self, context: object) -> UseReply:
        return UseReply("given")


async def test_a_reply_that_a_hook_gives_reaches_the_live_reader() -> None:
    async with Agent(ScriptedModel(), middleware=[Instead()]).stream("Hi") as run:
        assert await read_live(run) == ["given"]


async def test_an_output_that_does_not_fit_is_withdrawn() -> None:
    model = ScriptedModel('{"a": "no"}', '{"a": 1}')
    async with Agent(model, output=dict[str, int]).stream("Hi") as run:
        shown = await read_live(run)
    assert shown[0] is None
    assert "".join(one for one in shown if one) == '{"a": 1}'


async def test_an_output_that_was_never_shown_is_not_withdrawn() -> None:
    """A call of the tool for the output does not stream as text."""
    wanted = StructuredOutput(dict[str, int], mode="tool")
    async with Emulator(
        [call("final_answer", {"a": "no"}), call("final_answer", {"a": 1})]
    ) as provider:
        agent = Agent("openai:m", base_url=provider.base_url, api_key="k", output=wanted)
        async with agent.stream("Hi") as run:
            shown = await read_live(run)
    assert run.result.output == {"a": 1}
    assert shown == []


async def test_pieces_arrive_while_the_model_still_writes() -> None:
    """The text of the whole reply at the end would not stream in a browser."""
    words = " ".join(str(number) for number in range(40))
    async with Emulator([words]) as provider:
        agent = Agent("openai:m", base_url=provider.base_url, api_key="k")
        async with agent.stream("Count.") as run:
            pieces = [text async for text in run.text(live=True)]
    assert len(pieces) > 10
    assert "".join(pieces) == words


class Second(Middleware):
    """Asks the model twice, or returns a reply of its own."""

    def __init__(self, own: str = "") -> None:
        self.own = own

    async def wrap_model(self, context: ModelCall, call_next: AskModel) -> Reply:
        await call_next(context)
        return UseReply(self.own).as_reply() if self.own else await call_next(context)


async def test_a_wrap_hook_that_replaces_a_reply_or_asks_again_withdraws_the_first() -> None:
    async with Agent(ScriptedModel("no"), middleware=[Second("mine")]).stream("Hi") as run:
        assert await read_live(run) == [None, "mine"]
    async with Agent(ScriptedModel("no", "yes"), middleware=[Second()]).stream("Hi") as run:
        assert await read_live(run) == [None, "yes"]
