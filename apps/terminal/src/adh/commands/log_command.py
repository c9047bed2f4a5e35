"""`adh log`: the audit log, filtered.

It must never change the log, and prints its entries, which were redacted before they were written.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from adh.storage.audit_log import AuditEntry, AuditFilter, AuditLog
from adh.storage.places import find_places
from holdfast.middleware import escape_invisible

_LONGEST_PARAMETERS = 100


def main(args: argparse.Namespace) -> int:
    """Print the lines that are wanted, oldest first; return the exit status.

    Args:
        args: the words of the command.

    Raises:
        StorageError: the log cannot be read.
    """
    log = AuditLog(find_places(os.environ, Path.cwd()).audit_file)
    damaged: list[int] = []
    entries = log.read(
        AuditFilter(session=args.session or "", decision=args.decision or ""), damaged.append
    )
    wanted: Iterable[AuditEntry] = select_tool(entries, args.tool)
    if args.last is not None:
        wanted = deque(wanted, maxlen=args.last)
    for entry in wanted:
        is_json = args.output == "json"
        print(msgspec.json.encode(entry).decode() if is_json else format_entry(entry))
    if damaged:
        numbers = ", ".join(map(str, damaged[:10]))
        count = f"{len(damaged)} line" + ("s" if len(damaged) > 1 else "")
        print(f"adh: {count} of the log cannot be read: {numbers}", file=sys.stderr)
    return 0


def select_tool(entries: Iterable[AuditEntry], pattern: str | None) -> Iterator[AuditEntry]:
    """Yield the entries of tools whose name matches a pattern, in any case; None means all.

    Args:
        entries: lines of the log.
        pattern: a name in which `*` stands for anything.
    """
    wanted = (pattern or "*").lower()
    return (entry for entry in entries if fnmatchcase(entry.tool.lower(), wanted))


def format_entry(entry: AuditEntry) -> str:
    r"""Return one line for a person.

    Args:
        entry: a line of the log.

    >>> from datetime import datetime, UTC
    >>> at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    >>> format_entry(AuditEntry(at=at, event="decision", tool="read_file", decision="allowed"))[20:]
    'decision read_file allowed'
    """
    parts = [f"{entry.at.astimezone():%Y-%m-%d %H:%M:%S}", f"{entry.event}", entry.tool or "-"]
    parts.append(entry.decision + (f" by {entry.decided_by}" if entry.decided_by else ""))
    if entry.level:
        parts.append(f"({entry.level}, {entry.risk})")
    if entry.parameters:
        parts.append(_shorten(msgspec.json.encode(entry.parameters).decode()))
    if entry.rule:
        parts.append(f"rule {entry.rule}")
    if entry.seconds is not None:
        parts.append(f"{entry.seconds:.2f} s")
    if entry.reason:
        parts.append(f"because {entry.reason}")
    if entry.agent:
        parts.append(f"agent {entry.agent}")
    if entry.session:
        parts.append(f"session {entry.session}")
    return escape_invisible(" ".join(" ".join(part.split()) for part in parts if part))


def _shorten(text: str) -> str:
    if len(text) <= _LONGEST_PARAMETERS:
        return text
    return f"{text[:_LONGEST_PARAMETERS]}... ({len(text):,} characters)"
