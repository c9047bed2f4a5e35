"""Recorded bodies with values taken out, doubled or exchanged: read the same however cut, and sent on."""

import json
import random
from contextlib import suppress
from typing import Any

import pytest
from tests.codecs.reading import assemble_deltas, read_deltas
from tests.codecs.test_is_complete import CODECS, provider_of
from tests.corpus import Row, at_random, rows

from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.wire import Codec
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Message, Reply, Text, ToolResult, tool_results, user
from holdfast.core.model_request import ModelRequest

ODD: list[Any] = [None, True, 0, -1, 3.5, "", "x", "7", [], {}, [None], [{}], {"a": 1}, 10**30]
TRIES = 150


def places(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, one in inner:
        found.append((*above, key))
        if isinstance(one, dict | list):
            found += places(one, (*above, key))
    return found


def mutated(value: Any, rng: random.Random) -> Any:
    """The value with one thing in it wrong."""
    *above, key = rng.choice(places(value) or [("empty",)])
    place = value
    for step in above:
        place = place[step]
    act = rng.choice(("drop", "double", "odd", "odd"))
    if act == "drop" and isinstance(place, dict):
        place.pop(key, None)
    elif act == "double" and isinstance(place, list):
        place.append(place[key])
    else:
        place[key] = rng.choice(ODD)
    return value


def spoiled(row: Row, rng: random.Random) -> bytes:
    if row.framing != "sse":
        return json.dumps(mutated(json.loads(row.body), rng)).encode()
    lines = row.body.decode().splitlines(keepends=True)
    events = [at for at, line in enumerate(lines) if line.startswith("data: {")]
    for at in rng.sample(events, min(len(events), 3)):
        lines[at] = f"data: {json.dumps(mutated(json.loads(lines[at][6:]), rng))}\n"
    return "".join(lines).encode()


def read(codec: Codec, row: Row, pieces: Any) -> Reply:
    deltas = read_deltas(codec, pieces, row.content_type, provider_of(row))
    return assemble_deltas(deltas, codec.name, EndpointProfile()).reply


def history(message: Message) -> list[Message]:
    results = [ToolResult(call.id, call.name, (Text("done"),)) for call in message.calls]
    answered = [tool_results(results)] if results else []
    return [user("Hi"), message, *answered, user("And then?")]


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("dialect", CODECS)
def test_whatever_is_wrong_inside_nothing_breaks(dialect: str) -> None:
    codec, rng = CODECS[dialect], random.Random(dialect)
    recorded = [row for row in rows(dialect) if len(row.body) < 20_000]
    for row in rng.sample(recorded, TRIES):
        try:
            body = spoiled(row, rng)
        except ValueError:
            continue  # a recording that was no JSON to begin with
        reply = read(codec, row, [body])
        assert read(codec, row, at_random(body, row.id)) == reply, row.id
        for other in CODECS.values():
            request = ModelRequest(model="m", messages=history(reply.message), stream=False)
            with suppress(ConfigurationError):  # refused before anything is sent
                json.loads(other.encode(request).body)
