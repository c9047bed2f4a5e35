"""Knows programs and flags that destroy a machine or its data, and finds them in a parsed command line.

It judges words, so it must never be the only thing between a command and the disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from adh.rules.facts import CommandUse

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
