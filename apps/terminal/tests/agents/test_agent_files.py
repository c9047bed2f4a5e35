"""Files of agents and aliases: what is right, and how an error names what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adh.agents.agent_catalog import LARGEST_FILE, load_catalog
from adh.agents.agent_file import AgentFileError, fill_variables, parse_agent_file
from adh.agents.model_aliases import built_in_aliases, parse_aliases, resolve_model
from adh.storage.places import Places, find_places
from holdfast import ModelSettings

WHOLE = """---
name: helper
description: Helps.
model: fast
tools:
  - read_file
  - write_file
variables:
  team: Blue
---

# System Prompt

You are {{agent_role}} of {{ team }}.

# User Prompt Template

Task: {{message}}
"""

TOOLS = frozenset({"read_file", "write_file", "delegate_to_agent"})


@pytest.fixture
def places(tmp_path: Path) -> Places:
    project = tmp_path / "project"
    project.mkdir()
    return find_places({"HOME": str(tmp_path)}, project)


def _write(folder: Path, name: str, text: str = WHOLE) -> None:
    path = folder / name / "agent.md"
    path.parent.mkdir(parents=True)
    path.write_text(text.replace("name: helper", f"name: {name}"))


def test_a_whole_file_is_read() -> None:
    agent = parse_agent_file(WHOLE, "agents/helper/agent.md", "helper", "person")

    assert agent.choose_tools(TOOLS) == ("read_file", "write_file")
    assert agent.system_prompt == "You are {{agent_role}} of {{ team }}."
    assert agent.user_prompt == "Task: {{message}}"
    assert (agent.model, agent.variables) == ("fast", {"team": "Blue"})


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ("---\nname", "name", ":1:", "no front matter"),
        ("---\n\n# System", "\n# System", ":", "has no end"),
        ("name: helper", "name: Other", ":2:", "the name 'Other' is wrong"),
        ("description: Helps.", "description:", ":3:", "description is missing"),
        ("model: fast", "modle: fast", ":4:", "'modle' is not a key"),
        ("  - write_file", "  - 7", ":5:", "no list of names"),
        ("  team: Blue", "  current_date: x", ":8:", "is built in"),
        ("  team: Blue", "  team: [", ":", "is no YAML"),
        ("# System Prompt", "# Prompt", ":11:", "the system prompt is missing"),
        ("{{ team }}", "{{ tema }}", ":14:", "there is no variable 'tema'"),
        ("of {{ team }}", "{{message}}", ":14:", "there is no variable 'message'"),
        ("{{message}}", "{{massage}}", ":18:", "there is no variable 'massage'"),
    ],
)
def test_an_error_names_the_line_and_the_fix(old: str, new: str, place: str, words: str) -> None:
    assert old in WHOLE
    with pytest.raises(AgentFileError) as caught:
        parse_agent_file(WHOLE.replace(old, new, 1), "agent.md", "helper", "person")

    assert str(caught.value).startswith(f"agent.md{place}")
    assert words in caught.value.problem
    assert caught.value.fix


def test_a_tool_that_is_not_there_is_named_with_its_line() -> None:
    text = WHOLE.replace("write_file", "wirte_file")
    agent = parse_agent_file(text, "agent.md", "helper", "person")

    with pytest.raises(AgentFileError, match=r"agent\.md:7: there is no tool 'wirte_file'"):
        agent.choose_tools(TOOLS)


@given(st.text(max_size=300))
def test_any_text_gives_an_agent_or_an_error_that_names_the_file(text: str) -> None:
    for candidate in (text, f"---\n{text}\n---\n# System Prompt\nx", WHOLE + text):
        problems = []
        try:
            parse_agent_file(candidate, "agent.md", "helper", "person")
        except AgentFileError as error:
            problems.append(str(error))
        assert all(problem.startswith("agent.md") for problem in problems)


def test_the_value_of_a_variable_is_never_searched_for_variables() -> None:
    assert fill_variables("{{message}}", {"message": "{{team}}"}) == "{{team}}"


def test_the_built_in_agents_are_there_and_use_tools_that_exist(places: Places) -> None:
    catalog = load_catalog(places, trusted=False)
    known = TOOLS | {
        "list_directory",
        "get_file_info",
        "fetch_url",
        "create_directory",
        "execute_command",
    }

    assert set(catalog.agents) == {
        "orchestrator",
        "planner",
        "researcher",
        "code_reviewer",
        "tester",
        "search",
    }
    assert all(agent.choose_tools(known) for agent in catalog.agents.values())
    assert set(catalog.agents["orchestrator"].choose_tools(known)) == known


def test_an_agent_of_the_person_takes_the_place_of_a_built_in_one(places: Places) -> None:
    _write(places.agents, "planner")

    assert load_catalog(places, trusted=False).agents["planner"].origin == "person"


def test_a_project_is_read_only_when_its_folder_is_trusted(places: Places) -> None:
    _write(places.project / ".adh" / "agents", "local")
    (places.project / "AGENTS.md").write_text("Run the tests.")

    distrusted = load_catalog(places, trusted=False)
    assert "local" not in distrusted.agents
    assert distrusted.project_instructions == ""
    assert distrusted.untrusted == ("AGENTS.md", ".adh/agents")

    trusted = load_catalog(places, trusted=True)
    assert trusted.agents["local"].origin == "project"
    assert trusted.project_instructions == "Run the tests."


def test_an_agent_of_a_project_never_takes_the_place_of_another(places: Places) -> None:
    _write(places.project / ".adh" / "agents", "orchestrator")

    with pytest.raises(AgentFileError, match="there is another agent 'orchestrator'"):
        load_catalog(places, trusted=True)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"x" * (LARGEST_FILE + 1), "too large"),
        (b"---\n\xff\n", "2: is not UTF-8"),
    ],
)
def test_a_file_that_is_no_text_is_named(places: Places, content: bytes, words: str) -> None:
    path = places.agents / "odd" / "agent.md"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)

    with pytest.raises(AgentFileError, match=words):
        load_catalog(places, trusted=False)


def test_a_folder_without_an_agent_is_named(places: Places) -> None:
    (places.agents / "empty").mkdir(parents=True)

    with pytest.raises(AgentFileError, match=r"there is no agent\.md"):
        load_catalog(places, trusted=False)


def test_the_persons_aliases_come_after_the_built_in_ones(places: Places) -> None:
    places.config.mkdir(parents=True)
    places.aliases_file.write_text('{"fast": {"model_id": "openai:gpt-5-mini"}}')
    aliases = load_catalog(places, trusted=False).aliases

    assert aliases["fast"].model_id == "openai:gpt-5-mini"
    assert aliases["strong"] == built_in_aliases()["strong"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '{"a": {"model_id": "x:y", "parameters": {"temperature": 3}}}',
            "a.parameters.temperature",
        ),
        ('{"a": {"model_id": "no provider"}}', "a.model_id"),
        ('{"a": {"model": "x:y"}}', "unknown field `model`"),
        ('{"a": ', "is no JSON"),
    ],
)
def test_an_alias_that_is_wrong_names_the_field(text: str, words: str) -> None:
    with pytest.raises(AgentFileError, match=words):
        parse_aliases(text, "model_aliases.json")


def test_what_the_person_set_wins_over_an_alias() -> None:
    alias = parse_aliases(
        '{"a": {"model_id": "gemini:m", "parameters": {"temperature": 1, "top_k": 5}}}', "a"
    )["a"]
    settings = alias.to_settings(ModelSettings(temperature=0.5))

    assert settings.temperature == 0.5
    assert settings.extra == {"generationConfig": {"topK": 5}}


def test_an_unknown_model_is_named_with_the_file() -> None:
    with pytest.raises(AgentFileError, match=r"agent\.md: there is no model 'quick'"):
        resolve_model("quick", built_in_aliases(), "agent.md")
    assert resolve_model("ollama:llama3.2", {}).model_id == "ollama:llama3.2"
