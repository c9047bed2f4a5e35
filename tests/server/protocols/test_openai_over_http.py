"""OpenAI's protocols over real HTTP: what fails, what is sent twice, and who comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Self

import aiohttp
import msgspec
import pytest
from tests.server.serving import Answer, serve

from holdfast import Agent, SqliteJournal
from holdfast.core.messages import ToolCall
from holdfast.core.model_request import ModelRequest
from holdfast.core.questions import ClarificationQuestion
from holdfast.journal import MemoryJournal
from holdfast.journal.service_store.service_store_opening import open_service_store
from holdfast.middleware import ToolPermission
from holdfast.server import AccessOptions, ServiceOptions, create_app
from holdfast.server.access.keys import make_key
from holdfast.server.protocols.segments import SegmentCut, SegmentEvent
from holdfast.server.protocols.turn_reading import TurnReading
from holdfast.testing import Emulator, FakeClock, ScriptedModel
from holdfast.testing.emulator import DropAfter, Pace
from holdfast.tools import ToolContext

LOCATE: dict[str, Any] = {"name": "locate", "parameters": {"type": "object", "properties": {}}}
CHAT_TOOL = {"type": "function", "function": LOCATE}
TOOL = {"type": "function", **LOCATE}
CALL = ToolCall("x", "locate", "{}")


class Client:
    """A plain HTTP client of `/v1`."""

    def __init__(self, base: str, headers: dict[str, str] | None = None) -> None:
        self.base = f"{base}/v1"
        self.http = aiohttp.ClientSession(headers=headers)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.http.close()

    async def call(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        data = None if body is None else msgspec.json.encode(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named["Content-Type"] = "application/json"
        sent = self.http.request(method, self.base + path, data=data, headers=named)
        async with sent as response:
            got = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status, got, await response.read())

    async def respond(self, given: object = "Hi", **fields: object) -> Any:
        answer = await self.call(
            "POST", "/responses", {"model": "greeter", "input": given, **fields}
        )
        assert answer.status == 200, answer.body
        return answer.json

    async def chat(self, messages: list[Any], **fields: object) -> Answer:
        body = {"model": "greeter", "messages": messages, **fields}
        return await self.call("POST", "/chat/completions", body)

    @asynccontextmanager
    async def stream(self, path: str, body: object = None) -> AsyncIterator[AsyncIterator[Any]]:
        """Yield the events of a stream as they come."""
        data = None if body is None else msgspec.json.encode(body)
        method = "GET" if body is None else "POST"
        headers = {"Content-Type": "application/json"}
        async with self.http.request(
            method, self.base + path, data=data, headers=headers
        ) as response:
            assert response.status == 200, await response.read()

            async def read() -> AsyncIterator[Any]:
                async for line in response.content:
                    if line.startswith(b"data: {"):
                        yield msgspec.json.decode(line[6:])

            yield read()


@asynccontextmanager
async def client_of(*script: Any, **keywords: Any) -> AsyncIterator[Client]:
    app_keywords = {name: keywords.pop(name) for name in ("journal", "options") if name in keywords}
    model = script[0] if script[0] == ANTHROPIC or isinstance(script[0], ScriptedModel) else None
    if model is None:
        model = ScriptedModel(*script)
    agent = Agent(model, name="greeter", **keywords)
    async with serve(create_app(agent, **app_keywords)) as base, Client(base) as client:
        yield client


def error_of(answer: Answer) -> tuple[int, str, str | None]:
    error = answer.json["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return answer.status, error["code"], error["param"]


USER = {"role": "user", "content": "Hi"}


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/responses", {"model": "x", "input": "Hi"}, (404, "model_not_found", "model")),
        ("/responses", {"model": "greeter"}, (400, "missing_required_parameter", "input")),
        ("/responses", {"input": [{"role": "user"}]}, (400, "invalid_value", "input[0]")),
        (
            "/responses",
            {"input": "Hi", "verbosity": 1, "text": {"verbosity": "chatty"}},
            (400, "body", "text.verbosity"),
        ),
        ("/responses", {"input": "Hi", "top_k": 0}, (400, "configuration", "top_k")),
        ("/responses", {"input": "Hi", "prompt": {}}, (400, "unsupported_parameter", "prompt")),
        ("/responses", {"input": "Hi", "temperature": "hot"}, (400, "body", "temperature")),
        (
            "/responses",
            {"input": "Hi", "tools": [{"type": "web_search"}]},
            (400, "unsupported_value", "tools[0]"),
        ),
        (
            "/responses",
            {"input": "Hi", "tools": [{"type": "function", "name": "a b"}]},
            (400, "invalid_value", "tools[0].name"),
        ),
        (
            "/responses",
            {"input": "Hi", "previous_response_id": "resp_x"},
            (404, "not_found", "previous_response_id"),
        ),
        (
            "/responses",
            {"input": [{"type": "function_call_output", "call_id": "c", "output": ""}]},
            (400, "invalid_value", "input[0].call_id"),
        ),
        (
            "/responses",
            {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
            (400, "invalid_value", "input[0].content[0].image_url"),
        ),
        (
            "/responses",
            {"input": "Hi", "max_output_tokens": 2**70},
            (400, "configuration", "max_output_tokens"),
        ),
        ("/responses", {"input": "Hi", "conversation": ""}, (400, "body", "conversation")),
        (
            "/responses",
            {"input": "Hi", "conversation": "a/t1.i0.tool.0"},
            (400, "configuration", "conversation"),
        ),
        (
            "/responses",
            {"input": [{"role": "user", "content": []}]},
            (400, "configuration", "input"),
        ),
        ("/responses", {"input": "Hi", "tools": [TOOL, TOOL]}, (400, "invalid_value", "tools[1]")),
        (
            "/responses",
            {"input": "Hi", "text": {"format": {"type": "json_schema", "schema": {}}}},
            (400, "configuration", "text.format.schema"),
        ),
        ("/chat/completions", {"model": "greeter", "messages": []}, (400, "body", "messages")),
        ("/chat/completions", {"messages": [USER]}, (400, "body", "model")),
        (
            "/chat/completions",
            {"model": "greeter", "messages": [USER], "n": 2},
            (400, "unsupported_parameter", "n"),
        ),
        (
            "/chat/completions",
            {"model": "greeter", "messages": [USER], "presence_penalty": 2.5},
            (400, "configuration", "presence_penalty"),
        ),
        (
            "/chat/completions",
            {"model": "greeter", "messages": [USER], "logprobs": True},
            (400, "unsupported_parameter", "logprobs"),
        ),
        (
            "/chat/completions",
            {"model": "greeter", "messages": [USER], "metadata": {"a": [["b"] * 9000]}},
            (400, "configuration", "metadata"),
        ),
        (
            "/chat/completions",
            {"model": "greeter", "messages": [USER], "tool_choice": {"type": "custom"}},
            (400, "unsupported_value", "tool_choice"),
        ),
        (
            "/chat/completions",
            {
                "model": "greeter",
                "messages": [{"role": "tool", "tool_call_id": "c", "content": ""}],
            },
            (400, "invalid_value", "messages[0].tool_call_id"),
        ),
        (
            "/chat/completions",
            {"model": "greeter", "messages": [USER, {"role": "assistant", "content": "Hello"}]},
            (400, "invalid_value", "messages"),
        ),
        ("/nothing", {}, (404, "route", None)),
        ("/responses/compact", {"model": "greeter", "input": "Hi"}, (404, "not_served", None)),
    ],
)
async def test_a_wrong_request_is_refused_in_the_words_of_the_protocol(
    path: str, body: dict[str, Any], expected: tuple[int, str, str | None]
) -> None:
    async with client_of("Hello.") as client:
        assert error_of(await client.call("POST", path, body)) == expected


async def test_json_that_is_broken_and_methods_that_are_wrong() -> None:
    async with client_of("Hello.") as client:
        sent = client.http.post(
            f"{client.base}/responses", data=b"{", headers={"Content-Type": "application/json"}
        )
        async with sent as response:
            assert response.status == 400
            assert (await response.json())["error"]["type"] == "invalid_request_error"
        wrong = await client.call("DELETE", "/chat/completions")
        assert (wrong.status, wrong.json["error"]["code"]) == (405, "method")
        assert wrong.headers["allow"] == "POST"


async def test_keys_and_tenants(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "talk.db") as journal:
        store = open_service_store(journal)
        texts = []
        for tenant in ("one", "two"):
            text, key = make_key(tenant, tenant=tenant, scopes=("run", "read"), now=0.0)
            await store.add_key(key)
            texts.append(text)
        agent = Agent(ScriptedModel(CALL, "Never."), name="greeter")
        app = create_app(agent, journal=journal, access=AccessOptions(auth="keys"))
        async with serve(app) as base, Client(base) as nobody:
            assert error_of(await nobody.call("GET", "/models"))[:2] == (401, "invalid_api_key")
            one, two = (Client(base, {"Authorization": f"Bearer {text}"}) for text in texts)
            async with one, two:
                made = await one.respond(tools=[TOOL])
                path = f"/responses/{made['id']}"
                assert (await one.call("GET", path)).status == 200
                assert error_of(await two.call("GET", path))[:2] == (404, "not_found")
                output = {"type": "function_call_output", "output": "Porto"}
                output["call_id"] = made["output"][0]["call_id"]
                body = {"model": "greeter", "input": [output], "previous_response_id": made["id"]}
                stolen = await two.call("POST", "/responses", body)
                assert error_of(stolen) == (404, "not_found", "previous_response_id")
                sent = [{"role": "user", "content": "Hi"}, made["output"][0], output]
                stolen = await two.call("POST", "/responses", {"model": "greeter", "input": sent})
                assert error_of(stolen) == (400, "unknown_call", "input")
        store.close()


async def test_a_session_goes_on_and_forks_at_an_older_response() -> None:
    seen: list[list[str]] = []

    def note(request: ModelRequest) -> str:
        seen.append([message.text for message in request.messages])
        return f"answer {len(seen)}"

    async with client_of(note, note, note, note) as client:
        first = await client.respond("one")
        second = await client.respond("two", previous_response_id=first["id"])
        third = await client.respond("three", previous_response_id=second["id"])
        other = await client.respond("four", previous_response_id=first["id"])
    assert seen[2] == ["one", "answer 1", "two", "answer 2", "three"]
    assert seen[3] == ["one", "answer 1", "four"]
    assert third["previous_response_id"] == second["id"]
    assert other["previous_response_id"] == first["id"]


async def test_a_conversation_is_a_session_that_the_client_names() -> None:
    async with client_of("a", "b") as client:
        named = (await client.call("POST", "/conversations", {})).json["id"]
        first = await client.respond("one", conversation=named)
        second = await client.respond("two", conversation={"id": named})
    assert first["conversation"] == second["conversation"] == {"id": named}
    assert second["previous_response_id"] == first["id"]


async def test_what_the_request_asks_for_reaches_the_model_and_is_repeated() -> None:
    seen: list[ModelRequest] = []

    def note(request: ModelRequest) -> str:
        seen.append(msgspec.structs.replace(request, messages=tuple(request.messages)))
        return '{"city": "Porto"}'

    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    text = {"format": {"type": "json_schema", "name": "trip", "schema": schema, "strict": True}}
    picture = "data:image/png;base64,iVBORw0KGgo="
    items = [
        {"role": "developer", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Where?"},
                {"type": "input_image", "image_url": picture},
                {"type": "input_file", "filename": "a.pdf", "file_data": "JVBERi0="},
            ],
        },
    ]
    async with client_of(note, instructions="You plan trips.") as client:
        made = await client.respond(
            items, instructions="In French.", text=text, temperature=0.5, metadata={"a": "b"}
        )
    request = seen[0]
    assert request.instructions == "You plan trips.\n\nIn French."
    assert [message.role for message in request.messages] == ["system", "user"]
    kinds = [getattr(part, "media_type", "text") for part in request.messages[1].parts]
    assert kinds == ["text", "image/png", "application/pdf"]
    assert request.output is not None
    assert request.output.name == "trip"
    assert request.settings.temperature == 0.5
    assert made["text"] == {"format": {**text["format"], "description": None}}
    assert (made["temperature"], made["metadata"], made["instructions"]) == (
        0.5,
        {"a": "b"},
        "In French.",
    )


async def test_a_dropped_stream_cancels_nothing_and_is_read_from_its_number() -> None:
    words = " ".join(f"word-{number}" for number in range(60))
    async with (
        Emulator([words], faults=lambda _request: Pace(0.002)) as provider,
        client_of(ANTHROPIC, **access(provider)) as client,
    ):
        body = {"model": "greeter", "input": "Hi", "stream": True, "background": True}
        shown, last, response_id = "", -1, ""
        async with client.stream("/responses", body) as events:
            async for event in events:
                last = event["sequence_number"]
                response_id = event.get("response", {}).get("id", response_id)
                shown += event.get("delta", "")
                if len(shown) > 20:
                    break
        path = f"/responses/{response_id}?stream=true&starting_after={last}"
        async with client.stream(path) as events:
            rest = [event async for event in events]
        whole = (await client.call("GET", f"/responses/{response_id}")).json
    assert rest[0]["sequence_number"] > last
    assert rest[-1]["type"] == "response.completed"
    text = shown + "".join(one.get("delta", "") for one in rest)
    assert text == words == whole["output"][0]["content"][0]["text"]


ANTHROPIC = "anthropic:emulated-model"


def access(provider: Emulator) -> dict[str, Any]:
    return {"base_url": provider.base_url, "api_key": "k", "clock": FakeClock()}


async def test_withdrawn_text_ends_the_stream_and_the_run_ends_well() -> None:
    async with (
        Emulator(["One two three four five."], faults=[DropAfter(6), None]) as provider,
        client_of(ANTHROPIC, **access(provider)) as client,
    ):
        body = {"model": "greeter", "input": "Hi", "stream": True}
        async with client.stream("/responses", body) as events:
            told = [event async for event in events]
        response_id = told[0]["response"]["id"]
        async with client.stream(f"/responses/{response_id}?stream=true") as events:
            again = [event async for event in events]
    assert told[-1]["response"]["error"]["code"] == "text_withdrawn", [one["type"] for one in told]
    assert again[-1]["type"] == "response.completed"
    assert "".join(one.get("delta", "") for one in again) == "One two three four five."


async def test_held_text_is_sent_once_it_is_accepted() -> None:
    async with Emulator(["One two three."], faults=[DropAfter(6), None]) as provider:
        keywords = {**access(provider), "options": ServiceOptions(hold_text=["greeter"])}
        async with client_of(ANTHROPIC, **keywords) as client:
            body = {"model": "greeter", "input": "Hi", "stream": True}
            async with client.stream("/responses", body) as events:
                told = [event async for event in events]
    assert told[-1]["type"] == "response.completed"
    assert [one["delta"] for one in told if "delta" in one] == ["One two three."]


async def test_a_response_is_cancelled_once_and_twice() -> None:
    never = asyncio.Event()

    async def wait(_request: ModelRequest) -> str:
        await never.wait()
        return "never"

    async with client_of(wait) as client:
        made = await client.respond(background=True)
        assert made["status"] == "in_progress"
        for _ in range(2):
            cancelled = await client.call("POST", f"/responses/{made['id']}/cancel")
            assert (cancelled.status, cancelled.json["status"]) == (200, "cancelled")
        deleted = await client.call("DELETE", f"/responses/{made['id']}")
        assert deleted.json["deleted"] is True
        assert (await client.call("GET", f"/responses/{made['id']}")).status == 404


async def test_an_approval_is_given_in_the_next_request() -> None:
    def pay(euros: int) -> str:
        return f"paid {euros}"

    call = ToolCall("x", "pay", '{"euros": 3}')
    rules = [ToolPermission(ask=["pay"])]
    async with client_of(call, "Paid.", tools=[pay], middleware=rules) as client:
        made = await client.respond()
        (asked,) = made["output"]
        given = {
            "type": "mcp_approval_response",
            "approval_request_id": asked["id"],
            "approve": True,
        }
        missing = await client.call(
            "POST", "/responses", {"input": "And?", "previous_response_id": made["id"]}
        )
        assert error_of(missing) == (400, "missing_output", "input")
        done = await client.respond([given], previous_response_id=made["id"])
    assert done["output"][0]["content"][0]["text"] == "Paid."


async def test_any_other_question_is_answered_as_a_function() -> None:
    async def book(context: ToolContext) -> str:
        return await context.ask(ClarificationQuestion(question="Where?", options=("Porto",)))

    async with client_of(ToolCall("x", "book", "{}"), "Booked.", tools=[book]) as client:
        made = await client.respond()
        (asked,) = made["output"]
        assert (asked["type"], asked["name"]) == ("function_call", "answer_question")
        assert msgspec.json.decode(asked["arguments"])["question"] == "Where?"
        given = {"type": "function_call_output", "call_id": asked["call_id"], "output": "Porto"}
        done = await client.respond([given], previous_response_id=made["id"])
    assert done["output"][0]["content"][0]["text"] == "Booked."


async def test_a_key_repeats_a_request_and_refuses_another_body() -> None:
    async with client_of("one", "two") as client:
        body = {"model": "greeter", "input": "Hi"}
        made = [
            (await client.call("POST", "/responses", body, Idempotency_Key="k")).json["id"]
            for _ in range(2)
        ]
        assert made[0] == made[1]
        other = {"model": "greeter", "input": "Bye"}
        answer = await client.call("POST", "/responses", other, Idempotency_Key="k")
        assert error_of(answer) == (400, "idempotency_key", "Idempotency-Key")
        body = {"model": "greeter", "messages": [USER]}
        chats = [
            await client.call("POST", "/chat/completions", body, Idempotency_Key="k")
            for _ in range(2)
        ]
        assert chats[0].body == chats[1].body


@pytest.mark.parametrize("path", ["/responses", "/chat/completions"])
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_requests_with_one_key_at_once_are_one_turn(path: str, is_streamed: bool) -> None:
    def make_body(text: str) -> dict[str, Any]:
        given = (
            {"input": text} if path == "/responses" else {"messages": [{**USER, "content": text}]}
        )
        return {"model": "greeter", "stream": is_streamed, **given}

    for texts, statuses in ((["a"] * 4, [200] * 4), ([*"abcd"], [200, 400, 400, 400])):
        model = ScriptedModel("one", "two", "three", "four")
        async with client_of(model) as client:
            calls = [
                client.call("POST", path, make_body(text), Idempotency_Key="k") for text in texts
            ]
            answers = await asyncio.gather(*calls)
        assert sorted(answer.status for answer in answers) == statuses
        assert len({answer.body for answer in answers if answer.status == 200}) == 1
        refused = [error_of(answer) for answer in answers if answer.status == 400]
        assert set(refused) <= {(400, "idempotency_key", "Idempotency-Key")}
        assert len(model.requests) == 1


async def test_forks_with_one_key_at_once_are_one_session() -> None:
    async with client_of(*(f"reply {number}" for number in range(6))) as client:
        first = await client.respond()
        await client.respond(previous_response_id=first["id"])
        body = {"model": "greeter", "input": "Other", "previous_response_id": first["id"]}
        calls = [client.call("POST", "/responses", body, Idempotency_Key="k") for _ in range(3)]
        answers = await asyncio.gather(*calls)
        assert {answer.status for answer in answers} == {200}
        assert len({answer.json["id"] for answer in answers}) == 1
        async with client.http.get(client.base.removesuffix("/v1") + "/api/v1/sessions") as listed:
            assert len((await listed.json())["sessions"]) == 2


@pytest.mark.parametrize("path", ["/responses", "/chat/completions"])
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_request_whose_session_is_deleted_is_told_so(
    path: str, is_streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow = TurnReading.follow

    async def delete_soon(*given: Any, **options: Any) -> AsyncIterator[SegmentEvent]:
        """Yield the beginning, and then what a reader gets of a session that is gone."""
        async with aclosing(follow(*given, **options)) as events:
            yield await anext(events)
        yield SegmentCut("deleted")

    monkeypatch.setattr(TurnReading, "follow", delete_soon)
    given = {"input": "Hi"} if path == "/responses" else {"messages": [USER]}
    async with client_of("Hello.") as client:
        body = {"model": "greeter", "stream": is_streamed, **given}
        answer = await client.call("POST", path, body)
    text = answer.body.decode()
    assert "The run was deleted" in text
    assert "goes on" not in text
    if not is_streamed:
        assert answer.status == (200 if path == "/responses" else 410)
        assert (answer.json["error"] or {})["code"] == "deleted"
    elif path == "/responses":
        assert "event: response.failed" in text


def chat_text(body: bytes) -> str:
    lines = [line[6:] for line in body.split(b"\n") if line.startswith(b"data: {")]
    chunks = [msgspec.json.decode(line) for line in lines]
    return "".join(one["choices"][0]["delta"].get("content", "") for one in chunks)


async def _call_locate(client: Client) -> tuple[list[Any], str]:
    """Return the messages of a chat up to a call, and the id of the call."""
    first = (await client.chat([USER], tools=[CHAT_TOOL])).json["choices"][0]
    assert first["finish_reason"] == "tool_calls"
    return [USER, first["message"]], first["message"]["tool_calls"][0]["id"]


def result(call_id: str, text: str) -> dict[str, str]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


async def test_results_that_are_sent_twice_at_once_continue_the_run_once() -> None:
    model = ScriptedModel(CALL, "You are in Porto.")
    async with client_of(model) as client:
        messages, call_id = await _call_locate(client)
        sent = [*messages, result(call_id, "Porto")]
        answers = await asyncio.gather(*(client.chat(sent) for _ in range(3)))
        again = await client.chat(sent)
        assert {answer.status for answer in answers} == {200}
        texts = {one.json["choices"][0]["message"]["content"] for one in [*answers, again]}
        other = await client.chat([*messages, result(call_id, "Lisbon")])
    assert texts == {"You are in Porto."}
    assert len(model.requests) == 2
    assert error_of(other) == (409, "already_answered", "messages")


FOREIGN_CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
FOREIGN_ITEM = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"}
FOREIGN_OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "x"}
SYSTEM = {"role": "system", "content": "Be brief."}


@pytest.mark.parametrize(
    ("path", "body", "roles"),
    [
        (
            "/chat/completions",
            {
                "messages": [
                    USER,
                    {"role": "assistant", "tool_calls": [FOREIGN_CALL]},
                    result("call_1", "x"),
                ]
            },
            ["user", "assistant", "tool"],
        ),
        ("/chat/completions", {"messages": [USER, SYSTEM]}, ["user", "system"]),
        ("/chat/completions", {"messages": [SYSTEM]}, ["system"]),
        (
            "/responses",
            {"input": [USER, FOREIGN_ITEM, FOREIGN_OUTPUT]},
            ["user", "assistant", "tool"],
        ),
        (
            "/responses",
            {"input": [USER, {"role": "developer", "content": "Be brief."}]},
            ["user", "system"],
        ),
    ],
)
async def test_a_history_that_began_elsewhere_begins_a_turn(
    path: str, body: dict[str, Any], roles: list[str]
) -> None:
    """Also if it ends in results of calls that are not ours, or in a message of the system."""
    model = ScriptedModel("Hello.", "Bye.")
    async with client_of(model) as client:
        answer = await client.call("POST", path, {"model": "greeter", **body})
        assert answer.status == 200, answer.body
        assert b"Hello." in answer.body
        assert [one.role for one in model.requests[0].messages] == roles
        name = "messages" if "messages" in body else "input"
        more = [*body[name], {"role": "assistant", "content": "Hello."}, USER]
        again = await client.call("POST", path, {"model": "greeter", name: more})
        assert b"Bye." in again.body


async def test_results_of_nobody_are_refused() -> None:
    """Without the call of a result before it, nothing says which tool it is of."""
    async with client_of("never") as client:
        foreign = [USER, result("call_1", "x")]
        expected = (400, "invalid_value", "messages[1].tool_call_id")
        assert error_of(await client.chat(foreign)) == expected
        body = {"model": "greeter", "input": [USER, FOREIGN_OUTPUT]}
        expected = (400, "invalid_value", "input[1].call_id")
        assert error_of(await client.call("POST", "/responses", body)) == expected


async def test_all_results_are_needed() -> None:
    async with client_of([CALL, ToolCall("y", "locate", "{}")], "Both.") as client:
        first = (await client.chat([USER], tools=[CHAT_TOOL])).json["choices"][0]["message"]
        ids = [one["id"] for one in first["tool_calls"]]
        one = await client.chat([USER, first, result(ids[0], "a")])
        assert error_of(one)[:2] == (400, "unknown_call")
        twice = await client.chat([USER, first, *[result(ids[0], "a")] * 2, result(ids[1], "b")])
        assert error_of(twice)[:2] == (400, "invalid_value")
        both = await client.chat([USER, first, result(ids[1], "b"), result(ids[0], "a")])
        assert both.json["choices"][0]["message"]["content"] == "Both."


async def test_a_result_after_an_hour_is_too_late() -> None:
    clock = FakeClock()
    async with client_of(CALL, "never", clock=clock) as client:
        messages, call_id = await _call_locate(client)
        clock.advance(3601)
        late = await client.chat([*messages, result(call_id, "Porto")])
    assert error_of(late) == (400, "too_late", "messages")


async def test_another_process_takes_the_result_of_a_call(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "talk.db") as journal:
        async with client_of(CALL, journal=journal) as client:
            messages, call_id = await _call_locate(client)
    with SqliteJournal(tmp_path / "talk.db") as journal:
        async with client_of("You are in Porto.", journal=journal) as client:
            done = await client.chat([*messages, result(call_id, "Porto")], stream=True)
    assert chat_text(done.body) == "You are in Porto."
    assert done.body.endswith(b"data: [DONE]\n\n")


async def test_a_failed_run_is_an_error_that_is_not_repeated() -> None:
    def fail(_request: ModelRequest) -> str:
        raise ValueError("boom")

    async with client_of(fail, journal=MemoryJournal()) as client:
        answer = await client.chat([USER])
    assert answer.status == 500
    assert answer.headers["x-should-retry"] == "false"
    assert answer.json["error"]["type"] == "server_error"
