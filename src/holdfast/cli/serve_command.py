"""`holdfast serve TARGET...`: agents over HTTP, with a console for people.

It listens on loopback unless another address is given. It ends with Ctrl-C or SIGTERM; turns that are
in progress then continue when it starts again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct

from holdfast.cli.options import add_drain, add_engine, add_grace, check_grace, to_address
from holdfast.cli.serve_targets import (
    ABOUT_TARGET,
    FIX,
    default_journal,
    load_targets,
)
from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import between
from holdfast.core.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast.hosting.bound_agents import AnyAgent

_PARALLEL_IN_DEMO = 8


class Served(Struct, frozen=True):
    """The agents and options of a service.

    Args:
        agents: the agents.
        journal: the address of the journal.
    """

    agents: list[AnyAgent]
    journal: str


def add_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the arguments for the agents, the journal and the address."""
    sub.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        help=ABOUT_TARGET,
    )
    sub.add_argument(
        "--journal",
        metavar="ADDRESS",
        help="a SQLite file, or sqlite:///... or postgresql://...; "
        "default: holdfast.db beside the first target",
    )
    sub.add_argument("--host", default="127.0.0.1", help="address to listen on; default: loopback")
    sub.add_argument(
        "--port", type=int, default=8000, help="port; 0 takes a free one; default: 8000"
    )
    _add_deployment(sub)
    sub.add_argument(
        "--prices",
        type=Path,
        metavar="FILE",
        help="TOML file with the prices of a million tokens by model, to show and filter by cost; "
        "or `known` for published prices",
    )
    sub.add_argument("--open", action="store_true", help="open the console in a browser")
    sub.add_argument(
        "--demo",
        action="store_true",
        help="serve two demo agents, whose emulated provider fails in one of five requests",
    )


def _add_deployment(sub: argparse.ArgumentParser) -> None:
    """Add the arguments for a service behind a proxy."""
    sub.add_argument(
        "--root-path",
        default="",
        metavar="PATH",
        help="path below which a proxy shows the service, such as /agents",
    )
    sub.add_argument(
        "--trusted-proxy",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="address or network of a proxy whose X-Forwarded-* headers count; may be repeated",
    )
    sub.add_argument(
        "--allowed-host",
        action="append",
        default=[],
        metavar="NAME",
        help="name under which the service is reached; may be repeated; default: every name",
    )
    add_drain(sub)
    add_grace(sub)
    _add_queue(sub)


def _add_queue(sub: argparse.ArgumentParser) -> None:
    """Add the arguments for how queued turns are driven, which needs a PostgreSQL journal."""
    sub.add_argument(
        "--parallel",
        type=int,
        metavar="N",
        help="queue turns, and drive at most N at once; default: 16 with a PostgreSQL journal, and "
        "otherwise no queue",
    )
    sub.add_argument(
        "--no-worker",
        action="store_true",
        help="with a PostgreSQL journal: drive no turns, and leave them to `holdfast worker`",
    )
    add_engine(sub)


def main(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    check_value("--port", args.port, Annotated[int, between(0, 65535)])
    check_grace(args.grace)
    if bool(args.targets) == args.demo:
        problem = "is given with --demo" if args.demo else "is missing"
        raise ConfigurationError("TARGET", problem, fix=f"{FIX}, or --demo")
    queue = _read_queue(args)
    from holdfast.cli.serve_http import ServeOptions, serve
    from holdfast.models.prices import Prices

    journal = to_address(args.journal) if args.journal else None
    prices = Prices.read_file(args.prices, argument="--prices") if args.prices else None
    with _find_served(args, journal) as served:
        serve(
            served.agents,
            served.journal,
            ServeOptions(
                host=args.host,
                port=args.port,
                root_path=args.root_path,
                trusted_proxies=tuple(args.trusted_proxy),
                allowed_hosts=tuple(args.allowed_host),
                grace=args.grace,
                drain=args.drain,
                queue=queue,
                prices=prices,
                opens_browser=args.open,
                logs_requests=not args.demo,
            ),
        )
    return 0


def _read_queue(args: argparse.Namespace) -> dict[str, Any] | None:
    """Return how queued turns are driven; None if nothing is said about it."""
    if args.parallel is not None:
        check_value("--parallel", args.parallel, Annotated[int, between(1, 10_000)])
        if args.no_worker:
            raise ConfigurationError("--parallel", "has no effect with --no-worker")
    given = {"parallel": 0 if args.no_worker else args.parallel, "engine": args.engine}
    demo = {"parallel": _PARALLEL_IN_DEMO} if args.demo else {}
    return {**demo, **{name: value for name, value in given.items() if value is not None}} or None


@contextmanager
def _find_served(args: argparse.Namespace, journal: str | None) -> Iterator[Served]:
    if args.demo:
        from holdfast.cli.serve_demo import run_demo

        with run_demo(journal) as (agents, place):
            yield Served(agents, place)
        return
    agents = load_targets(args.targets)
    yield Served(agents, journal or default_journal(args.targets))
