"""`holdfast sessions WORD JOURNAL ...`: the conversations of a journal, listed, changed and moved.

It must never print a control character that somebody said, and never destroy anything unasked.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.input_lines import LineReader, standard_input
from holdfast.cli.journal_command import open_journal_at
from holdfast.cli.run_printer import make_printable, shorten, write_lines
from holdfast.cli.times import format_time
from holdfast.core.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast.sessions.session_history import Point
    from holdfast.sessions.sessions import Sessions

WORDS = {
    "list": "the sessions, the one that changed last first",
    "show": "the turns of a session with their numbers, and what would be sent next",
    "search": "where something was said",
    "fork": "make another session of the turns up to a number",
    "rewind": "go back to a number: the turns after it no longer count, and nothing is destroyed",
    "rename": "give a session another title",
    "delete": "forget a session for good; asks first, unless --yes",
    "export": "write a session as lines of JSON",
    "import": "take in a session that was exported; never over another one",
    "compact": "let a summary stand for the older turns; the original stays in the journal",
}

_JOURNAL = (
    "a file of SqliteJournal, which no process may have open, or sqlite:///... or postgresql://..."
)
_ROLES = {"user": "you", "assistant": "agent"}


def add_arguments(sub: argparse.ArgumentParser) -> None:
    """One parser for each word."""
    words = sub.add_subparsers(dest="word", required=True, metavar="WORD")
    for word, about in WORDS.items():
        one = words.add_parser(word, help=about, description=about)
        one.add_argument("journal", help=_JOURNAL)
        _ADD[word](one)


def _add_list(one: argparse.ArgumentParser) -> None:
    one.add_argument(
        "--limit", type=_parse_positive, default=50, help="the most of them (default: 50)"
    )
    one.add_argument("--before", metavar="SESSION", help="those that changed before this one")


def _add_session(one: argparse.ArgumentParser) -> None:
    one.add_argument("session", help="the id of the session; `list` shows it")


def _add_search(one: argparse.ArgumentParser) -> None:
    one.add_argument("text", help="what was said, in any case")
    one.add_argument(
        "--limit", type=_parse_positive, default=20, help="the most places (default: 20)"
    )


def _add_fork(one: argparse.ArgumentParser) -> None:
    _add_session(one)
    one.add_argument("at", type=int, nargs="?", help="its last number (default: the latest)")
    one.add_argument("--to", metavar="SESSION", help="the id of the new session (default: any)")


def _add_rewind(one: argparse.ArgumentParser) -> None:
    _add_session(one)
    one.add_argument("to", type=int, help="the number to go back to; 0 for the beginning")


def _add_rename(one: argparse.ArgumentParser) -> None:
    _add_session(one)
    one.add_argument("title", help="for people; the id stays as it is")


def _add_delete(one: argparse.ArgumentParser) -> None:
    _add_session(one)
    one.add_argument("--yes", action="store_true", help="do not ask")


def _add_export(one: argparse.ArgumentParser) -> None:
    _add_session(one)
    one.add_argument("-o", "--output", metavar="FILE", help="a new file (default: print)")


def _add_import(one: argparse.ArgumentParser) -> None:
    one.add_argument("file", help="what `export` wrote; - for the standard input")
    one.add_argument("--to", metavar="SESSION", help="another id than the exported one")


def _add_compact(one: argparse.ArgumentParser) -> None:
    _add_session(one)
    one.add_argument("--keep", type=int, default=4, help="how many turns stay (default: 4)")
    what = one.add_mutually_exclusive_group(required=True)
    what.add_argument("--summary", help="the text that stands for the older turns")
    what.add_argument("--drop", action="store_true", help="leave the older turns out")


_ADD: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "list": _add_list,
    "show": _add_session,
    "search": _add_search,
    "fork": _add_fork,
    "rewind": _add_rewind,
    "rename": _add_rename,
    "delete": _add_delete,
    "export": _add_export,
    "import": _add_import,
    "compact": _add_compact,
}


def _parse_positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("must be a whole number, and at least 1")
    return int(text)


def main(given: argparse.Namespace) -> int:
    """Do it; 1 when nothing was found, or when somebody said no."""
    if given.word == "import":
        given.lines = _read_lines(given.file)  # first, or a wrong name would leave an empty journal
    with _open_sessions(given) as kept:
        return asyncio.run(_DO[given.word](kept, given))


@contextmanager
def _open_sessions(given: argparse.Namespace) -> Iterator[Sessions]:
    from holdfast.sessions.sessions import Sessions

    with open_journal_at(given.journal, create=given.word == "import") as journal:
        yield Sessions(journal)


async def _list_sessions(sessions: Sessions, given: argparse.Namespace) -> int:
    before = await sessions.info(given.before) if given.before else None
    for info in await sessions.list(limit=given.limit, before=before):
        counts = f"{info.turns:4} turns  {info.messages:5} messages"
        print(
            f"{format_time(info.changed_at)}  {info.status:7}  {counts}  {shorten(info.session, 40)}"
            f"  {shorten(info.title, 60)}"
        )
    return 0


async def _show_session(sessions: Sessions, given: argparse.Namespace) -> int:
    history = await sessions.read(given.session)
    for point in history.points:
        print(f"{point.number:4}  {format_time(point.at)}  {_describe_point(point)}")
    print()
    for message in history.messages:
        for part in message.calls:
            print(f"[calls {shorten(part.name, 30)} with {shorten(part.arguments, 60)}]")
        if message.role == "tool":
            print(f"[{len(message.parts)} results]")
        elif message.text:
            print(f"{_ROLES.get(message.role, message.role)}: {make_printable(message.text)}")
    return 0


def _describe_point(point: Point) -> str:
    if point.kind == "rewind":
        return f"went back to {point.to}"
    if point.kind == "compaction":
        return f"summed up: {shorten(point.text, 60)}" if point.text else "left older turns out"
    gone = "" if point.counts else " (rewound)"
    return f"{point.status}{gone}: {shorten(point.text, 60)}"


async def _search_text(sessions: Sessions, given: argparse.Namespace) -> int:
    found = await sessions.search(given.text, limit=given.limit)
    for one in found:
        print(
            f"{format_time(one.at)}  {shorten(one.session, 40)}  {shorten(one.key, 20)}  {one.role}:"
            f" {shorten(one.text, 120)}"
        )
    if not found:
        print("nobody said that", file=sys.stderr)
    return 0 if found else 1


async def _fork_session(sessions: Sessions, given: argparse.Namespace) -> int:
    print(make_printable(await sessions.fork(given.session, given.at, to=given.to)))
    return 0


async def _rewind_session(sessions: Sessions, given: argparse.Namespace) -> int:
    number = await sessions.rewind(given.session, given.to)
    print(f"back at {given.to}; `rewind` to {number - 1} takes it back")
    return 0


async def _rename_session(sessions: Sessions, given: argparse.Namespace) -> int:
    await sessions.info(given.session)  # a title of nobody would make a session
    await sessions.rename(given.session, given.title)
    return 0


async def _delete_session(sessions: Sessions, given: argparse.Namespace) -> int:
    info = await sessions.info(given.session)
    if not given.yes:
        about = f"{shorten(info.session, 40)} ({shorten(info.title, 60)}, {info.turns} turns)"
        print(f"Forget {about} for good? Type yes: ", end="", file=sys.stderr, flush=True)
        answer = await LineReader(standard_input().fileno()).read_line()
        if answer is None or answer.strip().lower() != "yes":
            print("Nothing was deleted.", file=sys.stderr)
            return 1
    print(f"{await sessions.delete(given.session)} records deleted")
    return 0


async def _export_session(sessions: Sessions, given: argparse.Namespace) -> int:
    lines = [line async for line in sessions.export(given.session)]
    if given.output is None:
        write_lines(lines)
        return 0
    _write_new(Path(given.output), "".join(f"{line}\n" for line in lines))
    return 0


def _write_new(file: Path, text: str) -> None:
    try:
        out = file.open("x", encoding="utf-8", newline="")
    except FileExistsError:
        raise ConfigurationError(
            "output", f"{file} is there already", fix="Name a new file"
        ) from None
    try:
        with out:
            out.write(text)
    except BaseException:
        file.unlink(missing_ok=True)  # half of it would only stand in the way of the next try
        raise


async def _import_session(sessions: Sessions, given: argparse.Namespace) -> int:
    name = "standard input" if given.file == "-" else given.file
    print(make_printable(await sessions.import_(given.lines, session=given.to, name=name)))
    return 0


def _read_lines(file: str) -> list[str]:
    data = standard_input().buffer.read() if file == "-" else Path(file).read_bytes()
    # What is no UTF-8 becomes text that fits no sum, so that its line is named.
    return data.decode("utf-8", "surrogateescape").split("\n")


async def _compact_session(sessions: Sessions, given: argparse.Namespace) -> int:
    number = await sessions.compact(
        given.session, keep=given.keep, summary="" if given.drop else given.summary
    )
    if number is None:
        print("there is nothing to take away", file=sys.stderr)
        return 1
    print(f"compacted; `rewind` to {number - 1} takes it back")
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
