"""Checks of writes in doubt: the function that looks whether a write took effect, and its answers.

A write is in doubt if it was sent and nobody knows whether it took effect: its time was over, its
connection was lost, or its process was killed. A check reads that back from the party that was written to.
This module must never call a check, nor decide about a call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Struct

from holdfast.core.argument_checks import check_fields, check_value
from holdfast.core.constraints import PositiveFloat, between


class DoubtfulCall(Struct, frozen=True, kw_only=True):
    """A call of a tool of which nobody knows whether it took effect.

    Args:
        tool: the name of the tool.
        arguments: the validated arguments, by the names of the parameters, as JSON values.
        idempotency_key: the key of the call, as `ToolContext.idempotency_key` has it.
        began_at: when the tools of its reply began, in seconds since the epoch.
        deps: the object that was passed to `agent.run(deps=...)`.
        session: the session's name, or None.
        metadata: the values that were passed as `agent.run(metadata=...)`.
    """

    tool: str
    arguments: Mapping[str, object]
    idempotency_key: str
    began_at: float
    deps: Any = None
    session: str | None = None
    metadata: Mapping[str, object] = {}

    def __repr__(self) -> str:
        # Arguments and `deps` are left out, because they may hold personal data and clients.
        return f"DoubtfulCall(tool={self.tool!r}, idempotency_key={self.idempotency_key!r})"


class Happened(Struct, frozen=True):
    """The call took effect.

    Args:
        result: the result of the call, for the model.
    """

    result: object


class NotHappened(Struct, frozen=True):
    """The call did not take effect."""


class Unknown(Struct, frozen=True):
    """The check cannot say it.

    Args:
        why: the reason, in words that the model may read.
    """

    why: str = ""

    def __post_init__(self) -> None:
        check_value("why", self.why, str)


CheckAnswer: TypeAlias = Happened | NotHappened | Unknown
"""The answer of a check."""


class Check(Struct, frozen=True):
    """A check with its settings, for `tool(check=...)`.

    Args:
        function: gets a `DoubtfulCall` and returns `Happened(result)`, `NotHappened()` or
            `Unknown(why)`; sync or async. It must only read, since it may be called many times.
        timeout: seconds for one call of the function.
        settle: seconds after the call could last act, from which on `NotHappened()` is believed. A party
            that is slower than this can still take the write after it was denied, and gets it twice.
        retry: how often the write is done again, under the same key, after it did not happen; 0 for never.
        on_doubt: what follows `Unknown(why)`: "tell" the model so, or "ask" a person, who decides it or has the
            check asked again.

    Raises:
        ConfigurationError: a field is wrong.

    >>> Check(lambda call: NotHappened(), retry=0).settle
    2.0
    """

    function: Callable[[DoubtfulCall], object]
    timeout: PositiveFloat = 10.0
    settle: Annotated[float, between(0, 86_400)] = 2.0
    retry: Annotated[int, between(0, 100)] = 1
    on_doubt: Literal["tell", "ask"] = "tell"

    def __post_init__(self) -> None:
        check_fields(self, "check.")


AnyCheck: TypeAlias = Callable[[DoubtfulCall], object] | Check
"""A check, with its settings or without."""
