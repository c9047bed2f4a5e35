"""A reply that a hook replaced after it was streamed reaches every kind of live reader."""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable

import pytest
from pydantic import BaseModel

from holdfast import Agent, Middleware, ModelReplied, Reply, RunStream, TextDelta
from holdfast.cli.run_printer import RunPrinter
from holdfast.core.messages import Text
from holdfast.errors import TextWithdrawn
from holdfast.events import Observation, ReplyReplaced
from holdfast.middleware import AfterReply, ModelCall, UseReply
from holdfast.testing import ScriptedModel


class After(Middleware):
    """Replaces each reply after it was streamed."""

    def __init__(self, text: str) -> None:
        self.text = text

    async def after_reply(self, context: AfterReply) -> UseReply:
        return UseReply(self.text)


class Around(After):
    """Replaces each reply around the model call."""

    async def wrap_model(
        self, context: ModelCall, call_next: Callable[[ModelCall], Awaitable[Reply]]
    ) -> Reply:
        await call_next(context)
        return Reply((Text(self.text),))

    async def after_reply(self, context: AfterReply) -> None:  # type: ignore[override]
        return None


KINDS = pytest.mark.parametrize("kind", [After, Around])


def agent(kind: type[After], text: str = "a new reply") -> Agent[str]:
    return Agent(ScriptedModel("one two three", "more"), middleware=[kind(text)])


@KINDS
async def test_a_reader_of_items_gets_the_new_text_before_the_reply(kind: type[After]) -> None:
    live, texts = "", []
    async with agent(kind).stream("Hi") as run:
        async for item in run:
            if isinstance(item, TextDelta):
                live += item.text
            elif isinstance(item, ReplyReplaced):
                texts.append(live)
                live = ""
            elif isinstance(item, ModelReplied):
                texts.append(live)
                assert item.reply.text == live
    assert texts == ["one two three", "a new reply"]


@KINDS
async def test_live_text_is_withdrawn_and_then_yielded_once(kind: type[After]) -> None:
    shown: list[str] = []

    async def show(run: RunStream[str]) -> None:
        async for text in run.text(live=True):
            shown.append(text)  # noqa: PERF401  # REASON: the pieces before the error count

    async with agent(kind).stream("Hi") as run:
        with pytest.raises(TextWithdrawn) as withdrawn:
            await show(run)
        assert withdrawn.value.text == "".join(shown) == "one two three"
        assert [text async for text in run.text(live=True)] == ["a new reply"]


@KINDS
async def test_equal_text_is_neither_withdrawn_nor_yielded_twice(kind: type[After]) -> None:
    async with agent(kind, "one two three").stream("Hi") as run:
        texts = [text async for text in run.text(live=True)]
    assert "".join(texts) == "one two three"


@KINDS
async def test_committed_text_is_the_new_reply(kind: type[After]) -> None:
    async with agent(kind).stream("Hi") as run:
        assert [text async for text in run.text()] == ["a new reply"]


@KINDS
async def test_the_terminal_shows_the_new_text_once(kind: type[After]) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    for screen, expected in (
        (Screen(), "one two three\na new reply\n"),
        (io.StringIO(), "a new reply\n"),
    ):
        printer = RunPrinter(screen, io.StringIO())
        async with agent(kind).stream("Hi") as run:
            async for item in run:
                printer.print_item(item)
        printer.finish_line()
        assert screen.getvalue() == expected


class City(BaseModel):
    name: str


async def test_a_preview_of_an_output_starts_over() -> None:
    model = ScriptedModel('{"name": "Porto"}')
    with_output = Agent(model, output=City, middleware=[After('{"name": "Faro"}')])
    async with with_output.stream("Hi") as run:
        values = [
            dict(value) if isinstance(value, dict) else value async for value in run.partials()
        ]
    assert values[-1] == {"name": "Faro"}
    assert None in values
    assert run.result.output == City(name="Faro")


async def test_a_reply_that_is_not_replaced_is_streamed_once() -> None:
    seen: list[Observation] = []
    plain = Agent(ScriptedModel("one two"), observers=[seen.append])
    async with plain.stream("Hi") as run:
        assert [text async for text in run.text(live=True)] == ["one", " two"]
    assert sum(isinstance(one.item, TextDelta) for one in seen) == 2
