"""The arguments of the methods that continue a turn, checked before it continues.

This module must not start a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from holdfast.runtime.turn_state.plan_changes import NO_CHANGES, PlanChanges, read_changes


class ContinuedTurn(Struct, frozen=True, kw_only=True):
    """What a caller passes to continue a turn; see `Agent.resume`."""

    run_id: str = ""
    deps: Any = None
    changes: PlanChanges = NO_CHANGES


def read_continued_turn(run_id: str, output: object, keywords: Mapping[str, Any]) -> ContinuedTurn:
    """Return the arguments of a method that continues a turn. Raises ConfigurationError."""
    if output is None and not keywords:
        return ContinuedTurn(run_id=run_id)
    changes = read_changes({"output": output, **keywords})
    return ContinuedTurn(run_id=run_id, deps=keywords.get("deps"), changes=changes)
