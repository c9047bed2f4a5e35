"""Counts the usage of the agents and models that run inside the tools of a turn.

A meter counts a tool call that is still running; the event of a finished call holds its usage. The
usage must never be counted twice, so the meter of a call is removed when its event is saved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from holdfast.core.errors import ErrorInfo
from holdfast.core.messages import NO_USAGE, Usage
from holdfast.tools.checked_call import Invocation
from holdfast.tools.context import UsageSink

TokensLeft: TypeAlias = Callable[[], int | None]
"""Returns the remaining tokens; None without a limit."""


class UsageMeter(Struct, eq=False):
    """The usage of one running tool call, the error info of its refusal, and its last result.

    Args:
        remaining: returns the remaining tokens of the turn.
        parent: the meter of the calling agent, if this agent runs as a subagent.
    """

    remaining: TokensLeft
    parent: UsageSink | None = None
    usage: Usage = NO_USAGE
    refusal: ErrorInfo | None = None
    last: Invocation | None = None
    _counted_runs: set[str] = set()

    def add(self, usage: Usage) -> None:
        """Add usage to this call and to all of its callers."""
        self.usage = self.usage + usage
        if self.parent is not None:
            self.parent.add(usage)

    def take_over(self, run_id: str, usage: Usage) -> None:
        """Add the earlier usage of a resumed run, once per run.

        Args:
            run_id: the id of the run; its further usage is counted by `add`.
            usage: the usage so far.
        """
        if run_id not in self._counted_runs:
            self._counted_runs.add(run_id)
            self.add(usage)

    def remaining_tokens(self) -> int | None:
        """Return the remaining tokens for the agents and models in this call."""
        return self.remaining()


def count_remaining(limit: int | None, used: Usage, under_way: list[UsageMeter]) -> int | None:
    """Return the remaining tokens of a turn; None without a limit.

    Args:
        limit: the token limit of the turn.
        used: the usage of its model calls and finished tool calls.
        under_way: the meters of its running tool calls.
    """
    if limit is None:
        return None
    return limit - used.total - sum(notes.usage.total for notes in under_way)
