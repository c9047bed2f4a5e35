"""The `holdfast` command: reads the arguments and hands over to one file per subcommand.

It must never print a traceback for what a user can mend: those errors are one clear line.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from holdfast.core.errors import HoldfastError, explain

_COMMANDS = {
    "demo": "an agent answers a question about a folder while its provider misbehaves",
    "run": "ask once and print the answer",
    "chat": "talk in the terminal; Ctrl-C stops the turn and not the program",
    "emulate": "serve a provider that misbehaves by script, for any framework",
}


def parser() -> argparse.ArgumentParser:
    """The arguments of all subcommands."""
    top = argparse.ArgumentParser(
        prog="holdfast", description="Agents that keep working when everything else fails."
    )
    subcommands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, about in _COMMANDS.items():
        sub = subcommands.add_parser(name, help=about, description=about)
        import_module(f"holdfast.cli.{name}").add_arguments(sub)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; the exit status is 0, 1 for a failure, 2 for wrong arguments."""
    given = parser().parse_args(arguments)
    command = import_module(f"holdfast.cli.{given.command}")
    try:
        status: int = command.main(given)
    except HoldfastError as error:
        print(f"holdfast: {explain(error.info)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return status
