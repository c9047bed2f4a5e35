"""One file a case, and the one list of them, in the order of the table."""

from __future__ import annotations

from benchmarks.case import Case, Commands, Timed
from benchmarks.cases import (
    closed_connections,
    hooks,
    idle_session,
    imports,
    long_history,
    long_loop,
    many_streams,
    one_turn,
    parallel_calls,
    response_budgets,
    streamed_deltas,
    tool_iterations,
    unwatched,
    wire_deltas,
)

CASES: tuple[Case | Commands | Timed, ...] = (
    one_turn.CASE,
    one_turn.STREAMED,
    one_turn.DURABLE,
    tool_iterations.CASE,
    parallel_calls.CASE,
    parallel_calls.MARGINAL,
    streamed_deltas.CASE,
    wire_deltas.CASE,
    response_budgets.CASE,
    long_loop.CASE,
    long_history.CASE,
    many_streams.CASE,
    unwatched.CASE,
    unwatched.BURST_CASE,
    closed_connections.CASE,
    idle_session.CASE,
    hooks.ONE,
    hooks.IDLE,
    hooks.WORKING,
    imports.PACKAGE,
    imports.AGENT,
)
