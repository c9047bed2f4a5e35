"""`holdfast sessions WORD JOURNAL ...`: lists, changes and moves the conversations of a journal.

It deletes nothing without asking. Control characters in messages are printed as escapes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.options import name_user
from holdfast.cli.run_printer import make_printable, shorten, write_lines
from holdfast.cli.times import format_count, format_time
from holdfast.core.errors import ConfigurationError
from holdfast.journal.journal_names import DEFAULT_TENANT

if TYPE_CHECKING:
    from holdfast.cli.journal_command import Access
    from holdfast.journal.port import Journal
    from holdfast.sessions.session_history import Point
    from holdfast.sessions.sessions import Sessions

WORDS = {
    "list": "list the sessions, the latest change first",
    "show": "show the turns of a session with their numbers, and the messages of the next request",
    "search": "search for a text in all messages and titles",
    "cost": "add up what turns used and cost, by day, model or agent",
    "fork": "copy the turns up to a number to a new session",
    "rewind": "go back to a number: later turns no longer count, but stay in the journal",
    "rename": "change the title of a session",
    "delete": "delete a session permanently; asks first, unless --yes is given",
    "export": "write a session as lines of JSON",
    "import": "read an exported session as history, which does not continue; never replaces an existing one",
    "compact": "replace older turns by a summary; the original stays in the journal",
    "abandon": "give up the open turn of a session, of the queue or not; tools that had begun stay in doubt",
}

_EXAMPLES = {
    "list": "list talk.db --limit 20",
    "show": "show talk.db ada",
    "search": "search talk.db 'to London'",
    "cost": "cost talk.db --by model",
    "fork": "fork talk.db ada 1 --to ada-again",
    "rewind": "rewind talk.db ada 1",
    "rename": "rename talk.db ada 'Who is Ada?'",
    "delete": "delete talk.db ada",
    "export": "export talk.db ada -o ada.jsonl",
    "import": "import other.db ada.jsonl",
    "compact": "compact talk.db ada --keep 2 --drop",
    "abandon": "abandon talk.db ada",
}
_JOURNAL = "a SqliteJournal file, or sqlite:///... or postgresql://..."
_ACCESS: dict[str, Access] = {
    "list": "read",
    "show": "read",
    "search": "read",
    "cost": "read",
    "export": "read",
    "import": "create",
}
_PAGE = 100
_PATIENCE = 10.0  # seconds to wait for a worker that drives the turn and was asked to cancel it
_ROLES = {"user": "you", "assistant": "agent"}


def add_arguments(sub: argparse.ArgumentParser) -> None:
    """Add a parser for each action."""
    words = sub.add_subparsers(dest="word", required=True, metavar="WORD")
    for word, about in WORDS.items():
        example = f"example: holdfast sessions {_EXAMPLES[word]}"
        parser = words.add_parser(word, help=about, description=about, epilog=example)
        parser.add_argument("journal", help=_JOURNAL)
        about_tenant = "the tenant of the sessions; default: the one without a name"
        parser.add_argument("--tenant", default=DEFAULT_TENANT, help=about_tenant)
        _ADD[word](parser)


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--limit", type=_parse_positive, default=50, help="maximum number of sessions; default: 50"
    )
    parser.add_argument(
        "--before", metavar="SESSION", help="only sessions that changed before this one"
    )


def _add_session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", help="the id of the session; `list` shows it")


def _add_search(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", help="the text; upper and lower case are equal")
    parser.add_argument(
        "--limit", type=_parse_positive, default=20, help="maximum number of results; default: 20"
    )


def _add_cost(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--by",
        choices=("day", "model", "agent"),
        default="day",
        help="the unit; default: day (UTC)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON on one line")


def _add_fork(parser: argparse.ArgumentParser) -> None:
    _add_session(parser)
    parser.add_argument(
        "at", type=int, nargs="?", help="number of the last copied turn; default: the latest"
    )
    parser.add_argument(
        "--to", metavar="SESSION", help="id of the new session; default: a random one"
    )


def _add_rewind(parser: argparse.ArgumentParser) -> None:
    _add_session(parser)
    parser.add_argument("to", type=int, help="the number to go back to; 0 for the beginning")


def _add_rename(parser: argparse.ArgumentParser) -> None:
    _add_session(parser)
    parser.add_argument("title", help="the title; the id does not change")


def _add_delete(parser: argparse.ArgumentParser) -> None:
    _add_session(parser)
    parser.add_argument("--yes", action="store_true", help="delete without asking")


def _add_export(parser: argparse.ArgumentParser) -> None:
    _add_session(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="a new file; default: standard output"
    )


def _add_import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="a file of `export`; - reads standard input")
    parser.add_argument("--to", metavar="SESSION", help="id of the session; default: as exported")
    parser.add_argument(
        "--open-turns",
        action="store_true",
        help="leave open turns open, to be resumed with their answers; only for your own journal",
    )


def _add_compact(parser: argparse.ArgumentParser) -> None:
    _add_session(parser)
    parser.add_argument("--keep", type=int, default=4, help="number of turns that stay; default: 4")
    summary = parser.add_mutually_exclusive_group(required=True)
    summary.add_argument("--summary", help="the text that replaces the older turns")
    summary.add_argument("--drop", action="store_true", help="remove the older turns, no summary")


_ADD: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "list": _add_list,
    "show": _add_session,
    "search": _add_search,
    "cost": _add_cost,
    "fork": _add_fork,
    "rewind": _add_rewind,
    "rename": _add_rename,
    "delete": _add_delete,
    "export": _add_export,
    "import": _add_import,
    "compact": _add_compact,
    "abandon": _add_session,
}


def _parse_positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("must be a whole number, and at least 1")
    return int(text)


def main(args: argparse.Namespace) -> int:
    """Run the action; return 1 if there was nothing to do or the user declined."""
    import asyncio

    from holdfast.cli.journal_command import open_journal_at

    if args.word == "import":
        args.lines = _read_lines(args.file)  # first: a wrong name must not create a journal
    if args.word == "abandon":
        with open_journal_at(args.journal, "change") as journal:
            return asyncio.run(_abandon_turn(journal.for_tenant(args.tenant), args.session))
    if args.word == "cost":
        with open_journal_at(args.journal, "read") as journal:
            return asyncio.run(_add_up_costs(journal.for_tenant(args.tenant), args))
    with _open_sessions(args) as sessions:
        return asyncio.run(_DO[args.word](sessions, args))


@contextmanager
def _open_sessions(args: argparse.Namespace) -> Iterator[Sessions]:
    from holdfast.cli.journal_command import open_journal_at
    from holdfast.sessions.sessions import Sessions

    with open_journal_at(args.journal, _ACCESS.get(args.word, "change")) as journal:
        yield Sessions(journal.for_tenant(args.tenant))


async def _list_sessions(sessions: Sessions, args: argparse.Namespace) -> int:
    before = await sessions.info(args.before) if args.before else None
    for info in await sessions.list(limit=args.limit, before=before):
        counts = (
            f"{format_count(info.turns, 'turn'):>10}  {format_count(info.messages, 'message'):>14}"
        )
        print(
            f"{format_time(info.changed_at)}  {info.status:7}  {counts}  {shorten(info.session, 40)}"
            f"  {shorten(info.title, 60)}"
        )
    return 0


async def _show_session(sessions: Sessions, args: argparse.Namespace) -> int:
    history = await sessions.read(args.session)
    for point in history.points:
        print(f"{point.number:4}  {format_time(point.at)}  {_describe_point(point)}")
    print()
    for message in history.as_run:
        for part in message.calls:
            print(f"[calls {shorten(part.name, 30)} with {shorten(part.arguments, 60)}]")
        if message.role == "tool":
            print(f"[{format_count(len(message.parts), 'result')}]")
        elif message.text:
            print(f"{_ROLES.get(message.role, message.role)}: {make_printable(message.text)}")
    return 0


def _describe_point(point: Point) -> str:
    if point.kind == "rewind":
        return f"went back to {point.to}"
    if point.kind == "compaction":
        return f"compacted: {shorten(point.text, 60)}" if point.text else "removed older turns"
    gone = "" if point.counts else " (rewound)"
    return f"{point.status}{gone}: {shorten(point.text, 60)}"


async def _search_text(sessions: Sessions, args: argparse.Namespace) -> int:
    found = await sessions.search(args.text, limit=args.limit)
    for hit in found:
        print(
            f"{format_time(hit.at)}  {shorten(hit.session, 40)}  {shorten(hit.key, 20)}  {hit.role}:"
            f" {shorten(hit.text, 120)}"
        )
    if not found:
        print("the text was not found", file=sys.stderr)
    return 0 if found else 1


async def _add_up_costs(journal: Journal, args: argparse.Namespace) -> int:
    """Print the totals of all sessions. A cost that is not known has the known part beside it."""
    from holdfast.event_log.turn_fold import SpendingTotals
    from holdfast.sessions.sessions import Sessions

    sessions, totals, before = Sessions(journal), SpendingTotals(args.by), None
    while page := await sessions.list(limit=_PAGE, before=before):
        for before in page:
            records = await journal.read(before.session)
            totals.add_session(before.session, (record.event for record in records))
    found = totals.list_totals()
    if args.json:
        from holdfast.journal.encoding import escape_json, to_json

        rows = [{**one._asdict(), "known": bool(one.cost and one.cost.known)} for one in found]
        write_lines(iter([escape_json(to_json({"by": args.by, "totals": rows}))]))
        return 0
    for one in found:
        cost = "no prices" if one.cost is None else str(one.cost)
        print(
            f"{shorten(one.name or '(agents in tools)', 40):40}  {format_count(one.turns, 'turn'):>10}"
            f"  {one.usage.input:>12,} in  {one.usage.output:>10,} out  {cost}"
        )
    return 0


async def _fork_session(sessions: Sessions, args: argparse.Namespace) -> int:
    print(make_printable(await sessions.fork(args.session, args.at, to=args.to)))
    return 0


async def _rewind_session(sessions: Sessions, args: argparse.Namespace) -> int:
    number = await sessions.rewind(args.session, args.to)
    print(f"rewound to {args.to}; `rewind` to {number - 1} undoes this")
    return 0


async def _rename_session(sessions: Sessions, args: argparse.Namespace) -> int:
    await sessions.info(args.session)  # raises if it is unknown; a title would create a session
    await sessions.rename(args.session, args.title)
    return 0


async def _delete_session(sessions: Sessions, args: argparse.Namespace) -> int:
    from holdfast.cli.input_lines import LineReader, standard_input

    info = await sessions.info(args.session)
    if not args.yes:
        about = f"{shorten(info.session, 40)} ({shorten(info.title, 60)}, {format_count(info.turns, 'turn')})"
        print(f"Delete {about} permanently? Type yes: ", end="", file=sys.stderr, flush=True)
        answer = await LineReader(standard_input().fileno()).read_line()
        if answer is None or answer.strip().lower() != "yes":
            print("Nothing was deleted.", file=sys.stderr)
            return 1
    print(f"{await sessions.delete(args.session)} records deleted")
    return 0


async def _export_session(sessions: Sessions, args: argparse.Namespace) -> int:
    lines = [line async for line in sessions.export(args.session)]
    if args.output is None:
        write_lines(lines)
        return 0
    _write_new(Path(args.output), "".join(f"{line}\n" for line in lines))
    return 0


def _write_new(file: Path, text: str) -> None:
    try:
        out = file.open("x", encoding="utf-8", newline="")
    except FileExistsError:
        raise ConfigurationError(
            "output", f"{file} already exists", fix="Name a new file"
        ) from None
    try:
        with out:
            out.write(text)
    except BaseException:
        file.unlink(missing_ok=True)  # a partial file would make the next attempt fail
        raise


async def _import_session(sessions: Sessions, args: argparse.Namespace) -> int:
    name = "standard input" if args.file == "-" else args.file
    session = await sessions.import_(
        args.lines, session=args.to, name=name, open_turns=args.open_turns
    )
    print(make_printable(session))
    return 0


def _read_lines(file: str) -> list[str]:
    from holdfast.cli.input_lines import standard_input

    data = standard_input().buffer.read() if file == "-" else Path(file).read_bytes()
    # Invalid UTF-8 becomes text with a wrong checksum, so that the import error names the line.
    return data.decode("utf-8", "surrogateescape").split("\n")


async def _compact_session(sessions: Sessions, args: argparse.Namespace) -> int:
    number = await sessions.compact(
        args.session, keep=args.keep, summary="" if args.drop else args.summary
    )
    if number is None:
        print("there is nothing to compact", file=sys.stderr)
        return 1
    print(f"compacted; `rewind` to {number - 1} undoes this")
    return 0


async def _abandon_turn(journal: Journal, session: str) -> int:
    """Close the open turn of a session; return 1 if it has none."""
    from holdfast.agent import Agent
    from holdfast.hosting.bound_agents import close_open_turn
    from holdfast.hosting.turn_queue import cancel_in_queue
    from holdfast.sessions.session_index import to_index
    from holdfast.testing import ScriptedModel

    found = await to_index(journal).find_runs(session, session)
    if not found:
        raise ConfigurationError("session", f"there is no session {session!r}", fix="See `list`")
    if not found[0].turn_open:
        print("the session has no open turn", file=sys.stderr)
        return 1
    await cancel_in_queue(journal, session, name_user())
    # The name is that of nobody: the turn is closed without its agent, and no model is called.
    agent = Agent(ScriptedModel(), name="abandon", journal=journal)
    await close_open_turn(agent, session, name_user(), max_wait=_PATIENCE)
    print("the turn was abandoned")
    return 0


_DO: dict[str, Callable[[Sessions, argparse.Namespace], Coroutine[object, object, int]]] = {
    "list": _list_sessions,
    "show": _show_session,
    "search": _search_text,
    "fork": _fork_session,
    "rewind": _rewind_session,
    "rename": _rename_session,
    "delete": _delete_session,
    "export": _export_session,
    "import": _import_session,
    "compact": _compact_session,
}
