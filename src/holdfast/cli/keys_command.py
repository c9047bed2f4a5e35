"""`holdfast keys WORD --journal ADDRESS`: the keys with which people and programs call a service.

It works while the service runs. A key is printed once, when it is made, and is never stored.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING

from holdfast.cli.run_printer import shorten
from holdfast.cli.times import format_time, parse_duration
from holdfast.core.errors import ConfigurationError
from holdfast.journal.journal_names import DEFAULT_TENANT

if TYPE_CHECKING:
    from holdfast.journal.service_store.service_store import ApiKey, ServiceStore

WORDS = {
    "create": "make a key and print it once",
    "list": "list the keys of all tenants, also those that are not valid any more",
    "revoke": "make keys invalid at once: within five seconds in every process",
    "rotate": "replace a key by a new one; the old one stays valid for a while",
}
_EXAMPLES = {
    "create": "create --journal talk.db --name ci --scopes run,read --expires 90d",
    "list": "list --journal talk.db",
    "revoke": "revoke --journal talk.db 3f2a9c0d11e4",
    "rotate": "rotate --journal talk.db 3f2a9c0d11e4 --grace 1h",
}
_JOURNAL = "the journal of the service: a SQLite file, or sqlite:///... or postgresql://..."


def add_arguments(sub: argparse.ArgumentParser) -> None:
    """Add a parser for each action."""
    words = sub.add_subparsers(dest="word", required=True, metavar="WORD")
    for word, about in WORDS.items():
        example = f"example: holdfast keys {_EXAMPLES[word]}"
        parser = words.add_parser(word, help=about, description=about, epilog=example)
        parser.add_argument("--journal", required=True, metavar="ADDRESS", help=_JOURNAL)
        _ADD[word](parser)


def _add_create(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", required=True, help="who uses it; acts are recorded with it")
    about = "the tenant whose runs it can reach; default: the one without a name"
    parser.add_argument("--tenant", default=DEFAULT_TENANT, help=about)
    parser.add_argument(
        "--scopes",
        default="run,read,answer",
        help="what it may do: run, read, read:redacted, answer, import, admin; default: run,read,answer",
    )
    parser.add_argument(
        "--expires",
        metavar="TIME",
        help="how long it is valid, such as 90d or 12h; default: without end",
    )


def _add_ids(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="ID", help="the id of a key; `list` shows it")


def _add_rotate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the id of the key; `list` shows it")
    parser.add_argument(
        "--grace",
        default="1d",
        metavar="TIME",
        help="how long the old one stays valid; default: 1d",
    )


def _add_nothing(_parser: argparse.ArgumentParser) -> None:
    """`list` has no arguments of its own."""


_ADD: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "create": _add_create,
    "list": _add_nothing,
    "revoke": _add_ids,
    "rotate": _add_rotate,
}


def main(args: argparse.Namespace) -> int:
    """Run the action; return 1 if a key was not found."""
    import asyncio

    from holdfast.journal.service_store.service_store_opening import open_service_store

    perform = _DO[args.word]
    prepared = _prepare(args)  # first: wrong arguments must not create a store
    store = open_service_store(args.journal, create=args.word == "create")
    try:
        return asyncio.run(perform(store, prepared))
    finally:
        store.close()


def _prepare(args: argparse.Namespace) -> argparse.Namespace:
    """Check the arguments, and read times and scopes."""
    from holdfast.server.access.keys import make_key

    args.now = time.time()
    if args.word == "create":
        seconds = parse_duration("--expires", args.expires) if args.expires else None
        try:
            args.text, args.key = make_key(
                args.name,
                scopes=tuple(args.scopes.split(",")),
                now=args.now,
                tenant=args.tenant,
                seconds=seconds,
            )
        except ConfigurationError as error:
            option = f"--{error.argument}"
            raise ConfigurationError(option, error.problem, fix=error.fix) from error
    elif args.word == "rotate":
        args.grace = 0.0 if args.grace == "0" else parse_duration("--grace", args.grace)
    return args


async def _create_key(store: ServiceStore, args: argparse.Namespace) -> int:
    await store.add_key(args.key)
    _print_key(args.text, args.key)
    return 0


async def _list_keys(store: ServiceStore, args: argparse.Namespace) -> int:
    for key in await store.list_keys():
        print(_describe_key(key, args.now))
    return 0


async def _revoke_keys(store: ServiceStore, args: argparse.Namespace) -> int:
    keys = [await _find_key(store, key_id) for key_id in args.ids]
    for key in keys:
        await store.revoke_key(key.id, args.now)
        print(f"{key.id} ({shorten(key.name, 60)}) is revoked")
    return 0


async def _rotate_key(store: ServiceStore, args: argparse.Namespace) -> int:
    from holdfast.server.access.keys import make_successor

    old = await _find_key(store, args.id)
    if not old.is_valid(args.now):
        raise ConfigurationError("ID", f"the key {old.id} is not valid any more", fix="Create one")
    text, key = make_successor(old, args.now)
    if not await store.rotate_key(old.id, key, args.now + args.grace):
        raise ConfigurationError("ID", f"the key {old.id} was revoked meanwhile", fix="Create one")
    _print_key(text, key)
    until = min(args.now + args.grace, old.expires_at or float("inf"))
    print(f"{old.id} stays valid until {format_time(until)}", file=sys.stderr)
    return 0


async def _find_key(store: ServiceStore, key_id: str) -> ApiKey:
    keys: Sequence[ApiKey] = [key for key in await store.list_keys() if key.id == key_id]
    if not keys:
        raise ConfigurationError(
            "ID",
            f"there is no key {shorten(repr(key_id), 60)}",
            fix="`holdfast keys list` shows the ids",
        )
    return keys[0]


def _print_key(text: str, key: ApiKey) -> None:
    """Print the key alone to standard output, so that a script can read it."""
    print(f"{_describe_key(key, key.created_at)}\nThe key is not shown again:", file=sys.stderr)
    print(text, flush=True)


def _describe_key(key: ApiKey, now: float) -> str:
    if key.revoked_at is not None:
        state = f"revoked {format_time(key.revoked_at)}"
    elif key.expires_at is None:
        state = "valid"
    else:
        state = f"{'valid until' if key.is_valid(now) else 'expired'} {format_time(key.expires_at)}"
    used = f"used {format_time(key.used_at)}" if key.used_at is not None else "never used"
    tenant = f"  tenant {shorten(key.tenant, 40)}" if key.tenant else ""
    return f"{key.id}  {shorten(key.name, 40)}  {','.join(key.scopes)}{tenant}  {state}  {used}"


_DO: dict[str, Callable[[ServiceStore, argparse.Namespace], Coroutine[object, object, int]]] = {
    "create": _create_key,
    "list": _list_keys,
    "revoke": _revoke_keys,
    "rotate": _rotate_key,
}
