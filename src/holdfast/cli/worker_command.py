"""`holdfast worker TARGET... --journal ADDRESS`: drives the turns that were submitted to a journal.

Any number of workers may share a PostgreSQL journal. A worker ends with Ctrl-C or SIGTERM: it cuts
model calls and reading tools, awaits writing tools for a while, and hands back the turns that have not ended.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Annotated

from holdfast.cli.options import (
    add_engine,
    add_grace,
    add_inbox,
    add_otel,
    check_grace,
    name_options,
    observe_agents,
    to_address,
)
from holdfast.cli.serve_targets import ABOUT_TARGET, FIX, load_targets
from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import between
from holdfast.core.errors import ConfigurationError

_DEATHS = {
    "--deaths-in-company": "how many workers may die that drive a turn beside others, before it is driven alone",
    "--deaths-alone": "how many workers may die that drive a turn alone, before it is parked",
}


def add_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the arguments for the agents, the journal, the engine and the end."""
    sub.add_argument(
        "targets",
        nargs="+",
        metavar="TARGET",
        help=ABOUT_TARGET,
    )
    add_inbox(sub)
    add_engine(sub)
    sub.add_argument(
        "--parallel",
        type=int,
        default=16,
        metavar="N",
        help="how many turns it drives at once; default: 16",
    )
    sub.add_argument(
        "--tenants",
        default="",
        metavar="NAMES",
        help="serve these tenants alone, such as acme,zoo; they are then served by such workers alone",
    )
    sub.add_argument(
        "--prices",
        type=Path,
        metavar="FILE",
        help="TOML file with the prices of a million tokens by model, to save what turns cost; "
        "or `known` for published prices",
    )
    add_otel(sub)
    add_grace(sub)
    for name, about in _DEATHS.items():
        sub.add_argument(name, type=int, default=2, metavar="N", help=f"{about}; default: 2")
    sub.add_argument(
        "--health",
        metavar="HOST:PORT",
        help="answer /health, /ready and /metrics there; they need no key",
    )


def main(args: argparse.Namespace) -> int:
    """Work until Ctrl-C or SIGTERM."""
    check_value("--parallel", args.parallel, Annotated[int, between(1, 10_000)])
    check_grace(args.grace)
    tenants = tuple(name.strip() for name in args.tenants.split(",")) if args.tenants else ()
    if not all(tenants):
        raise ConfigurationError("--tenants", "has an empty name", fix="Write names, such as a,b")
    agents = load_targets(args.targets)
    if len({id(agent) for agent in agents}) != len(agents):
        raise ConfigurationError("TARGET", "names an agent twice", fix=FIX)
    from holdfast.cli.worker_process import WorkerOptions, run_worker
    from holdfast.models.prices import Prices
    from holdfast.worker.quarantine import QuarantineOptions

    names = {f"quarantine.{option[2:].replace('-', '_')}": option for option in _DEATHS}
    with name_options(names):
        quarantine = QuarantineOptions(
            deaths_in_company=args.deaths_in_company, deaths_alone=args.deaths_alone
        )
    options = WorkerOptions(
        journal=to_address(args.journal),
        engine=args.engine,
        parallel=args.parallel,
        tenants=tenants,
        grace=args.grace,
        health=args.health,
        quarantine=quarantine,
        prices=Prices.read_file(args.prices, argument="--prices") if args.prices else None,
    )
    run_worker(observe_agents(args, agents), options)
    return 0
