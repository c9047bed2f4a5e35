"""No secret is shown in errors, logs, records and requests."""

from __future__ import annotations

import asyncio
import base64
import html
import json
import logging
import re
import traceback
import urllib.parse
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tests.transport.raw import Client, RawServer

from holdfast import Agent, ModelAt, Resilience, ToolContext, tool
from holdfast.calls.exception_rules import classify_exception
from holdfast.calls.foreign_fields import redact_exception
from holdfast.calls.sdk_errors import classify
from holdfast.core.errors import ErrorCategory, ErrorInfo, HoldfastError, ProviderError
from holdfast.core.events import ToolFinished
from holdfast.core.messages import ToolCall
from holdfast.core.questions import ClarificationQuestion
from holdfast.journal.journal_errors import JournalError
from holdfast.journal.postgres.postgres_journal import PostgresJournal
from holdfast.journal.sqlite.sqlite_journal import SqliteJournal
from holdfast.resilience import BreakerOptions
from holdfast.resilience.breaker.strategy import CircuitBreaker
from holdfast.resilience.retry.options import RetryOptions
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.transport.credentials import find_secrets

# A provider repeats the key in its error. Its form is not known (32 hexadecimal digits, a UUID, a
# gateway's token), so that no pattern finds it. The test generates 500 echoes: 25 places of a
# response, and 20 forms in which a text repeats a key.

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


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 5))]
)
async def test_five_hundred_echoes_show_no_key(
    part: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert len(CASES) == 500
    cases = CASES[part::5]  # all of them take a quarter of a minute
    caplog.set_level(logging.DEBUG)
    echoes = Echoes()
    server = RawServer(echoes.serve)
    await server.start()
    url = server.url.removesuffix("/x")
    shown: list[str] = []
    journal = SqliteJournal(tmp_path / "journal.db")
    for number, (place, form) in enumerate(cases):
        key = KEYS[number % len(KEYS)]
        echoes.response = PLACES[place](FORMS[form](key))
        model = place_key(key, url)
        texts = await collect_texts(model, journal, number, streamed=number % 3 == 0)
        shown_part = find_key("\n".join([*texts, caplog.text]), key)
        caplog.clear()
        shown += [f"{place} / {form}: {shown_part}"] if shown_part else []
    journal.close()
    await server.stop()
    stored = read_files(tmp_path)
    stored_part = find_key(stored, *KEYS)
    shown += [f"the journal holds {stored_part}"] if stored_part else []
    assert len(echoes.requests) == 2 * len(cases)
    assert not shown, "\n".join(shown[:20])


# Errors of tools, of drivers and of SDKs.

KEY = "8f7a6b5c4d3e2f1a9b8c7d6e"


class KnowsAKey(ScriptedModel):
    """A scripted model with a secret, as a model over HTTP has one."""

    secrets = find_secrets("", [("authorization", f"Bearer {KEY}")])


def refuse() -> ProviderError:
    info = ErrorInfo(
        category=ErrorCategory.AUTH_ERROR,
        safe="password=hunter2",
        private="password=hunter2",
        code="token=hunter2",
    )
    return ProviderError("password=hunter2", info=info)


@pytest.mark.parametrize("detailed", [True, False])
async def test_an_error_of_holdfast_that_a_tool_raises_is_redacted(detailed: bool) -> None:
    @tool
    def pay() -> str:
        """Pay."""
        raise refuse()

    model = ScriptedModel(ToolCall("1", "pay"), "done")
    async with Agent(model, tools=[pay], detailed_errors=detailed).stream("go") as run:
        events = [item async for item in run]
    finished = [event for event in events if isinstance(event, ToolFinished)]
    assert len(finished) == 1
    assert finished[0].error is not None
    assert finished[0].error.category is ErrorCategory.AUTH_ERROR
    assert "hunter2" not in repr((events, model.requests))


async def test_a_tool_does_not_tell_the_key_of_its_agent(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def look() -> str:
        """Look."""
        raise KeyError(f"unknown key {KEY}")

    model = KnowsAKey(ToolCall("1", "look"), "done")
    agent = Agent(model, tools=[look], detailed_errors=True)
    async with agent.stream("go") as run:
        events = [item async for item in run]
    assert KEY not in repr((events, model.requests)) + caplog.text
    assert "unknown key [redacted]" in repr(model.requests)


async def test_the_error_of_a_driver_holds_no_password() -> None:
    url = f"postgresql://bob:{KEY}@127.0.0.1:1/db?connect_timeout=2"
    with PostgresJournal(url) as journal, pytest.raises(JournalError) as raised:
        await journal.read("r")
    errors: list[BaseException] = []
    pending: list[BaseException | None] = [raised.value]
    while pending:
        error = pending.pop()
        if error is not None and error not in errors:
            errors.append(error)
            pending += [error.__cause__, error.__context__]
    assert len(errors) >= 2  # the cause is still told
    for error in errors:
        assert KEY not in f"{error} {error.args} {vars(error)}"
        assert not type(error).__module__.startswith("psycopg") or not vars(error)


class Request:
    """The request of a client, as its exceptions hold it."""

    def __init__(self) -> None:
        self.url = "https://gateway.example/v1/chat"
        self.headers = {"Authorization": f"Bearer {KEY}"}


class StatusError(Exception):
    """As a vendor's SDK raises it."""

    def __init__(self) -> None:
        super().__init__(f"Error code: 401 - Incorrect API key: {KEY}")
        self.request = Request()
        self.status_code = 401


def test_the_exception_of_an_sdk_is_told_without_its_key() -> None:
    info = classify(StatusError())
    assert info.category is ErrorCategory.AUTH_ERROR
    assert KEY not in f"{info!r} {info.private}"
    assert "[redacted]" in info.safe
    assert KEY not in redact_exception(StatusError())
    wrapped = RuntimeError(f"the call failed: {KEY}")
    wrapped.__cause__ = StatusError()
    assert KEY not in redact_exception(wrapped)


# An exception of a user's hook is logged with its traceback, and without the secrets in its text.

SECRET = "sk-live-8f7a6b5c4d3e2f1a"
PASSWORD = "hunter2"
VALUE = "8f7a6b5c4d3e2f1a9b8c7d6e"


def fail_with_secrets(*_: object) -> NoReturn:
    """Raise an error with a cause, a note and secrets in all of them."""
    try:
        raise ConnectionError(f"https://bob:{PASSWORD}@db/x refused Authorization: Bearer {SECRET}")
    except ConnectionError as error:
        failure = RuntimeError(f"password={PASSWORD} and {SECRET}")
        failure.add_note(f"token={SECRET}")
        raise failure from error


def down() -> ProviderError:
    info = ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="down")
    return ProviderError("down", info=info)


async def fail_as_observer() -> None:
    await Agent(ScriptedModel("done"), observers=[fail_with_secrets]).run("Go")


async def fail_as_retry_hook() -> None:
    retry = RetryOptions(custom_retry=fail_with_secrets)
    agent = Agent(ScriptedModel(down()), retry=retry, clock=FakeClock())
    with pytest.raises(ProviderError):
        await agent.run("Go")


async def fail_as_subscriber() -> None:
    breaker = CircuitBreaker("target", BreakerOptions())
    breaker.subscribe(fail_with_secrets)
    breaker.isolate()


async def fail_as_classify() -> None:
    classify_exception(KeyError("x"), fail_with_secrets, FakeClock())


def asking_agent(handler: Any, model: type[ScriptedModel] = ScriptedModel) -> Agent[str]:
    @tool(effect="read")
    async def ask(context: ToolContext) -> str:
        """Ask."""
        return await context.ask(ClarificationQuestion(question="Which?"))

    return Agent(model(ToolCall("1", "ask"), "done"), tools=[ask], on_question=handler)


async def fail_as_question_handler() -> None:
    async def handler(_: object) -> object:
        await asyncio.sleep(0)
        fail_with_secrets()

    await asking_agent(handler).run("Go")


@pytest.mark.parametrize(
    "act",
    [
        fail_as_observer,
        fail_as_retry_hook,
        fail_as_subscriber,
        fail_as_classify,
        fail_as_question_handler,
    ],
)
async def test_the_log_has_the_traceback_and_no_secret(
    act: Callable[[], Awaitable[None]], caplog: pytest.LogCaptureFixture
) -> None:
    await act()
    assert "RuntimeError: password=[redacted]" in caplog.text
    assert "in fail_with_secrets" in caplog.text
    assert "ConnectionError: https://[redacted]@db/x" in caplog.text
    for secret in (SECRET, PASSWORD):
        assert secret not in caplog.text
        assert secret not in repr([record.exc_info for record in caplog.records])


class KnowsAValue(ScriptedModel):
    """A scripted model with a secret, as a model over HTTP has one."""

    secrets = find_secrets("", [("authorization", f"Bearer {VALUE}")])


async def test_the_handler_of_questions_does_not_tell_the_key_of_its_agent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handler(_: object) -> object:
        raise KeyError(f"no page for {VALUE}")

    await asking_agent(handler, KnowsAValue).run("Go")
    assert "no page for [redacted]" in caplog.text
    assert VALUE not in caplog.text
