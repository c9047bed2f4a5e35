"""How often `ToolSearch` finds the right tool among 586: those of five MCP servers, and 500 operations of GitHub.

The tools come from packages of npm. A request has its tool if one of the first five hits does what is asked for.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import time
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conformance.node_clients import FOLDER, needs_node, run_node

from holdfast import Agent, Limits
from holdfast.models import ModelAt
from holdfast.openapi import OpenAPIOptions, OpenAPIToolset
from holdfast.testing.emulator import Emulator, call, hosted_call
from holdfast.tools import Tool, ToolSearch, Toolset
from holdfast.tools.tool_search import FOUND_TEXT

MODULES = FOLDER / "node_modules"
GITHUB = MODULES / "@octokit/openapi/generated/api.github.com.json"
REQUESTS: dict[str, dict[str, list[str]]] = tomllib.loads(
    (Path(__file__).parent / "tool_requests.toml").read_text("utf-8")
)
MOST_OPERATIONS = 500
HELD_OUT = 3  # one request in so many
# The right tool among five hits: of all, and of every third one, which was held out.
REACHED = {"people": (49, 15), "models": (60, 20), "later": (31, 9)}
ITERATIONS = 20
LETTERS_OF_A_TOKEN = 4  # about, of English and JSON

pytestmark = [
    needs_node,
    pytest.mark.skipif(
        not (MODULES / "@playwright/mcp").is_dir() or not GITHUB.is_file(),
        reason="the servers with the tools are not installed",
    ),
]

Find = Callable[[str], list[str]]


def servers_toolsets() -> list[Toolset]:
    return [
        Toolset(name, [make_tool(one) for one in tools])
        for name, tools in run_node("tool_lists.mjs").items()
    ]


def make_tool(listed: dict[str, Any]) -> Tool:
    effect = None if listed["reads"] is None else "read" if listed["reads"] else "write"
    return Tool.from_schema(
        listed["name"],
        listed["description"],
        listed["schema"],
        show,
        effect=effect,  # type: ignore[arg-type]
    )


def show(given: dict[str, Any]) -> str:
    """Return a result of some 100 tokens."""
    return json.dumps(given).ljust(400, ".")


def operations_toolset() -> Toolset:
    """Return the operations about one repository, the first 500 by name."""
    paths = json.loads(GITHUB.read_text("utf-8"))["paths"]
    ids = sorted(
        operation["operationId"]
        for path, item in paths.items()
        if path.startswith("/repos/")
        for method, operation in item.items()
        if method in ("get", "put", "post", "patch", "delete")
    )
    ids.remove("repos/upload-release-asset")  # on another server
    options = OpenAPIOptions(name="github")
    return OpenAPIToolset.from_file(GITHUB, select=ids[:MOST_OPERATIONS], options=options)


@pytest.fixture(scope="module")
def toolsets() -> list[Toolset]:
    return [*servers_toolsets(), operations_toolset()]


def tools_of(toolsets: list[Toolset]) -> list[Tool]:
    return [tool for toolset in toolsets for tool in toolset.fixed_tools or ()]


def find_by_search(toolsets: list[Toolset]) -> Find:
    known = ToolSearch(*toolsets).known_tools or ()
    search = known[-1]

    def find(query: str) -> list[str]:
        first, *lines = str(search(query)).splitlines()
        return [line[2:].partition(":")[0] for line in lines] if first == FOUND_TEXT else []

    return find


def find_by_bm25(toolsets: list[Toolset]) -> Find:
    """Return the search that others have: the words of names and descriptions, as they are."""
    tools = tools_of(toolsets)
    documents = [Counter(split(f"{tool.name} {tool.description}")) for tool in tools]
    mean = sum(one.total() for one in documents) / len(documents)
    having = Counter(word for one in documents for word in one)

    def score(document: Counter[str], words: set[str]) -> float:
        norm = 1.2 * (0.25 + 0.75 * document.total() / mean)
        return sum(
            math.log(1 + (len(documents) - having[word] + 0.5) / (having[word] + 0.5))
            * document[word] * 2.2 / (document[word] + norm)
            for word in words
            if word in document
        )  # fmt: skip

    def find(query: str) -> list[str]:
        words = set(split(query))
        ranked = sorted(zip(documents, tools, strict=True), key=lambda one: -score(one[0], words))
        return [tool.name for _, tool in ranked[:5]]

    return find


def split(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def count_found(find: Find, kind: str) -> tuple[int, int]:
    """Return how many requests have their tool among five, of all and of those that were held out."""
    found = [
        any(name in wanted for name in find(request)) for request, wanted in REQUESTS[kind].items()
    ]
    return sum(found), sum(found[HELD_OUT - 1 :: HELD_OUT])


def test_the_tools_are_those_of_the_measure(toolsets: list[Toolset]) -> None:
    tools = tools_of(toolsets)
    assert len(tools) == len({tool.name for tool in tools}) == 586
    assert [len(requests) for requests in REQUESTS.values()] == [60, 60, 40]


def test_no_request_has_the_name_of_a_tool(toolsets: list[Toolset]) -> None:
    names = {tool.name for tool in tools_of(toolsets)}
    for requests in REQUESTS.values():
        for request, wanted in requests.items():
            assert names.issuperset(wanted), request
            for name in wanted:
                assert " ".join(split(name)) not in " ".join(split(request))


@pytest.mark.parametrize("kind", REQUESTS)
def test_the_right_tool_is_among_five(toolsets: list[Toolset], kind: str) -> None:
    began = time.process_time()
    ours, held_out = count_found(find_by_search(toolsets), kind)
    milliseconds = (time.process_time() - began) / len(REQUESTS[kind]) * 1000
    plain, _ = count_found(find_by_bm25(toolsets), kind)
    print(
        f"{kind}: {ours} of {len(REQUESTS[kind])}, {held_out} of those that were held out; plain BM25 {plain};"
        f" {milliseconds:.1f} ms of processor time for each"
    )
    assert (ours, held_out) == REACHED[kind]
    assert plain < ours


class Tokens(NamedTuple):
    """The tokens of the requests of one turn: all, and those that a request shares with the one before it."""

    all: int
    cached: int
    largest: int


def count_tokens(bodies: list[Any]) -> Tokens:
    """Return the tokens of a turn by the rule of prefix caching: what is equal from the beginning is cached.

    A prompt is the tools, then the instructions, then the messages. A deferred tool is no part of it, but for its
    definition after the search that found it.
    """
    prompts = [write_prompt(body) for body in bodies]
    shared = [count_shared(*pair) for pair in itertools.pairwise(prompts)]
    sizes = [len(prompt) // LETTERS_OF_A_TOKEN for prompt in prompts]
    return Tokens(sum(sizes), sum(shared) // LETTERS_OF_A_TOKEN, max(sizes))


def count_shared(one: str, other: str) -> int:
    """Return how many characters two texts have in common from their beginning."""
    equal = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return sum(1 for _ in equal)


def write_prompt(body: Any) -> str:
    direct = [tool for tool in body["tools"] if not tool.get("defer_loading")]
    by_name = {tool["name"]: tool for tool in body["tools"]}
    messages = json.dumps(body["messages"])
    found = re.findall(r'"tool_name": "([^"]+)"', messages)
    for name in found:
        reference = f'"tool_name": "{name}"'
        messages = messages.replace(reference, f'"tool": {json.dumps(by_name[name])}', 1)
    return json.dumps([direct, body.get("system", "")]) + messages


async def run_long_turn(toolsets: list[Toolset]) -> list[Any]:
    """Return the bodies of a turn in which the model searches three times, if it can, and calls other tools."""
    wanted = ["create a folder", "comment on an issue", "take a screenshot of the page"]
    tools = ["create_directory", "add_issue_comment", "browser_take_screenshot"]
    arguments = [{"path": "a"}, {"owner": "a", "repo": "b", "issue_number": 1, "body": "c"}, {}]

    def answer(request: Any) -> Any:
        at = request.iteration
        if at == ITERATIONS - 1:
            return "done"
        part, first = divmod(at, 7)
        names = {tool.name for tool in request.tools}
        if first == 0 and "search_tools" in names:
            return call("search_tools", {"query": wanted[part]}, id=f"s{at}")
        done = call(tools[part], {**arguments[part]}, id=f"c{at}")
        is_native = any("defer_loading" in tool for tool in request.body["tools"])
        if first == 0 and is_native:
            found = hosted_call("tool_search", {"query": wanted[part]}, pages=[tools[part]])
            return [found, done]
        return done

    async with Emulator(answer) as emulator:
        model = ModelAt(
            "anthropic:claude-sonnet-4-5",
            base_url=emulator.base_url_for("anthropic"),
            api_key="k",
            profile={"tool_search": True},
        )
        agent = Agent(model, toolsets=toolsets, limits=Limits(iterations=ITERATIONS))
        assert (await agent.run("Do it.")).output == "done"
        return [request.body for request in emulator.requests]


async def test_the_tokens_of_a_turn_of_twenty_iterations(toolsets: list[Toolset]) -> None:
    plain = count_tokens(await run_long_turn(toolsets))
    ours = count_tokens(await run_long_turn([ToolSearch(*toolsets)]))
    native = count_tokens(await run_long_turn([ToolSearch(*toolsets, native="always")]))
    for name, tokens in {"all tools": plain, "ToolSearch": ours, "native": native}.items():
        print(f"{name}: {tokens}, {tokens.all - tokens.cached} not cached")
    assert ours.largest < plain.largest / 10
    assert ours.all < plain.all / 10
    assert native.all - native.cached < ours.all - ours.cached
