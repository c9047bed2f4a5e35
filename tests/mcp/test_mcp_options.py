"""What is said wrongly about a server: refused when it is said, with the place and the fix, and without a secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import Agent
from holdfast.core.errors import ConfigurationError
from holdfast.mcp import McpLimits, McpServer, McpTimeouts, read_mcp_file

SECRET = "sk-proj-12345678901234567890123456789012"

WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({}, "mcp.command: is missing, and so is url"),
    ({"command": ["x"], "url": "https://x.example"}, "mcp.url: is given together with a command"),
    ({"command": []}, "mcp.command: must be a list of words"),
    ({"command": [" "]}, "mcp.command: must be a list of words"),
    ({"command": ["a\0b"]}, "mcp.command: holds a character"),
    ({"command": "server"}, "mcp.command: must be"),
    ({"command": ["x"], "headers": {"A": "b"}}, "mcp.headers: a command is sent no headers"),
    ({"command": ["x"], "env": {"A=B": "c"}}, "mcp.env: 'A=B' cannot be a variable"),
    ({"command": ["x"], "env": {"A": 1}}, "mcp.env"),
    ({"url": "ftp://x.example"}, "mcp.url: is not an http or https address"),
    ({"url": "https://"}, "mcp.url: is not an http or https address"),
    ({"url": "https://x.example:99999"}, "mcp.url: is not an address"),
    ({"url": f"https://me:{SECRET}@x.example"}, "mcp.url: holds a user or a password"),
    ({"url": "https://x.example", "env": {"A": "b"}}, "mcp.env: a url has no environment"),
    ({"url": "https://x.example", "headers": {"A": f"{SECRET}\r\nB: c"}}, "mcp.headers.A: holds a"),
    ({"url": "https://x.example", "headers": {"A b": SECRET}}, "'A b' is not the name of a header"),
    ({"url": "https://x.example", "header": {}}, "mcp.header: is not a setting. Did you mean head"),
    ({"url": "https://x.example", "effects": {"pay": "writes"}}, "mcp.effects"),
    ({"url": "https://x.example", "checks": {"pay": "yes"}}, "mcp.checks"),
    (
        {"command": ["x"], "checks": {"pay": print}, "effects": {"pay": "read"}},
        "mcp.checks: has a check of 'pay', whose effect is 'read'",
    ),
    (
        {"command": ["x"], "checks": {"pay": print}, "timeouts": McpTimeouts(call=None)},
        "mcp.timeouts.call: is None, and a tool with a check needs a time limit",
    ),
    ({"url": "https://x.example", "trust": "yes"}, "mcp.trust: must be True or False"),
)


def test_a_wrong_keyword_is_refused_with_its_place_and_no_secret() -> None:
    wrong = []
    for keywords, words in WRONG:
        with pytest.raises(ConfigurationError) as caught:
            McpServer("shop", **keywords)
        if words not in str(caught.value) or SECRET in str(caught.value):
            wrong.append((words, str(caught.value)))
    assert not wrong, wrong


@pytest.mark.parametrize("name", ["", "a b", "-x", "x" * 65, "ä"])
def test_a_name_is_short_and_plain(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"mcp\.name: must be 1 to 64 letters"):
        McpServer(name, command=["x"])


def test_limits_are_positive() -> None:
    for make, words in (
        (lambda: McpTimeouts(start=0), "timeouts.start: must be"),
        (lambda: McpTimeouts(call=-1), "timeouts.call: must be"),
        (lambda: McpLimits(tools=0), "limits.tools: must be"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            make()


def test_no_repr_shows_a_key() -> None:
    server = McpServer("shop", url="https://x.example", headers={"Authorization": SECRET})
    child = McpServer("files", command=["x", SECRET], env={"KEY": SECRET})
    assert SECRET not in f"{server!r} {server.options!r} {child!r} {child.options!r}"


def write(folder: Path, servers: object) -> Path:
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}, indent=2), "utf-8")
    return path


def test_a_file_of_other_clients_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", SECRET)
    monkeypatch.setenv("DOCS", "/srv/docs")
    files, shop = read_mcp_file(
        write(
            tmp_path,
            {
                "files": {
                    "command": "npx",
                    "args": ["-y", "server-files", "${DOCS}/public"],
                    "env": {"API_KEY": "${SHOP_TOKEN}"},
                },
                "shop": {
                    "type": "http",
                    "url": "https://shop.example/mcp",
                    "headers": {"Authorization": "Bearer ${SHOP_TOKEN}"},
                    "trust": True,
                    "timeouts": {"start": 3},
                },
                "old": {"command": "gone", "disabled": True},
            },
        )
    )
    assert files.options.command == ["npx", "-y", "server-files", "/srv/docs/public"]
    assert files.options.env == {"API_KEY": SECRET}
    assert shop.options.headers == {"Authorization": f"Bearer {SECRET}"}
    assert (shop.options.trust, shop.options.timeouts.start) == (True, 3.0)


WRONG_FILES: tuple[tuple[object, str], ...] = (
    (
        {"a": {"comand": "x"}},
        "mcp.json, line 4, mcpServers.a.comand: is not a setting. Did you mean",
    ),
    ({"a": {"command": "x"}, "b": {"url": "ftp://x"}}, "line 7, mcpServers.b.url: is not an http"),
    (
        {"a": {"command": "x", "env": {"X": "${NOT_THERE}"}}},
        "line 6, mcpServers.a.env.X: names the",
    ),
    (
        {"a": {"command": "x", "env": {"API_KEY": "abc"}}},
        "line 6, mcpServers.a.env.API_KEY: must not",
    ),
    (
        {"a": {"command": "x", "args": [SECRET]}},
        "line 5, mcpServers.a.args: must not hold a secret",
    ),
    (
        {"a": {"url": "https://x.example", "headers": {"Authorization": "Bearer abc"}}},
        "must not hold",
    ),
    ({"a": {"type": "sse", "url": "https://x.example"}}, "line 4, mcpServers.a.type: 'sse' is not"),
    ({"a": {"type": "stdio", "url": "https://x.example"}}, "'stdio' needs command"),
    ({"a": {"args": ["x"]}}, "mcpServers.a.args: are of a command"),
    ({"a": {"command": "x", "timeouts": {"start": 0}}}, "mcpServers.a.timeouts: "),
    ({"a": []}, "mcpServers.a: must be an object"),
    ({"a": {}}, "mcpServers.a.command: is missing, and so"),
    ([], "mcp.json: has no object mcpServers"),
)


def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path) -> None:
    wrong = []
    for servers, words in WRONG_FILES:
        with pytest.raises(ConfigurationError) as caught:
            read_mcp_file(write(tmp_path, servers))
        if words not in str(caught.value) or SECRET in str(caught.value):
            wrong.append((words, str(caught.value)))
    assert not wrong, wrong


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.json: cannot be read: No such file"):
        read_mcp_file(tmp_path / "none.json")
    (tmp_path / "cut.json").write_text('{"mcpServers": {', "utf-8")
    with pytest.raises(ConfigurationError, match=r"cut\.json: cannot be read"):
        read_mcp_file(tmp_path / "cut.json")


AGENT = """
model = "openai:gpt-5.2"
api_key_env = "SHOP_TOKEN"

[mcp.files]
command = "server-files"
args = ["/srv"]
tools = ["read_*"]

[mcp.shop]
url = "https://shop.example/mcp"
headers = { Authorization = "Bearer ${SHOP_TOKEN}" }
effects = { pay = "idempotent" }
"""


def test_an_agents_file_has_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", SECRET)
    path = tmp_path / "agent.toml"
    path.write_text(AGENT, "utf-8")
    agent = Agent.from_file(path)
    names = [one.name for one in agent._engine.plan.toolsets]
    assert names == ["files", "shop"]
    for change, words in (
        ('comand = "x"', r"agent\.toml:6: mcp\.files\.comand: is not a setting"),
        (
            'command = "x"\nenv = { API_KEY = "abc" }',
            r"agent\.toml:7: mcp\.files\.env\.API_KEY: must not hold",
        ),
    ):
        path.write_text(AGENT.replace('command = "server-files"', change), "utf-8")
        with pytest.raises(ConfigurationError, match=words):
            Agent.from_file(path)
