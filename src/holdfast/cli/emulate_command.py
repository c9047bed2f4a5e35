"""`holdfast emulate`: the emulators of providers and of MCP servers, for any framework in any language.

It listens on loopback unless another address is given, and it needs no key. Without a script it
calls the tools that a request offers and answers with an object of the schema that it asks for.
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

from holdfast.cli.run_printer import make_printable
from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import between
from holdfast.core.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast.testing.emulator.faults import FaultScript
    from holdfast.testing.emulator.script import Replies


def add_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the arguments for the address, the replies and the faults."""
    sub.add_argument(
        "--script",
        type=Path,
        metavar="FILE",
        help="the replies and their faults: a TOML file, or a Python file that defines replies",
    )
    sub.add_argument(
        "--fault",
        nargs="+",
        default=[],
        metavar="NAME",
        help="the faults of the first requests, in order, such as: rate-limit none drop-after=3",
    )
    sub.add_argument("--host", default="127.0.0.1", help="address to listen on; default: loopback")
    sub.add_argument("--port", type=int, default=0, help="port; default: 0, a free port")
    sub.add_argument(
        "--chaos",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share of requests that fail, from 0 to 1; default: 0",
    )
    sub.add_argument(
        "--no-strict",
        dest="strict",
        action="store_false",
        help="take unknown fields, values out of range and tools that the provider refuses",
    )
    sub.add_argument(
        "--dress",
        default="openai",
        metavar="NAME",
        help="the endpoint of Chat Completions that it plays, such as groq or vllm; default: openai",
    )
    sub.add_argument(
        "--mcp",
        choices=["stdio", "http"],
        help="play an MCP server on this transport instead, with the faults that --fault names",
    )
    sub.add_argument(
        "--seed", type=int, default=1, help="the same seed makes the same requests fail"
    )


def main(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C, or until a fault ends the process."""
    if args.mcp is not None:
        return _play_mcp_server(args)
    from holdfast.testing.emulator import Listen, serve

    check_value("--port", args.port, Annotated[int, between(0, 65535)])
    check_value("--chaos", args.chaos, Annotated[float, between(0, 1)])
    replies, faults = _read_arguments(args)
    serve(
        replies,
        faults=faults,
        listen=Listen(host=args.host, port=args.port),
        on_start=lambda url: print(f"listening on {url}", flush=True),
        on_request=lambda request: print(make_printable(request.format_line()), flush=True),
        strict=args.strict,
        dress=args.dress,
    )
    raise KeyboardInterrupt


def _play_mcp_server(args: argparse.Namespace) -> int:
    """Become an MCP server, which may die of a fault."""
    from holdfast.testing.mcp_emulator import McpEmulator

    faults = [None if one == "none" else one for one in args.fault]
    with TemporaryDirectory(prefix="holdfast-mcp-") as folder:
        command = McpEmulator(folder, faults=faults).command
        words = ["--http", str(args.port)] if args.mcp == "http" else []
        # A process of its own, so that the folder is removed after its death.
        return subprocess.run([*command, *words], check=False).returncode  # noqa: S603  # REASON: our own program


def _read_arguments(args: argparse.Namespace) -> tuple[Replies, FaultScript]:
    """Return the replies and the faults; only one argument may give the faults."""
    from holdfast.testing.emulator import chaos
    from holdfast.testing.emulator.script_file import parse_fault, read_script, reply_to_fit

    replies, faults = (reply_to_fit, ()) if args.script is None else read_script(args.script)
    named = [parse_fault(word) for word in args.fault]
    given = [source for source in (faults, named, args.chaos) if source]
    if len(given) > 1:
        raise ConfigurationError(
            "--fault", "faults are given twice", fix="Use one of --fault, --chaos and the script"
        )
    return replies, faults or named or chaos(seed=args.seed, share=args.chaos)
