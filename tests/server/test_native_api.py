"""The native API over real HTTP: agents, sessions, turns, questions, events, acts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.server.serving import Api, in_path, serve

from holdfast import Agent, Limits, ModelSettings, ToolPermission, tool
from holdfast.core.messages import Reply, ToolCall, Usage
from holdfast.server import create_app
from holdfast.server.api.request_bodies import SettingsBody
from holdfast.testing import ScriptedModel


@tool(effect="write")
async def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


CALL = Reply((ToolCall("c1", "pay", '{"amount": 3}'),), usage=Usage(10, 5))
NAMES = ["a/b", "Ünï/ço de", "x/events", "turns/1", "import", "a?b#c", "100%", "a/../b", "..."]


def make_payer(*replies: Reply | str, **options: Any) -> Agent[Any, Any]:
    return Agent(
        ScriptedModel(*replies),
        name="payer",
        instructions="Pay bills. Be polite.",
        tools=[pay],
        middleware=[ToolPermission(ask=["pay"])],
        **options,
    )


@asynccontextmanager
async def serving(*agents: Agent[Any, Any]) -> AsyncIterator[Api]:
    async with serve(create_app(agents)) as base, Api(base) as api:
        yield api


async def test_agents_are_listed_with_their_tools() -> None:
    async with serving(make_payer("Hi.")) as api:
        (agent,) = (await api.get("/agents")).json
    assert (agent["name"], agent["description"]) == ("payer", "Pay bills.")
    assert agent["tools"][0]["name"] == "pay"
    assert agent["tools"][0]["effect"] == "write"
    assert agent["tools"][0]["parameters"]["properties"]["amount"]["type"] == "integer"


async def test_a_turn_is_started_waits_is_approved_and_ends() -> None:
    async with serving(make_payer(CALL, "Done.")) as api:
        answer = await api.post(
            "/turns", {"agent": "payer", "message": "Pay 3.", "session": "ada", "wait": 20}
        )
        assert answer.status == 200
        assert answer.headers["location"] == "/api/v1/sessions/ada/turns/1"
        turn = answer.json
        assert (turn["status"], turn["turn"], turn["session"]) == ("waiting", 1, "ada")
        (question,) = turn["questions"]
        assert question["question"]["arguments"] == {"amount": 3}
        assert (await api.get("/questions")).json == {"questions": [question]}
        assert (await api.get("/sessions/ada/questions")).json == [question]
        named = {"key": question["key"], "binding": question["binding"]}
        said = {**named, "answer": "approve", "arguments": {"amount": 2}}
        accepted = await api.post("/sessions/ada/answers", said)
        assert accepted.json == {"accepted": True, "reason": "", "by_whom": ""}
        turn = (await api.get("/sessions/ada/turns/1?wait=20")).json
        assert (turn["status"], turn["text"]) == ("completed", "Done.")
        assert turn["usage"]["input"] >= 10
        assert turn["closed_at"] >= turn["opened_at"]
        late = await api.post("/sessions/ada/answers", {**named, "answer": "deny"})
        assert late.json == {"accepted": False, "reason": "answered", "by_whom": "local"}
        assert (await api.get("/questions")).json == {"questions": []}
        summary = (await api.get("/sessions/ada")).json
        assert (summary["turn_status"], summary["turn"]) == ("completed", 1)


async def test_a_turn_streams_and_a_reader_comes_back() -> None:
    async with serving(make_payer("Hello you.")) as api:
        items = await api.items("/turns", {"agent": "payer", "message": "Hi.", "session": "ada"})
        assert items[-1]["reason"] == "turn_ended"
        assert "".join(one["text"] for one in items if one["type"] == "text") == "Hello you."
        saved = (await api.get("/sessions/ada/events", headers={"Accept": "application/json"})).json
        kinds = [one["event"]["type"] for one in saved["items"] if one["type"] == "event"]
        assert kinds == ["turn_opened", "model_replied", "turn_closed"]
        last = saved["position"]
        more = await api.items("/sessions/ada/events?until=turn_end", **{"Last-Event-ID": last})
        assert [one["type"] for one in more] == ["status", "end"]


@pytest.mark.parametrize("session", NAMES)
async def test_a_session_may_have_any_name(session: str) -> None:
    async with serving(make_payer("One.", "Two.")) as api:
        body = {"agent": "payer", "message": "Hi.", "session": session, "wait": 20}
        turn = await api.post("/turns", body)
        assert turn.json["session"] == session
        location = turn.headers["location"].removeprefix("/api/v1")
        assert (await api.get(location)).json["text"] == "One."
        path = in_path(session)
        assert (await api.get(path)).json["session"] == session
        history = (await api.get(f"{path}/history")).json
        assert [point["text"] for point in history["points"]] == ["Hi."]
        assert len(await api.items(f"{path}/events?until=turn_end")) > 3
        assert (await api.get("/sessions")).json["sessions"][0]["session"] == session
        assert (await api.call("DELETE", path)).status == 204
        assert (await api.get(path)).status == 404


async def test_paths_that_mean_nothing_are_problems() -> None:
    async with serving(make_payer()) as api:
        for path in ("/", "/nothing", "/sessions//history", "/sessions/a/b", "/agents/"):
            answer = await api.get(path)
            assert answer.status == 404, path
            assert answer.headers["content-type"] == "application/problem+json"
        assert (await api.get("/sessions/%FF/history")).json["kind"] == "path"
        wrong = await api.call("PUT", "/sessions")
        assert (wrong.status, wrong.headers["allow"]) == (405, "GET, POST")


async def test_a_wrong_body_names_its_field() -> None:
    good = {"agent": "payer", "message": "Hi."}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"message": "Hi."}, "agent"),
        ({**good, "mesage": 1}, "mesage"),
        ({**good, "message": ""}, "message"),
        ({**good, "message": []}, "message"),
        ({**good, "message": "  "}, "prompt"),
        ({**good, "message": [{"type": "text", "text": "a", "x": 1}]}, "message[0].x"),
        ({**good, "message": [{"type": "media"}]}, "message[0]"),
        ({**good, "limits": {"iterations": 0}}, "limits.iterations"),
        ({**good, "limits": {"many": 1}}, "limits.many"),
        ({**good, "settings": {"extra": {"model": "x"}}}, "settings.extra"),
        ({**good, "settings": {"cache": "2h"}}, "settings.cache"),
        ({**good, "settings": {"cache_key": "cachedContents/a"}}, "settings.cache_key"),
        ({**good, "session": "a/t1.i0.tool.0"}, "session"),
        ({**good, "wait": 1e9}, "wait"),
    ]
    async with serving(make_payer()) as api:
        for body, field in wrong:
            answer = await api.post("/turns", body)
            assert (answer.status, answer.json["field"]) == (422, field), answer.body
        unknown = await api.post("/turns", {**good, "agent": "nobody"})
        assert (unknown.status, unknown.json["fix"]) == (404, "Use: payer")
        assert (await api.call("POST", "/turns", data=b"{")).status == 415
        json = {"Content-Type": "application/json"}
        deep = b'{"agent": "payer", "message": "a", "metadata": {"a": ' + b"[" * 100_000
        for data in (b"{", b"", b"\xff", deep):
            broken = await api.call("POST", "/turns", data=data, headers=json)
            assert (broken.status, broken.json["kind"]) == (400, "body"), broken.body
        query = await api.get("/sessions?limit=0&x=1")
        assert query.status == 422
        assert (await api.get("/sessions?q=a&q=b")).json["field"] == "q"
        assert (await api.get("/sessions?before=zzz")).json["field"] == "before"


async def test_a_request_lowers_limits_and_cannot_raise_them() -> None:
    agent = make_payer(CALL, CALL, "Done.", limits=Limits(iterations=2))
    async with serving(agent) as api:
        body = {"agent": "payer", "message": "Hi.", "session": "ada", "wait": 20}
        turn = (await api.post("/turns", {**body, "limits": {"iterations": 50}})).json
        events = (
            await api.get("/sessions/ada/events", headers={"Accept": "application/json"})
        ).json
        assert events["items"][0]["event"]["limits"] == {"iterations": 2}
        assert turn["status"] == "waiting"


async def test_sessions_are_paged_filtered_and_searched() -> None:
    replies = [f"Reply {n}." for n in range(7)]
    async with serving(make_payer(*replies), Agent(ScriptedModel("x"), name="other")) as api:
        for number in range(7):
            body = {"agent": "payer", "message": f"Hi {number}.", "session": f"s{number}"}
            await api.post("/turns", {**body, "wait": 20})
        seen: list[str] = []
        path = "/sessions?limit=3"
        while True:
            page = (await api.get(path)).json
            seen += [one["session"] for one in page["sessions"]]
            if "next" not in page:
                break
            path = f"/sessions?limit=3&before={page['next']}"
        assert seen == [f"s{number}" for number in reversed(range(7))]
        assert (await api.get("/sessions?agent=other")).json == {"sessions": []}
        assert (await api.get("/sessions?status=waiting")).json == {"sessions": []}
        assert len((await api.get("/sessions?status=completed")).json["sessions"]) == 7
        (found,) = (await api.get("/sessions?q=reply+4")).json["sessions"]
        assert (found["session"], found["found"]) == ("s4", "Reply 4.")
        first = (await api.get("/sessions?q=reply&limit=4")).json
        second = (await api.get(f"/sessions?q=reply&limit=4&before={first['next']}")).json
        assert len({one["session"] for one in first["sessions"] + second["sessions"]}) == 7


async def test_a_session_is_made_titled_forked_edited_rewound_and_compacted() -> None:
    async with serving(make_payer("One.", "Two.", "Other.", "First.")) as api:
        made = await api.post("/sessions", {"title": "Bills", "session": "ada"})
        assert (made.status, made.json["turn_status"]) == (201, "idle")
        assert (await api.post("/sessions", {"title": "Bills", "session": "ada"})).status == 422
        body = {"agent": "payer", "session": "ada", "wait": 20}
        for message in ("a", "b"):
            await api.post("/turns", {**body, "message": message})
        titled = await api.call("PATCH", "/sessions/ada", {"title": "Rent"})
        assert titled.json["title"] == "Rent"
        fork = await api.post("/sessions/ada/fork", {"at": 1, "to": "eve"})
        assert (fork.status, fork.json) == (201, {"session": "eve"})
        edit = {"turn": 2, "message": "c"}
        edited = (await api.post("/sessions/ada/fork", {"edit": edit})).json
        assert edited["turn"] == 2
        turn = await api.get(f"/sessions/{edited['session']}/turns/2?wait=20")
        assert turn.json["text"] == "Other."
        first = (await api.post("/sessions/ada/fork", {"edit": {"turn": 1, "message": "d"}})).json
        assert first["turn"] == 1
        turn = await api.get(f"/sessions/{first['session']}/turns/1?wait=20")
        assert turn.json["text"] == "First."
        wrong = await api.post("/sessions/ada/fork", {"edit": {"turn": 9, "message": "d"}})
        assert (wrong.status, wrong.json["field"]) == (422, "edit.turn")
        assert (await api.post("/sessions/ada/rewind", {"to": 1})).json == {"number": 3}
        points = (await api.get("/sessions/ada/history")).json["points"]
        assert [point["counts"] for point in points] == [True, False, False]
        compacted = await api.post("/sessions/ada/compact", {"keep": 0, "summary": "A talk."})
        assert compacted.json == {"number": 4}


async def test_a_waiting_turn_is_cancelled_and_abandoned() -> None:
    async with serving(make_payer(CALL, CALL)) as api:
        for session, act in (("ada", "cancel"), ("eve", "abandon")):
            body = {"agent": "payer", "message": "Pay.", "session": session, "wait": 20}
            assert (await api.post("/turns", body)).json["status"] == "waiting"
            busy = await api.post("/turns", body)
            assert (busy.status, busy.json["kind"]) == (409, "waiting")
            ended = await api.post(f"/sessions/{session}/{act}")
            assert (ended.status, ended.json["status"]) == (202, "cancelled")
            assert (await api.post(f"/sessions/nobody/{act}")).status == 404
        assert (await api.get("/questions")).json == {"questions": []}


async def test_questions_come_page_by_page_and_each_once() -> None:
    both = Reply((*CALL.parts, ToolCall("c2", "pay", '{"amount": 3}')))
    async with serving(make_payer(CALL, both, CALL, CALL, CALL)) as api:
        names = ["eve", "ada", "bob", "kim", "zoe"]
        for session in names:
            body = {"agent": "payer", "message": "Pay.", "session": session, "wait": 20}
            assert (await api.post("/turns", body)).json["status"] == "waiting"
        pages, after = [], ""
        while not pages or after:
            page = (await api.get(f"/questions?limit=2{after}")).json
            pages.append([one["session"] for one in page["questions"]])
            after = f"&after={page['next']}" if "next" in page else ""
        assert pages == [["eve", "ada", "ada"], ["bob", "kim"], ["zoe"]]
        assert [one for page in pages for one in dict.fromkeys(page)] == names
        wrong = await api.get("/questions?after=nonsense")
        assert (wrong.status, wrong.json["field"]) == (422, "after")
        assert (await api.get("/questions?agent=nobody")).json == {"questions": []}


async def test_a_question_of_an_abandoned_turn_is_not_open() -> None:
    async with serving(make_payer(CALL, CALL)) as api:
        body = {"agent": "payer", "message": "Pay.", "session": "ada", "wait": 20}
        await api.post("/turns", body)
        await api.post("/sessions/ada/abandon")
        await api.post("/turns", body)
        (key,) = (await api.get("/sessions/ada")).json["questions"]
        assert key.startswith("t2.")
        (question,) = (await api.get("/sessions/ada/questions")).json
        assert (question["key"], question["turn"]) == (key, 2)


async def test_an_answer_must_fit_its_question() -> None:
    async with serving(make_payer(CALL)) as api:
        body = {"agent": "payer", "message": "Pay.", "session": "ada", "wait": 20}
        (question,) = (await api.post("/turns", body)).json["questions"]
        named = {"key": question["key"], "binding": question["binding"]}
        path = "/sessions/ada/answers"
        wrong: list[tuple[dict[str, Any], int, str]] = [
            ({**named, "answer": "approve", "reason": "x"}, 422, "reason"),
            ({**named, "answer": "value"}, 422, "value"),
            ({**named, "answer": "value", "value": "yes"}, 422, "answer"),
            ({**named, "answer": "approve", "arguments": {"amount": "much"}}, 422, "arguments"),
            ({**named, "answer": "maybe"}, 422, "answer"),
        ]
        for given, status, field in wrong:
            answer = await api.post(path, given)
            assert (answer.status, answer.json["field"]) == (status, field), answer.body
        other = await api.post(path, {**named, "binding": "0" * 32, "answer": "deny"})
        assert other.json["reason"] == "mismatch"
        unknown = await api.post(path, {**named, "key": "t9.ask.0", "answer": "deny"})
        assert unknown.json["reason"] == "unknown"
        two = [api.post(path, {**named, "answer": one}) for one in ("approve", "deny")]
        answers = [one.json for one in await asyncio.gather(*two)]
        assert sorted(one["accepted"] for one in answers) == [False, True]
        assert {one["by_whom"] for one in answers} == {"", "local"}


async def test_a_position_of_another_session_is_refused() -> None:
    async with serving(make_payer("Hi.")) as api:
        body = {"agent": "payer", "message": "Hi.", "session": "ada", "wait": 20}
        await api.post("/turns", body)
        assert (await api.get("/sessions/ada/events?after=99")).json["field"] == "after"
        assert (await api.get("/sessions/ada/events?after=x")).status == 422
        header = await api.get("/sessions/ada/events", headers={"Last-Event-ID": "x"})
        assert (header.status, header.json["field"]) == (422, "Last-Event-ID")
        assert (await api.get("/sessions/nobody/events")).status == 404


async def test_settings_of_a_request_reach_the_model() -> None:
    model = ScriptedModel("Hi.")
    agent = Agent(model, name="payer", settings=ModelSettings(seed=1))
    async with serving(agent) as api:
        settings = {"temperature": 0.5, "stop": ["x"], "cache": "1h", "cache_key": "payers"}
        body = {"agent": "payer", "message": "Hi.", "settings": settings, "wait": 20}
        assert (await api.post("/turns", body)).json["status"] == "completed"
    sent = model.requests[0].settings
    assert (sent.temperature, sent.stop, sent.seed) == (0.5, ("x",), 1)
    assert (sent.cache, sent.cache_key) == ("1h", "payers")


def test_a_request_may_set_what_an_agent_may_set_but_for_fields_of_the_provider() -> None:
    assert {*ModelSettings.__struct_fields__} - {*SettingsBody.__struct_fields__} == {"extra"}
    assert {*SettingsBody.__struct_fields__} <= {*ModelSettings.__struct_fields__}
