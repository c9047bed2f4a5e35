"""Runs one command: its errors become one message and one exit status here, and nowhere else.

Ctrl-C ends the program with status 130 at any time, while it imports and while it ends included. This module
must never print a traceback without `--debug`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from adh.commands.exit_statuses import ExitStatus

if TYPE_CHECKING:
    import argparse


_PR_SET_DUMPABLE = 4


def run_program(words: Sequence[str]) -> int:
    """Run `adh` as the whole process and return its exit status.

    Args:
        words: the words after `adh`.
    """
    # A shell starts `adh run ... &` with Ctrl-C disabled; that is respected.
    is_enabled = signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def on_interrupt(handler: Callable[[int, FrameType | None], object]) -> None:
        if is_enabled:
            signal.signal(signal.SIGINT, handler)

    on_interrupt(_exit_interrupted)
    try:
        _allow_any_text()
        from adh.commands.arguments import parse_arguments

        args = parse_arguments(words)
        hide_process()
        on_interrupt(signal.default_int_handler)
        return run_command(args)
    except KeyboardInterrupt:
        on_interrupt(_exit_interrupted)  # first: a second Ctrl-C exits at once
        _discard_output()  # flushing at exit could block if nothing reads the output
        return ExitStatus.INTERRUPTED
    finally:
        on_interrupt(_exit_interrupted)


def hide_process() -> bool:
    """Hide the environment of this process from its commands; return whether the system can do that.

    A command gets no API key, but on Linux it could read those of the program in `/proc`. A system without
    this protection is used as it is. The commands themselves are not hidden.
    """
    if sys.platform != "linux":
        return False
    import ctypes

    try:
        return bool(ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def run_command(args: argparse.Namespace) -> int:
    """Run the command of these arguments and return its exit status.

    Args:
        args: the result of `parse_arguments`.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    try:
        status = _find_command(args)(args)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return ExitStatus.OUTPUT_CLOSED
    except Exception as error:  # noqa: BLE001  # REASON: the one place that words errors
        if args.debug:
            import traceback

            traceback.print_exception(error)
        from adh.commands.error_messages import describe_error

        described = describe_error(error)
        for line in described.lines:
            print(line, file=sys.stderr)
        return described.status
    return status


def _find_command(args: argparse.Namespace) -> Callable[[argparse.Namespace], int]:
    """Import the module of the command alone: `adh log` needs no screen."""
    from importlib import import_module

    main: Callable[[argparse.Namespace], int] = import_module(
        f"adh.commands.{args.command or 'screen'}_command"
    ).main
    return main


def _exit_interrupted(*_: object) -> NoReturn:
    # `os._exit` raises no exception, waits for no thread and flushes nothing.
    os._exit(ExitStatus.INTERRUPTED)


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
