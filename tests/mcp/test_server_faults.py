"""Every fault of a server, on both transports and in both eras: what is done once, what is in doubt, and what comes next."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_args

import pytest

from holdfast import Agent
from holdfast.core.messages import Message, ToolCall, ToolResult
from holdfast.mcp import McpLimits, McpServer, McpTimeouts
from holdfast.testing import ScriptedModel
from holdfast.testing.mcp_emulator import McpEmulator, McpEra, McpFault
from holdfast.tools import Check, DoubtfulCall, Happened, NotHappened

DONE, DOUBT, FAILED = "done", "in_doubt", "failed"

OUTCOMES: dict[str, tuple[str, int]] = {
    "die-before": (DOUBT, 0),
    "die-in": (DOUBT, 1),
    "die-after": (DONE, 1),
    "silent": (DOUBT, 1),
    "twice": (DONE, 1),
    "other-id": (DOUBT, 1),
    "huge": (DOUBT, 1),
    "expire": (DONE, 1),
    "unauthorized": (FAILED, 0),
    "half": (DOUBT, 1),
    "noise": (DONE, 1),
    "change": (FAILED, 0),
    "refuse": (FAILED, 0),
    "internal": (DOUBT, 1),
    "error": (FAILED, 1),
    "garbage": (DOUBT, 1),
}
"""Fault -> the outcome of a write, and how often it was done."""

ON_HTTP = {**OUTCOMES, "noise": (DOUBT, 1)}
"""Over HTTP noise is the whole answer, so nobody knows what became of the call."""

WITHOUT_SESSIONS = {**ON_HTTP, "expire": (FAILED, 0)}
"""A status 404 is of no session there, so the server does not know the call."""

ERAS: tuple[McpEra, ...] = get_args(McpEra)


def pay(n: int) -> ToolCall:
    return ToolCall(f"c{n}", "pay", f'{{"n": {n}}}')


def results(messages: tuple[Message, ...]) -> list[ToolResult]:
    return [one for message in messages for one in message.parts if isinstance(one, ToolResult)]


@asynccontextmanager
async def reach(emulator: McpEmulator, kind: str, **keywords: Any) -> AsyncIterator[McpServer]:
    """The server on a transport."""
    if kind == "stdio":
        yield McpServer("shop", command=emulator.command, **keywords)
    else:
        async with emulator.serve_http() as url:
            yield McpServer("shop", url=url, **keywords)


async def run_fault(folder: Path, kind: str, era: McpEra, fault: McpFault) -> tuple[Any, ...]:
    """Pay with a fault, pay again, and look: the outcomes, and what was paid."""
    emulator = McpEmulator(folder, era=era, faults=[fault])
    timeouts = McpTimeouts(start=60.0, call=4.0 if fault in ("silent", "other-id") else 60.0)
    limits = McpLimits(message=1_000_000)
    async with reach(emulator, kind, timeouts=timeouts, limits=limits) as server:
        model = ScriptedModel(pay(1), pay(2), "done", pay(3), "done")
        agent = Agent(model, toolsets=[server])
        async with agent:
            first = await agent.run("Pay.")
            if fault == "change":  # the server itself has taken the tool away
                return [one.outcome for one in results(first.messages)[:1]], emulator.effects
            second = await agent.run("Pay.")
    assert (first.output, second.output) == ("done", "done")
    outcomes = [one.outcome for one in results(first.messages) + results(second.messages)]
    return outcomes, emulator.effects


@pytest.mark.slow  # it starts and kills servers: a process each
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_a_fault_ends_no_turn_repeats_no_write_and_is_over_with_the_next_call(
    tmp_path: Path, kind: str, era: McpEra
) -> None:
    wrong = []
    for fault in get_args(McpFault):
        if kind == "stdio" and fault in ("expire", "unauthorized"):
            continue  # they are of HTTP
        by_http = WITHOUT_SESSIONS if era == "2026-07-28" else ON_HTTP
        outcome, count = (by_http if kind == "http" else OUTCOMES)[fault]
        folder = tmp_path / fault
        folder.mkdir()
        seen = await run_fault(folder, kind, era, fault)
        more = [] if fault == "change" else [DONE, DONE]
        others = [] if fault == "change" else [{"n": 2}, {"n": 3}]
        expected = [([outcome, *more], [{"n": 1}] * count + others)]
        if fault.startswith("die"):
            # The next call may reach the process that is dying: then it was not done, and is in doubt.
            expected.append(([outcome, DOUBT, DONE], [{"n": 1}] * count + [{"n": 3}]))
        if seen not in expected:
            wrong.append((fault, seen, expected))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.slow  # it starts and kills servers: a process each
@pytest.mark.parametrize(("fault", "result"), [("die-in", "read back"), ("die-before", "pay")])
async def test_a_check_settles_the_doubt_about_a_call(
    tmp_path: Path, fault: McpFault, result: str
) -> None:
    emulator = McpEmulator(tmp_path, faults=[fault])

    def was_paid(call: DoubtfulCall) -> Happened | NotHappened:
        return Happened("read back") if call.arguments in emulator.effects else NotHappened()

    checks = {"pay": Check(was_paid, settle=0.1)}
    timeouts = McpTimeouts(start=60.0)
    server = McpServer("shop", command=emulator.command, timeouts=timeouts, checks=checks)
    found = await Agent(ScriptedModel(pay(1), "done"), toolsets=[server]).run("Pay.")
    (only,) = results(found.messages)
    assert only.text.startswith(result)
    assert (only.outcome, emulator.effects) == (DONE, [{"n": 1}])
