"""Media, usage, export and import, typed output and models of a request, over real HTTP."""

from __future__ import annotations

import tracemalloc
from io import BytesIO

import pytest
from tests.server.serving import Api, serve

from holdfast import Agent, Approved, MemoryJournal, ToolPermission, tool
from holdfast.client import AccessError, Client, InvalidRequestError, NotFoundError
from holdfast.core.messages import Media, Reply, Text, ToolCall, Usage
from holdfast.event_log.stream_items import EventItem
from holdfast.journal.port import Journal
from holdfast.server import AccessOptions, create_app
from holdfast.server.access.keys import make_key
from holdfast.testing import ScriptedModel

PICTURE = b"\x89PNG" + bytes(range(256)) * 40


async def test_a_picture_is_sent_once_and_named_in_messages() -> None:
    model = ScriptedModel("A cat.", "A dog.")
    async with serve(create_app(Agent(model, name="eye"))) as base, Client(base) as client:
        sent = await client.media.upload(PICTURE, "image/png")
        assert await client.media.upload(PICTURE, "image/png") == sent
        assert await client.media.download(sent.media) == PICTURE
        turn = await client.run("eye", ["What is it?", sent], session="ada")
        assert turn.text == "A cat."
        inline = Media("image/png", data=PICTURE)
        await client.run("eye", ["And this?", inline], session="ada")
        parts = model.requests[0].messages[0].parts
        assert parts == (Text("What is it?"), inline)
        with pytest.raises(NotFoundError):
            await client.media.download("m_0")
        with pytest.raises(NotFoundError):
            await client.run("eye", [sent.__class__("m_0", "image/png", 1)])
        async with Api(base) as api:
            headers = {"Content-Type": "text/html"}
            page = await api.call("POST", "/media", data=b"<script>", headers=headers)
            shown = await api.get(f"/media/{page.json['media']}")
            assert shown.headers["content-disposition"] == "attachment"
            assert shown.headers["x-content-type-options"] == "nosniff"
            empty = await api.call("POST", "/media", data=b"", headers=headers)
            assert empty.status == 422


async def test_a_session_is_exported_and_imported() -> None:
    agent = Agent(ScriptedModel("One.", "Two."), name="greeter")
    async with serve(create_app(agent)) as base, Client(base) as client:
        await client.run("greeter", "a", session="ada")
        lines = await client.sessions.export("ada")
        assert len(lines) == 4
        with pytest.raises(InvalidRequestError):
            await client.sessions.import_(lines)
        made = await client.sessions.import_(lines, session="eve")
        assert (made.session, made.turns) == ("eve", 1)
        assert (await client.run("greeter", "b", session="eve")).turn == 2
        with pytest.raises(InvalidRequestError, match="checksum"):
            await client.sessions.import_([lines[0].replace("a", "b"), *lines[1:]], session="bob")
        with pytest.raises(InvalidRequestError, match="cut off"):
            await client.sessions.import_(lines[:-1], session="bob")
        with pytest.raises(NotFoundError):
            await client.sessions.export("nobody")


async def test_an_import_needs_its_own_scope_and_executes_nothing() -> None:
    """A payment that was approved elsewhere was made here, by a key that may only run turns."""
    paid: list[int] = []

    @tool(effect="write")
    def pay(euros: int) -> str:
        """Send money."""
        paid.append(euros)
        return "paid"

    def make_agent(journal: Journal, *script: Reply | ToolCall | str) -> Agent[str]:
        rules, model = ToolPermission(ask=["pay"]), ScriptedModel(*script)
        return Agent(
            model, name="payer", tools=[pay], middleware=[rules], journal=journal, on_wait="suspend"
        )

    call, journal = ToolCall("1", "pay", '{"euros": 1000000}'), MemoryJournal()
    elsewhere = make_agent(MemoryJournal(), call)
    (question,) = (await elsewhere.run("Pay.", session="ada")).questions
    assert await elsewhere.answer("ada", question, Approved())
    lines = [line async for line in elsewhere.sessions.export("ada")]
    access = AccessOptions(auth="keys")
    app = create_app(make_agent(journal, "I see."), journal=journal, access=access)
    async with serve(app) as base:
        made = [make_key("ci", scopes=scopes, now=0.0) for scopes in (("run", "read"), ("import",))]
        for _, stored in made:
            await app.state.access.keys.store.add_key(stored)
        (may_run, _), (may_import, _) = made
        async with (
            Client(base, api_key=may_run) as runner,
            Client(base, api_key=may_import) as other,
        ):
            with pytest.raises(AccessError, match="import"):
                await runner.sessions.import_(lines)
            assert (await other.sessions.import_(lines)).turn_status == "cancelled"
            await runner.turns.resume("ada")  # as a new turn, for which the model is asked
            async for item in runner.follow("ada"):
                if isinstance(item, EventItem) and item.event.key == "t2.closed":
                    break
            assert (await runner.turns.read("ada", 2)).text == "I see."
        async with Api(base, {"Authorization": f"Bearer {may_import}"}) as api:
            body = "".join(f"{line}\n" for line in lines).encode()
            options = {"data": body, "headers": {"Content-Type": "application/x-ndjson"}}
            refused = await api.call(
                "POST", "/sessions/import?session=b&open_turns=true", **options
            )
            assert refused.status == 422
            assert b"open_turns" in refused.body
    assert paid == []
    assert [entry.run for entry in await journal.runs()] == ["ada"]
    assert await journal.runs(turn_open=True) == []


async def test_usage_is_added_up_by_agent_model_and_day() -> None:
    one = Agent(
        ScriptedModel(
            Reply((Text("a"),), usage=Usage(10, 5), model="m1"),
            Reply((Text("b"),), usage=Usage(1, 1), model="m2"),
        ),
        name="one",
    )
    two = Agent(ScriptedModel(Reply((Text("c"),), usage=Usage(100, 1), model="m2")), name="two")
    async with serve(create_app([one, two])) as base, Client(base) as client:
        for agent, session in (("one", "a"), ("one", "b"), ("two", "c")):
            await client.run(agent, "Hi.", session=session)
        by_agent = await client.usage()
        assert [(total.name, total.turns) for total in by_agent.totals] == [("two", 1), ("one", 2)]
        assert by_agent.totals[1].usage == Usage(11, 6)
        by_model = await client.usage("model")
        assert [(total.name, total.usage.input) for total in by_model.totals] == [
            ("m2", 101),
            ("m1", 10),
        ]
        (day,) = (await client.usage("day")).totals
        assert (day.turns, day.usage.input) == (3, 111)
        assert (await client.usage(since=9e9)).totals == ()


async def test_a_request_brings_the_schema_of_its_output() -> None:
    agent = Agent(ScriptedModel('{"city": "Rome"}', "text"), name="greeter")
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    }
    async with serve(create_app(agent)) as base, Client(base) as client:
        turn = await client.run("greeter", "Where?", output_schema=schema)
        assert (turn.status, turn.output) == ("completed", {"city": "Rome"})
        for wrong in ({}, {"type": "nothing"}, {"$ref": "http://example.com/x"}):
            with pytest.raises(InvalidRequestError):
                await client.run("greeter", "Where?", output_schema=wrong)
        with pytest.raises(InvalidRequestError) as refused:
            await client.run("greeter", "Hi.", model="ollama:other")
        assert refused.value.argument == "model"


async def test_a_model_must_be_allowed_by_the_service() -> None:
    agent = Agent(ScriptedModel("Hi."), name="greeter")
    app = create_app(agent, access=AccessOptions(allow_models=["ollama:small"]))
    async with serve(app) as base, Client(base) as client:
        turn = await client.turns.start("greeter", "Hi.", model="ollama:small", session="ada")
        await client.turns.cancel(turn.session)
        with pytest.raises(InvalidRequestError, match="Use one of ollama:small"):
            await client.turns.start("greeter", "Hi.", model="openai:gpt-5.2", session="eve")


LINES = b"{}\n" * 1_000_000


async def test_an_import_takes_no_more_memory_than_its_body() -> None:
    app = create_app(Agent(ScriptedModel("Hi."), name="greeter"))
    async with serve(app) as base, Api(base) as api:
        headers = {"Content-Type": "application/x-ndjson"}
        tracemalloc.start()
        try:
            answer = await api.call(
                "POST", "/sessions/import", data=BytesIO(LINES), headers=headers
            )
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert (answer.status, answer.json["kind"]) == (422, "lines")
        assert peak < 10 * len(LINES)


@pytest.mark.parametrize("kind", ["text/html", "image/svg+xml", "application/xhtml+xml"])
async def test_an_uploaded_page_runs_in_no_origin(kind: str) -> None:
    app = create_app(Agent(ScriptedModel("Hi."), name="greeter"))
    async with serve(app) as base, Api(base) as api:
        page = b"<script>alert(1)</script>"
        sent = await api.call("POST", "/media", data=page, headers={"Content-Type": kind})
        got = await api.get(f"/media/{sent.json['media']}")
    assert got.body == page
    assert got.headers["content-disposition"] == "attachment"
    assert got.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert got.headers["x-content-type-options"] == "nosniff"
