"""Binds the engine of an agent to another journal, for a service that serves many tenants.

The compiled plan is shared, and with it breakers, limiters, budgets and connections. Sessions and
questions are those of the journal. This module must never change the engine that it is given.
"""

from __future__ import annotations

from copy import copy
from typing import TypeVar

from holdfast.journal.port import Journal
from holdfast.runtime.engine import Engine
from holdfast.runtime.open_runs.answering import Answering
from holdfast.runtime.sessions.session_pool import SessionPool

T = TypeVar("T")


def bind_engine(engine: Engine[T], journal: Journal) -> Engine[T]:
    """Return an engine with the same plan on another journal.

    A question that nobody answers at once suspends its run, and a message for a busy session is
    refused, since a service must hold neither a run nor a request open for a person.

    Args:
        engine: the engine of an agent.
        journal: where the runs of the new engine are saved.
    """
    bound = copy(engine)
    bound.journal = journal
    bound.session_pool = SessionPool(journal, engine.plan.chain, engine.session_pool.cache)
    bound.answering = Answering(engine.plan, bound.session_pool, journal)
    bound.pruning = None
    bound.on_wait, bound.max_wait = "suspend", 0.0
    return bound
