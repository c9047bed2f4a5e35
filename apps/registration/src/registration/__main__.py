"""The commands of the service: `python -m registration serve`, and the work beside it.

This module must never print personal data.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence

from registration.settings import SettingsError, read_settings

_UPKEEP: Mapping[str, str] = {
    "retention": "delete sessions and registrations that are older than the settings say",
    "delete": "delete all that is known of a person, by the id of a session or a registration",
    "chase": "write the reminders that are due, and suspend who did not pay",
    "reconcile": "compare with the payment provider, after a backup was restored",
    "export": "write the registrations of the season to a CSV file",
}

_JOURNAL = "the URL of a PostgreSQL database, for journal and database"


def main(arguments: Sequence[str] | None = None) -> int:
    """Perform a command; return the exit status."""
    parser = argparse.ArgumentParser(prog="registration", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="serve registrations; settings are variables")
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=int, default=8000, help="by default 8000")
    serve.add_argument("--processes", type=_count, default=1, help="need PostgreSQL")
    for name in ("database", "journal", "model"):
        serve.add_argument(f"--{name}", help=f"in place of REGISTRATION_{name.upper()}")
    demo = commands.add_parser(
        "demo", help="serve with emulated parties, without keys or a network"
    )
    demo.add_argument("--port", type=int, default=8000, help="0 for a free one; by default 8000")
    demo.add_argument("--folder", help="where everything is saved; by default a temporary folder")
    demo.add_argument("--journal", help=_JOURNAL)
    demo.add_argument("--processes", type=_count, default=1, help="need --journal")
    demo.add_argument(
        "--play", action="store_true", help="register children while everything fails"
    )
    demo.add_argument("--children", type=int, default=10, choices=range(1, 11), metavar="1..10")
    demo.add_argument("--kills", type=int, default=2, choices=range(3), metavar="0..2")
    demo.add_argument("--seed", type=int, default=1, help="of what fails in the play")
    chat = commands.add_parser("chat", help="register a child in this terminal")
    chat.add_argument("--address", default="http://127.0.0.1:8000", help="of the service")
    _add_upkeep(commands)
    given = parser.parse_args(_mark_id(sys.argv[1:] if arguments is None else arguments))
    if given.command == "demo" and given.processes > 1 and not given.journal:
        demo.error("--processes needs --journal, as a file is used by one process at a time")
    try:
        return _perform(given)
    except (SettingsError, ValueError) as error:
        print(f"registration: {error}", file=sys.stderr)
        return 2


def _perform(given: argparse.Namespace) -> int:
    if given.command == "chat":
        from registration.terminal.conversation import run_terminal

        return run_terminal(given.address)
    if given.command == "demo" and given.play:
        from registration.play import Play, run_play

        play = Play(
            children=given.children, kills=given.kills, seed=given.seed, journal=given.journal
        )
        return run_play(play, given.folder)
    if given.command == "demo":
        from registration.demo import Demo, run_demo

        return run_demo(
            Demo(
                folder=given.folder,
                port=given.port,
                journal=given.journal,
                processes=given.processes,
            )
        )
    if given.command in _UPKEEP:
        from registration.upkeep_commands import run_command

        return run_command(read_settings(os.environ), given.command, given.argument)
    from registration.serve import run_server

    names = ("database", "journal", "model")
    chosen = {name: getattr(given, name) for name in names if getattr(given, name)}
    if _is_shared(chosen.get("journal", "")) and "REGISTRATION_DATABASE" not in os.environ:
        chosen.setdefault("database", chosen["journal"])
    return run_server(chosen, given.host, given.port, given.processes)


def _add_upkeep(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    for name, about in _UPKEEP.items():
        command = commands.add_parser(name, help=about)
        command.set_defaults(argument="")
        if name == "delete":
            command.add_argument("argument", metavar="ID")
        if name == "export":
            command.add_argument("argument", metavar="FILE")


def _mark_id(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with a mark before an id to delete, as ids may begin with a hyphen."""
    if len(arguments) == 2 and arguments[0] == "delete" and arguments[1] not in ("-h", "--help"):
        return ["delete", "--", arguments[1]]
    return list(arguments)


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _is_shared(journal: str) -> bool:
    return journal.startswith(("postgresql://", "postgres://"))


if __name__ == "__main__":
    raise SystemExit(main())
