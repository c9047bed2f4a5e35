"""Threads of sync tools: they neither block each other for ever nor hold up the end of the process."""

import asyncio
import contextvars
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.core.errors import ConfigurationError, ErrorCategory, Landed, ToolFailedError
from holdfast.tools.threads import ThreadCall, ToolThreads

SOON = 60.0


class Gate:
    """Something that a call waits for, and that says when it began."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.opened = threading.Event()
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        self.began.set()
        self.opened.wait(SOON)
        return "opened"


def run(pool: ToolThreads, call: Callable[[], object], name: str = "t") -> asyncio.Task[Any]:
    async def act() -> object:
        return await pool.run(ThreadCall(name, call))

    return asyncio.ensure_future(act())


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(SOON):
        while not condition():
            await asyncio.sleep(0.001)


async def test_values_and_exceptions_come_back() -> None:
    pool = ToolThreads()
    assert await run(pool, lambda: 5) == 5
    with pytest.raises(KeyError):
        await run(pool, lambda: {}["a"])
    with pytest.raises(KeyboardInterrupt):
        await pool.run(ThreadCall("t", interrupt))


def interrupt() -> None:
    raise KeyboardInterrupt


async def test_it_is_another_thread_with_the_callers_context() -> None:
    variable = contextvars.ContextVar("variable", default="")
    variable.set("mine")
    seen = await run(ToolThreads(), lambda: (threading.current_thread(), variable.get()))
    assert seen[1] == "mine"
    assert seen[0] is not threading.current_thread()
    assert seen[0].daemon
    assert seen[0].name.startswith("holdfast-tool-")


async def test_a_thread_serves_one_call_after_another() -> None:
    pool = ToolThreads()
    names = {await run(pool, lambda: threading.current_thread().name) for _ in range(20)}
    assert len(names) == 1


async def test_calls_beyond_the_limit_wait_their_turn() -> None:
    pool = ToolThreads(2)
    gates = [Gate() for _ in range(4)]
    tasks = [run(pool, gate) for gate in gates]
    await until(lambda: gates[0].began.is_set() and gates[1].began.is_set())
    assert not gates[2].began.is_set()
    for gate in gates:
        gate.opened.set()
    assert await asyncio.gather(*tasks) == ["opened"] * 4


async def test_a_cancelled_caller_is_released_and_its_thread_observed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = ToolThreads(1)
    stuck = Gate()
    task = run(pool, stuck, "stuck")
    await until(stuck.began.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert pool.abandoned_tools == ("stuck",)
    # Its place is free, although it still runs.
    assert await run(pool, lambda: 1) == 1
    with caplog.at_level(logging.WARNING, "holdfast.tools"):
        stuck.opened.set()
        await until(lambda: not pool.abandoned_tools and len(caplog.messages) > 1)
    assert "function 'stuck' still runs" in caplog.messages[0]
    assert "function 'stuck' ended" in caplog.messages[1]


async def test_work_that_is_cancelled_before_it_begins_never_runs() -> None:
    pool = ToolThreads(1)
    first, second = Gate(), Gate()
    busy = run(pool, first)
    await until(first.began.is_set)
    waiting = run(pool, second)
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    first.opened.set()
    assert await busy == "opened"
    assert await run(pool, lambda: 1) == 1
    assert second.calls == 0


async def test_stuck_tools_without_a_timeout_do_not_block_others() -> None:
    pool = ToolThreads(1, queue_timeout=0.01)
    stuck = Gate()
    blocked = run(pool, stuck)
    await until(stuck.began.is_set)
    assert await run(pool, lambda: 1) == 1
    stuck.opened.set()
    await blocked


async def test_work_that_a_thread_waits_for_needs_no_patience() -> None:
    pool = ToolThreads(2, queue_timeout=600.0)
    began = threading.Barrier(2, timeout=SOON)

    def nest(depth: int) -> int:
        if depth == 3:
            return depth
        if depth == 0:
            began.wait()
        return asyncio.run(nested(depth + 1)) + 1

    async def nested(depth: int) -> int:
        found: int = await run(pool, lambda: nest(depth))
        return found

    # Both threads are taken by work that waits for more work, and so is each one after them.
    async with asyncio.timeout(SOON):
        found = await asyncio.gather(*(run(pool, lambda: nest(0)) for _ in range(4)))
    assert found == [6] * 4


async def test_when_every_thread_is_stuck_a_call_is_refused_and_not_run() -> None:
    pool = ToolThreads(1, max_threads=2, queue_timeout=0.01)
    gates = [Gate(), Gate()]
    blocked = [run(pool, gate) for gate in gates]
    await until(lambda: all(gate.began.is_set() for gate in gates))
    refused = Gate()
    with pytest.raises(ToolFailedError) as caught:
        await run(pool, refused, "pay")
    assert caught.value.info.category is ErrorCategory.TRANSIENT
    assert caught.value.info.landed is Landed.NO
    assert refused.calls == 0
    for gate in gates:
        gate.opened.set()
    await asyncio.gather(*blocked)
    assert await run(pool, lambda: 1) == 1


async def test_abandoned_threads_count_towards_the_most() -> None:
    pool = ToolThreads(1, max_threads=1, queue_timeout=0.01)
    stuck = Gate()
    task = run(pool, stuck)
    await until(stuck.began.is_set)
    task.cancel()
    with pytest.raises(ToolFailedError):
        await run(pool, lambda: 1)
    stuck.opened.set()
    await until(lambda: not pool.abandoned_tools)
    assert await run(pool, lambda: 1) == 1


async def test_many_at_once_each_run_once() -> None:
    pool = ToolThreads(8)
    counts = [0] * 500

    def count(index: int) -> int:
        counts[index] += 1
        return index

    def call(index: int) -> Callable[[], int]:
        return lambda: count(index)

    done = await asyncio.gather(*(run(pool, call(index)) for index in range(500)))
    assert done == list(range(500))
    assert counts == [1] * 500


def test_a_loop_that_ends_first_leaves_the_thread_in_peace() -> None:
    pool = ToolThreads()
    gate = Gate()

    async def start() -> None:
        task = run(pool, gate)
        await until(gate.began.is_set)
        task.cancel()

    asyncio.run(start())
    gate.opened.set()
    assert asyncio.run(pool_value(pool)) == 1


async def pool_value(pool: ToolThreads) -> object:
    return await run(pool, lambda: 1)


def test_a_stuck_tool_does_not_hold_up_the_end_of_the_process() -> None:
    code = (
        "import asyncio, threading\n"
        "from holdfast.tools.threads import ToolThreads, ThreadCall\n"
        "async def main():\n"
        "    try:\n"
        "        async with asyncio.timeout(0.05):\n"
        "            await ToolThreads().run(ThreadCall('stuck', threading.Event().wait))\n"
        "    except TimeoutError:\n"
        "        print('released')\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=30
    )
    assert done.stdout.strip() == "released"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_process_starts_its_own_threads() -> None:
    code = (
        "import asyncio, os, sys, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "from holdfast.tools.threads import ToolThreads, ThreadCall\n"
        "pool = ToolThreads()\n"
        "async def main():\n"
        "    return await pool.run(ThreadCall('t', lambda: 7))\n"
        "assert asyncio.run(main()) == 7\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(asyncio.run(main()))\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=30)
    assert done.returncode == 7


@pytest.mark.parametrize(
    "wrong", [{"limit": 0}, {"limit": 4, "max_threads": 3}, {"queue_timeout": 0}]
)
def test_settings_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(reversed(wrong))):
        ToolThreads(**wrong)
