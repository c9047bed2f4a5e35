"""Puts the engine of an agent on another journal.

The copy shares the compiled plan, and so the breakers, limiters and connections. This module must never
compile a plan.
"""

from __future__ import annotations

from copy import copy
from typing import TypeVar

from holdfast.journal.port import Journal
from holdfast.runtime.engine import Engine
from holdfast.runtime.open_runs.answering import Answering
from holdfast.runtime.sessions.session_pool import SessionPool

T = TypeVar("T")


def copy_on_journal(engine: Engine[T], journal: Journal) -> Engine[T]:
    """Return an engine of the same agent on another journal."""
    copied = copy(engine)
    copied.journal = journal
    copied.session_pool = SessionPool(journal, engine.plan.chain, engine.session_pool.cache)
    copied.answering = Answering(engine.plan, copied.session_pool, journal)
    copied.pruning = None  # of the other journal
    return copied
