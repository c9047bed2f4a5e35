"""Agents of a conversation, and the tasks that they delegate."""

from __future__ import annotations

import asyncio
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest

from adh.agents.agent_catalog import Catalog
from adh.agents.agent_file import AgentFile
from adh.agents.build_agent import AgentKit, ChatAgent, build_agent
from adh.agents.delegation import DELEGATE_TOOL
from adh.agents.model_aliases import ModelAlias
from adh.storage.call_context import CallContext
from adh.storage.settings import Settings
from holdfast import (
    Answer,
    MemoryJournal,
    PermissionQuestion,
    SqliteJournal,
    ToolCall,
    ToolContext,
    ToolFinished,
    ToolPermission,
    tool,
)
from holdfast.errors import TransportError
from holdfast.testing import FakeClock, ScriptedModel

CONTEXT = CallContext(
    user="ann", session="s", agent="main", request_id="r1", folder="/p", project="/p"
)


def _delegate(agent: str, task: str = "Do it.") -> ToolCall:
    arguments = msgspec.json.encode({"agent": agent, "task": task, "context": "Be quick."})
    return ToolCall(f"c-{agent}", DELEGATE_TOOL, arguments.decode())


def _make_kit(models: dict[str, ScriptedModel], **fields: Any) -> AgentKit:
    agents = {
        name: AgentFile(
            name=name,
            description=f"{name} works.",
            system_prompt="You are {{agent_role}} {{current_date}}\n{{tool_descriptions}}",
            model=f"test:{name}",
            **(fields.pop("agent_fields", {}) if name == "main" else {}),
        )
        for name in models
    }
    return AgentKit(
        catalog=Catalog(agents=agents, aliases={}, project_instructions=fields.pop("project", "")),
        settings=Settings(),
        tools=fields.pop("tools", ()),
        today=lambda: date(2026, 3, 14),
        open_model=lambda alias: models[alias.model_id.partition(":")[2]],
        **fields,
    )


async def _run(agent: ChatAgent, text: str = "Go.") -> tuple[str, list[ToolFinished]]:
    async with agent.stream(text, session="s", deps=CONTEXT) as run:
        finished = [item async for item in run if isinstance(item, ToolFinished)]
    return run.result.text, finished


def test_a_delegated_task_returns_its_result() -> None:
    worker = ScriptedModel("42")
    models = {"main": ScriptedModel(_delegate("worker"), "It is 42."), "worker": worker}
    agent = build_agent(_make_kit(models), "main", MemoryJournal())
    text, finished = asyncio.run(_run(agent))

    assert text == "It is 42."
    assert msgspec.json.decode(finished[0].result.text) == {
        "agent_name": "worker",
        "task_type": "delegation",
        "result": "42",
        "success": True,
        "error": None,
        "metadata": {"depth": 1},
    }
    assert worker.requests[0].messages[-1].text == "Do it.\n\nContext:\nBe quick."


def test_a_delegated_agent_that_fails_is_a_failed_call_that_says_why() -> None:
    lost = TransportError("the connection was lost")
    models = {
        "main": ScriptedModel(_delegate("worker"), "It failed."),
        "worker": ScriptedModel(*[lost] * 10),
    }
    kit = _make_kit(models, clock=FakeClock())
    agent = build_agent(kit, "main", MemoryJournal())
    _, finished = asyncio.run(_run(agent))

    result = msgspec.json.decode(finished[0].result.text)
    assert finished[0].result.is_error
    assert (result["success"], result["result"]) == (False, "")
    assert "the connection was lost" in result["error"]


@pytest.mark.parametrize("name", ["main", "absent"])
def test_an_agent_that_is_not_there_is_a_failed_call(name: str) -> None:
    models = {"main": ScriptedModel(_delegate(name), "Well."), "worker": ScriptedModel()}
    agent = build_agent(_make_kit(models), "main", MemoryJournal())
    _, finished = asyncio.run(_run(agent))

    assert finished[0].result.is_error
    assert f"There is no agent '{name}'" in msgspec.json.decode(finished[0].result.text)["error"]


def test_agents_delegate_at_most_two_deep() -> None:
    deepest = ScriptedModel(_delegate("b"), "I did it myself.")
    models = {
        "main": ScriptedModel(_delegate("a"), "Done."),
        "a": ScriptedModel(_delegate("c"), "Passed on."),
        "b": ScriptedModel(),
        "c": deepest,
    }
    agent = build_agent(_make_kit(models), "main", MemoryJournal())
    text, _ = asyncio.run(_run(agent))

    assert text == "Done."
    read = deepest.requests[1].messages[-1].parts[0]
    assert "An agent at this depth cannot delegate" in read.text  # type: ignore[union-attr]


def test_a_question_of_a_delegated_agent_comes_to_the_person_under_its_rules() -> None:
    seen = []
    ran = []

    @tool(effect="write")
    def erase(path: str, call: ToolContext[CallContext]) -> str:
        """Erase a path."""
        ran.append(call.deps.agent)
        return path

    async def ask(question: Any) -> Answer[Any] | None:
        assert isinstance(question, PermissionQuestion)
        seen.append(question.tool)
        return question.approve()

    models = {
        "main": ScriptedModel(_delegate("worker"), "Done."),
        "worker": ScriptedModel(ToolCall("e", "erase", '{"path": "a"}'), "Erased."),
    }
    rules = (ToolPermission(ask=["erase"], default="allow"),)
    kit = _make_kit(models, tools=(erase,), rules=rules)
    asyncio.run(_run(build_agent(kit, "main", MemoryJournal(), ask)))

    assert (seen, ran) == (["erase"], ["worker"])


def test_a_delegated_agent_continues_after_a_restart_without_doing_things_twice(
    tmp_path: Path,
) -> None:
    ran = []

    @tool(effect="write")
    def erase(path: str) -> str:
        """Erase a path."""
        ran.append(path)
        return path

    def make_models() -> dict[str, ScriptedModel]:
        return {"main": ScriptedModel(), "worker": ScriptedModel()}

    async def begin(models: dict[str, ScriptedModel]) -> None:
        with SqliteJournal(tmp_path / "s.db") as journal:
            kit = _make_kit(
                models, tools=(erase,), rules=(ToolPermission(ask=["erase"], default="allow"),)
            )
            result = await build_agent(kit, "main", journal).run("Go.", session="s", deps=CONTEXT)
            assert len(result.questions) == 1

    async def go_on(models: dict[str, ScriptedModel]) -> str:
        with SqliteJournal(tmp_path / "s.db") as journal:
            kit = _make_kit(
                models, tools=(erase,), rules=(ToolPermission(ask=["erase"], default="allow"),)
            )
            agent = build_agent(kit, "main", journal)
            (question,) = await agent.questions("s")
            assert isinstance(question, PermissionQuestion)
            assert await agent.answer("s", question.approve())
            return (await agent.resume("s", deps=CONTEXT)).text

    first, second = make_models(), make_models()
    first["main"] = ScriptedModel(_delegate("worker"))
    first["worker"] = ScriptedModel(ToolCall("e", "erase", '{"path": "a"}'))
    second["main"] = ScriptedModel("All done.")
    second["worker"] = ScriptedModel("Erased.")
    asyncio.run(begin(first))

    assert asyncio.run(go_on(second)) == "All done."
    assert ran == ["a"]


def test_the_instructions_have_the_variables_and_the_projects_text() -> None:
    model = ScriptedModel("Hello.")
    kit = _make_kit({"main": model}, project="Run the tests.")
    asyncio.run(_run(build_agent(kit, "main", MemoryJournal())))

    instructions = model.requests[0].instructions
    assert instructions.startswith(
        "You are main works. 2026-03-14\n- delegate_to_agent: Give a task"
    )
    assert instructions.endswith("# Instructions of this project\n\nRun the tests.")


def test_the_model_reads_the_template_and_the_journal_keeps_the_message() -> None:
    model = ScriptedModel("Hello.")
    kit = _make_kit({"main": model}, agent_fields={"user_prompt": "Task: {{message}}"})
    journal = MemoryJournal()
    asyncio.run(_run(build_agent(kit, "main", journal), "Look at {{current_date}}."))

    assert model.requests[0].messages[-1].text == "Task: Look at {{current_date}}."
    opened = asyncio.run(journal.read("s"))[0].event
    assert opened.message.text == "Look at {{current_date}}."  # type: ignore[union-attr]


def test_settings_of_an_alias_reach_the_model() -> None:
    model = ScriptedModel("Hello.")
    kit = _make_kit({"main": model})
    aliases = {"test:main": ModelAlias(model_id="test:main")}
    kit = msgspec.structs.replace(
        kit,
        catalog=msgspec.structs.replace(kit.catalog, aliases=aliases),
        settings=Settings(temperature=0.25),
    )
    asyncio.run(_run(build_agent(kit, "main", MemoryJournal())))

    assert model.requests[0].settings.temperature == 0.25
