"""`holdfast emulate`: the provider emulator as a server, for any framework in any language.

It listens on loopback unless another address is given, and it needs no key.
"""

from __future__ import annotations

import argparse
from typing import Annotated

from holdfast.cli.run_printer import make_printable
from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import between


def add_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the arguments for the address and the faults."""
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
        "--seed", type=int, default=1, help="the same seed makes the same requests fail"
    )


def main(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from holdfast.testing.emulator import Listen, chaos, serve

    check_value("--port", args.port, Annotated[int, between(0, 65535)])
    check_value("--chaos", args.chaos, Annotated[float, between(0, 1)])
    serve(
        faults=chaos(seed=args.seed, share=args.chaos),
        listen=Listen(host=args.host, port=args.port),
        on_start=lambda url: print(f"listening on {url}", flush=True),
        on_request=lambda request: print(make_printable(request.format_line()), flush=True),
    )
    raise KeyboardInterrupt
