"""Both protocols over HTTP: requests that come twice, answers that come late, bodies that are wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.server.live_server import LiveServer, Reply, serve
from tests.server.protocols.chatting import make_agent

from holdfast import Agent, PostgresJournal, Sessions, SqliteJournal, ToolCall
from holdfast.core.events import TurnOpened
from holdfast.hosting.tenant_service import TenantService
from holdfast.journal.service_store.service_store_opening import open_service_store
from holdfast.server import AccessOptions, create_app
from holdfast.server.access.keys import make_key
from holdfast.testing import ScriptedModel

PAY = ToolCall("c1", "pay", '{"amount": 3}')


@asynccontextmanager
async def chat_server(*script: Any) -> AsyncIterator[tuple[LiveServer, ScriptedModel]]:
    model = ScriptedModel(*script)
    async with serve(create_app(make_agent(model))) as server:
        yield server, model


async def post(server: LiveServer, path: str, body: object, **headers: str) -> Reply:
    return await server.request("POST", path, json.dumps(body).encode(), **headers)


def events(reply: Reply) -> list[dict[str, Any]]:
    """Return the events of a stream; the end of a chat is left out."""
    assert reply.status == 200, reply.body
    lines = [line for line in decode(reply.body).splitlines() if line.startswith("data: {")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def decode(body: bytes) -> str:
    """Return the text of a body that may be sent in chunks."""
    if not body[:1].isalnum():
        return body.decode()
    text = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        text, body = text + body[: int(size, 16)], body[int(size, 16) + 2 :]
    return text.decode()


def message(text: str, name: str = "m1") -> dict[str, Any]:
    return {"id": name, "role": "user", "parts": [{"type": "text", "text": text}]}


def chat(*messages: dict[str, Any], session: str = "ada", **more: object) -> dict[str, Any]:
    return {"id": session, "messages": messages, "trigger": "submit-message", **more}


def answered(approval: str, session: str = "ada", **more: object) -> dict[str, Any]:
    """Return the message of the assistant with an answer of the page."""
    given = {"id": approval, "approved": True, **more}
    part = {"type": "tool-pay", "toolCallId": "t1.i0.tool.0", "state": "approval-responded"}
    return {"id": f"{session}.t1", "role": "assistant", "parts": [{**part, "approval": given}]}


def approval_of(chunks: list[dict[str, Any]]) -> str:
    return next(str(one["approvalId"]) for one in chunks if one["type"] == "tool-approval-request")


async def test_a_message_that_comes_twice_at_once_is_one_turn() -> None:
    async with chat_server("Hello.", "Never.") as (server, model):
        body = chat(message("Hi"))
        replies = await asyncio.gather(
            *[post(server, "/vercel/clerk/chat", body) for _ in range(4)]
        )
        later = await post(server, "/vercel/clerk/chat", body)
        shown = [[one for one in events(reply) if "delta" in one] for reply in [*replies, later]]
        texts = {"".join(one["delta"] for one in deltas) for deltas in shown}
        assert (texts, len(model.requests)) == ({"Hello."}, 1)
        given = {"threadId": "bob", "runId": "r", "messages": [message_of_agui("Hi")]}
        await asyncio.gather(*[post(server, "/agui/clerk", given) for _ in range(4)])
        assert len(model.requests) == 2


def message_of_agui(text: str, name: str = "m1") -> dict[str, Any]:
    return {"id": name, "role": "user", "content": text}


async def test_an_edit_that_comes_twice_at_once_replaces_once() -> None:
    async with chat_server("One.", "Two.", "Never.") as (server, model):
        await post(server, "/vercel/clerk/chat", chat(message("Hi")))
        edit = chat(message("Ho"), messageId="m1")
        replies = await asyncio.gather(
            *[post(server, "/vercel/clerk/chat", edit) for _ in range(4)]
        )
        for chunks in map(events, replies):
            assert chunks[0]["messageId"] == "ada.t3"
            assert chunks[-1]["messageMetadata"]["status"] == "completed"
        assert len(model.requests) == 2
        again = chat(message("Ho"), messageId="ada.t3", trigger="regenerate-message")
        replies = await asyncio.gather(
            *[post(server, "/vercel/clerk/chat", again) for _ in range(3)]
        )
        assert {events(reply)[0]["messageId"] for reply in replies} == {"ada.t5"}
        assert len(model.requests) == 3


async def test_an_approval_that_comes_twice_pays_once() -> None:
    async with chat_server(PAY, "Done.") as (server, model):
        first = events(await post(server, "/vercel/clerk/chat", chat(message("Pay."))))
        body = chat(message("Pay."), answered(approval_of(first)))
        both = await asyncio.gather(*[post(server, "/vercel/clerk/chat", body) for _ in range(2)])
        late = events(await post(server, "/vercel/clerk/chat", body))
        for chunks in (*map(events, both), late):
            paid = [one["output"] for one in chunks if one["type"] == "tool-output-available"]
            assert paid == ["paid 3"]
            assert chunks[-1]["messageMetadata"]["status"] == "completed"
        assert len(model.requests) == 2


async def test_an_answer_to_an_earlier_question_is_refused() -> None:
    async with chat_server(PAY, "Done.") as (server, model):
        first = events(await post(server, "/vercel/clerk/chat", chat(message("Pay."))))
        key = approval_of(first).partition("~")[0]
        refused = await post(server, "/vercel/clerk/chat", chat(answered(f"{key}~{'0' * 32}")))
        assert (refused.status, refused.json()["kind"]) == (409, "mismatch")
        entry = {"interruptId": f"{key}~{'0' * 32}", "status": "resolved", "payload": True}
        given = {"threadId": "ada", "runId": "r", "messages": [], "resume": [entry]}
        refused = await post(server, "/agui/clerk", given)
        assert (refused.status, refused.json()["code"]) == (409, "mismatch")
        assert len(model.requests) == 1


async def test_both_protocols_answer_the_same_question() -> None:
    async with chat_server(PAY, "Done.") as (server, _):
        await post(server, "/vercel/clerk/chat", chat(message("Pay.")))
        looked = events(
            await post(server, "/agui/clerk", {"threadId": "ada", "runId": "1", "messages": []})
        )
        (interrupt,) = looked[-1]["outcome"]["interrupts"]
        entry = {
            "interruptId": interrupt["id"],
            "status": "resolved",
            "payload": {"approved": True},
        }
        given = {"threadId": "ada", "runId": "2", "messages": [], "resume": [entry]}
        seen = events(await post(server, "/agui/clerk", given))
        assert seen[-1]["outcome"] == {"type": "success"}
        assert [one["content"] for one in seen if one["type"] == "TOOL_CALL_RESULT"] == ["paid 3"]
        loaded = (await server.request("GET", "/vercel/clerk/chat/ada")).json()
        assert loaded["messages"][1]["parts"][-1]["text"] == "Done."  # type: ignore[index]


async def test_a_stop_that_comes_late_leaves_the_next_turn_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with chat_server(PAY, PAY) as (server, _):
        await post(server, "/vercel/clerk/chat", chat(message("Pay.")))
        cancel = TenantService.cancel

        async def cancel_late(tenant: TenantService, session: str, **given: Any) -> None:
            await cancel(tenant, session)
            monkeypatch.setattr(TenantService, "cancel", cancel)
            await post(server, "/vercel/clerk/chat", chat(message("Pay again.", "m2")))
            await cancel(tenant, session, **given)

        monkeypatch.setattr(TenantService, "cancel", cancel_late)
        assert (await post(server, "/vercel/clerk/chat/ada/stop", {})).status == 204
        turns = [await server.request("GET", f"/api/v1/sessions/ada/turns/{n}") for n in (1, 2)]
        assert [turn.json()["status"] for turn in turns] == ["cancelled", "waiting"]


@pytest.mark.parametrize("session", ["a/b", "a/stream", "ü ?#%", "..x"])
async def test_any_name_of_a_chat_is_one_part_of_its_path(session: str) -> None:
    from urllib.parse import quote

    async with chat_server(PAY) as (server, _):
        path = f"/vercel/clerk/chat/{quote(session, safe='')}"
        body = chat(message("Pay."), session=session)
        await post(server, "/vercel/clerk/chat", body)
        assert (await server.request("GET", path)).json()["id"] == session
        again = events(await server.request("GET", f"{path}/stream"))
        assert again[-1]["messageMetadata"]["status"] == "waiting"
        assert (await post(server, f"{path}/stop", {})).status == 204
        assert (await server.request("GET", f"{path}/stream")).status == 204
        ended = events(await server.request("GET", f"{path}/stream?ended=replay"))
        assert ended[-1]["type"] == "abort"


WRONG = [
    (b"{", 400, "body"),
    (b"[]", 422, "body"),
    (b'{"id": "ada"}', 422, "configuration"),
    (json.dumps(chat()).encode(), 422, "configuration"),
    (json.dumps(chat({**message("Hi"), "role": "robot"})).encode(), 422, "body"),
    (json.dumps(chat(message(" "))).encode(), 422, "configuration"),
    (
        json.dumps(chat({**message(""), "parts": [{"type": "tool-x"}]})).encode(),
        422,
        "configuration",
    ),
    (json.dumps(chat({**message(""), "parts": [{"type": "text"}]})).encode(), 422, "configuration"),
    (json.dumps(chat(answered("x", "bob"))).encode(), 422, "configuration"),
    (json.dumps(chat(answered("x"))).encode(), 404, "unknown"),
    (json.dumps(chat(message("Hi"), session="")).encode(), 422, "configuration"),
]


@pytest.mark.parametrize(("body", "status", "kind"), WRONG)
async def test_a_wrong_body_is_refused_with_its_field(body: bytes, status: int, kind: str) -> None:
    async with chat_server() as (server, model):
        refused = await server.request("POST", "/vercel/clerk/chat", body)
        assert (refused.status, refused.json()["kind"]) == (status, kind), refused.body
        assert model.requests == []


@pytest.mark.parametrize(
    "part",
    [
        {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,!"},
        {"type": "file", "mediaType": "image/png", "url": "data:oops"},
        {"type": "file", "mediaType": "image", "url": "https://example.org/a.png"},
        {"type": "file", "mediaType": "image/png", "url": "file:///etc/passwd"},
        {"type": "file", "url": "data:image/png;base64,UE5H"},
    ],
)
async def test_a_file_that_is_none_is_refused_with_its_field(part: dict[str, str]) -> None:
    async with chat_server() as (server, _):
        body = chat({**message(""), "parts": [part]})
        refused = await post(server, "/vercel/clerk/chat", body)
        assert refused.status == 422
        assert str(refused.json()["field"]).startswith("messages[-1].parts[0]")


@pytest.mark.parametrize(
    ("source", "field"),
    [
        ({"type": "url", "value": "file:///etc/passwd", "mimeType": "image/png"}, "source.value"),
        ({"type": "url", "value": "javascript:x"}, "source.value"),
        ({"type": "url", "value": "data:oops"}, "source.value"),
        ({"type": "url", "value": "https://example.org/a", "mimeType": "png"}, "source.mimeType"),
        ({"type": "data", "value": "!"}, "source.value"),
        ({"type": "data", "value": ""}, "source.value"),
        ({"type": "data", "value": "UE5H", "mimeType": "png"}, "source.mimeType"),
        ({"type": "data", "value": 5}, "source"),
        ({"type": "ftp", "value": "UE5H"}, "source.type"),
        (None, ""),
    ],
)
async def test_media_of_agui_that_are_none_are_refused_with_their_field(
    source: object, field: str
) -> None:
    async with chat_server() as (server, model):
        content = [{"type": "image", "source": source}]
        sent = {"id": "m1", "role": "user", "content": content}
        refused = await post(server, "/agui/clerk", {**RUN, "messages": [sent]})
        event = refused.json()
        assert (refused.status, event["type"]) == (422, "RUN_ERROR")
        assert event["message"].startswith(f"messages[-1].content[0]{field and '.'}{field}: ")
        assert model.requests == []


RUN: dict[str, Any] = {"threadId": "ada", "runId": "r", "messages": [message_of_agui("Hi")]}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "body"),
        (b"{}", 422, "body"),
        (json.dumps({**RUN, "messages": [message_of_agui(" ")]}).encode(), 422, "configuration"),
        (json.dumps({**RUN, "tools": [{"name": "no spaces"}]}).encode(), 422, "configuration"),
        (json.dumps({**RUN, "state": "x" * 20_000}).encode(), 422, "configuration"),
        (json.dumps({**RUN, "threadId": ""}).encode(), 422, "configuration"),
        (
            json.dumps(
                {**RUN, "messages": [], "resume": [{"interruptId": "x", "status": "cancelled"}]}
            ).encode(),
            404,
            "unknown",
        ),
    ],
)
async def test_a_wrong_run_is_refused_as_an_event(body: bytes, status: int, code: str) -> None:
    async with chat_server() as (server, model):
        refused = await server.request("POST", "/agui/clerk", body)
        assert refused.header("content-type") == "application/json"
        event = refused.json()
        assert (refused.status, event["type"], event["code"]) == (status, "RUN_ERROR", code)
        assert event["message"]
        assert model.requests == []


async def test_an_agent_or_address_that_does_not_exist() -> None:
    async with chat_server() as (server, _):
        for path in ("/vercel/nobody/chat", "/vercel/clerk", "/vercel/clerk/chat/ada/other"):
            assert (await post(server, path, chat(message("Hi")))).status == 404
        for path in ("/agui/nobody", "/agui/clerk/more"):
            refused = await post(server, path, RUN)
            assert (refused.status, refused.json()["type"]) == (404, "RUN_ERROR")
        assert (await server.request("GET", "/vercel/clerk/chat/ada/stream")).status == 204
        assert (await server.request("GET", "/vercel/clerk/chat/ada")).status == 404


async def test_a_turn_of_a_run_that_never_came_is_shown_when_it_is_there() -> None:
    async with chat_server("Hello.") as (server, _):
        looked = events(await post(server, "/agui/clerk", {**RUN, "messages": []}))
        assert [one["type"] for one in looked] == [
            "RUN_STARTED",
            "MESSAGES_SNAPSHOT",
            "RUN_FINISHED",
        ]
        await post(server, "/agui/clerk", RUN)
        looked = events(await post(server, "/agui/clerk", {**RUN, "runId": "2"}))
        assert [one["content"] for one in looked[1]["messages"]] == ["Hi", "Hello."]
        assert looked[-1]["outcome"] == {"type": "success"}


async def test_the_chat_of_another_tenant_does_not_exist(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "talk.db") as journal:
        store = open_service_store(journal)
        keys = {}
        for tenant in ("one", "two"):
            text, key = make_key(tenant, tenant=tenant, scopes=("run", "read", "answer"), now=0.0)
            await store.add_key(key)
            keys[tenant] = {"authorization": f"Bearer {text}"}
        agent = make_agent(ScriptedModel(PAY, "Done."))
        app = create_app(agent, journal=journal, access=AccessOptions(auth="keys"))
        async with serve(app) as server:
            sent = await post(server, "/vercel/clerk/chat", chat(message("Pay.")), **keys["one"])
            body = chat(answered(approval_of(events(sent))))
            path = "/vercel/clerk/chat/ada"
            assert (await post(server, "/vercel/clerk/chat", body)).status == 401
            assert (await post(server, "/vercel/clerk/chat", body, **keys["two"])).status == 404
            assert (await server.request("GET", path, **keys["two"])).status == 404
            assert (await server.request("GET", f"{path}/stream", **keys["two"])).status == 204
            assert (await post(server, f"{path}/stop", {}, **keys["two"])).status == 404
            done = events(await post(server, "/vercel/clerk/chat", body, **keys["one"]))
            assert done[-1]["messageMetadata"]["status"] == "completed"
        records = await journal.for_tenant("one").read("ada")
        assert [one.event.by for one in records if getattr(one.event, "by", "")] == ["one"]
        store.close()


async def test_a_turn_that_was_rewound_is_not_shown() -> None:
    async with chat_server("One.", "Two.") as (server, _):
        await post(server, "/vercel/clerk/chat", chat(message("Hi")))
        await post(server, "/vercel/clerk/chat", chat(message("Ho", "m2")))
        assert (await post(server, "/api/v1/sessions/ada/rewind", {"to": 1})).status == 200
        path = "/vercel/clerk/chat/ada"
        assert (await server.request("GET", f"{path}/stream?ended=replay")).status == 204
        loaded = (await server.request("GET", path)).json()["messages"]
        assert [one["id"] for one in loaded] == ["m1", "ada.t1"]  # type: ignore[attr-defined]
        looked = events(await post(server, "/agui/clerk", {**RUN, "messages": []}))
        assert [one["content"] for one in looked[1]["messages"]] == ["Hi", "One."]
        assert looked[-1]["type"] == "RUN_FINISHED"


@pytest.mark.parametrize("protocol", ["vercel", "agui"])
async def test_a_page_that_leaves_is_no_reader_any_more_and_its_turn_goes_on(protocol: str) -> None:
    may_end = asyncio.Event()

    async def wait(_request: object) -> str:
        await may_end.wait()
        return "Hello."

    app = create_app(make_agent(ScriptedModel(wait)))
    async with serve(app) as server:
        path = "/agui/clerk" if protocol == "agui" else "/vercel/clerk/chat"
        body = json.dumps(RUN if protocol == "agui" else chat(message("Hi"))).encode()
        reader, writer = await server.connect()
        head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        runner = app.state.service.for_tenant().runner
        async with asyncio.timeout(60):
            await reader.readuntil(b'"type":')
            while not (driven := runner.find("ada")) or not driven.live.readers:
                await asyncio.sleep(0.005)
            writer.close()
            while driven.live.readers:
                await asyncio.sleep(0.005)
            assert runner.find("ada") is driven
            may_end.set()
            seen = events(await server.request("GET", "/vercel/clerk/chat/ada/stream?ended=replay"))
        assert seen[-1]["messageMetadata"]["status"] == "completed"


@asynccontextmanager
async def two_servers(url: str, model: Any) -> AsyncIterator[list[LiveServer]]:
    """Two services of one database, as in two processes."""
    with PostgresJournal(url, lease=1.0) as one, PostgresJournal(url, lease=1.0) as two:
        agent = make_agent(model)
        async with (
            serve(create_app(agent, journal=one)) as first,
            serve(create_app(agent, journal=two)) as second,
        ):
            yield [first, second]


@pytest.mark.slow  # starts services as processes
async def test_an_edit_that_comes_to_two_processes_replaces_once(url: str) -> None:
    """Also when the turn that it replaces is in progress."""
    is_called = asyncio.Event()

    async def say(_: object) -> str:
        is_called.set()
        await asyncio.sleep(0.05)
        return "Said."

    async with two_servers(url, ScriptedModel(*[say] * 40)) as servers:
        for number in range(6):
            session = f"s{number}"
            is_called.clear()
            first = chat(message("Hi"), session=session)
            beginning = asyncio.ensure_future(post(servers[0], "/vercel/clerk/chat", first))
            await (beginning if number % 2 else is_called.wait())
            edit = chat(message("Ho"), session=session, messageId="m1")
            replies = await asyncio.gather(
                *[post(server, "/vercel/clerk/chat", edit) for server in servers * 2], beginning
            )
            # While another process replaces it, the session is busy; a repetition finds the turn.
            assert {reply.status for reply in replies} <= {200, 409}
            done = [reply for reply in replies[:-1] if reply.status == 200]
            later = await post(servers[1], "/vercel/clerk/chat", edit)
            assert len({events(reply)[0]["messageId"] for reply in (*done, later)}) == 1
            saved = await read_turns(url, session)
            assert [text for text, counts in saved if counts] == ["Ho"]
            assert [text for text, _ in saved].count("Ho") == 1


@pytest.mark.slow  # starts services as processes
async def test_of_two_edits_in_two_processes_one_is_the_last(url: str) -> None:
    async with two_servers(url, ScriptedModel(*["Said."] * 40)) as servers:
        for number in range(6):
            session = f"s{number}"
            await post(servers[0], "/vercel/clerk/chat", chat(message("Hi"), session=session))
            edits = [chat(message(text), session=session, messageId="m1") for text in ("A", "B")]
            replies = await asyncio.gather(
                *[
                    post(server, "/vercel/clerk/chat", edit)
                    for server, edit in zip(servers, edits, strict=True)
                ]
            )
            assert {reply.status for reply in replies} <= {200, 409}
            saved = await read_turns(url, session)
            counted = [text for text, counts in saved if counts]
            assert counted in (["A"], ["B"]), saved
            done = [text for text, reply in zip("AB", replies, strict=True) if reply.status == 200]
            assert counted[0] in done


async def read_turns(url: str, session: str) -> list[tuple[str, bool]]:
    """Return the message of each turn, and whether it counts."""
    with PostgresJournal(url) as journal:
        history = await Sessions(journal).read(session)
        events = [record.event for record in await journal.read(session)]
    texts = {event.key: event.message.text for event in events if isinstance(event, TurnOpened)}
    return [
        (texts[f"t{point.number}"], point.counts)
        for point in history.points
        if point.kind == "turn"
    ]


async def test_metrics_name_no_session_of_a_chat() -> None:
    app = create_app(Agent(ScriptedModel("Hi."), name="greeter"))
    async with serve(app) as server:
        for name in ("ada-lovelace", "grace-hopper"):
            await server.request("GET", f"/vercel/greeter/chat/{name}")
            await server.request("GET", f"/vercel/greeter/chat/{name}/stream")
        metrics = (await server.request("GET", "/metrics")).body.decode()
    assert "ada-lovelace" not in metrics
    assert 'route="/vercel/{agent}/chat/{session}/stream"' in metrics


BOOK = ToolCall("c1", "book", '{"nights": 2}')
LOOK = {"threadId": "ada", "runId": "1", "messages": []}


async def post_to_server(server: LiveServer, path: str, body: object) -> Reply:
    return await server.request("POST", path, json.dumps(body).encode())


async def send(server: LiveServer, text: str) -> None:
    """Send a message of a chat, whose id is its text."""
    part = {"type": "text", "text": text}
    message = {"id": text, "role": "user", "parts": [part]}
    await post_to_server(server, "/vercel/clerk/chat", {"id": "ada", "messages": [message]})


async def test_giving_up_a_question_leaves_a_later_turn_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = create_app(make_agent(ScriptedModel(BOOK, BOOK)))
    async with serve(app) as server:
        await send(server, "Book.")
        turn: Any = (await server.request("GET", "/api/v1/sessions/ada/turns/1")).json()
        (question,) = turn["questions"]
        cancel = TenantService.cancel

        async def cancel_late(tenant: TenantService, session: str, **given: Any) -> None:
            monkeypatch.setattr(TenantService, "cancel", cancel)
            await post_to_server(server, "/vercel/clerk/chat/ada/stop", {})
            await send(server, "Book again.")
            await cancel(tenant, session, **given)

        monkeypatch.setattr(TenantService, "cancel", cancel_late)
        name = f"{question['key']}~{question['binding']}"
        entry = {"interruptId": name, "status": "cancelled"}
        told = await post_to_server(server, "/agui/clerk", {**LOOK, "resume": [entry]})
        assert told.status == 200
        turns = [await server.request("GET", f"/api/v1/sessions/ada/turns/{n}") for n in (1, 2)]
        assert [turn.json()["status"] for turn in turns] == ["cancelled", "waiting"]
