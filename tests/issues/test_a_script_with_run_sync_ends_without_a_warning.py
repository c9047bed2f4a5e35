"""A script that used `run_sync` over HTTP ended with "Unclosed client session" on its stderr.

And a forked child of one that had used it waited for ever, for a loop whose thread it had not got.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest


def script(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


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
