"""`holdfast schedules WORD --journal ADDRESS`: turns that workers submit at certain times.

It works while services and workers run. A schedule belongs to a tenant; its name is unique there.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING

from holdfast.cli.options import add_inbox, name_options, name_user, require_journal, to_address
from holdfast.cli.queue_words import show_tenant
from holdfast.cli.run_printer import shorten
from holdfast.cli.times import format_duration, format_time, parse_duration
from holdfast.core.errors import ConfigurationError
from holdfast.journal.journal_names import DEFAULT_TENANT

if TYPE_CHECKING:
    from holdfast.journal.inbox.schedules.schedule_store import ScheduleEntry, Schedules

WORDS = {
    "list": "list the schedules with their next times",
    "add": "make a schedule, or replace the one with its name",
    "pause": "submit no turns for a while",
    "resume": "submit turns from now on; those of the pause are not made up for",
    "run": "submit a turn at once, also of a schedule that is paused",
    "history": "show what became of the latest ticks",
    "delete": "delete a schedule and its history; turns that were submitted stay",
}
_EXAMPLES = {
    "list": "list --journal postgresql:///runs",
    "add": "add report writer 'Write the report.' --cron '0 9 * * MON-FRI' --zone Europe/Berlin "
    "--journal postgresql:///runs",
    "pause": "pause report --journal postgresql:///runs",
    "resume": "resume report --journal postgresql:///runs",
    "run": "run report --journal postgresql:///runs",
    "history": "history report --journal postgresql:///runs",
    "delete": "delete report --journal postgresql:///runs",
}
_OPTIONS = {
    "catch_up": "--catch-up",
    "cron": "--cron",
    "every": "--every",
    "jitter": "--jitter",
    "journal": "--journal",
    "name": "NAME",
    "overlap": "--overlap",
    "zone": "--zone",
}


def add_arguments(sub: argparse.ArgumentParser) -> None:
    """Add a parser for each action."""
    words = sub.add_subparsers(dest="word", required=True, metavar="WORD")
    for word, about in WORDS.items():
        example = f"example: holdfast schedules {_EXAMPLES[word]}"
        parser = words.add_parser(word, help=about, description=about, epilog=example)
        add_inbox(parser)
        whose = "of this tenant; default: all" if word == "list" else "the tenant of the schedule"
        default = None if word == "list" else DEFAULT_TENANT
        parser.add_argument("--tenant", default=default, metavar="NAME", help=whose)
        if word != "list":
            parser.add_argument("name", metavar="NAME", help="letters, digits, `_`, `-` and `.`")
        if word == "add":
            _add_schedule(parser)


def _add_schedule(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agent", metavar="AGENT", help="the name of the agent")
    parser.add_argument("message", metavar="MESSAGE", help="the message of each turn")
    about = 'when: minute, hour, day, month, day of the week, such as "0 9 * * MON-FRI"'
    parser.add_argument("--cron", default="", metavar="CRON", help=about)
    about = "or how often, such as 15m or 6h"
    parser.add_argument("--every", metavar="TIME", help=about)
    about = "the time zone of --cron, such as Europe/Berlin; default: UTC"
    parser.add_argument("--zone", default="UTC", metavar="ZONE", help=about)
    about = "begin up to so much later, such as 5m, differently for each tick"
    parser.add_argument("--jitter", metavar="TIME", help=about)
    about = "what a tick does while an earlier turn has not ended; default: skip"
    parser.add_argument("--overlap", default="skip", choices=("skip", "queue"), help=about)
    about = "which ticks that were missed are made up for; default: last"
    parser.add_argument("--catch-up", default="last", choices=("none", "last", "all"), help=about)
    about = "the session of all turns; default: a new one for each"
    parser.add_argument("--session", default="", metavar="NAME", help=about)
    parser.add_argument("--priority", type=int, default=0, metavar="N", help="as for `submit`")


def main(args: argparse.Namespace) -> int:
    """Run the action."""
    import asyncio

    from holdfast.journal.inbox.opening_inbox import open_schedules
    from holdfast.journal.url import open_journal

    with name_options(_OPTIONS):
        address = to_address(args.journal) if args.word == "add" else require_journal(args.journal)
        journal = open_journal(address)  # it is closed when nobody refers to it
        return asyncio.run(_DO[args.word](open_schedules(journal), args))


async def _list(schedules: Schedules, args: argparse.Namespace) -> int:
    for entry in await schedules.list_schedules(args.tenant):
        print(describe_schedule(entry))
    return 0


async def _add(schedules: Schedules, args: argparse.Namespace) -> int:
    from holdfast.journal.inbox.schedules.schedule import CatchUp, Overlap, Schedule
    from holdfast.runtime.queued_runs.queued_turn import encode_message_turn

    made_by = name_user()
    schedule = Schedule(
        name=args.name,
        tenant=args.tenant,
        agent=args.agent,
        body=encode_message_turn(args.message, by=made_by),
        session=args.session,
        cron=args.cron,
        every=int(parse_duration("--every", args.every)) if args.every else 0,
        zone=args.zone,
        jitter=int(parse_duration("--jitter", args.jitter)) if args.jitter else 0,
        overlap=Overlap(args.overlap),
        catch_up=CatchUp(args.catch_up),
        priority=args.priority,
        made_by=made_by,
    )
    print(describe_schedule(await schedules.put(schedule)))
    return 0


async def _pause(schedules: Schedules, args: argparse.Namespace) -> int:
    await schedules.pause(args.tenant, args.name)
    return await _show_schedule(schedules, args)


async def _resume(schedules: Schedules, args: argparse.Namespace) -> int:
    await schedules.resume(args.tenant, args.name)
    return await _show_schedule(schedules, args)


async def _show_schedule(schedules: Schedules, args: argparse.Namespace) -> int:
    print(describe_schedule(await _find_schedule(schedules, args)))
    return 0


async def _run(schedules: Schedules, args: argparse.Namespace) -> int:
    await _find_schedule(schedules, args)
    entry = await schedules.trigger(args.tenant, args.name)
    if entry is None:
        raise _unknown_schedule(args.name)
    print(f"{entry.id}  session {shorten(entry.session)}  {entry.state.value}")
    return 0


async def _history(schedules: Schedules, args: argparse.Namespace) -> int:
    await _find_schedule(schedules, args)
    for one in await schedules.read_history(args.tenant, args.name):
        missed = f" {one.missed}" if one.missed else ""
        turn = f"  entry {one.entry} is {one.state or 'gone'}" if one.entry else ""
        turn += f": {shorten(one.error, 200)}" if one.error else ""
        print(f"{format_time(one.tick)}  {one.outcome.value}{missed}{turn}")
    return 0


async def _delete(schedules: Schedules, args: argparse.Namespace) -> int:
    if not await schedules.delete(args.tenant, args.name):
        raise _unknown_schedule(args.name)
    print(f"{args.name} is deleted")
    return 0


async def _find_schedule(schedules: Schedules, args: argparse.Namespace) -> ScheduleEntry:
    found = await schedules.find(args.tenant, args.name)
    if found is None:
        raise _unknown_schedule(args.name)
    return found


def _unknown_schedule(name: str) -> ConfigurationError:
    problem = f"there is no schedule {shorten(repr(name), 80)}"
    return ConfigurationError("NAME", problem, fix="`holdfast schedules list` shows them")


def describe_schedule(entry: ScheduleEntry) -> str:
    """Describe a schedule in a line."""
    one = entry.schedule
    times = (
        f"{shorten(one.cron, 60)} {one.zone}" if one.cron else f"every {format_duration(one.every)}"
    )
    if entry.is_paused:
        state = "paused"
    elif entry.next_tick is None:
        state = "over"
    else:
        state = f"next {format_time(entry.next_tick)}"
    return f"{show_tenant(one.tenant)}{one.name}  agent {shorten(one.agent, 40)}  {times}  {state}"


_DO: dict[str, Callable[[Schedules, argparse.Namespace], Coroutine[object, object, int]]] = {
    "list": _list,
    "add": _add,
    "pause": _pause,
    "resume": _resume,
    "run": _run,
    "history": _history,
    "delete": _delete,
}
