"""`holdfast emulate`: the provider emulator as a server, for any framework in any language.

It must only listen on loopback unless another address is named, and it needs no key.
"""

from __future__ import annotations

import argparse

from holdfast.core.errors import ConfigurationError


def add_arguments(sub: argparse.ArgumentParser) -> None:
    """Where to listen, and how much to spoil."""
    sub.add_argument("--host", default="127.0.0.1", help="address to listen on; default: loopback")
    sub.add_argument("--port", type=int, default=0, help="port; 0, the default, takes a free one")
    sub.add_argument(
        "--chaos",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share of requests to spoil, 0 to 1; default: 0",
    )
    sub.add_argument("--seed", type=int, default=1, help="the same seed spoils the same requests")


def main(given: argparse.Namespace) -> int:
    """Serve until Ctrl-C, which is its only end."""
    from holdfast.testing.emulator import Listen, chaos, serve

    if not 0 <= given.port <= 65535:
        raise ConfigurationError("--port", f"must be from 0 to 65535, got {given.port}")
    if not 0 <= given.chaos <= 1:
        raise ConfigurationError("--chaos", f"must be from 0 to 1, got {given.chaos:g}")
    serve(
        faults=chaos(seed=given.seed, share=given.chaos),
        listen=Listen(host=given.host, port=given.port),
        on_start=lambda url: print(f"listening on {url}", flush=True),
        on_request=lambda request: print(request.format_line(), flush=True),
    )
    raise KeyboardInterrupt
