import asyncio
import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from apps.terminal.tests.tools.workbench import Workbench

from adh.storage.call_context import ApprovedCall
from adh.tools.command_environment import make_environment
from holdfast import ToolCall


def processes_of_commands(bench: Workbench) -> list[str]:
    """The command lines of all running processes that a command of this project started."""
    found = []
    mark = f"PROJECT_OF_THE_TEST={bench.root}\0".encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                if mark in (folder / "environ").read_bytes():
                    found.append((folder / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
    return found


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.01)


async def test_the_outputs_and_the_status_of_a_command_are_told(bench: Workbench) -> None:
    ended = await bench.call_json("execute_command", command="echo out; echo err >&2; exit 3")
    assert ended == {"success": False, "stdout": "out\n", "stderr": "err\n", "return_code": 3}
    assert (await bench.call_json("execute_command", command="true"))["success"] is True
    killed = await bench.call_json("execute_command", command="kill -9 $$")
    assert killed["return_code"] == -9


async def test_a_command_runs_in_its_folder(bench: Workbench) -> None:
    (bench.root / "x").mkdir()
    ended = await bench.call_json("execute_command", command="pwd", cwd="x")
    assert ended["stdout"] == f"{bench.root}/x\n"
    ended = await bench.call_json("execute_command", command="pwd")
    assert ended["stdout"] == f"{bench.root}\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"command": "pwd", "cwd": "/etc"}, "outside of the project"),
        ({"command": "pwd", "cwd": "missing"}, "cwd does not exist"),
        ({"command": "pwd", "cwd": "file"}, "cwd leads through something that is not a folder"),
        ({"command": " "}, "command is empty"),
        ({"command": "a\0b"}, "NUL"),
        ({"command": "no-such-program", "shell": False}, "command does not exist"),
        ({"command": "echo 'a", "shell": False}, "a quote that is not closed"),
        ({"command": "pwd", "timeout": 0}, "timeout: must be more than 0; got 0"),
    ],
)
async def test_what_cannot_run_is_told(
    bench: Workbench, arguments: dict[str, object], problem: str
) -> None:
    (bench.root / "file").touch()
    assert problem in await bench.call("execute_command", None, **arguments)


async def test_words_without_a_shell_are_run_as_they_are(bench: Workbench) -> None:
    ended = await bench.call_json(
        "execute_command", command="echo '$HOME;' $(id) | cat", shell=False
    )
    assert ended["stdout"] == "$HOME; $(id) | cat\n"


async def test_a_command_has_no_input(bench: Workbench) -> None:
    ended = await bench.call_json("execute_command", command="cat; read x; echo $?", timeout=5)
    assert ended["stdout"] == "1\n"


HANGS = """
sleep 301 &
setsid sleep 302 &
(setsid sh -c 'trap "" TERM HUP INT; sleep 303; sleep 304' &)
sh -c 'trap "" TERM; echo ready; while :; do sleep 305; done'
"""


@pytest.mark.slow  # takes half a second or more
async def test_all_processes_are_ended_at_the_timeout(bench: Workbench) -> None:
    ended = await bench.call_json("execute_command", command=HANGS, timeout=0.3)
    assert ended["return_code"] is None
    assert ended["success"] is False
    assert "did not end within 0.3 seconds" in ended["error"]
    assert ended["stdout"] == "ready\n"
    assert processes_of_commands(bench) == []


@pytest.mark.slow  # takes half a second or more
async def test_all_processes_are_ended_when_the_turn_is_stopped(bench: Workbench) -> None:
    call = ToolCall("c1", "execute_command", json.dumps({"command": HANGS}))
    agent = bench.make_agent(call)
    turn = asyncio.ensure_future(agent.run("go", deps=bench.deps))
    await until(lambda: bench.shown)
    assert len(processes_of_commands(bench)) >= 4
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert processes_of_commands(bench) == []


async def test_what_a_command_leaves_in_the_background_ends_with_it(bench: Workbench) -> None:
    begun = time.monotonic()
    ended = await bench.call_json("execute_command", command="sleep 301 & echo started")
    assert ended["return_code"] == 0
    assert ended["stdout"] == "started\n"
    assert "1 process in the background" in ended["note"]
    assert processes_of_commands(bench) == []
    assert time.monotonic() - begun < 150


@pytest.mark.slow  # takes half a second or more
async def test_a_process_that_starts_others_all_the_time_is_ended(bench: Workbench) -> None:
    command = "f() { setsid sh -c 'sleep 301' & sleep 0.005; f; }; trap '' TERM; f"
    ended = await bench.call_json("execute_command", command=command, timeout=0.3)
    assert ended["return_code"] is None
    assert processes_of_commands(bench) == []


async def test_a_process_that_lost_its_environment_is_ended(bench: Workbench) -> None:
    seconds = f"4000.{os.getpid()}"
    command = f"env -i /bin/sleep {seconds} & sleep 0.2"
    assert "1 process" in (await bench.call_json("execute_command", command=command))["note"]
    running = [file.read_bytes() for file in Path("/proc").glob("[0-9]*/cmdline")]  # noqa: ASYNC240
    assert not [line for line in running if seconds.encode() in line]


async def test_other_processes_are_left_alone(bench: Workbench) -> None:
    other = await asyncio.create_subprocess_exec("sleep", "306")
    try:
        await bench.call_json("execute_command", command="sleep 301", timeout=0.1)
        assert other.returncode is None
        os.kill(other.pid, 0)
    finally:
        other.send_signal(signal.SIGKILL)
        await other.wait()


async def test_a_flood_takes_bounded_memory_and_its_ends_are_shown(bench: Workbench) -> None:
    command = "echo first; head -c 100000000 /dev/zero | tr '\\0' 'x'; echo; echo last"
    ended = await bench.call_json("execute_command", command=command)
    text = ended["stdout"]
    assert text.startswith("first\nxxx")
    assert text.endswith("xxx\nlast\n")
    assert "[cut: 99,960,012 bytes are not shown]" in text
    assert len(text) < 41_000
    assert sum(len(notice.text) for notice in bench.shown) < 1_000_000


async def test_the_longest_outputs_are_still_json(bench: Workbench) -> None:
    command = "yes '' | head -c 1000000; yes $'\\a' | head -c 1000000 >&2"
    ended = await bench.call_json("execute_command", command=command)
    assert "bytes are not shown" in ended["stdout"]
    assert "\\x07" in ended["stderr"]


async def test_binary_output_is_counted_and_not_shown(bench: Workbench) -> None:
    ended = await bench.call_json("execute_command", command="head -c 5000 /dev/urandom")
    assert ended["stdout"] == "[binary output: 5,000 bytes are not shown]"


async def test_escape_sequences_never_reach_a_terminal(bench: Workbench) -> None:
    command = r"printf '\033[31mred\033[0m \033]0;title\007\033Pq\033\\ \007\r\n10%%\r100%%\n'"
    ended = await bench.call_json("execute_command", command=command)
    assert ended["stdout"] == "red  \\x07\n100%\n"
    shown = "".join(notice.text for notice in bench.shown)
    assert "\x1b" not in shown
    assert "\x07" not in shown


@pytest.mark.slow  # takes half a second or more
async def test_live_output_is_told_apart_and_shown_at_most_ten_times_a_second(
    bench: Workbench,
) -> None:
    begun = time.monotonic()
    command = "for i in $(seq 300); do echo out; echo err >&2; sleep 0.001; done"
    await bench.call_json("execute_command", command=command)
    updates = (time.monotonic() - begun) / 0.1 + 2
    for stream in ("stdout", "stderr"):
        texts = [notice.text for notice in bench.shown if notice.stream == stream]
        word = stream.removeprefix("std")
        assert "".join(texts) == f"{word}\n" * 300
    runs = sum(
        1
        for earlier, later in zip(bench.shown, bench.shown[1:], strict=False)
        if earlier.stream == later.stream
    )
    assert runs <= updates


async def test_secrets_and_what_changes_other_programs_are_not_passed_on(
    bench: Workbench,
) -> None:
    (bench.root / "ls").write_text("#!/bin/sh\necho of the project")
    (bench.root / "ls").chmod(0o755)
    (bench.root / "start").write_text("echo started")
    bench.environ |= {
        "PATH": f".::{bench.root.name}:/usr/bin:/bin",
        "OPENAI_API_KEY": "sk-1",
        "GEMINI_API_KEY": "sk-2",
        "GITHUB_TOKEN": "t",
        "AWS_SECRET_ACCESS_KEY": "s",
        "DB_PASSWORD": "p",
        "BASH_ENV": str(bench.root / "start"),
        "BASH_FUNC_ls%%": "() { echo shadowed; }",
        "PROMPT_COMMAND": "id",
        "LANG": "C.UTF-8",
    }
    ended = await bench.call_json("execute_command", command="env; ls")
    names = {line.partition("=")[0] for line in ended["stdout"].splitlines()}
    assert not names & set(bench.environ) - {"PATH", "LANG", "PROJECT_OF_THE_TEST"}
    assert "LANG" in names
    assert not {"started", "shadowed", "of the project"} & names


async def test_what_was_approved_of_a_command_is_used(bench: Workbench) -> None:
    approved = ApprovedCall(
        command_prefix=("/usr/bin/env", "CONFINED=yes"),
        environment={"GIT_CONFIG_NOSYSTEM": "1", "PAGER": "less"},
    )
    ended = await bench.call_json(
        "execute_command", approved, command="echo $CONFINED $GIT_CONFIG_NOSYSTEM $PAGER"
    )
    assert ended["stdout"] == "yes 1 less\n"


@pytest.mark.slow  # takes half a second or more
async def test_a_command_that_is_confined_leaves_nothing(bench: Workbench) -> None:
    program = shutil.which("bwrap")
    if program is None:
        pytest.skip("bubblewrap is not installed")
    words = "--die-with-parent --unshare-pid --bind / / --proc /proc --dev /dev --"
    approved = ApprovedCall(command_prefix=(program, *words.split()))
    ended = await bench.call_json("execute_command", approved, command=HANGS, timeout=0.5)
    if "namespace" in ended["stderr"]:
        pytest.skip("bubblewrap may not make namespaces here")
    assert ended["return_code"] is None
    assert processes_of_commands(bench) == []


async def test_a_folder_that_becomes_a_link_is_not_entered(bench: Workbench) -> None:
    (bench.root / "x").symlink_to("/etc")
    approved = ApprovedCall(paths={"x": str(bench.root / "x")})
    text = await bench.call("execute_command", approved, command="pwd", cwd="x")
    assert text.startswith("LinkInPathError: cwd is a symbolic link")


def test_an_environment_without_a_path_has_one() -> None:
    assert make_environment({"PATH": "."}, {})["PATH"] == "/usr/local/bin:/usr/bin:/bin"
