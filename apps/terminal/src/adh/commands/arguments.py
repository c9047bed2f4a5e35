"""The arguments of `adh`: commands, flags and their help.

This module must import nothing of the application: `adh --help` and a wrong flag answer at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from adh.commands.exit_statuses import STATUSES

COMMANDS = {
    "run": "do one task without the screen and print the answer",
    "policies": "show the rules that hold, or which rule decides a call; test: check a table of calls",
    "sessions": "list, show, export, resume or delete conversations",
    "agents": "list the agents that are defined here",
    "tools": "list the tools, their effects and their defaults",
    "log": "show the audit log",
    "demo": "open the screen in a sandbox project with an emulated model, without a key",
    "config": "show the settings and where everything is; set one; store a key in the keychain",
}
_NEW_SESSION = ""


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of `adh` and all its commands."""
    top = argparse.ArgumentParser(
        prog="adh",
        allow_abbrev=False,
        description="A coding agent in a terminal. Rules, checks and you decide what it may do.",
        epilog=f"Without a command, the screen opens in the current folder.\n\n{STATUSES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"adh {version('holdfast-terminal')}")
    top.add_argument(
        "--resume",
        nargs="?",
        const=_NEW_SESSION,
        metavar="ID",
        help="open this conversation; without ID, the last one of this folder",
    )
    _add_agent_flags(top, with_defaults=True)
    _add_common_flags(top, with_defaults=True)
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    for name, about in COMMANDS.items():
        sub = commands.add_parser(name, help=about, description=about, allow_abbrev=False)
        _add_common_flags(sub, with_defaults=False)
        _ADDERS[name](sub)
    return top


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    """Parse the words after `adh`.

    Args:
        words: the words; a wrong one prints an error and exits with status 2.

    >>> parse_arguments(["--debug", "run", "fix it", "--output", "json"]).output
    'json'
    """
    parser = build_parser()
    args = parser.parse_args(words)
    if args.command and args.resume is not None:
        parser.error("--resume opens the screen and goes with no command; see adh sessions resume")
    return args


def _add_common_flags(parser: argparse.ArgumentParser, *, with_defaults: bool) -> None:
    """Add the flags that may stand before and after a command.

    Those after it have no defaults, since these would replace the values before it.
    """

    def default(value: object) -> object:
        return value if with_defaults else argparse.SUPPRESS

    parser.add_argument(
        "--debug",
        action="store_true",
        default=default(value=False),
        help="print tracebacks, and write a log file beside the conversations",
    )
    parser.add_argument(
        "--policy-dir",
        type=Path,
        metavar="DIR",
        default=default(None),
        help="a folder with more rules; they are read last",
    )
    parser.add_argument(
        "--no-safety",
        action="store_true",
        default=default(value=False),
        help="do not ask where a rule says confirm, up to medium risk; manual and deny still hold",
    )


def _add_agent_flags(parser: argparse.ArgumentParser, *, with_defaults: bool) -> None:
    default = None if with_defaults else argparse.SUPPRESS
    parser.add_argument(
        "--model", default=default, help="a model or an alias, such as gemini:gemini-2.5-flash"
    )
    parser.add_argument("--agent", default=default, help="the agent; adh agents lists them")


def _add_run(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("prompt", help='the task; "-" reads standard input')
    _add_agent_flags(sub, with_defaults=False)
    sub.add_argument(
        "--policy",
        type=Path,
        default=None,
        metavar="FILE",
        help="a file with more rules, read after all others",
    )
    sub.add_argument(
        "--yes",
        action="store_true",
        help="say yes where a rule says confirm; never where it says manual or deny",
    )
    sub.add_argument(
        "--output",
        choices=("text", "json", "markdown"),
        default="text",
        help="the answer; or one JSON object; or a report of what was asked and denied",
    )
    sub.add_argument(
        "--verbose", action="store_true", help="print each step and decision to standard error"
    )


def _add_policies(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "words",
        nargs="*",
        metavar="tool [args] | test FILE",
        help="a tool and its arguments: a command line, name=value, or a JSON object",
    )
    sub.add_argument(
        "--all", action="store_true", help="explain also why each other rule does not match"
    )


def _add_sessions(sub: argparse.ArgumentParser) -> None:
    actions = sub.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="the conversations, newest first")
    listing.add_argument("--all", action="store_true", help="those of every folder")
    listing.add_argument("--output", choices=("text", "json"), default="text")
    show = actions.add_parser("show", help="print a conversation")
    export = actions.add_parser("export", help="write a conversation as Markdown and JSONL")
    export.add_argument(
        "--to", type=Path, default=None, metavar="DIR", help="the folder to write to"
    )
    resume = actions.add_parser("resume", help="open a conversation on the screen")
    delete = actions.add_parser("delete", help="delete a conversation for good")
    delete.add_argument("--yes", action="store_true", help="do not ask")
    for one in (show, export, resume, delete):
        one.add_argument("id", help="the id, or its beginning if only one session has it")


def _add_listing(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--output", choices=("text", "json"), default="text")


def _add_log(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--session", default=None, help="only this session")
    sub.add_argument("--tool", default=None, help="only this tool; * stands for anything")
    sub.add_argument(
        "--decision",
        default=None,
        help="only this decision or outcome, such as allowed, denied, blocked, failed",
    )
    sub.add_argument(
        "--last", type=_parse_count, default=None, metavar="N", help="only the last N lines"
    )
    sub.add_argument("--output", choices=("text", "json"), default="text")


def _add_demo(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--folder",
        type=Path,
        default=None,
        metavar="DIR",
        help="keep everything in this folder; a second start goes on where the first one ended",
    )
    sub.add_argument("--keep", action="store_true", help="keep the temporary folder")


def _add_config(sub: argparse.ArgumentParser) -> None:
    actions = sub.add_subparsers(dest="action", metavar="ACTION")
    change = actions.add_parser("set", help="change a setting")
    change.add_argument("name", help="such as model, theme, max_tokens")
    change.add_argument("value", help="JSON, or text")
    actions.add_parser("trust", help="use the instructions, agents, skills and keys of this folder")
    actions.add_parser("distrust", help="take the trust in this folder back")
    key = actions.add_parser("key", help="store a key in the system's keychain; it is asked for")
    key.add_argument("provider", help="such as gemini, openai, anthropic")


def _parse_count(word: str) -> int:
    count = int(word)
    if count < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return count


_ADDERS = {
    "run": _add_run,
    "policies": _add_policies,
    "sessions": _add_sessions,
    "agents": _add_listing,
    "tools": _add_listing,
    "log": _add_log,
    "demo": _add_demo,
    "config": _add_config,
}
