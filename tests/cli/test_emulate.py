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
from pathlib import Path
from typing import Any

import pytest
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


def ask(url: str, **fields: object) -> int:
    body = {"model": "x", "messages": [{"role": "user", "content": "hi"}], **fields}
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


@pytest.mark.slow  # starts a program or a server
def test_it_answers_says_what_it_did_and_ends_with_ctrl_c() -> None:
    with serving() as (url, process):
        assert ask(url) == 200
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == "#1 POST /v1/chat/completions 200\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130


@pytest.mark.slow  # starts a program or a server
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


@pytest.mark.slow  # starts a program or a server
def test_requests_are_judged_by_the_rules_of_a_provider_or_not_at_all() -> None:
    rows = [([], 400), (["--dress", "mistral"], 422), (["--no-strict"], 200)]
    for arguments, status in rows:
        with serving(*arguments) as (url, _):
            assert ask(url, logit_bias={}, top_k=5) == status
    done = holdfast("emulate", "--dress", "nobody")
    assert done.returncode == 2
    assert done.stderr.startswith("holdfast: dress: 'nobody' is not known. Use one of")


def test_a_port_that_is_taken_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = holdfast("emulate", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert done.stderr.startswith("holdfast: listen: cannot listen on 127.0.0.1:")


def post(url: str, body: dict[str, object]) -> dict[str, Any]:
    request = urllib.request.Request(
        url,
        json.dumps(body).encode(),
        {
            "content-type": "application/json",
            "authorization": "Bearer any",
            "x-api-key": "any",
            "anthropic-version": "2023-06-01",
        },
    )
    with urllib.request.urlopen(request) as response:
        found: dict[str, Any] = json.load(response)
        return found


WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 2}},
    "required": ["city", "days"],
}
TRIP = {"type": "object", "properties": {"sights": {"type": "array", "items": {"type": "string"}}}}
ASKED = {"role": "user", "content": "Weather?"}


def test_tools_are_called_with_valid_arguments_and_a_schema_is_answered() -> None:
    function = {"name": "weather", "parameters": WEATHER}
    with serving() as (url, _):
        body: dict[str, object] = {"model": "x", "messages": [ASKED]}
        tools = [{"type": "function", "function": function}]
        called = post(f"{url}/chat/completions", {**body, "tools": tools})
        asked = called["choices"][0]["message"]["tool_calls"][0]["function"]
        assert (asked["name"], json.loads(asked["arguments"])) == (
            "weather",
            {"city": "city", "days": 2},
        )
        form = {"type": "json_schema", "json_schema": {"name": "trip", "schema": TRIP}}
        answered = post(f"{url}/chat/completions", {**body, "response_format": form})
        assert json.loads(answered["choices"][0]["message"]["content"]) == {"sights": ["sights"]}


def test_the_other_wires_call_tools_too() -> None:
    with serving() as (url, _):
        root = url.removesuffix("/v1")
        claude = post(
            f"{url}/messages",
            {
                "model": "x",
                "max_tokens": 9,
                "messages": [ASKED],
                "tools": [{"name": "weather", "input_schema": WEATHER}],
            },
        )
        assert claude["content"][0]["input"] == {"city": "city", "days": 2}
        gemini = post(
            f"{root}/v1beta/models/x:generateContent?key=any",
            {
                "contents": [{"role": "user", "parts": [{"text": "Weather?"}]}],
                "generationConfig": {
                    "responseMimeType": "application/json",
                    "responseSchema": {"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}},
                },
            },
        )
        assert json.loads(gemini["candidates"][0]["content"]["parts"][0]["text"]) == {"n": 1}
        answered = post(
            f"{url}/responses",
            {
                "model": "x",
                "input": "Weather?",
                "tools": [{"type": "function", "name": "weather", "parameters": WEATHER}],
            },
        )
        (item,) = answered["output"]
        assert json.loads(item["arguments"]) == {"city": "city", "days": 2}


def test_faults_are_named_in_order() -> None:
    with serving("--fault", "rate-limit", "none", "status=503") as (url, _):
        assert [ask(url) for _ in range(4)] == [429, 200, 503, 200]


def test_a_script_has_replies_and_faults(tmp_path: Path) -> None:
    script = tmp_path / "script.toml"
    script.write_text(
        '[[reply]]\nfault = "overloaded"\ncall = { name = "weather", arguments = { city = "Porto" } }\n'
        '[[reply]]\nfault = "server-error"\njson = { days = 3 }\n'
    )
    with serving("--script", str(script)) as (url, _):
        body: dict[str, object] = {"model": "x", "messages": [ASKED]}
        assert ask(url) == 503
        called = post(f"{url}/chat/completions", body)["choices"][0]["message"]
        assert called["tool_calls"][0]["function"]["arguments"] == '{"city":"Porto"}'
        assert ask(url) == 500
        answered = post(f"{url}/chat/completions", body)["choices"][0]["message"]
        assert json.loads(answered["content"]) == {"days": 3}


def test_a_script_may_be_python(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("def replies(request):\n    return request.text.upper()\n")
    with serving("--script", str(script)) as (url, _):
        answered = post(f"{url}/chat/completions", {"model": "x", "messages": [ASKED]})
        assert answered["choices"][0]["message"]["content"] == "WEATHER?"


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize(
    ("text", "arguments", "problem"),
    [
        ("[[reply]]\ntxt = 'x'\n", (), "script.toml: Object contains unknown field txt"),
        (
            "[[reply]]\nfault = 'rain'\n",
            (),
            "script.toml, reply 1, fault: 'rain' is not a fault. Known are bad-key, ",
        ),
        ("[[reply]\n", (), "script.toml: is not TOML"),
        (
            "[[reply]]\nfault = 'overloaded'\n",
            ("--fault", "overloaded"),
            "--fault: faults are given twice. Use one of --fault, --chaos and the script",
        ),
    ],
)
def test_a_mistake_in_a_script_is_named(
    tmp_path: Path, text: str, arguments: tuple[str, ...], problem: str
) -> None:
    script = tmp_path / "script.toml"
    script.write_text(text)
    done = holdfast("emulate", "--script", str(script), *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"holdfast: {problem}")


def test_a_python_script_that_fails_is_named(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("1 / 0\n")
    done = holdfast("emulate", "--script", str(script))
    assert done.stderr == (
        "holdfast: script.py: cannot be run: ZeroDivisionError: division by zero\n"
    )
    script.write_text("")
    done = holdfast("emulate", "--script", str(script))
    assert done.stderr.startswith("holdfast: script.py: defines no replies.")
