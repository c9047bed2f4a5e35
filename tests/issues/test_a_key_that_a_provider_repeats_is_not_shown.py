"""A provider repeated the key in its error, and the key was in the error, the log and the journal.

Its form was not known (32 hexadecimal digits, a UUID, a gateway's token), so that no pattern found it.
Here 500 echoes are generated: 25 places of a response, and 20 forms in which a text repeats a key.
"""

from __future__ import annotations

import base64
import html
import json
import logging
import re
import traceback
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.transport.raw import Client, RawServer

from holdfast import Agent, ModelAt, Resilience
from holdfast.core.errors import HoldfastError
from holdfast.core.messages import ToolCall
from holdfast.journal.sqlite import SqliteJournal
from holdfast.resilience.retry.options import RetryOptions
from holdfast.testing import ScriptedModel

KEYS = (
    "8f7a6b5c4d3e2f1a9b8c7d6e5f4a3b2c",
    "3b9e1c52-7f4d-4a86-b0c1-9d2e8f7a6b5c",
    "gw.Zx81/Qk+Lm7-Pw_93vTt",
    "korrekt-pferd-batterie",
)

Place = Callable[[str], bytes]


def as_json(status: int, value: object, **headers: str) -> bytes:
    return respond(status, json.dumps(value), "application/json", **headers)


def respond(status: int, body: str, kind: str, **headers: str) -> bytes:
    head = [f"HTTP/1.1 {status} X", f"content-type: {kind}", "connection: close"]
    head += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    data = body.encode("utf-8", "replace")
    head.append(f"content-length: {len(data)}")
    return "\r\n".join(head).encode("latin-1", "replace") + b"\r\n\r\n" + data


def as_stream(*events: object) -> bytes:
    lines = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    return respond(200, lines, "text/event-stream")


def one_line(echo: str) -> str:
    return re.sub(r"[^\x20-\x7e]", "", echo)


def error(**fields: object) -> dict[str, object]:
    return {"error": {"message": "no", **fields}}


def choice(**fields: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "message": {"content": ""}, "delta": {}, **fields}]}


TEXT = {"choices": [{"index": 0, "delta": {"content": "Hello"}}]}

PLACES: dict[str, Place] = {
    "message": lambda echo: as_json(401, error(message=f"Incorrect API key provided: {echo}.")),
    "code": lambda echo: as_json(400, error(code=echo)),
    "type": lambda echo: as_json(400, error(type=echo)),
    "parameter": lambda echo: as_json(400, error(param=echo)),
    "request id": lambda echo: as_json(400, error(), x_request_id=one_line(echo)),
    "request id in the body": lambda echo: as_json(400, {**error(), "request_id": echo}),
    "text": lambda echo: respond(400, f"unknown key {echo}", "text/plain"),
    "title": lambda echo: respond(502, f"<title>{html.escape(echo)}</title>", "text/html"),
    "page": lambda echo: respond(403, f"<p>Who is {html.escape(echo)}?</p>", "text/html"),
    "cut": lambda echo: respond(400, json.dumps(error(message=echo))[:-3], "application/json"),
    "detail": lambda echo: as_json(422, {"detail": [{"msg": "bad", "input": echo}, {"msg": echo}]}),
    "inner": lambda echo: as_json(400, error(metadata={"raw": json.dumps(error(message=echo))})),
    "list": lambda echo: as_json(403, [error(message=f"keys: {echo}, {echo}")]),
    "after words": lambda echo: as_json(400, error(message="x" * 586 + " " + echo)),
    "after a page": lambda echo: respond(400, "word " * 796 + echo, "text/plain"),
    "redirect": lambda echo: respond(302, "", "text/plain", location=f"/?k={one_line(echo)}"),
    "wait": lambda echo: as_json(429, error(message=echo), retry_after=one_line(echo)),
    "event": lambda echo: as_stream(error(message=echo)),
    "event after text": lambda echo: as_stream(TEXT, error(message=echo, code=echo)),
    "finish": lambda echo: as_json(200, choice(finish_reason=echo)),
    "finish of a stream": lambda echo: as_stream(choice(finish_reason=echo)),
    "error with 200": lambda echo: as_json(200, error(message=echo, type=echo)),
    "page with 200": lambda echo: respond(200, f"<p>{echo}</p>", "text/html"),
    "status line": lambda echo: f"HTTP/9.x {one_line(echo)}\r\n\r\n".encode(),
    "header line": lambda echo: f"HTTP/1.1 200 OK\r\nbad header {one_line(echo)}\r\n\r\n".encode(),
}


def split_by(mark: str) -> Callable[[str], str]:
    return lambda key: mark.join((key[:5], key[5:13], key[13:]))


FORMS: dict[str, Callable[[str], str]] = {
    "itself": lambda key: key,
    "bearer": lambda key: f"Bearer {key}",
    "quoted": lambda key: f'"{key}"',
    "repr": lambda key: repr({"x-gateway": key}),
    "json": lambda key: json.dumps(json.dumps({"k": key})),
    "unicode": lambda key: "".join(f"\\u{ord(one):04x}" for one in key),
    "some unicode": lambda key: key.replace("-", "\\u002d").replace("+", "\\u002b"),
    "hex": lambda key: "".join(f"\\x{ord(one):02x}" for one in key),
    "percent": lambda key: urllib.parse.quote(key, safe=""),
    "every percent": lambda key: "".join(f"%{ord(one):02X}" for one in key),
    "entities": lambda key: "".join(f"&#{ord(one)};" for one in key),
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "user in base64": lambda key: base64.b64encode(f"ada:{key}".encode()).decode(),
    "upper": str.upper,
    "lower": str.lower,
    "lines": split_by("\n"),
    "zero width": split_by("\u200b"),
    "beginning": lambda key: key[:17] + "...",
    "end": lambda key: "***" + key[-14:],
    "address": lambda key: f"https://h/v1?k={urllib.parse.quote(key)}&a=b",
}

CASES = [(place, form) for place in PLACES for form in FORMS]


def readings_of(text: str) -> Iterator[str]:
    """The text as a curious reader would decode it."""
    for read in (str, urllib.parse.unquote, html.unescape, read_escapes):
        yield re.sub(r"[^\x21-\x7e]|\\n", "", read(text)).lower()


def read_escapes(text: str) -> str:
    return re.sub(r"\\+(?:u00|x)([0-9a-fA-F]{2})", lambda match: chr(int(match[1], 16)), text)


def find_key(text: str, *keys: str) -> str:
    """The part of one of the keys, plain or in base64, that a text shows; "" for none."""
    parts = {part for key in keys for part in parts_of(key)}
    for reading in readings_of(text):
        for part in parts:
            if part in reading:
                return part
    return ""


def parts_of(key: str) -> Iterator[str]:
    encoded = [base64.b64encode(b" " * pad + key.encode()).decode()[4:-4] for pad in range(3)]
    for whole in (key, *encoded):
        for at in range(len(whole) - 11):
            yield whole[at : at + 12].lower()


def shown_by(failure: BaseException) -> Iterator[str]:
    """All texts of an error, of its attributes, and of its causes."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [failure]
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        pending += [one.__cause__, one.__context__]
        yield from (str(one), repr(one), repr(one.args), repr(vars(one)))
        yield from (
            f"{value!r} {vars(value) if hasattr(value, '__dict__') else ''}" for value in one.args
        )
        if isinstance(one, HoldfastError):
            info = one.info
            yield f"{info!r} {info.private} {info.code} {info.request_id}"
    yield "".join(traceback.format_exception(failure))


def place_key(key: str, url: str) -> ModelAt:
    """A model that sends the key as an API key, a header, a query or a password."""
    by_kind = {
        KEYS[0]: ModelAt("openai:a", base_url=url, api_key=key),
        KEYS[1]: ModelAt("ollama:a", base_url=url, headers={"X-Team-Access": key}),
        KEYS[2]: ModelAt("ollama:a", base_url=f"{url}?k={urllib.parse.quote(key, safe='')}"),
        KEYS[3]: ModelAt("ollama:a", base_url=url.replace("//", f"//ada:{key}@")),
    }
    return by_kind[key]


class Echoes:
    """A server that repeats the key in the place and the form of one case after the other."""

    def __init__(self) -> None:
        self.response = b""
        self.requests: list[bytes] = []

    async def serve(self, client: Client) -> None:
        self.requests.append(await client.request())
        await client.send(self.response)


async def run_once(agent: Agent[str], session: str, texts: list[str] | None) -> None:
    if texts is None:
        await agent.run("Go", session=session)
        return
    async with agent.stream("Go", session=session) as run:
        texts += [repr(item) async for item in run]
    await run.result


async def collect_texts(
    place: ModelAt, journal: SqliteJournal, number: int, *, streamed: bool
) -> list[str]:
    """What a user, a log, an export and a calling model see of one failed call."""
    scout = Agent(
        place,
        name="scout",
        retry=RetryOptions(max_retries=0),
        resilience=Resilience(breaker=None),
        journal=journal,
    )
    texts: list[str] = []
    with pytest.raises(HoldfastError) as caught:
        await run_once(scout, f"s{number}", texts if streamed else None)
    boss_model = ScriptedModel(ToolCall("1", "scout", '{"task": "Go"}'), "done")
    boss = Agent(boss_model, tools=[scout.as_tool()], journal=journal, detailed_errors=True)
    async with boss.stream("Go", session=f"b{number}") as run:
        texts += [repr(item) async for item in run]
    texts += [repr(boss_model.requests), scout.describe(), repr(scout)]
    return texts + list(shown_by(caught.value))


def read_files(folder: Path) -> str:
    return b"".join(file.read_bytes() for file in folder.iterdir()).decode("latin-1")


async def test_five_hundred_echoes_show_no_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert len(CASES) == 500
    caplog.set_level(logging.DEBUG)
    echoes = Echoes()
    server = RawServer(echoes.serve)
    await server.start()
    url = server.url.removesuffix("/x")
    shown: list[str] = []
    journal = SqliteJournal(tmp_path / "journal.db")
    for number, (place, form) in enumerate(CASES):
        key = KEYS[number % len(KEYS)]
        echoes.response = PLACES[place](FORMS[form](key))
        model = place_key(key, url)
        texts = await collect_texts(model, journal, number, streamed=number % 3 == 0)
        part = find_key("\n".join([*texts, caplog.text]), key)
        caplog.clear()
        shown += [f"{place} / {form}: {part}"] if part else []
    journal.close()
    await server.stop()
    stored = read_files(tmp_path)
    part = find_key(stored, *KEYS)
    shown += [f"the journal holds {part}"] if part else []
    assert len(echoes.requests) == 2 * len(CASES)
    assert not shown, "\n".join(shown[:20])
