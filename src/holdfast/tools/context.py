"""What a tool may know about its own call, as a frozen record.

A tool asks for it by annotating a parameter with `ToolContext`; the model never sees that
parameter. This module must never give a tool a way to change the run that it is part of.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, cast

from msgspec import Struct

from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Usage
from holdfast.core.notices import Notice
from holdfast.core.questions import AnyQuestion, Question, Timeout

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    A = TypeVar("A")
    D = TypeVar("D", default=object)
else:
    # The default of a type variable is for type checkers; Python has it from 3.13.
    from typing import TypeVar

    A = TypeVar("A")
    D = TypeVar("D")

Asker: TypeAlias = Callable[[str, int, AnyQuestion, Timeout], Awaitable[object]]
"""Asks for the effect of this key, in this attempt of it, and waits so long at most."""


class UsageSink(Protocol):
    """Counts what is spent in a call, and knows what may still be."""

    def add(self, usage: Usage) -> None:
        """Count it."""
        ...

    def take_over(self, run_id: str, usage: Usage) -> None:
        """Count what a run in it had spent, unless that was counted here."""
        ...

    def remaining_tokens(self) -> int | None:
        """Tokens that may still be spent; None without a limit."""
        ...


class EventSink(Struct, frozen=True):
    """How a tool shows notices on the stream of its run; `ready` waits for a slow reader.

    `live` says that somebody reads them as they come, and not only observers.
    """

    publish: Callable[[Notice], None]
    ready: Callable[[], Awaitable[None]]
    live: bool = True


class ToolContext(Struct, Generic[D], frozen=True, kw_only=True):
    """The call that a tool is answering.

    Args:
        run_id: the run.
        key: the effect's key in the run, such as `t1.i0.tool.2`.
        call_id: the provider's id of the call; may be empty, and may repeat.
        tool: the tool's name.
        attempt: counted from 1; the same call may be tried again.
        session: the session's name, or None.
        deps: the object that was given to `agent.run(deps=...)`.
        remaining: seconds until the run's deadline when the attempt began, or None.
        asker: how `ask` reaches people; the run sets it.
        event_sink: where notices are shown; None when nobody watches.
        usage_sink: counts what the call spends; the run sets it.

    >>> context = ToolContext(run_id="r1", key="t1.i0.tool.0", tool="pay")
    >>> context.idempotency_key
    'r1:t1.i0.tool.0'
    """

    run_id: str
    key: str
    call_id: str = ""
    tool: str = ""
    attempt: int = 1
    session: str | None = None
    deps: D = None  # type: ignore[assignment]  # REASON: absent deps are None, whatever D is
    remaining: float | None = None
    asker: Asker | None = None
    event_sink: EventSink | None = None
    usage_sink: UsageSink | None = None

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this call, also after a crash, and for no other call."""
        return f"{self.run_id}:{self.key}"

    async def ask(self, question: Question[A], *, timeout: Timeout = "default") -> A:
        """Ask somebody outside, and wait for the answer; the limits of time stand still meanwhile.

        With `on_wait="suspend"` a question that nobody answers at once ends the run as "waiting".
        When there is an answer the tool runs again from its beginning and finds it: what stands
        before `ask` is done again. A sync tool writes `asyncio.run(context.ask(...))`.

        Args:
            question: the question; a kind of your own is a frozen `Request[...]`.
            timeout: seconds to wait for an answer; None waits for ever. The default is 5 minutes
                (2 for a continuation) while the run waits, and for ever once it is suspended.

        Raises:
            UnansweredError: nobody answered, and the kind of request has no answer for that.
            ConfigurationError: this context was not made by a run.
        """
        if self.asker is None:
            raise ConfigurationError(
                "ToolContext.asker",
                "is not set, so there is nobody to ask",
                fix="Let an agent run the tool, or make the context with asker=...",
            )
        return cast("A", await self.asker(self.key, self.attempt, question, timeout))

    def add_usage(self, usage: Usage) -> None:
        """Count the tokens of a model that the tool asked itself, as if the agent had asked it.

        They are in `result.usage`, and count for `Limits(tokens=...)` and `UsageLimits`.
        """
        if self.usage_sink is not None:
            self.usage_sink.add(usage)

    def __repr__(self) -> str:
        # Without `deps`: they hold clients and keys.
        return (
            f"ToolContext(run_id={self.run_id!r}, key={self.key!r}, tool={self.tool!r}, "
            f"attempt={self.attempt})"
        )
