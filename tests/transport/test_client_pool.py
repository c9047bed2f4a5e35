"""One transport in many loops and threads, an end without warnings, and a warning of an untested library."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import textwrap
import threading
import tomllib
import warnings
from pathlib import Path

import pytest
from aiohttp import ClientSession
from tests.transport.raw import fetch

from holdfast.testing.emulator import Emulator
from holdfast.transport.exchange import _TESTED_FROM, _UNTESTED_FROM, warn_of_untested_client
from holdfast.transport.http import HttpTransport

BODY = b'{"model": "m", "messages": [{"role": "user", "content": "Hi"}]}'


def test_one_transport_serves_loops_one_after_the_other() -> None:
    transport = HttpTransport()
    with Emulator() as emulator:
        url = emulator.base_url + "/chat/completions"
        for _ in range(3):
            assert b"Hi" in asyncio.run(fetch(transport, url, body=BODY))
        assert emulator.connections == 3


@pytest.mark.slow  # takes half a second or more
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


def test_a_transport_that_is_dropped_closes_its_session_without_the_garbage_collector() -> None:
    sessions: list[ClientSession] = []

    async def use_and_drop(url: str) -> None:
        transport = HttpTransport()
        await fetch(transport, url, body=BODY)
        assert transport._client is not None
        sessions.extend(one.session for one in transport._client.pool._by_loop.values())

    async def run_on(url: str) -> None:
        await use_and_drop(url)
        async with asyncio.timeout(60):
            while not sessions[0].closed:
                await asyncio.sleep(0)

    gc.disable()
    try:
        with Emulator() as emulator:
            asyncio.run(run_on(emulator.base_url + "/chat/completions"))
    finally:
        gc.enable()
    assert len(sessions) == 1


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
@pytest.mark.slow  # takes half a second or more
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


@pytest.mark.slow  # starts a program or a server
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


@pytest.mark.slow  # starts a program or a server
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


@pytest.mark.parametrize("version", ["3.13.0", "3.14.5", "3.14.99rc1"])
def test_a_tested_version_of_the_library_is_not_warned_of(version: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_untested_client(version)


@pytest.mark.parametrize("version", ["3.12.15", "3.15.0a1", "3.15.0", "4.0", "unknown"])
def test_an_untested_version_of_the_library_is_warned_of(version: str) -> None:
    with pytest.warns(RuntimeWarning, match="aiohttp>=3.13,<3.15") as caught:
        warn_of_untested_client(version)
    assert f"aiohttp {version}," in str(caught[0].message)


def test_the_first_request_warns_of_an_untested_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiohttp.__version__", "3.99.0")
    with pytest.warns(RuntimeWarning, match=r"aiohttp 3\.99\.0"):
        HttpTransport()._load_client()


def test_the_tested_versions_are_those_that_an_installation_admits() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    (bounds,) = [name for name in project["dependencies"] if name.startswith("aiohttp")]
    least, most = (".".join(map(str, bound)) for bound in (_TESTED_FROM, _UNTESTED_FROM))
    assert bounds == f"aiohttp>={least},<{most}"
