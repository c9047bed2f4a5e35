"""The `holdfast` command: parses the arguments and calls the module of the subcommand.

An error that a user can correct is printed as one line, without a traceback. The module imports
almost nothing before `main` is called, because Ctrl-C would print a traceback until then.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from types import FrameType
    from typing import NoReturn

    from holdfast.core.errors import HoldfastError

COMMANDS = {
    "demo": "watch an agent answer a question about a folder while its provider fails",
    "run": "ask one question and print the answer",
    "chat": "chat in the terminal; Ctrl-C stops the turn but not the program",
    "journal": "show, verify, back up, restore or prune the journal in which conversations are saved",
    "sessions": "list, search, fork, rewind, compact, move or delete conversations",
    "keys": "make, list, revoke or rotate the keys with which people and programs call a service",
    "replay": "show what happened in a recorded run and how long each part took",
    "serve": "serve agents over HTTP, with a console in the browser",
    "worker": "drive the turns that were submitted to a journal, on any number of machines",
    "submit": "queue a turn for the workers of a journal",
    "queue": "show and steer what is queued: list, pause, resume, drain, retry, drop, limits, workers",
    "schedules": "make, list, pause, run or delete the turns that workers submit at certain times",
    "models": "probe a server of Chat Completions: what it takes and refuses, as a profile",
    "emulate": "serve a provider that fails by script, for any framework",
}

_WITH_AGENTS = frozenset({"demo", "run", "chat", "serve", "worker"})
_INTERRUPTED = 130
STATUSES = """exit status:
  0    success
  1    failure, or a wrong answer in the demo
  2    wrong arguments or settings; nothing was sent
  3    the run waits for an answer
  130  stopped by Ctrl-C
  141  the reader of the output closed it
"""


def build_parser(wanted: Sequence[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """Build the parser of all subcommands.

    Args:
        wanted: the subcommands whose arguments are added. The modules of the others are not
            imported.
    """
    import argparse

    from holdfast import __version__
    from holdfast.core.import_part import import_part

    top = argparse.ArgumentParser(
        prog="holdfast",
        description="Agents that keep working when models, networks, tools and people fail.",
        epilog=STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"holdfast {__version__}")
    subcommands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, about in COMMANDS.items():
        sub = subcommands.add_parser(name, help=about, description=about)
        if name in wanted:
            import_part(f"holdfast.cli.{name}_command").add_arguments(sub)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit status, which `STATUSES` explains.

    Args:
        arguments: the command's arguments; None means those of this process.
    """
    if arguments is None:
        return _run_program()
    try:
        return _run_command(_parse_arguments(arguments))
    except KeyboardInterrupt:
        return _INTERRUPTED


def _run_program() -> int:
    """Run the process; at any time Ctrl-C ends it with the same status and without output.

    A running command closes its journal first. While modules are imported and while the process
    ends, the handler exits at once: a KeyboardInterrupt raised there could be lost or printed.
    """
    try:
        import signal

        # The parent process may have disabled Ctrl-C, as shells do for a command with `&`.
        is_enabled = signal.getsignal(signal.SIGINT) is signal.default_int_handler

        def on_interrupt(handler: Callable[[int, FrameType | None], object]) -> None:
            if is_enabled:
                signal.signal(signal.SIGINT, handler)

        on_interrupt(_exit_interrupted)
        args = _parse_arguments(sys.argv[1:])
        _import_rest(args.command)
        on_interrupt(signal.default_int_handler)
        try:
            return _run_command(args)
        except KeyboardInterrupt:
            on_interrupt(_exit_interrupted)  # first: a second Ctrl-C exits at once
            _discard_output()  # flushing at exit could block if nothing reads the output
            return _INTERRUPTED
        finally:
            on_interrupt(_exit_interrupted)
    except KeyboardInterrupt:
        _exit_interrupted()


def _exit_interrupted(*_: object) -> NoReturn:
    # `os._exit` raises no exception, waits for no thread and flushes nothing.
    os._exit(_INTERRUPTED)


def _parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments; this imports the module of the subcommand."""
    _allow_any_text()
    parser = build_parser([word for word in words if word in COMMANDS])
    try:
        return parser.parse_args(words)
    except SystemExit:
        with suppress(OSError):
            sys.stdout.flush()  # the version stays printed, even if the end is interrupted
        raise


def _import_rest(command: str) -> None:
    """Import the parts that a command needs after its arguments are parsed; its help must not wait for that."""
    from importlib import import_module

    for name in ("asyncio", "holdfast.agent") if command in _WITH_AGENTS else ("asyncio",):
        import_module(name)


def _run_command(args: argparse.Namespace) -> int:
    from holdfast.core.errors import ConfigurationError, HoldfastError
    from holdfast.core.import_part import import_part

    try:
        status: int = import_part(f"holdfast.cli.{args.command}_command").main(args)
        sys.stdout.flush()
    except ConfigurationError as error:
        return _print_error(error, 2)
    except HoldfastError as error:
        return _print_error(error, 1)
    except BrokenPipeError:
        _discard_output()
        return 141
    except OSError as error:
        _print_system_error(error)
        _discard_output()
        return 1
    return status


def _print_error(error: HoldfastError, status: int) -> int:
    from holdfast.cli.run_printer import format_error

    print(f"holdfast: {format_error(error)}", file=sys.stderr)
    return status


def _print_system_error(error: OSError) -> None:
    from holdfast.cli.run_printer import shorten

    place = f": {shorten(str(error.filename), 500)}" if error.filename else ""
    print(f"holdfast: {error.strerror or error}{place}", file=sys.stderr)


def _discard_output() -> None:
    """Discard buffered output, since the flush at exit would raise the same error again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _allow_any_text() -> None:
    """Make the output print a question mark for a character that it cannot encode."""
    import io
    from pathlib import Path

    # A stream closed by the parent, such as by `>&-`, is None. Output to it is discarded.
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115  # REASON: open until exit
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115  # REASON: as above
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
