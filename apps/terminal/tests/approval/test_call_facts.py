"""The facts of a call: paths resolved whatever they look like, commands parsed, addresses found."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adh.approval.call_facts import FactsError, build_facts, resolve_path
from adh.rules.facts import CallFacts
from adh.shell import parse_command_line
from adh.shell.quoting import make_bash_line, split_plain_words
from adh.storage.places import Places
from adh.tools.tool_registry import TOOL_EFFECTS


@pytest.fixture
def places(tmp_path: Path) -> Places:
    for name in ("project/sub", "home", "outside"):
        (tmp_path / name).mkdir(parents=True)
    home = tmp_path / "home"
    return Places(config=home / "c", data=home / "d", project=tmp_path / "project", home=home)


def facts_of(places: Places, tool: str, **arguments: object) -> CallFacts:
    return build_facts(tool, arguments, places, str(places.project), TOOL_EFFECTS)


@pytest.mark.parametrize(
    ("written", "resolved"),
    [
        ("a.txt", "project/a.txt"),
        ("sub/../a.txt", "project/a.txt"),
        ("../outside/x", "outside/x"),
        ("~/x", "home/x"),
        ("~", "home"),
        ("~other/x", "project/~other/x"),
        ("link/x", "outside/x"),
        ("link/../x", "x"),
        ("loop/x", "project/loop/x"),
        ("missing/../../outside/x", "outside/x"),
        ("", "project"),
    ],
)
def test_paths_are_resolved(places: Places, written: str, resolved: str) -> None:
    (places.project / "link").symlink_to("../outside")
    (places.project / "loop").symlink_to("loop")
    (use,) = facts_of(places, "read_file", file_path=written).paths
    assert use.path == str(places.project.parent / resolved)
    assert (use.access, use.written) == ("read", written)


def test_a_write_to_what_is_not_there_creates(places: Places) -> None:
    (places.project / "a").write_text("x")
    (use,) = facts_of(places, "write_file", file_path="a", content="").paths
    assert use.access == "write"
    (use,) = facts_of(places, "write_file", file_path="b", content="").paths
    assert use.access == "create"


def test_each_tool_of_the_application_with_paths_is_known(places: Places) -> None:
    arguments = {"file_path": "x", "directory": "x", "cwd": "sub", "command": "ls"}
    accesses = {
        tool: [use.access for use in facts_of(places, tool, **arguments).paths]
        for tool in TOOL_EFFECTS
    }
    assert accesses == {
        "read_file": ["read"],
        "list_directory": ["list"],
        "get_file_info": ["read"],
        "write_file": ["create"],
        "create_directory": ["create"],
        "delete_file": ["delete"],
        "execute_command": ["run"],
        "fetch_url": ["read", "read", "read"],
        "web_search": ["read", "read", "read"],
        "web_fetch": ["read", "read", "read"],
        "delegate_to_agent": ["read", "read", "read"],
    }


def test_commands_are_parsed_in_the_folder_that_they_run_in(places: Places) -> None:
    facts = facts_of(places, "execute_command", command="cat ../x && rm y", cwd="sub")
    assert facts.folder == str(places.project / "sub")
    assert [command.text for command in facts.commands] == ["cat ../x", "rm y"]
    assert [use.path for command in facts.commands for use in command.paths] == [
        str(places.project / "x"),
        str(places.project / "sub" / "y"),
    ]
    assert facts_of(places, "execute_command", command="ls 'x").unparsed


def test_tool_of_somebody_else_has_its_paths_and_addresses(places: Places) -> None:
    effects = {"move": frozenset({"writes_fs"})}
    arguments = {"source": "a", "target": "../b", "urls": ["https://x.example"], "depth": 1}
    facts = build_facts("move", arguments, places, str(places.project), effects)
    assert [(use.access, use.written) for use in facts.paths] == [
        ("create", "a"),
        ("create", "../b"),
    ]
    assert facts.urls == ("https://x.example",)


@pytest.mark.parametrize(
    ("tool", "arguments", "argument"),
    [
        ("read_file", {"file_path": "a\0b"}, "file_path"),
        ("read_file", {"file_path": "a\ud800"}, "file_path"),
        ("read_file", {"file_path": ["a"]}, "file_path"),
        ("execute_command", {"command": 1}, "command"),
        ("fetch_url", {"url": {}}, "url"),
    ],
)
def test_what_cannot_be_judged_is_an_error_that_names_the_argument(
    places: Places, tool: str, arguments: Mapping[str, object], argument: str
) -> None:
    with pytest.raises(FactsError, match=f"The argument '{argument}' ") as caught:
        build_facts(tool, arguments, places, str(places.project))
    assert caught.value.argument == argument


@given(st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_a_resolved_path_has_no_dots_and_stays_as_it_is(written: str) -> None:
    path = resolve_path(written, "/nowhere/at all", "/people/ada")
    assert path.startswith("/")
    assert ".." not in path.split("/")
    assert os.path.realpath(path) == path


WITHOUT_SHELL = (
    ("cat # .env", ("cat", "#", ".env")),
    ("find . # -delete", ("find", ".", "#", "-delete")),
    ("a=1/x ls", ("a=1/x", "ls")),
    ("ls; rm", ("ls;", "rm")),
    ("cat $'.env'", ("cat", "$.env")),
    ("echo\n.env", ("echo", ".env")),
    ("cat {.env,x} * ~ $HOME", ("cat", "{.env,x}", "*", "~", "$HOME")),
)


@pytest.mark.parametrize(("command", "words"), WITHOUT_SHELL)
def test_a_command_without_a_shell_is_judged_by_the_words_that_run(
    places: Places, command: str, words: tuple[str, ...]
) -> None:
    facts = facts_of(places, "execute_command", command=command, shell=False)
    assert [use.argv for use in facts.commands] == [words]


@given(command=st.text("ab .#'\"\\$(){}|;&<>=~*\n\t", max_size=30))
def test_any_command_without_a_shell_is_judged_by_its_words(command: str) -> None:
    try:
        words = split_plain_words(command)
    except ValueError:
        return
    line = parse_command_line(make_bash_line(command, shell=False))
    assert not line.problem
    found = [tuple(word.value for word in simple.words) for simple in line.commands]
    assert found == ([words] if words else [])


@pytest.mark.parametrize(
    "arguments", [{"command": "ls", "shell": "false"}, {"command": "ls 'x", "shell": False}]
)
def test_a_command_whose_reader_is_not_known_is_an_error(
    places: Places, arguments: dict[str, object]
) -> None:
    with pytest.raises(FactsError):
        facts_of(places, "execute_command", **arguments)
