"""KeyboardInterrupt or `loop.stop()` inside a tool stopped the loop that all calls of `run_sync` share.

That call hung, and so did every later one in the process.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable

import pytest

from holdfast import Agent, MemoryJournal, tool
from holdfast.core.messages import ToolCall
from holdfast.testing import ScriptedModel

LONGEST = 30.0


def interrupt() -> None:
    raise KeyboardInterrupt


def leave() -> None:
    raise SystemExit(3)


def run_in_thread(work: Callable[[], object]) -> object:
    """Return what `work` returns or raises; fail if it hangs."""
    found: list[object] = []

    def call() -> None:
        try:
            found.append(work())
        except BaseException as error:  # noqa: BLE001  # REASON: the test looks at it
            found.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(LONGEST)
    assert found, "the call hangs"
    return found[0]


def make_agent(harm: Callable[[], None], *, in_thread: bool) -> Agent[str]:
    @tool(effect="read")
    async def look() -> str:
        """Look."""
        harm()
        await asyncio.sleep(0)
        return "a wall"

    @tool(effect="read", name="look")
    def look_in_thread() -> str:
        """Look."""
        harm()
        return "a wall"

    model = ScriptedModel(ToolCall("c", "look", "{}"), "Done.")
    return Agent(model, tools=[look_in_thread if in_thread else look], journal=MemoryJournal())


@pytest.mark.parametrize("in_thread", [True, False])
def test_an_interrupt_in_a_tool_reaches_its_caller_only(in_thread: bool) -> None:
    other = Agent(ScriptedModel("Fine.", "Fine."))
    agent = make_agent(interrupt, in_thread=in_thread)
    found = run_in_thread(lambda: agent.run_sync("Go.", session="ada"))
    assert isinstance(found, KeyboardInterrupt)
    result = run_in_thread(lambda: other.run_sync("Still there?"))
    assert getattr(result, "output", result) == "Fine."


def test_an_exit_in_a_tool_is_a_failure_of_the_tool() -> None:
    result = run_in_thread(lambda: make_agent(leave, in_thread=False).run_sync("Go."))
    assert getattr(result, "output", result) == "Done."


def test_a_tool_that_stops_the_loop_does_not_stop_it() -> None:
    agent = make_agent(lambda: asyncio.get_running_loop().stop(), in_thread=False)
    result = run_in_thread(lambda: agent.run_sync("Go."))
    assert getattr(result, "output", result) == "Done."


def test_another_call_that_is_in_progress_goes_on() -> None:
    begun, go_on = threading.Event(), threading.Event()

    @tool(effect="read")
    def wait() -> str:
        """Wait."""
        begun.set()
        go_on.wait(LONGEST)
        return "waited"

    slow = Agent(ScriptedModel(ToolCall("c", "wait", "{}"), "Done."), tools=[wait])
    results: list[object] = []
    thread = threading.Thread(
        target=lambda: results.append(slow.run_sync("Go.").output), daemon=True
    )
    thread.start()
    assert begun.wait(LONGEST)
    run_in_thread(lambda: make_agent(interrupt, in_thread=False).run_sync("Go."))
    go_on.set()
    thread.join(LONGEST)
    assert results == ["Done."]


def test_the_program_still_ends() -> None:
    code = """
    from holdfast import Agent, tool
    from holdfast.core.messages import ToolCall
    from holdfast.testing import ScriptedModel

    @tool(effect="read")
    async def look() -> str:
        '''Look.'''
        raise KeyboardInterrupt

    agent = Agent(ScriptedModel(ToolCall("c", "look", "{}"), "Done."), tools=[look])
    try:
        agent.run_sync("Go.")
    except KeyboardInterrupt:
        print("interrupted")
    print(Agent(ScriptedModel("Fine.")).run_sync("Hello").output)
    """
    done = subprocess.run(  # REASON: our own interpreter
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True, text=True, timeout=LONGEST, check=False,
    )  # fmt: skip
    assert (done.stdout.split(), done.returncode) == (["interrupted", "Fine."], 0)
