"""Streams of every protocol, asked for by anything that the types of their bodies allow, and more.

Nothing may answer 5xx; a stream is well-formed, and has the end that its protocol wants. `HOLDFAST_FULL=1`
sends ten times as many requests.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conformance.schema_values import damaged, values
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from holdfast.server.api.request_bodies import NewTurn
from holdfast.server.protocols.agui.run_input import RunInput, ThreadInput
from holdfast.server.protocols.chat.chat_bodies import ChatRequest
from holdfast.server.protocols.responses.response_bodies import InputItem, ResponseRequest
from holdfast.server.protocols.vercel.chat_request import UiMessage, VercelRequest

PROGRAM = Path(__file__).resolve().parent / "schemathesis" / "fuzzed_service.py"
EXAMPLES = 3000 if os.environ.get("HOLDFAST_FULL") else 300
SECONDS = 20
MODELS = st.just("payer")
_numbers = count()

pytestmark = [
    pytest.mark.timeout(3600 if os.environ.get("HOLDFAST_FULL") else 600),
    pytest.mark.xdist_group("streams"),  # one quiet process: it may run beside others
]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of a service."""
    process = subprocess.Popen([sys.executable, str(PROGRAM)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline().rpartition(":")[2].partition("/")[0])
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def new_name() -> SearchStrategy[str]:
    """Return names of which most are new, so that most requests find no turn in progress."""
    new = st.builds(lambda: f"s{next(_numbers)}")
    return st.one_of(new, new, new, st.sampled_from(["ada", "eve", "waits", "none", "a/b"]))


def of_type(kind: Any) -> SearchStrategy[Any]:
    """Return the JSON values of one of our types."""
    (schema,), definitions = msgspec.json.schema_components(
        [kind], schema_hook=lambda _: {"title": "any"}
    )
    texts = st.sampled_from(["Hello.", "Pay 3.", ""])
    parts = st.lists(
        st.fixed_dictionaries({"type": st.just("text"), "text": texts})
        | st.fixed_dictionaries(
            {"type": st.just("file"), "mediaType": st.just("image/png"), "url": st.text(max_size=9)}
        )
        | st.fixed_dictionaries({"type": st.sampled_from(["tool-pay", "data-x"]), "state": texts}),
        max_size=2,
    )
    likely: dict[str, SearchStrategy[Any]] = {
        "model": MODELS,
        "agent": MODELS,
        "stream": st.just(value=True),
        "id": new_name(),
        "session": new_name(),
        "conversation": st.none(),
        "threadId": new_name(),
        "parts": parts,
        "content": texts,
        "text": texts,
        "wait": st.just(0),
        "limits": st.just({}),
        "role": st.just("user"),
        "response_format": st.none(),
        "settings": st.just({}),
        "tools": st.just([]),
    }
    if kind is NewTurn:  # the stream of a turn that waits for an answer goes on
        likely["message"] = st.just("Hello.")
    if kind is VercelRequest:
        said = st.fixed_dictionaries({"type": st.just("text"), "text": texts})
        likely["parts"] = st.one_of(st.lists(said, min_size=1, max_size=1), parts)
        of_user = {"id": new_name(), "role": st.just("user"), "parts": likely["parts"]}
        messages = st.fixed_dictionaries(of_user) | of_type(UiMessage)
        likely["messages"] = st.lists(messages, min_size=1, max_size=2)
        likely["trigger"] = st.just("submit-message")
        likely["message"] = likely["messageId"] = st.none()
    if kind is RunInput:
        likely["messages"] = st.lists(of_type(ThreadInput), max_size=3)
    if kind is ResponseRequest:
        likely["input"] = texts | st.lists(of_type(InputItem), max_size=3)
    return damaged(values(schema, likely, definitions))


ROUTES: dict[str, tuple[str, Any]] = {
    "native": ("/api/v1/turns", NewTurn),
    "chat": ("/v1/chat/completions", ChatRequest),
    "responses": ("/v1/responses", ResponseRequest),
    "vercel": ("/vercel/payer/chat", VercelRequest),
    "agui": ("/agui/payer", RunInput),
}
ENDS = {
    "native": {"end"},
    "chat": {"[DONE]", "error"},
    "responses": {"response.completed", "response.incomplete", "response.failed"},
    "vercel": {"[DONE]"},
    "agui": {"RUN_FINISHED", "RUN_ERROR"},
}


def send(port: int, path: str, body: object) -> tuple[int, str, bytes]:
    """Send a request; return the status, the type and the whole body of its answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        data = json.dumps(body).encode()  # also what is no JSON: NaN, halves of a surrogate pair
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        connection.request("POST", path, data, headers)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type", ""), answer.read()
    finally:
        connection.close()


def read_last(body: bytes) -> str:
    """Check that a stream is well-formed; return what its last event is."""
    assert body.endswith(b"\n\n"), body[-200:]
    last = ""
    for event in body.decode("utf-8").removesuffix("\n\n").split("\n\n"):
        fields: dict[str, str] = {}
        for line in event.split("\n"):
            name, colon, value = line.partition(":")
            assert colon, line
            assert name in {"id", "event", "data", ""}, line
            assert name not in fields, event
            fields[name] = value.removeprefix(" ")
        if "data" in fields:
            last = read_type(fields["data"])
            assert fields.get("event", last) == last, event
    return last


def read_type(data: str) -> str:
    """Return the type of an event."""
    if data == "[DONE]":
        return data
    value = json.loads(data, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert isinstance(value, dict), data
    return "error" if "error" in value else str(value.get("type", value.get("object", "")))


@pytest.mark.parametrize("protocol", list(ROUTES))
def test_each_stream_is_well_formed_and_ends(port: int, protocol: str) -> None:
    path, kind = ROUTES[protocol]
    streams = 0

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(of_type(kind))
    def check(body: object) -> None:
        nonlocal streams
        status, media_type, answer = send(port, path, body)
        assert status < 500, answer
        if media_type.startswith("text/event-stream"):
            assert read_last(answer) in ENDS[protocol], answer[-400:]
            streams += status == 200
        elif answer:
            assert isinstance(json.loads(answer), dict), answer
            assert status < 300 or media_type.partition(";")[0] in {
                "application/json",
                "application/problem+json",
            }

    check()
    print(f"{protocol}: {streams} streams")
    assert streams > EXAMPLES / 30  # and not only refusals
