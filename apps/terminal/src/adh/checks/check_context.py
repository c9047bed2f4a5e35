"""The context and the outcome of a check: places, limits, the ways to the outside, and a sentence about the call.

An outcome must never hold a value that the check found, such as a password.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence

from msgspec import Struct

from adh.checks.confinement import NOT_CONFINED, Confinement

CHECK_SECONDS = 5.0
"""Seconds that a check may take. A later one has failed."""
MOST_BYTES = 10 * 1024 * 1024
"""The largest file or content that `size_limit` lets pass, in bytes."""


async def resolve_host(host: str) -> Sequence[str]:
    """Return the addresses of a host. Raises OSError if it has none."""
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


class CheckContext(Struct, frozen=True, kw_only=True):
    """The context of one call's checks, beside its facts.

    Args:
        home: the person's home folder, absolute and resolved.
        own_folders: the folders of this program: its rules, its log, its copies.
        save_backup: copies a file into the backups; takes its absolute path. It raises if it cannot.
        must_type: the name that the person must type; empty if none is asked.
        typed: the name that the person typed.
        confinement: how commands are confined.
        preview: whether the call is only judged, so that a check must change nothing.
        private_hosts: hosts that a rule allows although they are private, each with or without a port.
        most_bytes: the largest file or content.
        resolve_host: returns the addresses of a host.
        wait: waits for this many seconds; a test passes its own clock.
    """

    home: str
    own_folders: tuple[str, ...] = ()
    save_backup: Callable[[str], object] | None = None
    must_type: str = ""
    typed: str = ""
    confinement: Confinement = NOT_CONFINED
    preview: bool = False
    private_hosts: tuple[str, ...] = ()
    most_bytes: int = MOST_BYTES
    resolve_host: Callable[[str], Awaitable[Sequence[str]]] = resolve_host
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep


class CheckOutcome(Struct, frozen=True):
    """The outcome of one check of one call.

    Args:
        name: the name of the check, such as "disk_space".
        passed: whether this check lets the call run.
        detail: the problem, or the work of the check; a sentence for the person and the model.

    >>> str(CheckOutcome("permission", passed=True))
    'permission: passed'
    """

    name: str
    passed: bool
    detail: str = ""

    def __str__(self) -> str:
        text = f"{self.name}: {'passed' if self.passed else 'failed'}"
        return f"{text} ({self.detail})" if self.detail else text


def explain_failures(outcomes: Iterable[CheckOutcome]) -> str:
    """Return the text for a person and a model about the checks that failed; empty if none did.

    >>> explain_failures([CheckOutcome("sandbox", passed=False, detail="/etc/passwd is protected.")])
    'Safety check(s) failed: sandbox. /etc/passwd is protected.'
    """
    failed = [outcome for outcome in outcomes if not outcome.passed]
    if not failed:
        return ""
    names = ", ".join(outcome.name for outcome in failed)
    details = " ".join(outcome.detail for outcome in failed if outcome.detail)
    return f"Safety check(s) failed: {names}. {details}".rstrip()
