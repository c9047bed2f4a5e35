"""`holdfast submit AGENT MESSAGE --journal ADDRESS`: queues a turn, which a worker drives.

It needs neither the agent nor its keys: the name is enough. The same `--request` queues one turn,
however often it is submitted.
"""

from __future__ import annotations

import argparse
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.options import add_inbox, name_options, name_user, to_address
from holdfast.cli.run_printer import make_printable, shorten
from holdfast.cli.times import parse_duration
from holdfast.core.errors import ConfigurationError
from holdfast.journal.inbox.entries import EntryState, InboxEntry
from holdfast.journal.journal_names import DEFAULT_TENANT

if TYPE_CHECKING:
    from holdfast.journal.port import Journal
    from holdfast.runtime.queued_runs.queued_run import QueuedRun

_WAITS = 3
_OPTIONS = {
    "journal": "--journal",
    "not_before": "--not-before",
    "priority": "--priority",
    "request": "--request",
    "session": "--session",
    "tenant": "--tenant",
    "agent": "AGENT",
}


def add_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the arguments for the turn and its place in the queue."""
    sub.add_argument(
        "agent",
        metavar="AGENT",
        help="the name of the agent, or its TOML file or module:agent, as a worker is given it",
    )
    sub.add_argument("message", metavar="MESSAGE", help="the message; - reads standard input")
    add_inbox(sub)
    sub.add_argument("--session", metavar="NAME", help="the session; default: a new one")
    about = "idempotency key: the same key and message are one turn; default: a new key"
    sub.add_argument("--request", metavar="KEY", help=about)
    about = "the tenant of the turn; default: the one without a name"
    sub.add_argument("--tenant", default=DEFAULT_TENANT, metavar="NAME", help=about)
    about = "a turn with a greater number begins first among those of its tenant; default: 0"
    sub.add_argument("--priority", type=int, default=0, metavar="N", help=about)
    about = "do not begin before this time: a duration such as 10m, or 2027-01-31T09:00+01:00"
    sub.add_argument("--not-before", metavar="TIME", help=about)
    about = "wait for the end and print the answer; without SECONDS for as long as it takes"
    sub.add_argument(
        "--wait", nargs="?", type=float, const=0.0, default=None, metavar="SECONDS", help=about
    )


def main(args: argparse.Namespace) -> int:
    """Queue the turn; return 1 if it failed, 3 if it waits for an answer."""
    import asyncio

    from holdfast.journal.url import open_journal

    not_before = parse_time("--not-before", args.not_before) if args.not_before else 0.0
    agent, message = _find_name(args.agent), _read_message(args.message)
    with name_options(_OPTIONS):
        journal = open_journal(to_address(args.journal)).for_tenant(args.tenant)
        return asyncio.run(_submit(journal, agent, message, not_before, args))


async def _submit(
    journal: Journal, agent: str, message: str, not_before: float, args: argparse.Namespace
) -> int:
    from holdfast.core.turn_options import TurnOptions
    from holdfast.runtime.queued_runs.submit_turn import submit_named_turn
    from holdfast.runtime.turn_state.turn_input import TurnInput, to_message

    turn = TurnInput(
        message=to_message(message),
        session=args.session,
        request=args.request,
        options=TurnOptions(by=name_user()),
    )
    run = await submit_named_turn(
        agent, journal, turn, priority=args.priority, not_before=not_before
    )
    line = f"{run.id}  session {shorten(run.session)}  request {shorten(run.request)}"
    if args.wait is None:
        print(f"{line}  {(await run.read_state()).value}")
        return 0
    print(line, file=sys.stderr, flush=True)
    return await _wait(run, journal, args.wait or None)


async def _wait(run: QueuedRun[Any], journal: Journal, seconds: float | None) -> int:
    """Print the text of the turn once it rests; return the exit status."""
    try:
        entry = await run.wait_for_rest(seconds)
    except TimeoutError:
        entry = await run.read_entry()
        print(f"holdfast: the turn is {entry.state.value}; it goes on", file=sys.stderr)
        return 1
    text, status = await _read_turn(journal, run.session, entry.turn)
    if text:
        print(make_printable(text))
    if entry.state is EntryState.WAITING:
        session = shorten(run.session)
        print(f"holdfast: the turn of {session} waits for an answer", file=sys.stderr)
        return _WAITS
    if entry.state is EntryState.DONE and status == "completed":
        return 0
    print(f"holdfast: {_describe_end(entry, status)}", file=sys.stderr)
    return 1


def _describe_end(entry: InboxEntry, status: str) -> str:
    """Describe the end of a turn that is not good, and its reason."""
    why = make_printable(entry.error)
    if entry.state in (EntryState.PARKED, EntryState.DROPPED) or not why:
        state = status if entry.state is EntryState.DONE and status else entry.state.value
        return f"the turn is {state}" + (f": {why}" if why else "")
    return why


async def _read_turn(journal: Journal, session: str, turn: int) -> tuple[str, str]:
    """Return the text and the status of a turn; of one that has not begun, none."""
    from holdfast.event_log.text_fold import turn_of_key
    from holdfast.event_log.turn_fold import TurnFold

    events = [record.event for record in await journal.read(session)] if turn else []
    fold = TurnFold(event for event in events if turn_of_key(event.key) == turn)
    return fold.text, "" if fold.closed is None else fold.closed.status.value


def _find_name(agent: str) -> str:
    """Return the name of an agent that is given by its name, or by where it is."""
    if ":" not in agent and not agent.endswith((".toml", ".py")) and not Path(agent).is_file():
        return agent
    from holdfast.cli.serve_targets import load_targets
    from holdfast.hosting.bound_agents import plan_of

    names = [plan_of(found).name for found in load_targets([agent])]
    if len(names) != 1:
        raise ConfigurationError("AGENT", f"{agent!r} has several", fix=f"Name one: {names}")
    return names[0]


def _read_message(message: str) -> str:
    if message == "-":
        from holdfast.cli.input_lines import standard_input

        message = standard_input().buffer.read().decode(errors="replace")
    if not message.strip():
        raise ConfigurationError("MESSAGE", "is empty", fix="Pass a text")
    return message


def parse_time(option: str, text: str) -> float:
    """Return the time of a duration from now, or of a date and time, in seconds since the epoch.

    Raises:
        ConfigurationError: it is neither.

    >>> parse_time("--not-before", "2027-01-31T09:00+01:00")
    1801382400.0
    """
    try:
        return time.time() + parse_duration(option, text)
    except ConfigurationError:
        pass
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        fix = "Write a duration such as 10m, or a time such as 2027-01-31T09:00+01:00"
        raise ConfigurationError(option, "is not a time", fix=fix) from error
    if at.tzinfo is None:
        fix = f"Add Z or an offset: {text}Z"
        raise ConfigurationError(option, "has no time zone", fix=fix)
    return at.timestamp()
