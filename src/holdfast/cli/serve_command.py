"""`holdfast serve TARGET...`: agents over HTTP, with a console for people.

Its settings come from `holdfast.toml`, from options, and from `--set`. It listens on loopback unless another
address is given. It ends with Ctrl-C or SIGTERM; turns that are in progress then continue when it starts again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from holdfast.cli.options import (
    add_drain,
    add_engine,
    add_grace,
    add_otel,
    observe_agents,
    to_address,
)
from holdfast.cli.serve_targets import (
    ABOUT_TARGET,
    FIX,
    SETTINGS_FILE,
    default_journal,
    load_targets,
)
from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import between
from holdfast.core.errors import ConfigurationError
from holdfast.models.prices import Prices

if TYPE_CHECKING:
    from holdfast.cli.serve_settings import ServeSettings
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
    sub.add_argument("--host", help="address to listen on; default: loopback")
    sub.add_argument("--port", type=int, help="port; 0 takes a free one; default: 8000")
    _add_deployment(sub)
    sub.add_argument(
        "--prices",
        type=Path,
        metavar="FILE",
        help="TOML file with the prices of a million tokens by model, to show and filter by cost; "
        "or `known` for published prices",
    )
    sub.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="TOML file with settings; default: holdfast.toml in the current folder, if it is there",
    )
    sub.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting, such as limits.turns_per_minute=300; may be repeated",
    )
    sub.add_argument(
        "--check",
        action="store_true",
        help="print all settings that are in force and where they come from, and end",
    )
    add_otel(sub)
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
    add_grace(sub, default=None)
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
    from holdfast.cli.serve_http import check_agents, serve

    settings = _read_settings(args)
    targets = list(settings.process.targets)
    if bool(targets) == args.demo:
        problem = "is given with --demo" if args.demo else "is missing"
        raise ConfigurationError("TARGET", problem, fix=f"{FIX}, or --demo")
    if args.check:
        if targets:
            check_agents(load_targets(targets), settings)
        print(settings.describe())
        return 0
    journal = settings.process.journal
    address = to_address(journal) if journal else None
    with _find_served(args, targets, address) as served:
        agents = observe_agents(args, served.agents)
        serve(agents, served.journal, settings, opens_browser=args.open)
    return 0


def _read_settings(args: argparse.Namespace) -> ServeSettings:
    """Return the settings of the file, of the options and of `--set`. Raises ConfigurationError."""
    from holdfast.cli import serve_settings

    path = args.config or (Path(SETTINGS_FILE) if not args.demo else None)
    is_read = path is not None and (args.config is not None or path.is_file())
    file = serve_settings.read_file(path) if path is not None and is_read else {}
    assigned = serve_settings.read_assignments(args.set)
    options = serve_settings.list_options(_list_options(args))
    for name in assigned.keys() & options.keys():
        raise ConfigurationError("--set", f"gives {name}, and so does {options[name].source}")
    demo = {"logs_requests": ("--demo", False), "queue.parallel": ("--demo", _PARALLEL_IN_DEMO)}
    layers = [serve_settings.list_options(demo)] if args.demo else []
    return serve_settings.merge([*layers, file, options, assigned])


def _list_options(args: argparse.Namespace) -> dict[str, tuple[str, object]]:
    """Return the options that were given, and their values, by the names of the settings."""
    if args.parallel is not None:
        check_value("--parallel", args.parallel, Annotated[int, between(1, 10_000)])
        if args.no_worker:
            raise ConfigurationError("--parallel", "has no effect with --no-worker")
    prices = Prices.read_file(args.prices, argument="--prices") if args.prices else None
    workers = ("--no-worker", 0) if args.no_worker else ("--parallel", args.parallel)
    return {
        "targets": ("TARGET", tuple(args.targets) or None),
        "journal": ("--journal", args.journal),
        "host": ("--host", args.host),
        "port": ("--port", args.port),
        "root_path": ("--root-path", args.root_path),
        "grace": ("--grace", args.grace),
        "access.trusted_proxies": ("--trusted-proxy", tuple(args.trusted_proxy) or None),
        "access.allowed_hosts": ("--allowed-host", tuple(args.allowed_host) or None),
        "service.drain": ("--drain", args.drain),
        "service.prices": ("--prices", prices),
        "queue.parallel": workers,
        "queue.engine": ("--engine", args.engine),
    }


@contextmanager
def _find_served(
    args: argparse.Namespace, targets: list[str], journal: str | None
) -> Iterator[Served]:
    if args.demo:
        from holdfast.cli.serve_demo import run_demo

        with run_demo(journal) as (agents, place):
            yield Served(agents, place)
        return
    yield Served(load_targets(targets), journal or default_journal(targets))
