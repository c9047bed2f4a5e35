"""One transport in many loops and threads, and an end without warnings."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import textwrap
import threading

import pytest
from tests.transport.raw import fetch

from holdfast.testing.emulator import Emulator
from holdfast.transport.http import HttpTransport

BODY = b'{"model": "m", "messages": [{"role": "user", "content": "Hi"}]}'


def test_one_transport_serves_loops_one_after_the_other() -> None:
    transport = HttpTransport()
    with Emulator() as emulator:
        url = emulator.base_url + "/chat/completions"
        for _ in range(3):
            assert b"Hi" in asyncio.run(fetch(transport, url, body=BODY))
        assert emulator.connections == 3


def test_one_transport_serves_threads_at_once() -> None:
    transport = HttpTransport()
    answers: list[bytes] = []
    with Emulator() as emulator:
        url = emulator.base_url + "/chat/completions"

        async def several() -> None:
            answers.extend(
                await asyncio.gather(*(fetch(transport, url, body=BODY) for _ in range(20)))
            )

        threads = [threading.Thread(target=lambda: asyncio.run(several())) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(answers) == 160


def test_the_session_of_a_loop_that_ended_is_forgotten() -> None:
    transport = HttpTransport()
    with Emulator() as emulator:
        for _ in range(3):
            asyncio.run(fetch(transport, emulator.base_url + "/chat/completions", body=BODY))
    assert transport._client is not None
    assert not transport._client.pool._by_loop


def test_closing_reaches_the_loop_of_another_thread() -> None:
    transport = HttpTransport()
    used, over = threading.Event(), threading.Event()
    with Emulator() as emulator:
        url = emulator.base_url + "/chat/completions"

        async def there() -> None:
            await fetch(transport, url, body=BODY)
            used.set()
            assert transport._client is not None
            while transport._client.pool._by_loop:
                await asyncio.sleep(0.01)
            over.set()

        thread = threading.Thread(target=lambda: asyncio.run(there()))
        thread.start()
        used.wait(60)
        asyncio.run(transport.aclose())
        assert over.wait(60)
        thread.join()


# The sockets are the loop's, and asyncio is right to complain about them.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_loop_that_was_closed_carelessly_does_not_disturb_the_next_one() -> None:
    transport = HttpTransport()
    with Emulator() as emulator:
        url = emulator.base_url + "/models"
        loop = asyncio.new_event_loop()
        loop.run_until_complete(fetch(transport, url, method="GET", body=b""))
        loop.close()  # Without shutdown_asyncgens.
        asyncio.run(fetch(transport, url, method="GET", body=b""))
        assert transport._client is not None
        assert loop not in transport._client.pool._by_loop
        del loop
        gc.collect()


PROGRAMS = {
    "asyncio.run": "asyncio.run(main())",
    "a stream left open": "asyncio.run(main(leave=True))",
    "aclose": "asyncio.run(main(close=True))",
    "two runs": "asyncio.run(main()); asyncio.run(main())",
    "no run at all": "HttpTransport()",
}


@pytest.mark.parametrize("how", PROGRAMS)
def test_a_program_ends_without_a_warning(how: str) -> None:
    program = textwrap.dedent(
        """
        import asyncio, gc, logging
        from holdfast.testing.emulator import Emulator, Stall
        from holdfast.transport.http import HttpTransport
        from holdfast.transport.port import HttpRequest, Timeouts

        # The debug mode also reports what is slow, and on a busy machine everything is.
        logging.getLogger("asyncio").addFilter(lambda record: "took" not in record.msg)
        BODY = b'{"model": "m", "stream": true, "messages": [{"role": "user", "content": "Hi"}]}'
        transport = HttpTransport()

        async def pieces():
            url = emulator.base_url + "/chat/completions"
            request = HttpRequest("POST", url, (), BODY)
            async with transport.send(request, Timeouts()) as response:
                while piece := await response.read():
                    yield piece

        async def main(leave=False, close=False):
            global left
            left = pieces()
            async for piece in left:
                if leave:
                    break
            if close:
                await transport.aclose()

        with Emulator() as emulator:
            RUN
        gc.collect()
        """
    ).replace("RUN", PROGRAMS[how])
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_program_that_ends_while_its_loop_is_open_does_not_complain() -> None:
    program = textwrap.dedent(
        """
        import asyncio
        from holdfast.testing.emulator import Emulator
        from holdfast.transport.http import HttpTransport
        from holdfast.transport.port import HttpRequest, Timeouts

        transport = HttpTransport()

        async def main():
            request = HttpRequest("GET", emulator.base_url + "/models")
            async with transport.send(request, Timeouts()) as response:
                while await response.read():
                    pass

        emulator = Emulator().__enter__()
        loop = asyncio.new_event_loop()
        loop.run_until_complete(main())
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
