"""`adh sessions`: lists, shows, exports, resumes and deletes the saved conversations.

It must never delete a conversation without a yes, nor one that is open or has not ended.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from adh.commands.chat_opening import resolve_id
from adh.commands.chat_start import read_chat_start
from adh.commands.exit_statuses import CommandError, ExitStatus
from adh.conversation.export import write_export, write_markdown
from adh.conversation.history import load_history
from adh.storage.changes import ChangeStore
from adh.storage.places import Places, find_places
from adh.transcript.fold import Transcript
from adh.workspace.session_files import SessionFiles, SessionRow
from holdfast.middleware import escape_invisible

_LONGEST_TITLE = 60


class SessionLine(Struct, frozen=True, kw_only=True):
    """A conversation as the list shows it.

    Args:
        id: its id.
        project: the folder that it began in.
        agent: its agent.
        title: its title or first message.
        turns: how many turns count.
        status: "closed", "open" (the last turn has not ended) or "waiting" (for an answer).
        changed_at: when it changed last, in seconds since the epoch.
        problem: why it cannot be read; empty if it can.
    """

    id: str
    project: str
    agent: str
    title: str = ""
    turns: int = 0
    status: str = ""
    changed_at: float = 0.0
    problem: str = ""


def main(args: argparse.Namespace) -> int:
    """Run the subcommand; return the exit status.

    Args:
        args: the words of the command.

    Raises:
        CommandError: there is no such conversation, or nobody said yes.
        SessionError: it is open elsewhere, or has not ended.
        StorageError: a file cannot be written.
    """
    places = find_places(os.environ, Path.cwd())
    files = SessionFiles(places.journals)
    if args.action == "list":
        return _list(files, "" if args.all else str(places.project), args.output)
    session = resolve_id(files, args.id)
    match args.action:
        case "show":
            print(escape_invisible(write_markdown(session, _read(files, session).blocks)), end="")
        case "export":
            _export(files, session, args.to or places.exports)
        case "resume":
            return _resume(args, session)
        case _:
            _delete(places, files, session, is_agreed=args.yes)
    return ExitStatus.DONE


def describe_row(row: SessionRow) -> SessionLine:
    """Return a conversation as the list shows it.

    Args:
        row: its row in the list.
    """
    info = row.info
    return SessionLine(
        id=row.id,
        project=row.facts.project,
        agent=row.facts.agent,
        title=info.title if info is not None else "",
        turns=info.turns if info is not None else 0,
        status=info.status if info is not None else "",
        changed_at=row.changed_at,
        problem=row.problem,
    )


def format_line(line: SessionLine, *, with_project: bool) -> str:
    """Return one line for a person.

    Args:
        line: the conversation.
        with_project: whether to name its folder.
    """
    when = f"{datetime.fromtimestamp(line.changed_at).astimezone():%Y-%m-%d %H:%M}"
    title = " ".join(line.title.split())
    shown = title if len(title) <= _LONGEST_TITLE else f"{title[: _LONGEST_TITLE - 1]}…"
    turns = "1 turn" if line.turns == 1 else f"{line.turns} turns"
    parts = [line.id, when, line.problem or f"{turns}, {line.status}", shown]
    return escape_invisible("  ".join([*parts, *([line.project] if with_project else [])]))


def _list(files: SessionFiles, project: str, output: str) -> int:
    rows = asyncio.run(files.list_rows(project=project))
    lines = [describe_row(row) for row in rows]
    if output == "json":
        print(msgspec.json.encode(lines).decode())
        return ExitStatus.DONE
    for line in lines:
        print(format_line(line, with_project=not project))
    if not lines:
        where = f" of {project}; --all lists those of every folder" if project else ""
        print(f"adh: there is no conversation{where}", file=sys.stderr)
    return ExitStatus.DONE


def _read(files: SessionFiles, session: str) -> Transcript:
    transcript = Transcript()

    async def load() -> None:
        with files.open_to_read(session) as journal:
            await load_history(journal, session, transcript)

    asyncio.run(load())
    return transcript


def _export(files: SessionFiles, session: str, folder: Path) -> None:
    transcript, facts = _read(files, session), files.read_facts(session)
    about = {
        "project": facts.project,
        "agent": facts.agent,
        "input_tokens": transcript.usage.input,
        "output_tokens": transcript.usage.output,
    }
    for path in write_export(folder.absolute(), session, list(transcript.blocks), about):
        print(escape_invisible(str(path)))


def _resume(args: argparse.Namespace, session: str) -> int:
    from adh.commands.screen_command import open_screen  # REASON: only this needs a screen

    start = read_chat_start(args, os.environ, Path.cwd())
    return open_screen(msgspec.structs.replace(start, session=session))


def _delete(places: Places, files: SessionFiles, session: str, *, is_agreed: bool) -> None:
    if not is_agreed:
        if not sys.stdin.isatty():
            raise CommandError(
                "nobody is there to say yes", fix=f"adh sessions delete --yes {session}"
            )
        line = asyncio.run(files.read_row(session))
        print(format_line(describe_row(line), with_project=True))
        if input("Delete it for good? [y/N] ").strip().lower() not in ("y", "yes"):
            raise CommandError("nothing was deleted")
    files.delete(session)
    ChangeStore(places.changes).delete_session(session)
    print(f"Deleted {session}")
