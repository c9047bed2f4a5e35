"""Live items and saved records give the same transcript."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adh.transcript.blocks import AnswerBlock, Block, NoteBlock, ToolBlock
from adh.transcript.fold import Transcript
from holdfast import (
    Agent,
    HoldfastError,
    MemoryJournal,
    Reply,
    RetryOptions,
    Text,
    ToolCall,
    ToolError,
    tool,
)
from holdfast.errors import EmptyResponseError, TransportError, UnterminatedError
from holdfast.middleware import ToolPermission
from holdfast.models import Reasoning
from holdfast.testing import FakeClock, ScriptedModel

TEXTS = st.text(st.sampled_from("ab \n\r\x1b\u200b*#é😀"), min_size=1, max_size=40).filter(
    lambda text: bool(text.strip())
)


@tool(effect="read")
def look(path: str) -> str:
    """Look at a path."""
    if path == "fail":
        raise ToolError("There is no such path.\x1b[2J")
    return f"content of {path}"


@tool(effect="write")
def erase(path: str) -> str:
    """Erase a path."""
    return f"erased {path}"


CALLS = st.builds(
    lambda name, path: (name, msgspec.json.encode({"path": path}).decode()),
    st.sampled_from(["look", "erase", "absent"]),
    st.sampled_from(["a.py", "fail", "x" * 100]),
)
TOOL_LINES = st.lists(CALLS, min_size=1, max_size=3)
THOUGHTS = st.builds(lambda text, thought: Reply((Reasoning(thought), Text(text))), TEXTS, TEXTS)
FAILURES = st.one_of(
    st.just(EmptyResponseError("no text in response")),
    st.just(TransportError("the connection was lost")),
    TEXTS.map(lambda text: UnterminatedError("cut", partial=Reply((Text(text),)))),
)
LINES = st.one_of(TEXTS, TOOL_LINES, THOUGHTS, FAILURES)


def _to_script(lines: list[Any]) -> list[Any]:
    script: list[Any] = []
    for number, line in enumerate(lines):
        if isinstance(line, list):
            calls = [ToolCall(f"c{number}.{i}", *call) for i, call in enumerate(line)]
            script.append(calls)
        else:
            script.append(line)
    return script


def _comparable(block: Block) -> object:
    """What is kept of a block: not how it was streamed or how long it took."""
    if isinstance(block, AnswerBlock):
        return (block.id, block.turn, block.text, block.state, block.thought)
    if isinstance(block, ToolBlock):
        return msgspec.structs.replace(block, started=None, elapsed=None, output=None)
    if isinstance(block, NoteBlock):
        return block
    return (block.text, block.turn, block.undone)


def _is_unfinished(block: Block) -> bool:
    return isinstance(block, AnswerBlock) and block.state == "unfinished"


async def _talk(prompts: list[str], script: list[Any]) -> tuple[Transcript, Transcript]:
    journal = MemoryJournal()
    live = Transcript()
    refused: list[HoldfastError] = []
    clock = FakeClock()
    agent = Agent(
        ScriptedModel(*script),
        tools=[look, erase],
        journal=journal,
        retry=RetryOptions(max_retries=1),
        middleware=[ToolPermission(ask=["erase"], deny=["look(path=x*)"], default="allow")],
        clock=clock,
    )
    for prompt in prompts:
        live.send(prompt)
        try:
            async with agent.stream(prompt, session="s") as run:
                async for item in run:
                    live.apply(item, 0.0)
        except HoldfastError as error:
            refused.append(error)  # its text is in the transcript
    replayed = Transcript()
    for record in await journal.read("s"):
        replayed.apply(record.event, record.event.at)
    return live, replayed


@pytest.mark.slow  # takes half a second or more
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(TEXTS, min_size=1, max_size=3), st.lists(LINES, max_size=8))
def test_live_items_and_saved_records_give_the_same_blocks(
    prompts: list[str], lines: list[Any]
) -> None:
    live, replayed = asyncio.run(_talk(prompts, _to_script(lines)))

    # Text of an earlier attempt stays on the screen, and is not saved.
    kept = [one for one in live.blocks if replayed.find(one.id) or not _is_unfinished(one)]
    assert [*map(_comparable, kept)] == [*map(_comparable, replayed.blocks)]
    assert live.outcome == replayed.outcome
    assert live.usage == replayed.usage
    assert live.turn == replayed.turn
    assert not live.running
    shown = "".join(repr(block) for block in live.blocks) + live.status
    assert "\x1b" not in shown
    assert "\u200b" not in shown
