"""Makes the past of the demo, in a process of its own that ends in the middle of two turns."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress

from holdfast.agent import Agent
from holdfast.cli.serve_demo import KILLED_BY_REFUND, make_agents
from holdfast.cli.serve_demo_script import CANCELLED, UNREADABLE
from holdfast.core.deltas import TextDelta
from holdfast.core.errors import HoldfastError
from holdfast.core.limits import Limits
from holdfast.core.questions import PermissionQuestion
from holdfast.hosting.bound_agents import journal_of
from holdfast.journal.inbox.opening_inbox import open_schedules
from holdfast.journal.inbox.schedules.schedule import Schedule
from holdfast.runtime.queued_runs.queued_turn import encode_message_turn
from holdfast.worker.worker import Worker

KILLED_ORDER = "C-3007"

_QUESTIONS = (
    ("How do clients handle rate limits?", "Rate limits"),
    ("Which incidents began with a retry storm?", "Retry storms"),
    ("What did providers change about streaming?", "Streaming changes"),
)


async def make_past(support: Agent[str], research: Agent[str]) -> None:
    """Run turns that end in all ways, and then two during which the process ends."""
    if await support.sessions.list(limit=1):
        return
    ended = [
        *(_run(research, question, title) for question, title in _QUESTIONS),
        _run(research, "Which sources agree?", "Sources that agree", Limits(iterations=1)),
        _run(support, "What can you do?", "First steps"),
        _cancel(research, f"{CANCELLED} about outages.", "Report about outages"),
        _decide(support, "A-1040", "Refund for a broken lamp", amount=None),
        _decide(support, "A-1041", "Refund, with less than asked", amount=20.0),
        _decide(support, "B-2209", "Refund after 30 days", denied="Delivered 41 days ago."),
    ]
    await asyncio.gather(*ended)
    await asyncio.gather(
        _queue(support), _run(support, "Order B-2210 arrived twice.", "Delivered twice")
    )
    await _be_killed(support, research)


async def _run(agent: Agent[str], message: str, title: str, limits: Limits | None = None) -> str:
    session = title.lower().replace(",", "").replace(" ", "-")
    with suppress(HoldfastError):  # the journal says how it ended
        await agent.run(message, session=session, limits=limits)
    await agent.sessions.rename(session, title)
    return session


async def _queue(support: Agent[str]) -> None:
    """Queue a turn that fails, one that waits for an answer, and two messages behind that one."""
    first = "Refund order A-1042, the lamp arrived broken."
    async with Worker(support):
        lost = await support.submit(f"{UNREADABLE} of our orders.", session="the-whole-archive")
        asked = await support.submit(first, session="broken-lamp")
        for message in ("How long does a refund take?", "And what about the bulb?"):
            await support.submit(message, session="broken-lamp")
        await asyncio.gather(lost.wait_for_rest(), asked.wait_for_rest())
    await support.sessions.rename("the-whole-archive", "The whole archive")
    await support.sessions.rename("broken-lamp", "Broken lamp")
    report = Schedule(
        name="weekly-report",
        agent="research",
        body=encode_message_turn("Which incidents began this week?"),
        cron="0 9 * * MON",
        zone="UTC",
        made_by="ann@example.org",
    )
    journal = journal_of(support)
    if journal is not None:
        await open_schedules(journal).put(report)


async def _decide(
    agent: Agent[str], order: str, title: str, *, amount: float | None = None, denied: str = ""
) -> None:
    session = await _run(agent, f"Please refund order {order}.", title)
    for question in await agent.questions(session):
        if not isinstance(question, PermissionQuestion):
            continue
        if denied:
            await agent.answer(session, question.deny(denied, by="ben@example.org"))
        else:
            edited = None if amount is None else {**question.arguments, "amount": amount}
            answer = question.approve(arguments=edited, by="ann@example.org")
            await agent.answer(session, answer)
    with suppress(HoldfastError):
        await agent.resume(session)


async def _cancel(agent: Agent[str], message: str, title: str) -> None:
    session = title.lower().replace(" ", "-")
    written = ""
    async with agent.stream(message, session=session) as stream:
        async for item in stream:
            if isinstance(item, TextDelta):
                written += item.text
            if "Retries help" in written:  # the report has begun, and its tools have ended
                stream.cancel()
                break
    await agent.sessions.rename(session, title)


async def _be_killed(support: Agent[str], research: Agent[str]) -> None:
    """Approve a refund, and end in the middle of it, while another turn is in progress."""
    session = await _run(support, f"Refund order {KILLED_ORDER}.", "Refund while the server died")
    for question in await support.questions(session):
        if isinstance(question, PermissionQuestion):
            await support.answer(session, question.approve(by="ann@example.org"))
    os.environ[KILLED_BY_REFUND] = KILLED_ORDER
    other = "report-while-the-server-died"
    await research.sessions.create("Report while the server died", session=other)
    async with asyncio.TaskGroup() as group:
        group.create_task(research.run("What happens after an outage?", session=other))
        group.create_task(support.resume(session))


if __name__ == "__main__":
    agents = make_agents(base_url=sys.argv[2], journal=sys.argv[1])
    asyncio.run(make_past(*agents))
