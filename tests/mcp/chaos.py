"""Turns against a server that fails and dies at random, and the count of what must never happen."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import get_args

from msgspec import Struct, field

from holdfast import Agent, MemoryJournal
from holdfast.core.messages import ToolCall, ToolResult
from holdfast.mcp import McpLimits, McpServer, McpTimeouts
from holdfast.testing import ScriptedModel
from holdfast.testing.mcp_emulator import McpEmulator, McpEra, McpFault

CALLS = 3
"""Writes of one turn."""


class Tally(Struct):
    """What happened to the writes of many turns."""

    turns: int = 0
    lost_turns: int = 0
    done: int = 0
    doubts: int = 0
    failures: int = 0
    twice: int = 0
    untold: int = 0
    """Writes that were done while the model read that they were not, without a word of doubt."""
    false: int = 0
    """Writes that the model read as done and that were not."""
    kills: int = 0
    errors: list[str] = field(default_factory=list)


async def run_turns(
    folder: Path, kind: str, era: McpEra, *, turns: int, share: float, kills: int, seed: int
) -> Tally:
    """Run turns of three writes each on one server, and count.

    Args:
        folder: for the emulator.
        kind: "stdio" or "http".
        era: the version of the protocol.
        turns: how many.
        share: the share of calls with a fault.
        kills: how often its process is killed, each time at a random moment of a turn.
        seed: for the faults and the moments.
    """
    rng = random.Random(seed)
    # A tool that is taken away stays away, so that fault has a test of its own.
    names = [one for one in get_args(McpFault) if one != "change"]
    faults: list[McpFault | None] = [
        rng.choice(names) if rng.random() < share else None for _ in range(turns * CALLS * 3)
    ]
    emulator = McpEmulator(folder, era=era, faults=faults)
    tally = Tally(turns=turns)
    killed_turns = set(rng.sample(range(turns), min(kills, turns)))
    read: dict[int, ToolResult] = {}
    async with AsyncExitStack() as stack:
        timeouts, limits = McpTimeouts(start=30.0, call=3.0), McpLimits(message=1_000_000)
        if kind == "stdio":
            server = McpServer("shop", command=emulator.command, timeouts=timeouts, limits=limits)
        else:
            url = await stack.enter_async_context(emulator.serve_http())
            server = McpServer("shop", url=url, timeouts=timeouts, limits=limits)
        agent = Agent(ScriptedModel("unused"), toolsets=[server], journal=MemoryJournal())
        await stack.enter_async_context(agent)
        for number in range(turns):
            calls = [make_call(number * CALLS + place) for place in range(CALLS)]
            running = agent.run("Pay.", model=ScriptedModel(*calls, "done"))
            turn = asyncio.create_task(asyncio.wait_for(running, 400))
            if number in killed_turns:
                await asyncio.sleep(rng.random() * 0.05)
                tally.kills += kill_last(emulator)
            try:
                result = await turn
            except Exception as error:  # noqa: BLE001  # REASON: any exception is a lost turn
                tally.lost_turns += 1
                tally.errors.append(f"turn {number}: {error!r}")
                continue
            for message in result.messages:
                for part in message.parts:
                    if isinstance(part, ToolResult):
                        read[int(part.call_id)] = part
    judge(tally, read, Counter(one["n"] for one in emulator.effects))
    return tally


def make_call(n: int) -> ToolCall:
    return ToolCall(str(n), "pay", f'{{"n": {n}}}')


def kill_last(emulator: McpEmulator) -> int:
    """Kill the process of the server, and return how many that were."""
    processes = emulator.processes
    if not processes:
        return 0
    with suppress(ProcessLookupError):
        os.kill(processes[-1], signal.SIGKILL)
        return 1
    return 0


def judge(tally: Tally, read: dict[int, ToolResult], effects: Counter[int]) -> None:
    """Compare what the model read about each write with what was done."""
    for n, result in read.items():
        done = effects[n]
        tally.twice += done > 1
        if result.outcome == "done":
            tally.done += 1
            tally.false += not done
        elif result.outcome == "in_doubt":
            tally.doubts += 1
        else:
            tally.failures += 1
            # The server itself has said "it went wrong" of a call that it ran.
            tally.untold += bool(done) and "it went wrong" not in result.text
