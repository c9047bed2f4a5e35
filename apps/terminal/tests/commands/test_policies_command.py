from __future__ import annotations

from pathlib import Path

import pytest

from adh.commands.arguments import parse_arguments
from adh.commands.exit_statuses import CommandError
from adh.commands.policies_command import parse_call
from adh.commands.program import run_command

TEAM = """\
team:
  tests:
    pattern: execute_command
    conditions:
      command_starts_with: pytest
    supervision: automatic
    risk: low
    priority: 20
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "home"


def add_rules(home: Path, text: str) -> Path:
    folder = home / ".config" / "adh-cli" / "policies"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "team.yaml"
    file.write_text(text)
    return file


def run(*words: str) -> int:
    return run_command(parse_arguments(["policies", *words]))


def test_all_rules_are_listed_with_file_and_line(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_rules(home, TEAM)
    assert run() == 0
    shown = capsys.readouterr().out
    assert "team.tests (policies/team.yaml:2)" in shown
    assert "built-in/files.yaml" in shown


def test_a_tool_alone_lists_its_rules(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fetch_url") == 0
    shown = capsys.readouterr().out
    assert "network.fetch_url" in shown
    assert "files.read_file" not in shown


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize(
    ("words", "decision", "rule"),
    [
        (("execute_command", "git status"), "automatic", "commands.git_read"),
        (("execute_command", "ls", "&&", "curl", "https://x.example"), "confirm", "network"),
        (("execute_command", "rm -rf /"), "deny", "protected.remove_root"),
        (("execute_command", "pytest -q"), "automatic", "team.tests"),
        (("write_file", "/etc/passwd"), "deny", "protected.system_folders"),
        (("write_file", '{"file_path": "a.py", "content": "x"}'), "confirm", "files.write_file"),
        (("read_file", "file_path=a.py", "max_lines=3"), "automatic", "files.read_file"),
    ],
)
def test_a_call_is_explained_and_nothing_runs(
    home: Path,
    words: tuple[str, ...],
    decision: str,
    rule: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    add_rules(home, TEAM)
    assert run(*words) == 0
    shown = capsys.readouterr().out
    assert f"decision: {decision}, " in shown
    assert f"by {rule}" in shown
    assert list(Path.cwd().iterdir()) == []


def test_without_safety_confirm_is_automatic_and_deny_holds(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--no-safety", "write_file", "a.py") == 0
    assert "decision: automatic" in capsys.readouterr().out
    assert run("--no-safety", "execute_command", "rm -rf /") == 0
    assert "decision: deny" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("tool", "words"), [("write_file", ["a", "b"]), ("unknown", ["x"]), ("read_file", ["{x}"])]
)
def test_arguments_that_are_not_clear_are_refused(tool: str, words: list[str]) -> None:
    with pytest.raises(CommandError):
        parse_call(tool, words)


def test_a_command_with_an_equals_sign_stays_a_command() -> None:
    assert parse_call("execute_command", ["A=1", "env"]) == {"command": "A=1 env"}
    assert parse_call("execute_command", ["A=1"]) == {"command": "A=1"}
    assert parse_call("execute_command", ["command=ls", "cwd=src"]) == {
        "command": "ls",
        "cwd": "src",
    }


TABLE = """\
calls:
  - command: pytest -q
    expect: {level: automatic, rule: team.tests}
  - tool: read_file
    arguments: {file_path: notes/link.md}
    files: {secret.env: x}
    links: {notes/link.md: ../secret.env}
    expect: {level: confirm, rule: files.read_secrets}
  - command: ls; rm -rf ~
    expect: automatic
"""


def test_a_table_of_calls_is_checked(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_rules(home, TEAM)
    table = Path("calls.yaml")
    table.write_text(TABLE)
    assert run("test", "calls.yaml") == 1
    shown = capsys.readouterr().out
    assert "3 calls, 1 failed" in shown
    assert "FAIL execute_command ls; rm -rf ~ (line 9)" in shown
    table.write_text(TABLE.replace("expect: automatic", "expect: manual"))
    assert run("test", "calls.yaml") == 0
    assert [path.name for path in Path.cwd().iterdir()] == ["calls.yaml"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("calls: []", "no call to test"),
        ("calls:\n  - command: ls\n    expects: automatic", 'did you mean "expect"'),
        ("calls:\n  - command: ls\n    files: {../x: y}\n    expect: notify", "../x"),
    ],
)
def test_a_wrong_table_names_the_line(
    home: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("calls.yaml").write_text(text)
    assert run("test", "calls.yaml") == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.out == ""


def test_a_broken_rules_file_stops_with_file_and_line(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_rules(home, TEAM.replace("supervision", "supervison"))
    assert run() == 2
    printed = capsys.readouterr()
    assert "policies/team.yaml:6" in printed.err
    assert 'did you mean "supervision"?' in printed.err
    assert printed.out == ""


@pytest.mark.parametrize("words", [("--policy-dir", "missing"), ("test", "missing.yaml")])
def test_what_is_not_there_is_named(
    home: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) in (1, 2)
    assert "missing" in capsys.readouterr().err


def test_a_named_folder_is_read_last(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path("rules")
    folder.mkdir()
    (folder / "more.yml").write_text(TEAM.replace("team", "more").replace("automatic", "deny"))
    assert run("--policy-dir", "rules", "execute_command", "pytest") == 0
    assert "by more.tests (rules/more.yml:2)" in capsys.readouterr().out
