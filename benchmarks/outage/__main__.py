"""`python -m benchmarks.outage [--clients N] [--waves]`: simulate, print the tables, keep them and the plots.

With `--waves`, no simulation: a fleet of real runs meets waves of faults.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from benchmarks.outage.fleet import LOAD, SECONDS, Seen, simulate
from benchmarks.outage.plot import plot
from benchmarks.outage.policies import POLICIES
from benchmarks.outage.provider import BROWN_OUT, OUTAGE, Incident
from benchmarks.outage.waves import ARRIVALS, BEGIN, END, RUNS, WAVES, make_table, ride_wave

RESULTS = Path(__file__).parents[1] / "results"
IMAGES = Path(__file__).parents[2] / "docs" / "images"
_WINDOW = 5
_ABOUT = (
    "{clients:,} clients in 100 processes offer {load:.0%} of the provider's capacity; the "
    "incident lasts from second 60 to second 120. `python -m benchmarks.outage` makes this."
)
_WAVES = (
    f"{RUNS} runs of one agent begin within {ARRIVALS:.0f} seconds of virtual time, over real HTTP on "
    f"loopback. From second {BEGIN:.0f} to second {END:.0f} the provider has one kind of fault. Each "
    "failed run has failed with the error of its wave, and the journal says the same. `python -m "
    "benchmarks.outage --waves` makes this."
)


def recovery(seen: Seen, incident: Incident, healthy: float) -> float | None:
    """Seconds after the end until goodput stays at 95 % of what it was, over 5 seconds."""
    begin = int(incident.end)
    for second in range(begin, SECONDS - _WINDOW):
        if sum(seen.goodput[second : second + _WINDOW]) / _WINDOW >= 0.95 * healthy:
            return float(second - begin)
    return None


def row(name: str, seen: Seen, incident: Incident) -> str:
    """One line of the table."""
    begin, end = int(incident.begin), int(incident.end)
    healthy = sum(seen.goodput[10:begin]) / (begin - 10)
    ill = sum(seen.goodput[begin:end]) / (end - begin)
    took = recovery(seen, incident, healthy)
    ordered = sorted(seen.latencies)
    p99 = ordered[int(len(ordered) * 0.99)]
    back = "never" if took is None else f"{took:.0f} s"
    lost = seen.failed / max(1, seen.calls)
    return (
        f"| {name} | {seen.amplification:.2f} | {ill / max(healthy, 1e-9):.0%} | {back} "
        f"| {lost:.1%} | {p99:.1f} s |"
    )


def main() -> None:
    """Run the waves, or every policy through every incident."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--waves", action="store_true")
    arguments = parser.parse_args()
    if arguments.waves:
        ride_waves()
    else:
        compare_policies(arguments.clients)


def ride_waves() -> None:
    """Let a fleet of runs meet every wave."""
    tolls = [(wave, asyncio.run(ride_wave(wave))) for wave in WAVES]
    lines = ["# A fleet of runs under waves of faults", "", _WAVES, "", *make_table(tolls)]
    lines += [f"\n{wave.name}: {untold}" for wave, toll in tolls for untold in toll.untold]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "waves.md").write_text("\n".join(lines) + "\n", "utf-8")
    print("\n".join(lines))


def compare_policies(clients: int) -> None:
    """Run every policy through every incident."""
    lines = [
        "# A fleet of clients and an overloaded provider, simulated",
        "",
        _ABOUT.format(clients=clients, load=LOAD),
    ]
    for incident in (BROWN_OUT, OUTAGE):
        lines += [
            "",
            f"## {incident.name.capitalize()}",
            "",
            "| policy | attempts for a call | goodput during it | back at 95 % after | calls lost | p99 |",
            "|---|---|---|---|---|---|",
        ]
        curves: dict[str, list[int]] = {}
        for name in POLICIES:
            seen = simulate(name, incident, clients=clients)
            curves[name] = seen.goodput
            lines.append(row(name, seen, incident))
            print(lines[-1], flush=True)
        slug = incident.name.split()[0] if incident.share else "outage"
        IMAGES.mkdir(parents=True, exist_ok=True)
        (IMAGES / f"{slug}.svg").write_text(plot(curves, incident), "utf-8")
        lines += ["", f"![Goodput over time](../../docs/images/{slug}.svg)"]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "outage.md").write_text("\n".join(lines) + "\n", "utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
