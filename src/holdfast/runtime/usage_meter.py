"""What a turn spends through the agents and models at work in its tools, counted as it is spent.

The figure of a call that is over is a fact on its event; what stands here is of calls under way. It
must never be counted twice: a call is forgotten here when its event is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from holdfast.core.errors import ErrorInfo
from holdfast.core.messages import Usage
from holdfast.tools.context import UsageSink

TokensLeft: TypeAlias = Callable[[], int | None]
"""The tokens that may still be spent; None without a limit."""

_NOTHING = Usage()


class UsageMeter:
    """What is known of one tool call under way, beside its result.

    Args:
        remaining_tokens: the tokens that the turn may still spend.
        parent: where the agent's own spending counts, when it works for another one.
    """

    __slots__ = ("_counted_runs", "_parent", "_remaining", "refusal", "usage")

    def __init__(self, left: TokensLeft, parent: UsageSink | None = None) -> None:
        self._remaining = left
        self._parent = parent
        self._counted_runs: set[str] = set()
        self.usage = _NOTHING
        self.refusal: ErrorInfo | None = None

    def add(self, usage: Usage) -> None:
        """Count what was spent in this call; it counts for all who wait for it."""
        self.usage = self.usage + usage
        if self._parent is not None:
            self._parent.add(usage)

    def take_over(self, run_id: str, usage: Usage) -> None:
        """Count what a run had spent in another process; one that was counted here stays so.

        Args:
            run_id: the run, which from now on counts by `add`.
            usage: what it had spent.
        """
        if run_id not in self._counted_runs:
            self._counted_runs.add(run_id)
            self.add(usage)

    def remaining_tokens(self) -> int | None:
        """The tokens that may still be spent, by whoever works in this call."""
        return self._remaining()


def count_remaining(limit: int | None, used: Usage, under_way: list[UsageMeter]) -> int | None:
    """What a turn may still spend.

    Args:
        limit: of the turn.
        used: what its own model calls, and its calls that are over, have spent.
        under_way: its calls that are not over.
    """
    if limit is None:
        return None
    return limit - used.total - sum(notes.usage.total for notes in under_way)
