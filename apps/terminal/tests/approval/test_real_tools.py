"""The approval around the tools of the application: links, files and commands that change in the last moment."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from apps.terminal.tests.approval.desk import Desk, approve, call, texts

from adh.approval.question import ApprovalQuestion
from adh.checks.confinement import find_confinement
from adh.storage.search_path import DEFAULT_FOLDERS
from adh.tools.all_tools import make_tools
from adh.tools.tool_registry import TOOL_EFFECTS
from adh.tools.tools_context import make_tools_context
from holdfast import Agent, Answer, Middleware, ToolResult
from holdfast.middleware import ToolUse

RULES = """
own:
  confined:
    pattern: execute_command
    supervision: confirm
    risk: medium
    priority: 60
    safety_checks: [sandbox]
"""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def real_agent(desk: Desk, *script: Any, **changes: Any) -> Agent[str]:
    tools = make_tools(make_tools_context(desk.places, dict(os.environ)))
    setup = desk.setup(effects=TOOL_EFFECTS, **changes)
    return desk.agent(*script, tools=list(tools), setup=setup)


async def test_write_is_approved_copied_and_done(desk: Desk) -> None:
    file = desk.project / "a.txt"
    file.write_text("old\n")
    agent = real_agent(desk, call("write_file", file_path="a.txt", content="new\n"), "Ok.")
    await desk.run(agent, approve)
    assert file.read_text() == "new\n"
    (copy,) = desk.places.backups.rglob("a.txt")
    assert copy.read_text() == "old\n"


class AtLast(Middleware):
    """Does something after the last check and before the tool; it stands inside of the safeguards."""

    def __init__(self, act: Any) -> None:
        self._act = act

    async def wrap_attempt(self, context: ToolUse, call_next: Any) -> ToolResult:
        self._act()
        result: ToolResult = await call_next()
        return result


def agent_with(desk: Desk, act: Any, *script: Any) -> Agent[str]:
    pipeline = desk.pipeline()
    tools = make_tools(make_tools_context(desk.places, dict(os.environ)))
    middleware = [pipeline.permission, pipeline.safeguards, AtLast(act)]
    return desk.agent(*script, tools=list(tools), middleware=middleware)


async def test_file_that_changes_after_the_last_check_is_not_overwritten(desk: Desk) -> None:
    file = desk.project / "a.txt"
    file.write_text("old\n")
    write = call("write_file", file_path="a.txt", content="new\n")
    agent = agent_with(desk, lambda: file.write_text("in the last moment\n"), write, "Ok.")
    (text,) = texts(await desk.run(agent, approve))
    assert "has changed since the call was approved" in text
    assert file.read_text() == "in the last moment\n"


async def test_link_that_replaces_a_folder_after_the_last_check_is_not_followed(
    desk: Desk, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("secret")
    folder = desk.project / "sub"
    folder.mkdir()
    (folder / "a.txt").write_text("mine")

    def swap() -> None:
        if not folder.is_symlink():
            folder.rename(desk.project / "moved")
            folder.symlink_to(outside)

    for tool, more in (("read_file", {}), ("write_file", {"content": "new"})):
        agent = agent_with(desk, swap, call(tool, file_path="sub/a.txt", **more), "Ok.")
        (text,) = texts(await desk.run(agent, approve))
        assert "secret" not in text
        assert (outside / "a.txt").read_text() == "secret"
        folder.unlink()
        (desk.project / "moved").rename(folder)


@pytest.mark.slow  # takes half a second or more
async def test_link_that_is_swapped_all_the_time_never_leads_outside(
    desk: Desk, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("secret")
    inside = desk.project / "inside"
    inside.mkdir()
    (inside / "a.txt").write_text("mine")
    link = desk.project / "link"
    link.symlink_to(inside)
    stop = threading.Event()

    def swap() -> None:
        other = desk.project / "other"
        while not stop.is_set():
            for target in (outside, inside):
                other.symlink_to(target)
                other.replace(link)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        reads = [call("read_file", number, file_path="link/a.txt") for number in range(40)]
        found = texts(await desk.run(real_agent(desk, reads, "Ok."), refuse))
    finally:
        stop.set()
        swapping.join()
    assert not any("secret" in text for text in found)
    assert len(found) == 40


def refuse(question: ApprovalQuestion) -> Answer[Any]:
    """Refuse, as a person does who sees the path that a link leads to."""
    return question.deny()


async def test_command_whose_rule_asks_for_the_sandbox_runs_confined(tmp_path: Path) -> None:
    confinement = find_confinement(DEFAULT_FOLDERS)
    if not confinement.program:
        pytest.skip(confinement.problem)
    desk = Desk(tmp_path, RULES)
    keys = tmp_path / "home" / ".ssh"
    keys.mkdir()
    (keys / "id_rsa").write_text("the key")
    (tmp_path / "kept").write_text("kept")
    # What a program does on its own, as no word of the line tells.
    script = desk.project / "build.sh"
    script.write_text(
        f"cat {keys}/id_rsa\nrm -f {tmp_path}/kept\necho x > {tmp_path}/new\necho done > made\n"
    )
    agent = real_agent(
        desk, call("execute_command", command="./build.sh"), "Ok.", confinement=confinement
    )
    script.chmod(0o755)
    (text,) = texts(await desk.run(agent, approve))
    (question,) = desk.asked
    sandbox = next(check for check in question.checks if check.name == "sandbox")
    assert sandbox.detail == "The command runs confined: it can write to the project only."
    assert (desk.project / "made").read_text() == "done\n"
    assert "the key" not in text
    assert (tmp_path / "kept").read_text() == "kept"
    assert not (tmp_path / "new").exists()


async def test_the_person_reads_that_a_command_is_not_confined(tmp_path: Path) -> None:
    desk = Desk(tmp_path, RULES)
    agent = real_agent(desk, call("execute_command", command="echo hello"), "Ok.")
    (text,) = texts(await desk.run(agent, approve))
    assert "hello" in text
    details = [check.detail for question in desk.asked for check in question.checks]
    assert any("not confined: bubblewrap is not installed" in detail for detail in details)


async def test_check_that_hangs_blocks_the_call_after_five_seconds(desk: Desk) -> None:
    release = threading.Event()
    hangs = asyncio.Event()
    loop = asyncio.get_running_loop()
    waited: list[float] = []

    def hang(_: str) -> None:
        loop.call_soon_threadsafe(hangs.set)
        release.wait(30)

    async def pass_time(seconds: float) -> None:
        waited.append(seconds)
        await hangs.wait()

    (desk.project / "a.txt").write_text("old\n")
    write = call("write_file", file_path="a.txt", content="new\n")
    try:
        agent = real_agent(desk, write, "Ok.", save_backup=hang, wait=pass_time)
        (text,) = texts(await desk.run(agent, approve))
    finally:
        release.set()
    assert text == "Safety check(s) failed: backup. backup took longer than 5 seconds."
    assert set(waited) == {5.0}
    assert (desk.project / "a.txt").read_text() == "old\n"


async def test_disk_without_room_for_the_log_stops_all_but_automatic_reads(desk: Desk) -> None:
    (desk.project / "a.txt").write_text("old\n")
    desk.places.audit_file.parent.mkdir(parents=True, exist_ok=True)
    # Every write to this device fails as a full disk does.
    desk.places.audit_file.symlink_to("/dev/full")
    script = [
        call("read_file", file_path="a.txt"),
        call("write_file", file_path="a.txt", content="new\n"),
    ]
    read, written = texts(await desk.run(real_agent(desk, *script, "Ok."), approve))
    assert "old" in read
    assert written.startswith("The call was not run: the audit log cannot be written")
    assert (desk.project / "a.txt").read_text() == "old\n"


@pytest.mark.parametrize(
    ("command", "secret"), [("cat # .env", "k-123"), ("grep '' a.txt # .env", "k-123")]
)
async def test_a_command_without_a_shell_is_asked_for_what_it_would_read(
    desk: Desk, command: str, secret: str
) -> None:
    (desk.project / ".env").write_text(secret)
    (desk.project / "a.txt").write_text("x\n")
    agent = real_agent(desk, call("execute_command", command=command, shell=False), "Ok.")
    result = await desk.run(agent, lambda question: question.deny())
    assert [question.risk for question in desk.asked] == ["high"]
    assert secret not in "".join(texts(result))
