"""The safety checks of a call, which run at the same time, each for at most 5 seconds.

A check that fails, crashes, is late or is unknown blocks the call. The checks of files look at resolved paths
and never follow a link at the end of one; that of commands judges words, so it must never be the only thing
between a command and the disk. This module must never change a file, and must never show the text of an
exception: it may hold a value of the call.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from adh.checks.check_context import CHECK_SECONDS, CheckContext, CheckOutcome
from adh.checks.daemon_thread import call_in_thread
from adh.checks.protected_places import find_protected, list_uses
from adh.checks.sensitive_data import find_sensitive_kinds, list_texts
from adh.checks.url_check import check_urls
from adh.rules.facts import CallFacts, CommandUse

SPARE_BYTES = 100 * 1024 * 1024
"""The room that must be left on a disk after a write, in bytes."""
_CHANGES = ("write", "delete")


def check_disk_space(facts: CallFacts, context: CheckContext) -> str:  # noqa: ARG001  # REASON: as every check
    """Return why there is too little room for the content of the call; empty if there is enough.

    The text has no count of free bytes: the same state gives the same text.
    """
    for use in list_uses(facts):
        if use.access not in ("write", "create"):
            continue
        # The new content stands beside the old one for a moment, and so does the copy.
        needed = content_bytes(facts) + 2 * (_file_size(use.path) or 0)
        space = os.statvfs(_nearest_folder(use.path))
        if space.f_bavail * space.f_frsize < needed + SPARE_BYTES:
            return f"The disk of {use.path} has no room for {needed:,} bytes and 100 MB to spare."
    return ""


def check_permission(facts: CallFacts, context: CheckContext) -> str:  # noqa: ARG001  # REASON: as every check
    """Return why the system would refuse the access; empty if it would not."""
    for use in list_uses(facts):
        path = use.path
        exists = os.path.lexists(path)
        folder = _nearest_folder(path)
        if use.access in ("read", "list") and exists and not os.access(path, os.R_OK):
            return f"{path} may not be read by this user."
        if use.access == "write" and exists and not os.access(path, os.W_OK):
            return f"{path} may not be written by this user."
        if use.access in ("write", "create", "delete") and not os.access(folder, os.W_OK | os.X_OK):
            return f"{folder} may not be changed by this user."
    if not os.access(facts.folder, os.X_OK):
        return f"{facts.folder} may not be entered by this user."
    return ""


def check_size_limit(facts: CallFacts, context: CheckContext) -> str:
    """Return the file or content that is too large; empty if there is none."""
    limit = f"more than the limit of {context.most_bytes:,} bytes."
    size = content_bytes(facts)
    if size > context.most_bytes:
        return f"The content has {size:,} bytes, {limit}"
    for use in list_uses(facts):
        found = _file_size(use.path) if use.access in ("read", "delete") else None
        if found is not None and found > context.most_bytes:
            return f"{use.path} has {found:,} bytes, {limit}"
    return ""


def save_backups(facts: CallFacts, context: CheckContext) -> str:
    """Copy each file that the call writes or deletes into the backups. A preview copies nothing.

    Returns:
        Why no copy could be made; empty if all were made or none was needed.
    """
    for use in list_uses(facts):
        if use.access not in _CHANGES or _file_size(use.path) is None:
            continue
        if context.save_backup is None:
            return "There is no place for backups."
        if not context.preview:
            context.save_backup(use.path)
    return ""


def content_bytes(facts: CallFacts) -> int:
    """Return how many bytes the call writes, as far as its arguments show."""
    content = facts.arguments.get("content")
    return len(content.encode("utf-8", "replace")) if isinstance(content, str) else 0


def _file_size(path: str) -> int | None:
    """Return the size of a regular file; None for anything else."""
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _nearest_folder(path: str) -> Path:
    """Return the nearest existing folder above a path."""
    return next(folder for folder in Path(path).parents if folder.is_dir())


_PROGRAMS: Mapping[str, str] = {
    **dict.fromkeys(
        ("mkfs", "mke2fs", "wipefs", "fdisk", "parted", "sfdisk"), "it rewrites a disk"
    ),
    **dict.fromkeys(("shutdown", "reboot", "halt", "poweroff"), "it stops the machine"),
    **dict.fromkeys(("userdel", "groupdel", "visudo", "passwd", "chpasswd"), "it changes accounts"),
    **dict.fromkeys(("insmod", "rmmod", "modprobe", "kexec"), "it changes the kernel"),
    "shred": "what it overwrites cannot be restored",
    "swapoff": "it takes memory from all programs",
}
_FETCHERS = frozenset({"curl", "wget", "fetch", "aria2c"})
_INTERPRETERS = frozenset(
    {"sh", "bash", "dash", "zsh", "ksh", "fish", "python", "python3", "perl", "ruby", "node", "php"}
)
_ROOTS = frozenset({"/", "/*", "/.", "~", "~/", "~/*", "$HOME", "$HOME/", "$HOME/*"})


def find_danger(commands: Sequence[CommandUse], home: str) -> str:
    """Return why a command line is dangerous, as a sentence; empty if nothing dangerous is known of it.

    Args:
        commands: its simple commands.
        home: the person's home folder.

    >>> find_danger([CommandUse(("rm", "-rf", "/"), "rm -rf /")], "/people/ada")
    '"rm" is dangerous: it deletes everything below a root.'
    """
    for command in commands:
        reason = _find_reason(command, home)
        if reason:
            return f'"{command.program}" is dangerous: {reason}.'
    if _runs_fetched_text(commands):
        return "A downloaded text must not be run as a program: save it and read it first."
    return ""


def _find_reason(command: CommandUse, home: str) -> str:
    program, words = command.program, [word or "" for word in command.argv[1:]]
    # mkfs.ext4 and its like.
    known = _PROGRAMS.get(program) or _PROGRAMS.get(program.partition(".")[0])
    if known:
        return known
    if program in ("rm", "chmod", "chown", "chgrp") and _is_recursive(words):
        roots = {*_ROOTS, home}
        if any(word.rstrip("/") in roots or word in roots for word in words):
            verb = "deletes" if program == "rm" else "changes"
            return f"it {verb} everything below a root"
    return _find_flag(program, words)


def _find_flag(program: str, words: Sequence[str]) -> str:
    if program == "rm" and "--no-preserve-root" in words:
        return "it may delete the root"
    if program == "dd" and any(word.startswith("of=/dev/") for word in words):
        return "it writes to a device"
    if program == "kill" and "-1" in words[1:]:
        return "it ends every process"
    if program == "crontab" and "-r" in words:
        return "it deletes all jobs"
    if program in ("nc", "ncat", "netcat") and _has_flag(words, "ec"):
        return "it gives a shell to the network"
    if program in ("iptables", "nft") and ("-F" in words or "flush" in words):
        return "it removes the firewall"
    return ""


def _is_recursive(words: Sequence[str]) -> bool:
    return "--recursive" in words or _has_flag(words, "rR")


def _has_flag(words: Sequence[str], letters: str) -> bool:
    short = [word[1:] for word in words if word.startswith("-") and not word.startswith("--")]
    return any(letter in word for word in short for letter in letters)


def _runs_fetched_text(commands: Sequence[CommandUse]) -> bool:
    """Whether a line both downloads and starts an interpreter without a program of its own."""
    fetches = any(command.program in _FETCHERS for command in commands)
    return fetches and any(
        command.program in _INTERPRETERS
        and not [word for word in command.argv[1:] if word is None or not word.startswith("-")]
        for command in commands
    )


BlockingCheck: TypeAlias = Callable[[CallFacts, CheckContext], str]
"""Returns the problem as a sentence; empty if there is none. It runs in a thread of its own."""
WaitingCheck: TypeAlias = Callable[[CallFacts, CheckContext], Awaitable[str]]
"""As `BlockingCheck`, for a check that waits for the network."""


def check_sensitive_data(facts: CallFacts, context: CheckContext) -> str:  # noqa: ARG001  # REASON: as every check
    """Return the argument that holds a secret and its kinds; empty if none does."""
    for name, text in list_texts(facts.arguments):
        kinds = find_sensitive_kinds(text)
        if kinds:
            return f"The argument {name!r} holds {' and '.join(kinds)}."
    return ""


def check_commands(facts: CallFacts, context: CheckContext) -> str:
    """Return why the command line is dangerous; empty if it is not known to be."""
    if facts.unparsed:
        return "The command line could not be parsed."
    return find_danger(facts.commands, context.home)


def check_places(facts: CallFacts, context: CheckContext) -> str:
    """Return which place the call must not touch; empty if there is none."""
    return find_protected(facts, context.home, context.own_folders)


def check_typed_name(facts: CallFacts, context: CheckContext) -> str:  # noqa: ARG001  # REASON: as every check
    """Return that the typed name is wrong; empty if it is right, or if it will be asked for."""
    if context.preview or (context.must_type and context.typed == context.must_type):
        return ""
    return f"The name {context.must_type!r} was not typed."


BLOCKING_CHECKS: Mapping[str, BlockingCheck] = {
    "backup": save_backups,
    "disk_space": check_disk_space,
    "permission": check_permission,
    "size_limit": check_size_limit,
    "sensitive_data": check_sensitive_data,
    "command_validator": check_commands,
    "sandbox": check_places,
    "confirmation_double": check_typed_name,
}
WAITING_CHECKS: Mapping[str, WaitingCheck] = {"url_validator": check_urls}
CHECK_NAMES = frozenset({*BLOCKING_CHECKS, *WAITING_CHECKS})


async def run_checks(
    names: Sequence[str], facts: CallFacts, context: CheckContext
) -> tuple[CheckOutcome, ...]:
    """Run checks at the same time, and return their outcomes in the order of the names.

    The copy of `backup` is made only when all other checks have passed.

    Args:
        names: the names of the checks; a repeated one runs once.
        facts: the call.
        context: the context of the checks.
    """
    wanted = tuple(dict.fromkeys(names))
    first = [name for name in wanted if name != "backup"]
    outcomes = dict(
        zip(
            first,
            await asyncio.gather(*(_run_check(name, facts, context) for name in first)),
            strict=True,
        )
    )
    if "backup" in wanted:
        if all(outcome.passed for outcome in outcomes.values()):
            outcomes["backup"] = await _run_check("backup", facts, context)
        else:
            outcomes["backup"] = CheckOutcome("backup", passed=True, detail="Not needed yet.")
    return tuple(outcomes[name] for name in wanted)


async def _run_check(name: str, facts: CallFacts, context: CheckContext) -> CheckOutcome:
    work = _begin_check(name, facts, context)
    if work is None:
        return CheckOutcome(name, passed=False, detail=f"There is no check {name!r}.")
    check = asyncio.ensure_future(work)
    timer = asyncio.ensure_future(context.wait(CHECK_SECONDS))
    try:
        await asyncio.wait({check, timer}, return_when=asyncio.FIRST_COMPLETED)
        if not check.done():
            late = f"{name} took longer than {CHECK_SECONDS:.0f} seconds."
            return CheckOutcome(name, passed=False, detail=late)
        problem = check.result()
    except Exception as error:  # noqa: BLE001  # REASON: a crash of a check blocks the call
        crashed = f"{name} could not be checked ({type(error).__name__})."
        return CheckOutcome(name, passed=False, detail=crashed)
    finally:
        await _end_tasks(check, timer)
    return CheckOutcome(
        name, passed=not problem, detail=problem or _explain_pass(name, facts, context)
    )


def _begin_check(name: str, facts: CallFacts, context: CheckContext) -> Awaitable[str] | None:
    if name in WAITING_CHECKS:
        return WAITING_CHECKS[name](facts, context)
    if name in BLOCKING_CHECKS:
        return call_in_thread(partial(BLOCKING_CHECKS[name], facts, context))
    return None


def _explain_pass(name: str, facts: CallFacts, context: CheckContext) -> str:
    """Return the text for the person about a check that passed."""
    if name == "sandbox" and "executes_process" in facts.effects:
        return context.confinement.explanation
    return ""


async def _end_tasks(*tasks: asyncio.Future[str] | asyncio.Future[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
