"""Tools that a search of the provider loads, on the two wires that have one, against strict emulators."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast import Agent, ConfigurationError, MemoryJournal, ModelSettings, tool
from holdfast.codecs.anthropic.codec import AnthropicCodec
from holdfast.codecs.openai_responses.codec import ResponsesCodec
from holdfast.core.messages import Opaque, assistant, user
from holdfast.core.model_request import ModelRequest
from holdfast.errors import HoldfastError
from holdfast.models import ModelAt, find_hosted_calls
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.testing.emulator import Emulator, call, hosted_call
from holdfast.tools import Tool, ToolSearch, Toolset

CLAUDE, GPT = "anthropic:claude-sonnet-4-5", "openai-responses:gpt-5.4"
WIRES = {CLAUDE: "anthropic", GPT: "openai_responses"}
CAN: Any = {"tool_search": True}
on_both = pytest.mark.parametrize("name", WIRES)


def make_tool(name: str, description: str) -> Tool:
    def function(value: str = "") -> str:
        return f"{name} {value}".strip()

    return tool(name=name, description=description, effect="read")(function)


FILES = Toolset(
    "my files",
    [make_tool("create_directory", "Create a directory."), make_tool("read_file", "Read.")],
)
CLOCK = make_tool("clock", "Tell the time.")
FOUND = hosted_call("tool_search", {"query": "make a folder"}, pages=["create_directory"])
REPLIES: list[Any] = [[FOUND, call("create_directory", {"value": "a"})], "done", "again"]


def make_agent(name: str, emulator: Emulator, **more: Any) -> Agent[Any]:
    more.setdefault("toolsets", [ToolSearch(FILES, above=0, native="auto")])
    return Agent(
        ModelAt(name, base_url=emulator.base_url_for(WIRES[name]), api_key="k", profile=CAN),
        tools=[CLOCK],
        clock=FakeClock(),
        **more,
    )


def bodies(emulator: Emulator) -> list[Any]:
    return [request.body for request in emulator.requests]


@on_both
@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_that_the_provider_finds_runs(name: str, stream: bool) -> None:
    async with Emulator(list(REPLIES)) as emulator:
        agent = make_agent(name, emulator, settings=ModelSettings(cache=stream))
        if stream:
            async with agent.stream("Hi", session="s") as run:
                async for _ in run:
                    pass
            result = run.result
        else:
            result = await agent.run("Hi", session="s")
        assert result.output == "done"
        (found,) = find_hosted_calls(result.messages)
        assert (found.name, json.loads(found.arguments)) == (
            "tool_search",
            {"query": "make a folder"},
        )
        assert "create_directory a" in str(result.messages)
        # The next turn sends the search and the call back, and the same tools.
        assert (await agent.run("And now?", session="s")).output == "again"
        sent = bodies(emulator)
    assert sent[0]["tools"] == sent[1]["tools"] == sent[2]["tools"]
    assert "tool_search" in json.dumps(sent[2].get("messages") or sent[2].get("input"))


async def test_the_requests_have_the_forms_of_the_vendors() -> None:
    async with Emulator(["a", "b"]) as emulator:
        for name in (CLAUDE, GPT):
            await make_agent(name, emulator, settings=ModelSettings(cache=True)).run("Hi")
        claude, gpt = (body["tools"] for body in bodies(emulator))
    assert [(one["name"], one.get("defer_loading"), "cache_control" in one) for one in claude] == [
        ("clock", None, False),
        ("tool_search_tool_bm25", None, True),
        ("create_directory", True, False),
        ("read_file", True, False),
    ]
    assert claude[1]["type"] == "tool_search_tool_bm25_20251119"
    function, search, space = gpt
    assert (function["name"], search) == ("clock", {"type": "tool_search"})
    assert (space["type"], space["name"]) == ("namespace", "my_files")
    assert space["description"] == "2 tools of my_files: create_directory, read_file"
    assert [one["defer_loading"] for one in space["tools"]] == [True, True]


@on_both
async def test_a_conversation_may_leave_the_search_and_come_back(name: str) -> None:
    async with Emulator([*REPLIES, "third"]) as emulator:
        journal = MemoryJournal()
        agent = make_agent(name, emulator, journal=journal)
        await agent.run("Hi", session="s")
        own = make_agent(name, emulator, journal=journal, toolsets=[ToolSearch(FILES, above=0)])
        await own.run("And now?", session="s")
        left = bodies(emulator)[-1]
        assert "tool_search_" not in json.dumps(left)
        assert '"namespace"' not in json.dumps(left)
        assert (await agent.run("Back?", session="s")).output == "third"
        assert "tool_search" in json.dumps(bodies(emulator)[-1])


async def test_a_conversation_may_change_its_provider() -> None:
    async with Emulator(
        [*REPLIES, [FOUND, call("create_directory", {}, id="x")], "last"]
    ) as emulator:
        journal = MemoryJournal()
        claude = make_agent(CLAUDE, emulator, journal=journal)
        await claude.run("Hi", session="s")
        gpt = make_agent(GPT, emulator, journal=journal)
        assert (await gpt.run("And now?", session="s")).output == "again"
        direct = [one.get("name") for one in bodies(emulator)[-1]["tools"]]
        # Its call in the history names no namespace, so the model sees the tool.
        assert direct == ["clock", "create_directory", None, "my_files"]
        assert (await claude.run("Back", session="s")).output == "last"


async def test_a_tool_that_was_found_and_is_gone_is_not_referred_to() -> None:
    async with Emulator(list(REPLIES)) as emulator:
        journal = MemoryJournal()
        agent = make_agent(CLAUDE, emulator, journal=journal)
        await agent.run("Hi", session="s")
        rest = ToolSearch(
            Toolset("files", [make_tool("read_file", "Read.")]), above=0, native="auto"
        )
        fewer = make_agent(CLAUDE, emulator, journal=journal, toolsets=[rest])
        assert (await fewer.run("And now?", session="s")).output == "again"
        assert '"tool_reference"' not in json.dumps(bodies(emulator)[-1])


async def test_without_a_provider_that_can_the_search_is_ours() -> None:
    search = ToolSearch(FILES, above=0, native="auto")
    async with Emulator(["a", "b", "c"]) as emulator:
        for name, profile in (
            (CLAUDE, {}),  # another address than the vendor's
            ("anthropic:claude-opus-4-1", CAN),
            ("openai-responses:gpt-5.2", CAN),
        ):
            wire = "anthropic" if "claude" in name else "openai_responses"
            at = ModelAt(name, base_url=emulator.base_url_for(wire), api_key="k", profile=profile)
            await Agent(at, toolsets=[search]).run("Hi")
        for body in bodies(emulator):
            assert [one["name"] for one in body["tools"]] == ["search_tools"]
            assert "defer_loading" not in json.dumps(body)


async def test_a_fallback_that_cannot_search_decides_for_all() -> None:
    async with Emulator(["a"]) as emulator:
        agent = make_agent(CLAUDE, emulator, fallback=[ScriptedModel("b")])
        await agent.run("Hi")
        assert [one["name"] for one in bodies(emulator)[0]["tools"]] == ["clock", "search_tools"]


async def test_always_is_an_error_for_a_model_that_cannot() -> None:
    agent = Agent(ScriptedModel("a"), toolsets=[ToolSearch(FILES, above=0, native="always")])
    with pytest.raises(ConfigurationError, match=r"ToolSearch\.native: a model of the agent"):
        await agent.run("Hi")
    with pytest.raises(ConfigurationError, match="native"):
        ToolSearch(FILES, native="sometimes")  # type: ignore[arg-type]


@pytest.mark.parametrize("wire", ["openai:gpt-5.2", "gemini:gemini-2.5-flash"])
async def test_other_wires_refuse_a_deferred_tool(wire: str) -> None:
    profile: Any = {}
    async with Emulator([]) as emulator:
        at = emulator.base_url_for("openai_chat" if "gpt" in wire else "gemini")
        model = ModelAt(wire, base_url=at, api_key="k", profile=profile)
        from holdfast.tools.tool import copy_as_deferred

        agent = Agent(model, tools=[copy_as_deferred(CLOCK, "files")])
        with pytest.raises(
            ConfigurationError, match="has no search for tools of the provider's own"
        ):
            await agent.run("Hi")


def test_models_that_can_are_known_by_their_names() -> None:
    claude, gpt = AnthropicCodec(), ResponsesCodec()
    assert not claude.has_tool_search("claude-sonnet-4-5")  # only with the profile
    assert not gpt.has_tool_search("gpt-5.4")
    from holdfast.codecs.endpoint_profile import EndpointProfile

    profile = EndpointProfile(tool_search=True)
    claude, gpt = AnthropicCodec(profile), ResponsesCodec(profile)
    can = ["claude-sonnet-4-5-20250929", "claude-haiku-4-5", "claude-opus-4-8", "claude-sonnet-5"]
    assert all(map(claude.has_tool_search, can))
    assert not any(
        map(claude.has_tool_search, ["claude-3-7-sonnet-latest", "kimi-k2", "claude-opus-4-1"])
    )
    assert all(
        map(gpt.has_tool_search, ["gpt-5.4-2026-03-05", "gpt-5.6-sol", "gpt-6", "gpt-5.4-mini"])
    )
    assert not any(map(gpt.has_tool_search, ["gpt-5.4-nano", "gpt-5", "gpt-4.1", "o3", "gpt-50x"]))


# --- what the emulator refuses, as the vendors do


def claude_body(**changes: Any) -> dict[str, Any]:
    deferred = {"name": "a", "input_schema": {"type": "object"}, "defer_loading": True}
    search = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
    return {
        "model": "claude-sonnet-4-5",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [search, deferred],
        **changes,
    }


EMPTY = {"type": "object", "properties": {}}


def gpt_body(**changes: Any) -> dict[str, Any]:
    deferred = {
        "type": "function",
        "name": "a",
        "parameters": EMPTY,
        "defer_loading": True,
    }
    space = {"type": "namespace", "name": "s", "description": "S.", "tools": [deferred]}
    return {"model": "gpt-5.4", "input": "Hi", "tools": [{"type": "tool_search"}, space], **changes}


def search_result(name: str) -> list[Any]:
    found = {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": name}],
    }
    return [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": [
                {
                    "type": "server_tool_use",
                    "id": "s1",
                    "name": "tool_search_tool_bm25",
                    "input": {},
                },
                {"type": "tool_search_tool_result", "tool_use_id": "s1", "content": found},
                {"type": "text", "text": "Found."},
            ],
        },
        {"role": "user", "content": "Go on"},
    ]


_TOOL = {"name": "a", "input_schema": {"type": "object"}, "defer_loading": True}
_CALLED = [
    {"role": "user", "content": "Hi"},
    {"type": "function_call", "call_id": "c", "name": "a", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "x"},
]
_FUNCTION = {"type": "function", "name": "a", "parameters": EMPTY}

ROWS: list[tuple[str, dict[str, Any], str]] = [
    ("anthropic", claude_body(), ""),
    ("anthropic", claude_body(messages=search_result("a")), ""),
    (
        "anthropic",
        claude_body(messages=search_result("b")),
        "Tool reference 'b' not found in available",
    ),
    ("anthropic", claude_body(tools=[_TOOL]), "At least one tool must have defer_loading=false"),
    (
        "anthropic",
        claude_body(
            tools=[
                {**_TOOL, "cache_control": {"type": "ephemeral"}},
                {"name": "b", "input_schema": {"type": "object"}},
            ]
        ),
        "cannot have both defer_loading=true and cache_control",
    ),
    ("openai_responses", gpt_body(), ""),
    ("openai_responses", gpt_body(tools=[{"type": "tool_search", "execution": "client"}]), ""),
    (
        "openai_responses",
        gpt_body(tools=[{**_FUNCTION, "defer_loading": True}]),
        "Deferred tools require tools.tool_search",
    ),
    (
        "openai_responses",
        gpt_body(tools=[{"type": "tool_search"}, _FUNCTION]),
        "requires at least one deferred tool",
    ),
    ("openai_responses", gpt_body(input=_CALLED), "Missing namespace for function_call 'a'"),
    (
        "openai_responses",
        gpt_body(input=[_CALLED[0], {**_CALLED[1], "namespace": "s"}, _CALLED[2]]),
        "",
    ),
    (
        "openai_responses",
        gpt_body(tools=[{"type": "tool_search", "mode": "x"}, _FUNCTION]),
        "Unknown parameter",
    ),
]


@pytest.mark.parametrize(("wire", "body", "refusal"), ROWS)
async def test_the_emulator_refuses_what_the_vendor_refuses(
    wire: str, body: dict[str, Any], refusal: str
) -> None:
    from aiohttp import ClientSession

    path = "/v1/messages" if wire == "anthropic" else "/responses"
    async with Emulator(["ok"]) as emulator, ClientSession() as client:
        headers = {"anthropic-version": "2023-06-01", "x-api-key": "k", "authorization": "Bearer k"}
        url = emulator.base_url_for(wire) + path
        async with client.post(url, json=body, headers=headers) as response:
            text = await response.text()
    assert (response.status, refusal in text) == (400 if refusal else 200, True), text


def test_a_function_may_not_have_the_name_of_the_search() -> None:
    from holdfast.tools.tool import copy_as_deferred

    named = make_tool("tool_search_tool_bm25", "Mine.")
    request = ModelRequest(
        model="claude-sonnet-4-5",
        messages=[user("Hi")],
        tools=(named.spec, copy_as_deferred(CLOCK, "time").spec),
    )
    with pytest.raises(HoldfastError, match="is the name of the search for tools"):
        AnthropicCodec().encode(request)


def test_searches_of_another_wire_are_not_sent() -> None:
    searched = Opaque("anthropic", {"type": "tool_search_tool_result", "tool_use_id": "x"})
    odd = Opaque("openai_responses", {"type": "tool_search_output", "tools": 7})
    history = [user("Hi"), assistant("a", searched, odd), user("b")]
    for codec in (AnthropicCodec(), ResponsesCodec()):
        body = codec.encode(ModelRequest(model="m", messages=history)).body
        assert b"tool_search" not in body


def test_odd_results_of_a_search_are_sent_back_without_an_error() -> None:
    from holdfast.tools.tool import copy_as_deferred

    for content in (None, [], {"tool_references": 7}, {"tool_references": [1, {"tool_name": 2}]}):
        parts = [
            Opaque(
                "anthropic",
                {
                    "type": "server_tool_use",
                    "id": "1",
                    "name": "tool_search_tool_bm25",
                    "input": {},
                },
            ),
            Opaque(
                "anthropic",
                {"type": "tool_search_tool_result", "tool_use_id": "1", "content": content},
            ),
        ]
        request = ModelRequest(
            model="claude-sonnet-4-5",
            messages=[user("Hi"), assistant("a", *parts), user("b")],
            tools=(copy_as_deferred(CLOCK, "time").spec,),
        )
        assert b"tool_search_tool_result" in AnthropicCodec().encode(request).body
        assert find_hosted_calls(assistant("a", *parts))
