"""The demo of `holdfast serve`: two agents on an emulated provider, with a past.

The past is made by a process that runs turns and then ends in the middle of two of them, as a server
does that is killed. So the service begins with runs that are finished, failed, waiting and interrupted.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from holdfast.agent import Agent
from holdfast.cli.serve_demo_script import choose_reply, make_faults
from holdfast.hosting.bound_agents import AnyAgent
from holdfast.journal.url import open_journal
from holdfast.middleware.tool_permission import ToolPermission
from holdfast.resilience.retry.options import RetryOptions
from holdfast.testing.emulator import Emulator
from holdfast.tools.tool import tool

KILLED = 9
"""The exit status of the process that makes the past."""

KILLED_BY_REFUND = "HOLDFAST_DEMO_KILL"
"""An environment variable: the process ends in the middle of a refund of this order."""


@tool(effect="read")
async def find_order(order: str) -> str:
    """Find an order: who bought what, and for how much."""
    await asyncio.sleep(0.6)
    cents = 1900 + sum(map(ord, order)) * 37 % 9000
    found = {
        "order": order,
        "customer": "Ada Byron",
        "items": ["desk lamp", "bulb, warm white"],
        "total": cents / 100,
        "delivered": "2026-11-17",
    }
    return msgspec.json.encode(found).decode()


@tool(effect="read")
async def read_policy(topic: str) -> str:
    """Read the shop's policy about a topic."""
    await asyncio.sleep(1.1)
    return f"{topic}: within 30 days of delivery, in full, with the approval of a person."


@tool(effect="write")
async def refund(order: str, amount: float) -> str:
    """Give the money for an order back.

    Args:
        order: the number of the order.
        amount: euros.
    """
    await asyncio.sleep(0.5)
    if os.environ.get(KILLED_BY_REFUND) == order:
        os._exit(KILLED)
    return f"refunded {amount:.2f} EUR for order {order}"


@tool(effect="read")
async def search(source: str, words: str) -> str:
    """Search a source.

    Args:
        source: papers, incidents or changelogs.
        words: the words to find.
    """
    await asyncio.sleep(0.5 + len(source) / 8)
    return f"{len(words) * 3} results about {words!r} in {source}"


def make_agents(base_url: str, journal: str) -> list[AnyAgent]:
    """Return the agents of the demo: one that asks for approvals, and one that researches."""
    model, retry = "openai:gpt-5.2", RetryOptions(retry_delay=0.5)
    saved = open_journal(journal)
    return [
        Agent(
            model,
            name="support",
            instructions="You help the customers of a shop.",
            tools=[find_order, read_policy, refund],
            middleware=[
                ToolPermission(allow=["find_order", "read_policy"], ask=["refund"], timeout=86400)
            ],
            base_url=base_url,
            api_key="demo",
            retry=retry,
            journal=saved,
            on_wait="suspend",
        ),
        Agent(
            model,
            name="research",
            instructions="You search several sources and write a report.",
            tools=[search],
            base_url=base_url,
            api_key="demo",
            retry=retry,
            journal=saved,
            on_wait="suspend",
        ),
    ]


@contextmanager
def run_demo(journal: str | None) -> Iterator[tuple[list[AnyAgent], str]]:
    """Run the emulated provider; give the agents and the address of their journal.

    Args:
        journal: the address of a journal. A new one gets the past of the demo, too; by default the
            journal is temporary.
    """
    is_live = False
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder,
        Emulator(choose_reply, faults=make_faults(lambda: is_live)) as provider,
    ):
        place = journal or f"sqlite:///{folder}/holdfast.db"
        make_past(place, provider.base_url)
        is_live = True
        yield make_agents(provider.base_url, place), place


def make_past(journal: str, base_url: str) -> None:
    """Fill an empty journal with the past of the demo."""
    print("holdfast: making a past: 12 runs, of which two are killed", file=sys.stderr)
    subprocess.run(  # noqa: S603  # REASON: our own module
        [sys.executable, "-m", "holdfast.cli.serve_demo_past", journal, base_url],
        check=False,
        timeout=120,
    )
