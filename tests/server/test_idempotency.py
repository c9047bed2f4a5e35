"""A request with an idempotency key is performed once, by any process, also after a restart."""

from __future__ import annotations

import asyncio
import time
from hashlib import blake2b
from pathlib import Path

import aiohttp
import pytest
from tests.server.serving import Api, serve

from holdfast import Agent, ToolPermission, tool
from holdfast.core.acts import Act
from holdfast.core.messages import Reply, ToolCall
from holdfast.journal.service_store.service_store import RequestName
from holdfast.server import create_app
from holdfast.server.api import idempotency
from holdfast.server.api.idempotency import name_act
from holdfast.testing import ScriptedModel


def make_greeter(*replies: str, journal: str | None = None) -> Agent:
    return Agent(ScriptedModel(*replies), name="greeter", journal=journal)


def keyed(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


async def test_a_turn_is_started_once_with_a_key(tmp_path: Path) -> None:
    journal = f"sqlite:///{tmp_path / 'talk.db'}"
    body = {"agent": "greeter", "message": "Hi.", "wait": 20}
    agent = make_greeter("One.", "Two.", "Three.", journal=journal)
    async with serve(create_app(agent)) as base, Api(base) as api:
        calls = [api.post("/turns", body, headers=keyed("k1")) for _ in range(5)]
        turns = [answer.json for answer in await asyncio.gather(*calls)]
        assert {(turn["session"], turn["turn"]) for turn in turns} == {(turns[0]["session"], 1)}
        named = {**body, "session": "ada"}
        calls = [api.post("/turns", named, headers=keyed("k3")) for _ in range(5)]
        turns_of_ada = [answer.json for answer in await asyncio.gather(*calls)]
        assert {(turn["session"], turn["turn"]) for turn in turns_of_ada} == {("ada", 1)}
        other = await api.post("/turns", {**body, "message": "Ho."}, headers=keyed("k1"))
        assert (other.status, other.json["kind"]) == (422, "idempotency_key")
        assert other.json["field"] == "Idempotency-Key"
        assert turns[0]["request"] == "k1"
        events = await api.items("/turns", body, **keyed("k2"))
        assert events[-1]["type"] == "end"
    agent.sessions  # noqa: B018  # the journal is still open, as after a restart of the service
    async with serve(create_app(agent)) as base, Api(base) as api:
        again = (await api.post("/turns", body, headers=keyed("k1"))).json
        assert (again["session"], again["text"]) == (turns[0]["session"], turns[0]["text"])
        other = await api.post("/turns", {**body, "message": "Ho."}, headers=keyed("k1"))
        assert other.status == 422
        assert len((await api.get("/sessions")).json["sessions"]) == 3


async def test_an_act_is_done_once_and_a_refusal_may_be_repeated() -> None:
    async with serve(create_app(make_greeter("One.", "Two.", "Three."))) as base, Api(base) as api:
        body = {"agent": "greeter", "session": "ada", "wait": 20}
        for message in ("a", "b"):
            await api.post("/turns", {**body, "message": message})
        first = await api.post("/sessions/ada/rewind", {"to": 1}, headers=keyed("k"))
        again = await api.post("/sessions/ada/rewind", {"to": 1}, headers=keyed("k"))
        assert first.json == again.json == {"number": 3}
        assert again.headers["idempotency-replayed"] == "true"
        assert len((await api.get("/sessions/ada/history")).json["points"]) == 3
        other = await api.post("/sessions/ada/rewind", {"to": 0}, headers=keyed("k"))
        assert other.status == 422
        # The same key on another route names another request.
        fork = [await api.post("/sessions/ada/fork", {}, headers=keyed("k")) for _ in range(2)]
        assert fork[0].json == fork[1].json
        early = await api.post("/sessions/eve/rewind", {"to": 0}, headers=keyed("e"))
        assert early.status == 404
        await api.post("/turns", {**body, "session": "eve", "message": "a"})
        late = await api.post("/sessions/eve/rewind", {"to": 0}, headers=keyed("e"))
        assert late.json == {"number": 2}


async def test_a_repetition_while_the_first_is_under_way_is_told_to_wait() -> None:
    app = create_app(make_greeter("One."))
    async with serve(app) as base, Api(base) as api:
        body = {"agent": "greeter", "session": "ada", "message": "a", "wait": 20}
        await api.post("/turns", body)
        done = await api.post("/sessions/ada/rewind", {"to": 0}, headers=keyed("k"))
        assert done.json == {"number": 2}
        store = app.state.service.store
        name = RequestName("", "POST /api/v1/sessions/ada/rewind", "slow")
        digest = blake2b(b'{"to":0}\0', digest_size=16).hexdigest()
        await store.claim_request(name, digest, owner="other", now=time.time())
        busy = await api.post("/sessions/ada/rewind", {"to": 0}, headers=keyed("slow"))
        assert (busy.status, busy.json["kind"]) == (409, "request_in_progress")
        assert busy.json["retryable"]
        assert busy.headers["retry-after"] == "1"


@pytest.mark.parametrize("key", ["", " ", "x" * 201, "a\tb"])
async def test_a_key_must_be_a_short_text(key: str) -> None:
    async with serve(create_app(make_greeter())) as base, Api(base) as api:
        answer = await api.post("/sessions", {"title": "a"}, headers=keyed(key))
        assert (answer.status, answer.json["field"]) == (422, "Idempotency-Key")


async def test_acts_say_who_did_them() -> None:
    call = Reply((ToolCall("c1", "pay", "{}"),))

    @tool(effect="write")
    async def pay() -> str:
        return "paid"

    agent = Agent(ScriptedModel(call, "Done."), name="payer", tools=[pay])
    async with serve(create_app(agent)) as base, Api(base) as api:
        body = {"agent": "payer", "session": "ada", "message": "a", "wait": 20}
        await api.post("/turns", body)
        await api.call("PATCH", "/sessions/ada", {"title": "Bills"})
        await api.post("/sessions/ada/rewind", {"to": 0})
        acts = (await api.get("/sessions/ada/acts")).json
        assert [(act["act"], act["by"]) for act in acts] == [
            ("title", "local"),
            ("rewind", "local"),
        ]
        assert acts[1]["details"] == {"to": 0, "number": 2}
        assert (await api.get("/sessions/eve/acts")).status == 404


async def test_the_journal_says_who_began_cancelled_and_changed_what() -> None:
    call = Reply((ToolCall("c1", "ask", "{}"),))

    @tool(effect="read")
    async def ask() -> str:
        await asyncio.Event().wait()
        return "never"

    agent = Agent(ScriptedModel(call, call, "Done."), name="asker", tools=[ask])
    async with serve(create_app(agent)) as base, Api(base) as api:
        body = {"agent": "asker", "session": "ada", "message": "a"}
        turn = (await api.post("/turns", body)).json
        assert turn["by"] == "local"
        path = "/sessions/ada/events"
        while (
            b"tools_begun" not in (await api.get(path, headers={"Accept": "application/json"})).body
        ):
            await asyncio.sleep(0.01)
        assert (await api.post("/sessions/ada/cancel")).json["status"] == "cancelled"
        await api.post("/sessions/ada/rewind", {"to": 0})
        saved = (await api.get(path, headers={"Accept": "application/json"})).json["items"]
        by = {one["event"]["type"]: one["event"].get("by") for one in saved if "event" in one}
        assert by["turn_interrupted"] == by["session_rewound"] == "local"
        assert saved[0]["event"]["options"]["by"] == "local"


async def test_a_store_that_fails_after_an_act_does_not_undo_it(tmp_path: Path) -> None:
    """The journal has the act, and tells it once the store can be used again."""
    store = tmp_path / "talk.db-service.db"

    async def summarize(_: object) -> str:
        store.unlink()
        return "They talked."

    agent = Agent(
        ScriptedModel("One.", "Two.", summarize, "Never."),
        name="greeter",
        journal=f"sqlite:///{tmp_path / 'talk.db'}",
    )
    body = {"agent": "greeter", "session": "ada", "wait": 20}
    async with serve(create_app(agent)) as base, Api(base) as api:
        for message in ("a", "b"):
            await api.post("/turns", {**body, "message": message})
        first = await api.post("/sessions/ada/compact", {"keep": 0}, headers=keyed("k"))
        assert (first.status, first.json) == (200, {"number": 3})
        assert (await api.get("/sessions/ada/acts")).json[0]["act"] == "compact"
    async with serve(create_app(agent)) as base, Api(base) as api:
        again = await api.post("/sessions/ada/compact", {"keep": 0}, headers=keyed("k"))
        assert (again.status, again.json) == (200, {"number": 3})
        other = await api.post("/sessions/ada/compact", {"keep": 1}, headers=keyed("k"))
        assert (other.status, other.json["kind"]) == (422, "idempotency_key")


async def test_a_refused_act_is_told_as_such_when_the_store_fails(tmp_path: Path) -> None:
    store = tmp_path / "talk.db-service.db"

    async def summarize(_: object) -> str:
        store.unlink()
        raise ValueError("no summary")

    script = ScriptedModel("One.", "Two.", summarize)
    agent = Agent(script, name="greeter", journal=f"sqlite:///{tmp_path / 'talk.db'}")
    body = {"agent": "greeter", "session": "ada", "wait": 20}
    async with serve(create_app(agent)) as base, Api(base) as api:
        for message in ("a", "b"):
            await api.post("/turns", {**body, "message": message})
        first = await api.post("/sessions/ada/compact", {"keep": 0}, headers=keyed("k"))
        assert (first.status, first.json["kind"]) != (503, "journal"), first.json
        assert first.status >= 400
        assert (await api.get("/sessions/ada/acts")).json == []


async def test_a_request_has_one_key() -> None:
    async with serve(create_app(make_greeter("One."))) as base, aiohttp.ClientSession() as http:
        headers = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
        turn = {"agent": "greeter", "message": "Hi."}
        for path, body in (
            ("/api/v1/sessions", {"title": "a"}),
            ("/api/v1/turns", turn),
            ("/v1/responses", {"model": "greeter", "input": "Hi."}),
            (
                "/v1/chat/completions",
                {"model": "greeter", "messages": [{"role": "user", "content": "Hi."}]},
            ),
        ):
            async with http.post(base + path, json=body, headers=headers) as answer:
                assert answer.status == 400, await answer.text()
        async with http.get(f"{base}/api/v1/sessions") as answer:
            assert (await answer.json())["sessions"] == []


async def test_a_repetition_leaves_a_later_turn_alone() -> None:
    """The process died after it had saved the act, and the turn was given up by somebody else."""

    @tool(effect="write")
    async def pay() -> str:
        return "paid"

    call = Reply((ToolCall("c1", "pay", "{}"),))
    middleware = [ToolPermission(ask=["pay"])]
    agent = Agent(ScriptedModel(*[call] * 6), name="payer", tools=[pay], middleware=middleware)
    app = create_app(agent)
    async with serve(app) as base, Api(base) as api:
        body = {"agent": "payer", "message": "a", "wait": 20}
        journal, digest = app.state.service.for_tenant().journal, name_digest(b"{}")
        for act in ("cancel", "abandon", "resume"):
            await api.post("/turns", {**body, "session": act})
            path = f"/sessions/{act}/{act}"
            name = RequestName("", f"POST /api/v1{path}", "k")
            records = len(await journal.keys(act))
            saved = Act(
                id=name_act(name), act=act, session=act, by="ann", at=1.0, digest=digest
            ).with_details(turn=1, records=records)
            await journal.save_act(saved)
            await api.post(f"/sessions/{act}/cancel")
            await api.post("/turns", {**body, "session": act})
            before = await journal.keys(act)
            answer = await api.post(path, headers=keyed("k"))
            assert answer.json == {"session": act, "turn": 2, "status": "waiting"}
            assert await journal.keys(act) == before


def name_digest(body: bytes) -> str:
    return blake2b(body + b"\0", digest_size=16).hexdigest()


@pytest.mark.slow  # takes half a second or more
async def test_a_request_under_way_is_taken_over_from_a_dead_process_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(idempotency, "_LEASE", 0.3)
    is_asked, may_answer = asyncio.Event(), asyncio.Event()

    async def summarize(_: object) -> str:
        is_asked.set()
        await may_answer.wait()
        return "They talked."

    app = create_app(make_greeter("One.", "Two.", summarize))
    async with serve(app) as base, Api(base) as api:
        body = {"agent": "greeter", "session": "ada", "wait": 20}
        for message in ("a", "b"):
            await api.post("/turns", {**body, "message": message})
        path, store = "/sessions/ada/compact", app.state.service.store
        first = asyncio.ensure_future(api.post(path, {"keep": 0}, headers=keyed("k")))
        await is_asked.wait()
        name = RequestName("", f"POST /api/v1{path}", "k")
        digest = name_digest(b'{"keep":0}')
        begun = time.time()
        while True:  # until the claim was renewed
            now = time.time()
            claim = await store.claim_request(name, digest, owner="x", now=now - 10, lease=0.0)
            if claim.claimed_until > begun + 0.6:
                break
            await asyncio.sleep(0.01)
        again = await api.post(path, {"keep": 0}, headers=keyed("k"))
        assert (again.status, again.json["kind"]) == (409, "request_in_progress")
        may_answer.set()
        assert (await first).json == {"number": 3}
        name = RequestName("", "POST /api/v1/sessions/ada/rewind", "dead")
        now = time.time()
        await store.claim_request(name, name_digest(b'{"to":0}'), owner="x", now=now, lease=0.3)
        while True:
            taken = await api.post("/sessions/ada/rewind", {"to": 0}, headers=keyed("dead"))
            if taken.status != 409:
                break
            await asyncio.sleep(0.01)
        assert taken.json == {"number": 4}
        assert time.time() >= now + 0.3
