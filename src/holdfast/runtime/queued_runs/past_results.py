"""Reads the result of a turn from the journal, whichever process drives or drove it.

This module must never drive a turn, and takes no lease.
"""

from __future__ import annotations

from typing import TypeVar

from holdfast.journal.memory import MemoryJournal
from holdfast.runtime.active_turn import TurnContext
from holdfast.runtime.arguments.continued_turn import ContinuedTurn
from holdfast.runtime.around_turn import finish_turn
from holdfast.runtime.engine import Engine
from holdfast.runtime.result import Result
from holdfast.runtime.sessions.earlier_turn import find_last_try, replay_turn

T = TypeVar("T")


async def read_result(engine: Engine[T], request: str) -> Result[T] | None:
    """Return the result of the turn with a request; None if the journal has no such turn.

    A turn in progress has the result that it has now.

    Args:
        engine: the engine of the agent on the journal of the turn.
        request: the request.

    Raises:
        HoldfastError: the turn did not complete; `.result` has its messages, usage and status.
    """
    known = await engine.require_journal("read the result from").find_request(request)
    if known is None:
        return None
    run_id, key = known
    records = await engine.session_pool.journal.read(run_id)
    past = engine.session_pool.make_session(MemoryJournal())
    past.machine = replay_turn(records, find_last_try(records, key))
    this, context = ContinuedTurn(run_id=run_id), TurnContext(session=run_id)
    return finish_turn(await engine.restore_run(this, past, context))
