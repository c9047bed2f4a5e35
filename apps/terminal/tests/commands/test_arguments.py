from __future__ import annotations

from pathlib import Path

import pytest

from adh.commands.arguments import COMMANDS, parse_arguments


def test_no_words_open_the_screen() -> None:
    args = parse_arguments([])
    assert args.command is None
    assert (args.resume, args.debug, args.no_safety, args.policy_dir) == (None, False, False, None)


@pytest.mark.parametrize(("words", "resume"), [(["--resume"], ""), (["--resume", "s-1"], "s-1")])
def test_resume_has_an_id_or_means_the_last_one(words: list[str], resume: str) -> None:
    assert parse_arguments(words).resume == resume


@pytest.mark.parametrize(
    "words",
    [
        ["--debug", "--policy-dir", "p", "--no-safety", "run", "fix it"],
        ["run", "--debug", "--policy-dir", "p", "--no-safety", "fix it"],
        ["--policy-dir", "p", "--debug", "run", "fix it", "--no-safety"],
    ],
)
def test_common_flags_stand_before_or_after_the_command(words: list[str]) -> None:
    args = parse_arguments(words)
    assert (args.debug, args.policy_dir, args.no_safety) == (True, Path("p"), True)
    assert (args.prompt, args.output, args.yes, args.verbose) == ("fix it", "text", False, False)


def test_model_and_agent_before_run_are_kept() -> None:
    args = parse_arguments(["--model", "fast", "run", "--agent", "tester", "-"])
    assert (args.model, args.agent, args.prompt) == ("fast", "tester", "-")


def test_a_file_of_rules_can_be_named() -> None:
    assert parse_arguments(["run", "x", "--policy", "a.yaml"]).policy == Path("a.yaml")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fly"], "invalid choice: 'fly'"),
        (["run"], "prompt"),
        (["run", "x", "--output", "xml"], "invalid choice: 'xml'"),
        (["run", "x", "--verb"], "unrecognized arguments: --verb"),
        (["--no-safe"], "unrecognized arguments: --no-safe"),
        (["sessions"], "ACTION"),
        (["sessions", "show"], "id"),
        (["log", "--last", "0"], "must be at least 1"),
        (["log", "--last", "many"], "invalid"),
        (["--resume", "s-1", "tools"], "--resume opens the screen"),
    ],
)
def test_wrong_words_end_with_status_2_and_name_the_word(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_arguments(words)
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.out == ""


@pytest.mark.parametrize("words", [["--help"], *([name, "--help"] for name in COMMANDS)])
def test_each_command_has_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_arguments(words)
    assert ended.value.code == 0
    assert "usage: adh" in capsys.readouterr().out


def test_help_names_the_commands_and_exit_statuses(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_arguments(["--help"])
    shown = capsys.readouterr().out
    assert [name for name in (*COMMANDS, "130") if name not in shown] == []
