"""Arguments that do not fit the tool of a caller: the model corrects them, and the caller sees the correct call alone."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest
from tests.server.serving import serve

from holdfast import Agent, ToolPermission
from holdfast.core.messages import ToolCall
from holdfast.server import create_app
from holdfast.testing import ScriptedModel

Body = dict[str, Any]

SCHEMA: Body = {
    "type": "object",
    "properties": {"row": {"type": "integer", "maximum": 30}},
    "required": ["row"],
    "additionalProperties": False,
}
PICK: Body = {"name": "pick", "description": "Pick a seat.", "parameters": SCHEMA}
TEXT = {"role": "user", "content": "Sit."}

REQUESTS: list[tuple[str, Body]] = [
    (
        "/v1/chat/completions",
        {"model": "clerk", "messages": [TEXT], "tools": [{"type": "function", "function": PICK}]},
    ),
    ("/v1/responses", {"model": "clerk", "input": "Sit.", "tools": [{"type": "function", **PICK}]}),
    (
        "/agui/clerk",
        {
            "threadId": "ada",
            "runId": "1",
            "messages": [{"id": "1", **TEXT}],
            "state": {},
            "context": [],
            "forwardedProps": {},
            "tools": [PICK],
        },
    ),
    (
        "/vercel/clerk/chat",
        {
            "id": "ada",
            "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Sit."}]}],
            "tools": [PICK],
        },
    ),
]


@pytest.mark.parametrize(("path", "body"), REQUESTS)
async def test_a_caller_is_asked_for_a_call_that_fits_alone(path: str, body: Body) -> None:
    wrong = ToolCall("c1", "pick", json.dumps({"row": "first", "seat": "wrong"}))
    right = ToolCall("c2", "pick", json.dumps({"row": 12}))
    model = ScriptedModel(wrong, right, "Never.")
    app = create_app(Agent(model, name="clerk"))
    async with (
        serve(app) as base,
        aiohttp.ClientSession() as http,
        http.post(base + path, json=body) as response,
    ):
        assert response.status == 200
        text = await response.text()
    assert len(model.requests) == 2
    refused = model.requests[1].messages[-1].parts[0].text  # type: ignore[union-attr]
    assert '- row: must be an integer, at most 30; got "first"' in refused
    assert "- seat: is not a known name" in refused
    calls = read_calls(path, text)
    assert calls == [{"row": 12}]


def read_calls(path: str, text: str) -> list[Any]:
    """Return the arguments of the calls that the caller is asked for."""
    if path.startswith("/v1/chat"):
        made = json.loads(text)["choices"][0]["message"]["tool_calls"]
        return [json.loads(one["function"]["arguments"]) for one in made]
    if path.startswith("/v1"):
        output = json.loads(text)["output"]
        return [json.loads(one["arguments"]) for one in output if one["type"] == "function_call"]
    lines = [line.removeprefix("data: ") for line in text.splitlines()]
    events = [json.loads(line) for line in lines if line.startswith("{")]
    if path.startswith("/vercel"):
        shown = [one for one in events if one["type"] == "tool-input-available"]
        assert [one.get("providerExecuted", False) for one in shown] == [True, False]
        return [one["input"] for one in shown if not one.get("providerExecuted")]
    pending = events[-1]["outcome"]["pendingToolCallIds"]
    written = [one for one in events if one["type"] == "TOOL_CALL_ARGS"]
    assert len(written) == 2
    return [json.loads(one["delta"]) for one in written if one["toolCallId"] in pending]


async def test_a_page_runs_its_tool_after_the_approval_with_what_was_approved() -> None:
    path, body = REQUESTS[-1]
    call = ToolCall("c1", "pick", json.dumps({"row": 12}))
    agent = Agent(
        ScriptedModel(call, "Never."), name="clerk", middleware=[ToolPermission(ask=["pick"])]
    )
    async with serve(create_app(agent)) as base, aiohttp.ClientSession() as http:
        async with http.post(base + path, json=body) as response:
            first = read_chunks(await response.text())
        assert [one.get("providerExecuted") for one in first["tool-input-available"]] == [True]
        (asked,) = first["tool-approval-request"]
        given = {"id": asked["approvalId"], "approved": True}
        part = {"type": "tool-pick", "toolCallId": asked["toolCallId"], "approval": given}
        answer = {
            "id": "ada.t1",
            "role": "assistant",
            "parts": [{**part, "state": "approval-responded"}],
        }
        sent = {**body, "messages": [*body["messages"], answer]}
        async with http.post(base + path, json=sent) as response:
            second = read_chunks(await response.text())
    run = [one for one in second["tool-input-available"] if not one["providerExecuted"]]
    assert [one["input"] for one in run] == [{"row": 12}]


def read_chunks(text: str) -> dict[str, list[Body]]:
    """Return the chunks of a stream by their types."""
    found: dict[str, list[Body]] = {}
    for line in text.splitlines():
        if line.startswith("data: {"):
            chunk = json.loads(line.removeprefix("data: "))
            found.setdefault(chunk["type"], []).append(chunk)
    return found
