"""`holdfast queue WORD --journal ADDRESS`: the queue of a journal, and who drives it.

It works while services and workers run. Whoever can open the journal may do all of it, for every
tenant. Control characters in names and reasons are printed as escapes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated

from holdfast.cli.options import add_inbox, name_options, name_user, require_journal
from holdfast.cli.queue_words import (
    describe_depth,
    describe_entry,
    describe_limits,
    describe_worker,
    show_tenant,
)
from holdfast.cli.times import format_count
from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import between
from holdfast.core.errors import ConfigurationError
from holdfast.journal.inbox.entries import LETTERS, EntryState

if TYPE_CHECKING:
    from holdfast.journal.inbox.inbox import Inbox

WORDS = {
    "list": "list how many turns of each tenant are in which state, and the dead letters with reasons",
    "workers": "list the workers, and what each of them drives",
    "limits": "show or set how many turns run, wait and are submitted in a day",
    "pause": "begin no more turns; those in progress go on",
    "resume": "begin and accept turns again",
    "drain": "accept no more turns; those that are queued are done",
    "retry": "queue turns again that failed, are parked or were dropped",
    "drop": "take turns out that have not begun, that failed or are parked",
    "cancel": "cancel turns, wherever they are driven",
}
_EXAMPLES = {
    "list": "list --journal postgresql:///runs --tenant acme",
    "workers": "workers --journal postgresql:///runs",
    "limits": "limits tenant:acme --running 4 --queued 100 --journal postgresql:///runs",
    "pause": "pause agent:desk --journal postgresql:///runs",
    "resume": "resume agent:desk --journal postgresql:///runs",
    "drain": "drain all --wait --journal postgresql:///runs",
    "retry": "retry 17 18 --journal postgresql:///runs",
    "drop": "drop 17 --journal postgresql:///runs",
    "cancel": "cancel 17 --journal postgresql:///runs",
}
_LIMITS = {
    "running": "how many turns run at once",
    "queued": "how many turns may wait for their begin",
    "turns_per_day": "how many turns may be submitted in a day",
    "tokens_per_day": "how many tokens the turns of a day may use",
}
_SCOPE = '"all", "tenant" for each tenant without its own, "tenant:NAME" or "agent:NAME"'
_UNDER_WAY = (
    EntryState.BLOCKED,
    EntryState.READY,
    EntryState.ADMITTED,
    EntryState.POSTPONED,
)
_LEFT = (EntryState.SCHEDULED, EntryState.WAITING)
_SECONDS_BETWEEN_LOOKS = 0.5
_PAGE = 1000


def add_arguments(sub: argparse.ArgumentParser) -> None:
    """Add a parser for each action."""
    words = sub.add_subparsers(dest="word", required=True, metavar="WORD")
    for word, about in WORDS.items():
        example = f"example: holdfast queue {_EXAMPLES[word]}"
        parser = words.add_parser(word, help=about, description=about, epilog=example)
        add_inbox(parser)
        _ADD[word](parser)


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tenant", metavar="NAME", help="of this tenant only")
    states = [state.value for state in EntryState]
    about = "list the entries in this state instead; may be repeated"
    parser.add_argument("--state", action="append", default=[], choices=states, help=about)
    about = "list at most N entries, the latest first; default: 20"
    parser.add_argument("--limit", type=int, default=20, metavar="N", help=about)


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scope", nargs="?", metavar="SCOPE", help=_SCOPE)
    for name, about in _LIMITS.items():
        parser.add_argument(_name_option(name), metavar="N", help=f'{about}; "none" for no limit')


def _name_option(limit: str) -> str:
    return f"--{limit.replace('_', '-')}"


def _add_scope(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scope", nargs="?", default="all", metavar="SCOPE", help=_SCOPE)


def _add_drain(parser: argparse.ArgumentParser) -> None:
    _add_scope(parser)
    about = (
        "return once nothing is queued or running; what is scheduled or waits for an answer stays"
    )
    parser.add_argument("--wait", action="store_true", help=about)


def _add_numbers(parser: argparse.ArgumentParser) -> None:
    about = "the number of an entry; `list` shows it"
    parser.add_argument("numbers", nargs="+", type=int, metavar="NUMBER", help=about)


def _add_nothing(_parser: argparse.ArgumentParser) -> None:
    """`workers` has no arguments of its own."""


_ADD: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "list": _add_list,
    "workers": _add_nothing,
    "limits": _add_limits,
    "pause": _add_scope,
    "resume": _add_scope,
    "drain": _add_drain,
    "retry": _add_numbers,
    "drop": _add_numbers,
    "cancel": _add_numbers,
}


def main(args: argparse.Namespace) -> int:
    """Run the action; return 1 if something could not be done."""
    import asyncio

    from holdfast.journal.inbox.opening_inbox import open_inbox
    from holdfast.journal.url import open_journal

    limits = {name: _name_option(name) for name in _LIMITS}
    with name_options({"journal": "--journal", "scope": "SCOPE", **limits}):
        address = require_journal(args.journal)
        journal = open_journal(address)  # it is closed when nobody refers to it
        return asyncio.run(_DO[args.word](open_inbox(journal), args))


async def _list(inbox: Inbox, args: argparse.Namespace) -> int:
    check_value("--limit", args.limit, Annotated[int, between(1, _PAGE)])
    states = [EntryState(state) for state in args.state]
    if not states:
        for depth in await inbox.count_entries():
            if args.tenant in (None, depth.tenant):
                print(describe_depth(depth))
    wanted = states or sorted(LETTERS)
    entries = await inbox.list_entries(tenant=args.tenant, states=wanted, limit=args.limit)
    if entries and not states:
        print("dead letters:")
    for entry in entries:
        print(describe_entry(entry))
    return 0


async def _list_workers(inbox: Inbox, _args: argparse.Namespace) -> int:
    workers = await inbox.list_workers()
    driven = await _find_driven(inbox)
    for worker in workers:
        print(describe_worker(worker))
        for line in driven.get(worker.info.id, ()):
            print(f"  {line}")
    if not any(worker.is_alive for worker in workers):
        print("no worker is alive: nothing begins", file=sys.stderr)
    return 0


async def _find_driven(inbox: Inbox) -> dict[str, list[str]]:
    """Return the lines of the turns in progress, by their workers."""
    driven: dict[str, list[str]] = {}
    for entry in await inbox.list_entries(states=[EntryState.ADMITTED], limit=_PAGE):
        if entry.worker:
            driven.setdefault(entry.worker, []).append(describe_entry(entry))
    return driven


async def _limit(inbox: Inbox, args: argparse.Namespace) -> int:
    """Change the limits of a scope, if new ones are given, and show them."""
    from holdfast.journal.inbox.queue_limits import check_scope

    changes = {
        name: _read_limit(_name_option(name), getattr(args, name))
        for name in _LIMITS
        if getattr(args, name) is not None
    }
    if args.scope is not None:
        check_scope(args.scope)
    elif changes:
        raise ConfigurationError("SCOPE", "is missing", fix=f"Pass {_SCOPE}")
    if changes:
        await inbox.change_limits(args.scope, changes)
    for scope, one in sorted((await inbox.read_limits()).items()):
        if args.scope in (None, scope):
            print(describe_limits(scope, one))
    return 0


def _read_limit(option: str, text: str) -> int | None:
    if text == "none":
        return None
    if not (text.isascii() and text.isdecimal()):
        fix = 'Write a whole number from 0, or "none"'
        raise ConfigurationError(option, "is not a limit", fix=fix)
    return int(text)


async def _pause(inbox: Inbox, args: argparse.Namespace) -> int:
    return await _change_scope(inbox, args.scope, is_paused=True)


async def _resume(inbox: Inbox, args: argparse.Namespace) -> int:
    return await _change_scope(inbox, args.scope, is_paused=False, is_draining=False)


async def _drain(inbox: Inbox, args: argparse.Namespace) -> int:
    status = await _change_scope(inbox, args.scope, is_draining=True)
    if args.wait:
        await _wait_until_empty(inbox, args.scope)
    return status


async def _change_scope(inbox: Inbox, scope: str, **changes: bool) -> int:
    print(describe_limits(scope, await inbox.change_limits(scope, changes)))
    return 0


async def _wait_until_empty(inbox: Inbox, scope: str) -> None:
    """Return once nothing of a scope is queued or runs."""
    import asyncio

    while count := await count_of_scope(inbox, scope, _UNDER_WAY):
        print(f"\r{format_count(count, 'turn')} left ", end="", file=sys.stderr, flush=True)
        await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
    left = await count_of_scope(inbox, scope, _LEFT)
    print(f"\rempty{f'; {left} scheduled or waiting' if left else ''}    ", file=sys.stderr)


async def count_of_scope(inbox: Inbox, scope: str, states: tuple[EntryState, ...]) -> int:
    """Return how many turns of a scope are in one of some states."""
    from holdfast.journal.inbox.queue_limits import ALL, EACH_TENANT, tenant_scope

    kind, _, name = scope.partition(":")
    if kind != "agent":
        depths = [one for one in await inbox.count_entries() if one.state in states]
        return sum(
            one.count for one in depths if scope in (ALL, EACH_TENANT, tenant_scope(one.tenant))
        )
    count, before = 0, None
    while True:
        page = await inbox.list_entries(agent=name, states=states, before=before, limit=_PAGE)
        count += len(page)
        if len(page) < _PAGE:
            return count
        before = page[-1].id


async def _change_entries(inbox: Inbox, args: argparse.Namespace) -> int:
    """Retry, drop or cancel each turn; return 1 if that was not possible for one."""
    failed = 0
    for number in args.numbers:
        entry = await inbox.find(number)
        if entry is None:
            raise ConfigurationError("NUMBER", f"there is no entry {number}", fix="See `list`")
        if args.word == "cancel":
            state = await inbox.cancel(number, name_user())
            done = not entry.state.is_over
        else:
            change = inbox.retry if args.word == "retry" else inbox.drop
            done = await change(number)
            found = await inbox.find(number)
            state = entry.state if found is None else found.state
        failed += not done
        note = "" if done else f": it cannot {args.word}"
        shown = state.value if state is not None else "gone"
        print(f"{number}  {show_tenant(entry.tenant)}{shown}{note}")
    return 1 if failed else 0


_DO: dict[str, Callable[[Inbox, argparse.Namespace], Coroutine[object, object, int]]] = {
    "list": _list,
    "workers": _list_workers,
    "limits": _limit,
    "pause": _pause,
    "resume": _resume,
    "drain": _drain,
    "retry": _change_entries,
    "drop": _change_entries,
    "cancel": _change_entries,
}
