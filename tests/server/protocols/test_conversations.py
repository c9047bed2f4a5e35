"""Conversations and the items of responses, as OpenAI's API lists them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.server.protocols.test_openai_over_http import CALL, TOOL, Client, client_of, error_of

from holdfast import MemoryJournal, SqliteJournal
from holdfast.core.messages import ToolCall
from holdfast.middleware import ToolPermission

pytestmark = pytest.mark.anyio

PICTURE = "data:image/png;base64,iVBORw0KGgo="


async def get(client: Client, path: str) -> Any:
    answer = await client.call("GET", path)
    assert answer.status == 200, answer.body
    return answer.json


async def name_conversation(client: Client, **fields: object) -> str:
    answer = await client.call("POST", "/conversations", fields)
    assert answer.status == 200, answer.body
    return str(answer.json["id"])


def describe(item: Any) -> tuple[str, str]:
    """Return the type of an item, and its text."""
    if item["type"] == "message":
        return item["role"], "".join(part.get("text", "?") for part in item["content"])
    return item["type"], item.get("output", item.get("name", ""))


async def test_a_conversation_is_named_read_changed_and_deleted() -> None:
    async with client_of("Hello.") as client:
        name = await name_conversation(client, metadata={"topic": {"id": 7}})
        made = await get(client, f"/conversations/{name}")
        assert made == {
            "id": name,
            "object": "conversation",
            "created_at": made["created_at"],
            "metadata": {"topic": {"id": 7}},
        }
        assert (await get(client, f"/conversations/{name}/items"))["data"] == []
        change = {"metadata": {"topic": "bridges"}}
        changed = await client.call("POST", f"/conversations/{name}", change)
        assert changed.json == {**made, **change}
        await client.respond(conversation=name)
        assert (await get(client, f"/conversations/{name}")) == {**made, **change}
        for status in (200, 404):
            deleted = await client.call("DELETE", f"/conversations/{name}")
            assert deleted.status == status
        assert error_of(await client.call("GET", f"/conversations/{name}"))[:2] == (
            404,
            "not_found",
        )


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_conversation_without_a_response_is_deleted(kind: str, tmp_path: Path) -> None:
    journal = MemoryJournal() if kind == "memory" else SqliteJournal(tmp_path / "talk.db")
    async with client_of("never", journal=journal) as client:
        name = await name_conversation(client, metadata={"of": "Ada"})
        deleted = await client.call("DELETE", f"/conversations/{name}")
        assert deleted.json == {"id": name, "object": "conversation.deleted", "deleted": True}
        for path in (f"/conversations/{name}", f"/conversations/{name}/items"):
            assert (await client.call("GET", path)).status == 404
        assert (await client.call("DELETE", f"/conversations/{name}")).status == 404
        kept = await journal.list_acts(name)
        assert ([one.act for one in kept], "Ada" in str(kept)) == (["delete"], False)


async def test_the_items_of_a_conversation_are_all_that_was_sent_and_answered() -> None:
    async with client_of(CALL, "You are in Porto.", "Bye.") as client:
        name = await name_conversation(client)
        first = await client.respond("Where?", conversation=name, tools=[TOOL])
        output = {"type": "function_call_output", "call_id": first["output"][0]["call_id"]}
        await client.respond([{**output, "output": "Porto"}], conversation=name)
        await client.respond("Thanks.", conversation=name)
        path = f"/conversations/{name}/items"
        listed = await get(client, f"{path}?order=asc")
        assert [describe(item) for item in listed["data"]] == [
            ("user", "Where?"),
            ("function_call", "locate"),
            ("function_call_output", "Porto"),
            ("assistant", "You are in Porto."),
            ("user", "Thanks."),
            ("assistant", "Bye."),
        ]
        assert len({item["id"] for item in listed["data"]}) == 6
        assert listed["data"][1]["call_id"] == listed["data"][2]["call_id"] == output["call_id"]
        for item in listed["data"]:
            assert await get(client, f"{path}/{item['id']}") == item
        assert error_of(await client.call("GET", f"{path}/msg_x")) == (404, "not_found", "item_id")
        latest = await get(client, f"{path}?limit=4")
        assert [item["id"] for item in latest["data"]] == [
            item["id"] for item in reversed(listed["data"][2:])
        ]
        assert latest["has_more"] is True
        rest = await get(client, f"{path}?limit=4&after={latest['last_id']}")
        assert [item["id"] for item in rest["data"]] == [
            item["id"] for item in reversed(listed["data"][:2])
        ]
        assert rest["has_more"] is False


async def test_rewound_turns_have_no_items() -> None:
    async with client_of("a", "b") as client:
        name = await name_conversation(client)
        for text in ("one", "two"):
            await client.respond(text, conversation=name)
        url = client.base.removesuffix("/v1") + f"/api/v1/sessions/{name}/rewind"
        async with client.http.post(url, json={"to": 1}) as response:
            assert response.status == 200, await response.read()
        listed = await get(client, f"/conversations/{name}/items?order=asc")
    assert [describe(item) for item in listed["data"]] == [("user", "one"), ("assistant", "a")]


async def test_the_input_of_a_response_is_what_its_request_had() -> None:
    async with client_of(CALL, "You are in Porto.") as client:
        picture = {"type": "input_image", "image_url": PICTURE}
        file = {"type": "input_file", "file_url": "https://a.pt/b.pdf", "filename": "b.pdf"}
        sent = [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello."},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "x"},
            {"role": "user", "content": [{"type": "input_text", "text": "And?"}, picture, file]},
        ]
        first = await client.respond(sent, tools=[TOOL])
        listed = await get(client, f"/responses/{first['id']}/input_items?order=asc")
        assert [describe(item) for item in listed["data"]] == [
            ("system", "Be brief."),
            ("user", "Hi"),
            ("assistant", "Hello."),
            ("function_call", "f"),
            ("function_call_output", "x"),
            ("user", "And???"),
        ]
        assert listed["data"][-1]["content"][1:] == [{**picture, "detail": "auto"}, file]
        output = {"type": "function_call_output", "call_id": first["output"][0]["call_id"]}
        second = await client.respond(
            [{**output, "output": "Porto"}], previous_response_id=first["id"]
        )
        listed = await get(client, f"/responses/{second['id']}/input_items")
        assert [describe(item) for item in listed["data"]] == [("function_call_output", "Porto")]


async def test_a_conversation_that_waits_for_a_person_has_its_items() -> None:
    def pay() -> str:
        return "paid"

    rules = [ToolPermission(ask=["pay"])]
    call = ToolCall("x", "pay", "{}")
    async with client_of(call, "Paid.", tools=[pay], middleware=rules) as client:
        name = await name_conversation(client)
        await client.respond("Pay.", conversation=name)
        listed = await get(client, f"/conversations/{name}/items?order=asc")
    assert [describe(item)[0] for item in listed["data"]] == ["user", "mcp_approval_request"]


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("GET", "/conversations/nobody", None, (404, "not_found", "conversation_id")),
        ("GET", "/conversations/nobody/items", None, (404, "not_found", "conversation_id")),
        ("DELETE", "/conversations/nobody", None, (404, "not_found", "conversation_id")),
        ("POST", "/conversations/nobody", {"metadata": {}}, (404, "not_found", "conversation_id")),
        ("POST", "/conversations/{name}", {}, (400, "body", "metadata")),
        ("POST", "/conversations/{name}", {"metadata": []}, (400, "body", "metadata")),
        (
            "POST",
            "/conversations/{name}",
            {"metadata": {"a": "b" * 20_000}},
            (400, "configuration", "metadata"),
        ),
        ("POST", "/conversations", {"items": [1]}, (400, "invalid_value", "items")),
        ("POST", "/conversations/{name}/items", {"items": []}, (404, "not_served", None)),
        ("GET", "/conversations/{name}/items?limit=0", None, (400, "query", "limit")),
        ("GET", "/conversations/{name}/items?limit=101", None, (400, "query", "limit")),
        ("GET", "/conversations/{name}/items?order=up", None, (400, "query", "order")),
        ("GET", "/conversations/{name}/items?after=x", None, (400, "invalid_value", "after")),
        ("GET", "/conversations/{name}/items?before=x", None, (400, "query", "before")),
        ("GET", "/responses/resp_x/input_items", None, (404, "not_found", "response_id")),
    ],
)
async def test_a_wrong_request_is_refused_by_name(
    method: str, path: str, body: object, expected: tuple[int, str, str | None]
) -> None:
    async with client_of("Hello.") as client:
        name = await name_conversation(client)
        answer = await client.call(method, path.format(name=name), body)
    assert error_of(answer) == expected
