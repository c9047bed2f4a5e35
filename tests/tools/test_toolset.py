"""Toolsets as values: their names, their tools, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Agent, tool
from holdfast.core.errors import ConfigurationError
from holdfast.testing import ScriptedModel
from holdfast.tools import Toolset


@tool(effect="read", timeout=5)
def read(path: str) -> str:
    """Read a file."""
    return f"text of {path}"


@tool(effect="write")
def write(path: str, text: str) -> str:
    """Write a file."""
    return f"wrote {path}: {text}"


FILES = Toolset("files", [read, write])


def names(toolset: Toolset) -> list[str]:
    assert toolset.fixed_tools is not None
    return [one.name for one in toolset.fixed_tools]


def test_each_method_returns_another_toolset() -> None:
    assert names(FILES.prefixed("fs_")) == ["fs_read", "fs_write"]
    assert names(FILES.renamed({"read": "cat"})) == ["cat", "write"]
    assert names(FILES.renamed({"read": "cat"}).prefixed("fs_")) == ["fs_cat", "fs_write"]
    assert names(Toolset("all", [FILES, FILES.prefixed("b_")])) == [
        "read", "write", "b_read", "b_write",
    ]  # fmt: skip
    assert names(FILES) == ["read", "write"]
    with pytest.raises(AttributeError, match="immutable"):
        FILES.name = "other"


def test_a_renamed_tool_keeps_all_but_its_name() -> None:
    (cat, _) = FILES.renamed({"read": "cat"}).fixed_tools or ()
    assert (cat.effect, cat.timeout, cat.spec.description) == ("read", 5, "Read a file.")
    assert cat.spec.schema == read.spec.schema
    assert cat("a") == "text of a"
    assert (read.name, read.spec.name) == ("read", "read")
    described = read.replace(description="Read it.")
    assert (described.spec.description, read.spec.description) == ("Read it.", "Read a file.")


WRONG: list[tuple[Any, str]] = [
    (lambda: Toolset("", [read]), "name: is empty."),
    (lambda: Toolset("x", "read"), "tools: must be a list, got str"),  # type: ignore[arg-type]
    (lambda: Toolset("x", [7]), "tool: must be a function, got int."),  # type: ignore[list-item]
    (lambda: FILES.prefixed("a b"), "tool.name: providers reject 'a bread'"),
    (lambda: FILES.prefixed("x" * 64), "tool.name: providers reject"),
    (lambda: FILES.renamed({"raed": "cat"}), "there is no tool 'raed' to rename. Did you mean"),
    (lambda: FILES.renamed({"cat": "read"}), "Write {present name: new name}"),
    (lambda: FILES.renamed({"read": "write"}), "named 'write', both in toolset 'files'"),
    (lambda: FILES.filtered("read"), "keep: must be a function, got str"),  # type: ignore[arg-type]
    (lambda: FILES.prepared(None), "prepare: must be a function, got NoneType"),  # type: ignore[arg-type]
    (lambda: Toolset("x", [], lifespan=3), "lifespan: must be a function, got int"),  # type: ignore[arg-type]
    (
        lambda: Toolset("all", [FILES, Toolset("web", [read])]),
        "two tools are named 'read', in toolset 'files' and in toolset 'web'",
    ),
    (
        lambda: Agent("ollama:m", toolsets=[FILES, Toolset("web", [read])]),
        "and in toolset 'web'. Use prefixed(\"...\") or renamed({...}) of one toolset",
    ),
    (lambda: Agent("ollama:m", tools=[read], toolsets=[FILES]), "in tools= and in toolset 'files'"),
    (lambda: Agent("ollama:m", toolsets=FILES), "toolsets: must be a list, got Toolset"),  # type: ignore[arg-type]
    (lambda: Agent("ollama:m", toolsets=[read]), "toolsets[0]: must be Toolset, got Tool"),  # type: ignore[list-item]
    (
        lambda: Agent("ollama:m", toolsets=[Toolset("x", [read.replace(name="final_answer")])],
                      output=int),
        "tools: ",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), WRONG)
def test_a_wrong_toolset_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        make()
    assert message in str(caught.value)


async def test_an_agent_offers_the_tools_of_its_toolsets() -> None:
    model = ScriptedModel("done")
    await Agent(model, tools=[read], toolsets=[FILES.prefixed("fs_")]).run("Hi")
    assert [one.name for one in model.requests[0].tools] == ["read", "fs_read", "fs_write"]
