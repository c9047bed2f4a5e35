"""`run_sync`: the end of its program, an interrupt, and tools that stop its loop."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable

import pytest

from holdfast import Agent, MemoryJournal, tool
from holdfast.core.messages import ToolCall
from holdfast.testing import ScriptedModel

# Scripts in a process of their own.


def script(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow  # takes half a second or more
def test_connections_are_closed_at_the_end_of_the_program() -> None:
    done = script(
        """
        from holdfast import Agent
        from holdfast.testing import Emulator

        with Emulator(lambda request: "Hi") as provider:
            for _ in range(2):
                agent = Agent("openai:any", base_url=provider.base_url, api_key="any")
                print(agent.run_sync("Hello").text)
        """
    )
    assert (done.stdout, done.stderr, done.returncode) == ("Hi\nHi\n", "", 0)


@pytest.mark.slow  # takes half a second or more
def test_the_end_does_not_wait_for_a_stream_that_is_held_open() -> None:
    done = script(
        """
        import threading, time
        from holdfast import Agent
        from holdfast.testing import Emulator
        from holdfast.testing.emulator import Stall

        provider = Emulator(["one two three"], faults=[Stall(after=1)])
        provider.__enter__()
        agent = Agent("openai:any", base_url=provider.base_url, api_key="any")
        threading.Thread(target=agent.run_sync, args=("Hello",), daemon=True).start()
        while not provider.requests:
            time.sleep(0.01)
        print("end")
        """
    )
    assert (done.stdout, done.returncode) == ("end\n", 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_has_a_loop_of_its_own() -> None:
    done = script(
        """
        import os, sys, warnings
        from holdfast import Agent
        from holdfast.testing import ScriptedModel

        agent = Agent(ScriptedModel("one", "two"))
        print(agent.run_sync("Hello").text, flush=True)
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12: there are threads
        child = os.fork()
        os.write(1, agent.run_sync("Again").text.encode() + b"\\n")  # at once: both write
        if child:
            assert os.waitpid(child, 0)[1] == 0
        """
    )
    assert (done.stdout, done.stderr, done.returncode) == ("one\ntwo\ntwo\n", "", 0)


# An interrupt gives the turn the time to save its end.

SCRIPT = """
import asyncio, os, signal
from holdfast import Agent, MemoryJournal
from holdfast.core.events import TurnInterrupted
from holdfast.testing import ScriptedModel

class Slow(MemoryJournal):
    async def append(self, run, event, effect=None, *, marker=None):
        if isinstance(event, TurnInterrupted):
            await asyncio.sleep(0.3)
        await super().append(run, event, effect, marker=marker)

async def interrupted(request):
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.Event().wait()

journal = Slow()
try:
    Agent(ScriptedModel(interrupted), journal=journal).run_sync("Go.", session="s")
except KeyboardInterrupt:
    print([record.event.key for record in asyncio.run(journal.read("s"))])
"""


@pytest.mark.slow  # starts a program or a server
def test_an_interrupt_saves_the_end_of_the_turn() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.stdout.strip() == "['t1', 't1.interrupted', 't1.closed']", ended.stderr
    assert ended.stderr == ""


@pytest.mark.slow  # starts a program or a server
def test_an_interrupt_before_the_caller_waits_saves_the_end_of_the_turn() -> None:
    # The work begins, and is interrupted, before whoever asked for it has got anything to wait for.
    early = SCRIPT.replace(
        "journal = Slow()",
        "begin = asyncio.run_coroutine_threadsafe\n"
        "def slowly(work, loop):\n"
        "    asyncio.run_coroutine_threadsafe = begin\n"
        "    begin(work, loop)\n"
        "    __import__('time').sleep(60)\n"
        "asyncio.run_coroutine_threadsafe = slowly\n"
        "journal = Slow()",
    )
    assert early != SCRIPT
    ended = subprocess.run(
        [sys.executable, "-c", early], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.stdout.strip() == "['t1', 't1.interrupted', 't1.closed']", ended.stderr
    assert ended.stderr == ""


# KeyboardInterrupt or `loop.stop()` inside a tool does not stop the loop that all calls share.

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


@pytest.mark.slow  # starts a program or a server
def test_a_program_ends_after_an_interrupt_in_a_tool() -> None:
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
