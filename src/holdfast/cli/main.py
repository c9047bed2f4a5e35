"""The `holdfast` command: reads the arguments and hands over to one file per subcommand.

It must never print a traceback for what a user can mend: those errors are one clear line. It must
import nothing before `main` is called, since Ctrl-C would be a traceback until then.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from types import FrameType
    from typing import NoReturn

    from holdfast.core.errors import HoldfastError

COMMANDS = {
    "demo": "an agent answers a question about a folder while its provider misbehaves",
    "run": "ask once and print the answer",
    "chat": "talk in the terminal; Ctrl-C stops the turn and not the program",
    "journal": "show, export or verify the file in which conversations are kept",
    "sessions": "list, search, fork, rewind, compact, move or forget conversations",
    "replay": "show what happened in a recorded run, and what each part of it took",
    "emulate": "serve a provider that misbehaves by script, for any framework",
}

_INTERRUPTED = 130
STATUSES = """exit status:
  0    done
  1    it failed, or the demo's answer was wrong
  2    wrong arguments or settings; nothing was sent
  130  stopped by Ctrl-C
  141  whoever read the output went away
"""


def build_parser(wanted: Sequence[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """The arguments of all subcommands.

    Args:
        wanted: subcommands whose own arguments are needed; the others are only named, so that
            their modules need not be loaded.
    """
    import argparse
    from importlib import import_module
    from importlib.metadata import version

    top = argparse.ArgumentParser(
        prog="holdfast",
        description="Agents that keep working when models, networks, tools and people fail.",
        epilog=STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"holdfast {version('holdfast')}")
    subcommands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, about in COMMANDS.items():
        sub = subcommands.add_parser(name, help=about, description=about)
        if name in wanted:
            import_module(f"holdfast.cli.{name}_command").add_arguments(sub)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit status, which `STATUSES` explains.

    Args:
        arguments: of the command; without them this is the whole program, which takes its own.
    """
    if arguments is None:
        return _run_program()
    try:
        return _run_command(_parse_arguments(arguments))
    except KeyboardInterrupt:
        return _INTERRUPTED


def _run_program() -> int:
    """All that this process does. Whenever Ctrl-C comes, it ends with one status and no word.

    A command that was under way lets go of its journal. While modules are loaded, and at the end,
    there is nothing to tidy up: an exception would be lost or shown there, depending on who is told
    of it.
    """
    try:
        import signal

        # Whoever started it may have said that Ctrl-C is not for it, as shells do with `&`.
        wanted = signal.getsignal(signal.SIGINT) is signal.default_int_handler

        def on_interrupt(handler: Callable[[int, FrameType | None], object]) -> None:
            if wanted:
                signal.signal(signal.SIGINT, handler)

        on_interrupt(_exit_interrupted)
        given = _parse_arguments(sys.argv[1:])
        on_interrupt(signal.default_int_handler)
        try:
            return _run_command(given)
        except KeyboardInterrupt:
            on_interrupt(_exit_interrupted)  # before what the command had open is closed
            _discard_output()  # or the end would wait for whoever reads what is in a buffer
            return _INTERRUPTED
        finally:
            on_interrupt(_exit_interrupted)
    except KeyboardInterrupt:
        _exit_interrupted()


def _exit_interrupted(*_: object) -> NoReturn:
    # Not by an exception, and without waiting for threads or for whoever reads.
    os._exit(_INTERRUPTED)


def _parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    """The arguments; the modules of their subcommand are loaded with them."""
    _allow_any_text()
    return build_parser([word for word in words if word in COMMANDS]).parse_args(words)


def _run_command(given: argparse.Namespace) -> int:
    from importlib import import_module

    from holdfast.core.errors import ConfigurationError, HoldfastError

    try:
        status: int = import_module(f"holdfast.cli.{given.command}_command").main(given)
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
    """Python flushes at its end, and would complain about the same pipe or disk again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _allow_any_text() -> None:
    """What a terminal or a file cannot show becomes a question mark and not a traceback."""
    import io
    from pathlib import Path

    # Started without one of them, as by `>&-`: then nobody reads, and that is no error.
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115  # REASON: for the whole process
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115  # REASON: as above
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
