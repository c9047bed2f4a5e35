"""One file a case, and the one list of them, in the order of the table."""

from __future__ import annotations

from benchmarks.case import Case, Commands
from benchmarks.cases import (
    hooks,
    idle_session,
    imports,
    long_history,
    long_loop,
    many_streams,
    one_turn,
    parallel_calls,
    streamed_deltas,
    tool_iterations,
)

CASES: tuple[Case | Commands, ...] = (
    one_turn.CASE,
    tool_iterations.CASE,
    parallel_calls.CASE,
    parallel_calls.MARGINAL,
    streamed_deltas.CASE,
    long_loop.CASE,
    long_history.CASE,
    many_streams.CASE,
    idle_session.CASE,
    hooks.ONE,
    hooks.IDLE,
    hooks.WORKING,
    imports.PACKAGE,
    imports.AGENT,
)
