"""`holdfast emulate`: the provider emulator as a server, for any framework in any language.

It must only listen on loopback unless another address is named, and it needs no key.
"""

from __future__ import annotations

import argparse

from holdfast.core.errors import ConfigurationError
from holdfast.testing.emulator import Listen, LoggedRequest, chaos, serve


def add_arguments(sub: argparse.ArgumentParser) -> None:
    """Where to listen, and how much to spoil."""
    sub.add_argument("--host", default="127.0.0.1", help="address to listen on")
    sub.add_argument("--port", type=int, default=0, help="port; 0 takes a free one")
    sub.add_argument(
        "--chaos",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share of requests to spoil, 0 to 1",
    )
    sub.add_argument("--seed", type=int, default=1, help="the same seed spoils the same requests")


def main(given: argparse.Namespace) -> int:
    """Serve until interrupted."""
    if not 0 <= given.port <= 65535:
        raise ConfigurationError("--port", f"must be from 0 to 65535, got {given.port}")
    faults = chaos(seed=given.seed, share=given.chaos) if given.chaos else ()
    serve(
        faults=faults,
        listen=Listen(host=given.host, port=given.port),
        on_start=lambda url: print(f"listening on {url}", flush=True),
        on_request=_report,
    )
    return 0


def _report(request: LoggedRequest) -> None:
    names = ", ".join(type(fault).__name__ for fault in request.faults) or "no fault"
    print(f"{request.method} {request.path}: {request.status} ({names})", flush=True)
