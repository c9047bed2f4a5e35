"""Tools that the provider runs, on the wires that have them: shown live, kept, and sent back as they came."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.wire.rig import MODELS, MODES, PATIENT, want_whole_replies

from holdfast import Agent, Limits, RetryOptions, tool
from holdfast.core.deltas import HostedToolFinished, HostedToolStarted
from holdfast.core.messages import FinishReason, Message, Opaque, Reply, Text
from holdfast.core.notices import AttemptAbandoned, ToolStarted
from holdfast.errors import HoldfastError
from holdfast.journal.sqlite.sqlite_journal import SqliteJournal
from holdfast.models import CodeExecution, WebSearch, find_citations, find_hosted_calls
from holdfast.runtime.sessions.agent_sessions import render_conversation
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.testing.emulator import (
    DropAfter,
    Emulator,
    ErrorResponse,
    NoTerminator,
    SplitEveryByte,
    call,
    cited,
    hosted_call,
)
from holdfast.testing.emulator.script import ReplyLike

WIRES = ("openai_responses", "anthropic", "gemini")
PAGE = "https://porto.pt"
SEARCHED: list[Any] = [
    "Let me look. ",
    hosted_call("web_search", {"query": "Porto"}, pages=[PAGE]),
    hosted_call("code_execution", {"code": "print(1)"}, result="1\n"),
    cited("It is súnny.", PAGE, "Porto"),
]
on_every_wire = pytest.mark.parametrize("wire", WIRES)
in_both_modes = pytest.mark.parametrize("mode", MODES)


def searcher(wire: str, emulator: Emulator, **more: Any) -> tuple[Agent[Any], list[str]]:
    ran: list[str] = []

    @tool(effect="read")
    async def weather(city: str) -> str:
        """Current weather in a city."""
        ran.append(city)
        return f"sunny in {city}"

    agent: Agent[Any] = Agent(
        MODELS[wire],
        base_url=emulator.base_url_for(wire),
        api_key="k",
        timeouts=PATIENT,
        clock=FakeClock(),
        tools=[weather, WebSearch(), CodeExecution()],
        **more,
    )
    return agent, ran


async def items_of(agent: Agent[Any], prompt: str, **more: Any) -> tuple[list[Any], Any]:
    async with agent.stream(prompt, **more) as run:
        return [item async for item in run], run.result


def wire_parts(body: Any, wire: str) -> list[Any]:
    """What a request sends of the reply that the provider made with its own tools."""
    if wire == "openai_responses":
        return [item for item in body["input"] if item.get("type", "").endswith("_call")]
    if wire == "gemini":
        parts = [part for content in body["contents"] for part in content["parts"]]
        return [part for part in parts if {"executableCode", "codeExecutionResult"} & part.keys()]
    blocks = [b for m in body["messages"] if isinstance(m["content"], list) for b in m["content"]]
    return [block for block in blocks if block["type"].startswith(("server_", "web_", "bash_"))]


@on_every_wire
@in_both_modes
async def test_calls_of_the_provider_are_carried_back_and_never_run_here(
    wire: str, mode: str
) -> None:
    script = [[*SEARCHED, call("weather", {"city": "Faro"})], "Done.", "Next."]
    async with Emulator(script) as emulator:
        agent, ran = searcher(wire, emulator)
        if mode == "whole":
            want_whole_replies(agent)
        result = await agent.run("Hi", session="s", limits=Limits(tool_calls=1))
        later = await agent.run("And now?", session="s")
        bodies = [entry.body for entry in emulator.requests]
        assert [entry.status for entry in emulator.requests] == [200, 200, 200]
    assert ran == ["Faro"]
    assert (result.output, later.output) == ("Done.", "Next.")
    assert result.usage.hosted_calls == 2
    found = {one.name: one for one in find_hosted_calls(result.messages)}
    assert found.keys() == {"web_search", "code_execution"}
    assert found["code_execution"].result == "1\n"
    assert '"print(1)"' in found["code_execution"].arguments
    assert "Porto" in found["web_search"].arguments
    assert PAGE in found["web_search"].result
    assert all(one.finished and not one.is_error for one in found.values())
    sent = wire_parts(bodies[1], wire)
    assert len(sent) == {"openai_responses": 3, "anthropic": 4, "gemini": 2}[wire]
    assert wire_parts(bodies[2], wire) == sent
    (source,) = find_citations(result.messages[1])
    assert (source.url, source.title) == (PAGE, "Porto")
    assert result.messages[1].text[source.start : source.end] == "It is súnny."


@pytest.mark.slow  # takes half a second or more
@on_every_wire
@pytest.mark.parametrize("faults", [(), (SplitEveryByte(),)], ids=["whole", "byte by byte"])
async def test_calls_of_the_provider_are_shown_live(wire: str, faults: Any) -> None:
    async with Emulator([SEARCHED], faults=faults) as emulator:
        agent, _ = searcher(wire, emulator)
        items, _ = await items_of(agent, "Hi")
    assert not any(isinstance(item, ToolStarted) for item in items)
    started = [item.name for item in items if isinstance(item, HostedToolStarted)]
    finished = [item for item in items if isinstance(item, HostedToolFinished)]
    assert sorted(started) == ["code_execution", "web_search"]
    assert [one.name for one in finished] == started
    assert {one.name: one.result for one in finished}["code_execution"] == "1\n"


@on_every_wire
async def test_a_tool_of_the_provider_may_fail(wire: str) -> None:
    failed = hosted_call("code_execution", {"code": "1/0"}, error="unavailable")
    async with Emulator([[failed, "Sorry."], "Next."]) as emulator:
        agent, _ = searcher(wire, emulator)
        result = await agent.run("Hi", session="s")
        await agent.run("Again", session="s")
        assert emulator.requests[-1].status == 200
    (one,) = find_hosted_calls(result.messages)
    assert (one.is_error, one.finished, result.output) == (True, True, "Sorry.")


@pytest.mark.slow  # takes half a second or more
@on_every_wire
@pytest.mark.parametrize("chunks", range(3, 14))
async def test_a_stream_that_is_cut_among_these_calls_is_asked_for_again(
    wire: str, chunks: int
) -> None:
    async with Emulator([SEARCHED, "Next."], faults=[DropAfter(chunks)]) as emulator:
        agent, _ = searcher(wire, emulator)
        items, result = await items_of(agent, "Hi", session="s")
        later = await agent.run("Again", session="s")
        assert {entry.status for entry in emulator.requests} == {200}
    assert result.text == "Let me look. It is súnny."
    assert len(find_hosted_calls(result.messages)) == 2
    assert later.output in ("Next.", result.text)  # a reply that was cut at its very end counts
    shown = [type(item) for item in items if isinstance(item, HostedToolStarted | AttemptAbandoned)]
    if AttemptAbandoned in shown:
        # What was shown before is void, and everything is shown again.
        assert shown[shown.index(AttemptAbandoned) + 1 :].count(HostedToolStarted) == 2
    else:
        assert shown.count(HostedToolStarted) == 2


@on_every_wire
async def test_a_reply_that_never_ends_leaves_nothing_that_the_provider_refuses(wire: str) -> None:
    faults: list[Any] = [[NoTerminator(), DropAfter(8, reset=False)]]
    async with Emulator([SEARCHED, "Next."], faults=faults) as emulator:
        agent, _ = searcher(wire, emulator, retry=RetryOptions(max_retries=0))
        with pytest.raises(HoldfastError):
            await agent.run("Hi", session="s")
        result = await agent.run("Again", session="s")
        assert emulator.requests[-1].status == 200
    assert result.text


@on_every_wire
async def test_another_process_continues_with_what_the_journal_has(
    wire: str, tmp_path: Path
) -> None:
    async with Emulator([SEARCHED, "Next."]) as emulator:
        journal = SqliteJournal(tmp_path / "talk.db")
        agent, _ = searcher(wire, emulator, journal=journal)
        first = await agent.run("Hi", session="s")
        journal.close()
        reopened = SqliteJournal(tmp_path / "talk.db")
        other, _ = searcher(wire, emulator, journal=reopened)
        result = await other.run("Again", session="s")
        reopened.close()
        assert emulator.requests[-1].status == 200
        sent = wire_parts(emulator.requests[-1].body, wire)
    assert sent
    assert find_hosted_calls(result.messages) == find_hosted_calls(first.messages)
    assert result.messages[: len(first.messages)] == first.messages


@pytest.mark.parametrize("other", ["openai_chat", *WIRES])
@on_every_wire
async def test_another_wire_gets_the_text_and_not_the_calls(wire: str, other: str) -> None:
    async with Emulator([SEARCHED, "Next."]) as emulator:
        agent, _ = searcher(wire, emulator)
        first = await agent.run("Hi")
        successor = Agent(
            MODELS[other], base_url=emulator.base_url_for(other), api_key="k", timeouts=PATIENT
        )
        result = await successor.run("Again", history=first.messages)
        request = emulator.requests[-1]
        assert request.status == 200, request.problem
        assert "Let me look. " in str(request.body)
        assert ("print(1)" in str(request.body)) is (wire == other)
    assert result.output == "Next."


def paused(*parts: Any) -> Reply:
    return Reply(parts, finish=FinishReason.PAUSE)


CALL = Opaque(
    "anthropic",
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "a"}},
)
RESULT = Opaque(
    "anthropic", {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
)


@in_both_modes
async def test_a_paused_reply_is_continued(mode: str) -> None:
    script: list[ReplyLike] = [paused(Text("Wait. "), CALL), [RESULT, "Found."], "Next."]
    async with Emulator(script) as emulator:
        agent, _ = searcher("anthropic", emulator)
        if mode == "whole":
            want_whole_replies(agent)
        result = await agent.run("Hi", session="s")
        await agent.run("Again", session="s")
        assert [entry.status for entry in emulator.requests] == [200, 200, 200]
    (one,) = find_hosted_calls(result.messages)
    assert (one.name, one.finished, result.output, result.iterations) == (
        "web_search",
        True,
        "Found.",
        2,
    )


async def test_a_turn_that_failed_after_a_pause_is_resumed(tmp_path: Path) -> None:
    script: list[ReplyLike] = [paused(Text("Wait. "), CALL), [CALL, RESULT, "Found."], "Next."]
    faults = [None, ErrorResponse("bad_key")]
    async with Emulator(script, faults=faults) as emulator:
        journal = SqliteJournal(tmp_path / "talk.db")
        agent, _ = searcher("anthropic", emulator, journal=journal)
        with pytest.raises(HoldfastError):
            await agent.run("Hi", session="s")
        journal.close()
        reopened = SqliteJournal(tmp_path / "talk.db")
        other, _ = searcher("anthropic", emulator, journal=reopened)
        result = await other.resume("s")
        later = await other.run("Again", session="s")
        reopened.close()
        assert [entry.status for entry in emulator.requests] == [200, 401, 200, 200]
    assert (result.output, later.output) == ("Found.", "Next.")


async def test_a_pause_at_the_limit_leaves_a_history_that_the_provider_accepts() -> None:
    async with Emulator([paused(Text("Wait. "), CALL), "Next."]) as emulator:
        agent, _ = searcher("anthropic", emulator)
        with pytest.raises(HoldfastError):
            await agent.run("Hi", session="s", limits=Limits(iterations=1))
        result = await agent.run("Again", session="s")
        assert [entry.status for entry in emulator.requests] == [200, 200], emulator.requests
    assert result.output == "Next."


async def test_an_unknown_tool_of_the_provider_is_carried_and_named_as_it_is() -> None:
    dream = {"type": "server_tool_use", "id": "srvtoolu_9", "name": "dream", "input": {}}
    seen = {"type": "dream_tool_result", "tool_use_id": "srvtoolu_9", "content": {"odd": [1]}}
    other = {"type": "hologram", "data": "x"}
    blocks = [Opaque("anthropic", block) for block in (dream, seen, other)]
    async with Emulator([[*blocks, "Done."], "Next."]) as emulator:
        agent, _ = searcher("anthropic", emulator)
        items, result = await items_of(agent, "Hi", session="s")
        await agent.run("Again", session="s")
        assert emulator.requests[-1].status == 200
        sent: Any = emulator.requests[-1].body
    assert sent["messages"][1]["content"][:3] == [dream, seen, other]
    assert [i.name for i in items if isinstance(i, HostedToolStarted)] == ["dream"]
    assert result.usage.hosted_calls == 1


async def test_a_scripted_model_sees_the_tools_of_the_provider() -> None:
    model = ScriptedModel("Hello.")
    agent = Agent(model, tools=[WebSearch(max_uses=2)])
    await agent.run("Hi")
    assert model.requests[0].hosted_tools == (WebSearch(max_uses=2),)
    assert "run by the provider: web_search" in agent.describe()


def test_a_message_without_such_parts_has_no_calls_and_no_citations() -> None:
    message = Message("assistant", (Text("Hello."),))
    assert find_hosted_calls(message) == ()
    assert find_citations(message) == ()


@on_every_wire
async def test_a_summary_tells_what_the_provider_ran(wire: str) -> None:
    async with Emulator([SEARCHED]) as emulator:
        agent, _ = searcher(wire, emulator)
        result = await agent.run("Hi")
    summary = render_conversation(result.messages)
    assert "[code_execution gave 1\n]" in summary
    assert "[the provider runs web_search with " in summary
    assert PAGE in summary
