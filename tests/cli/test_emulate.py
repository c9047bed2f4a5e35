"""`holdfast emulate` serves any client."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cli.terminal import HOLDFAST, environment, holdfast


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    process = subprocess.Popen(
        [HOLDFAST, "emulate", *arguments], stdout=subprocess.PIPE, env=environment(), text=True
    )
    assert process.stdout is not None
    try:
        first = process.stdout.readline()
        assert first.startswith("listening on http://127.0.0.1:")
        yield first.split()[-1], process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def ask(url: str) -> int:
    body = {"model": "x", "messages": [{"role": "user", "content": "hi"}]}
    request = urllib.request.Request(
        f"{url}/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json", "authorization": "Bearer sk-secret-of-mine"},
    )
    try:
        with urllib.request.urlopen(request) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_it_answers_says_what_it_did_and_ends_with_ctrl_c() -> None:
    with serving() as (url, process):
        assert ask(url) == 200
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == "#1 POST /v1/chat/completions 200\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130


def test_chaos_breaks_a_share_of_requests_and_no_key_is_printed() -> None:
    with serving("--chaos", "1", "--seed", "4") as (url, process):
        for _ in range(3):
            try:
                ask(url)
            except OSError:
                continue  # a reset is one of the faults
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        assert all("faults: " in line for line in lines)
        assert "secret" not in "".join(lines)


def test_a_port_that_is_taken_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = holdfast("emulate", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert done.stderr.startswith("holdfast: listen: cannot listen on 127.0.0.1:")
