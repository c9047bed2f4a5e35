"""The calls that an agent works for, when it runs as a tool of another agent.

This module must never read them from a journal: the caller passes them on each time it calls.
"""

from __future__ import annotations

from msgspec import Struct


class OuterCall(Struct, frozen=True):
    """A call of an agent as a tool.

    Args:
        agent: the name of the agent that calls.
        run_id: the id of its run.
        key: the key of the call in that run, such as `t3.i0.tool.0`.
        session: the name of its session, or None.

    >>> OuterCall("boss", "ada", "t3.i0.tool.0", "ada").turn
    3
    """

    agent: str
    run_id: str
    key: str
    session: str | None = None

    @property
    def turn(self) -> int:
        """The number of the calling turn in its session, from 1."""
        return turn_number(self.key)


def turn_number(key: str) -> int:
    """Return the number of the turn that a key belongs to.

    >>> turn_number("t12.i0.tool.2")
    12
    """
    return int(key[1 : key.index(".")])
