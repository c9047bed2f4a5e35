"""Short forms of what the emulated provider does itself, in a script and in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import Agent, ConfigurationError
from holdfast.core.messages import Text
from holdfast.errors import HoldfastError
from holdfast.models import WebSearch, find_citations, find_hosted_calls
from holdfast.testing.emulator import Emulator, cited, hosted_call
from holdfast.testing.emulator.script import expand_hosted
from holdfast.testing.emulator.script_file import read_script

SCRIPT = """
[[reply]]
hosted = [{ name = "web_search", arguments = { query = "Porto" }, pages = ["https://porto.pt"] }]
text = "It has six bridges."
source = { url = "https://porto.pt", title = "Porto" }
"""


async def test_a_file_plays_them(tmp_path: Path) -> None:
    path = tmp_path / "script.toml"
    path.write_text(SCRIPT, "utf-8")
    replies, faults = read_script(path)
    async with Emulator(replies, faults=faults) as emulator:
        agent = Agent(
            "anthropic:claude-sonnet-4-5",
            base_url=emulator.base_url_for("anthropic"),
            api_key="k",
            tools=[WebSearch()],
        )
        result = await agent.run("Bridges?")
    assert result.output == "It has six bridges."
    assert [one.name for one in find_hosted_calls(result.messages)] == ["web_search"]
    assert [one.title for one in find_citations(result.messages[-1])] == ["Porto"]


def test_a_source_without_a_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "script.toml"
    path.write_text('[[reply]]\nsource = { url = "https://porto.pt" }\n', "utf-8")
    with pytest.raises(ConfigurationError, match="needs a text"):
        read_script(path)


@pytest.mark.parametrize(
    ("wire", "name"),
    [("openai_chat", "web_search"), ("anthropic", "file_search"), ("openai_responses", "web_fetch"), ("gemini", "file_search")],
)  # fmt: skip
def test_a_wire_without_such_a_tool_refuses_it(wire: str, name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        expand_hosted([hosted_call(name)], wire, 1)


def test_chat_completions_has_no_citations_to_emulate() -> None:
    with pytest.raises(ConfigurationError, match="citations"):
        expand_hosted([cited("Sunny.", "https://porto.pt")], "openai_chat", 1)
    assert expand_hosted([Text("Sunny.")], "openai_chat", 1) == (Text("Sunny."),)


async def test_the_reason_reaches_the_client() -> None:
    async with Emulator([hosted_call("web_search")]) as emulator:
        agent = Agent("openai:gpt-5.2", base_url=emulator.base_url, api_key="k")
        with pytest.raises(HoldfastError, match="has no web_search"):
            await agent.run("Hi")
