"""The hooks of one turn in progress, and their decisions that are not carried out yet.

This state ends with the turn and is not saved. Each decision must lead to an event; until then it
is stored here.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Struct

from holdfast.core.effects import stopped_key
from holdfast.core.errors import HoldfastBug, MiddlewareError
from holdfast.core.events import TurnStopped
from holdfast.core.messages import Reply, ToolCall, ToolResult
from holdfast.middleware.chain import Chain, Hook
from holdfast.middleware.decisions import Decision, Deny, Stop
from holdfast.middleware.folds import Folds
from holdfast.middleware.hook_contexts import ModelCall, RunFacts
from holdfast.resilience.pipeline import Done, Failed, Outcome
from holdfast.tools.checked_call import CheckedCall, Invocation

M = TypeVar("M")

INTERRUPTED_TEXT = "(This answer was interrupted by the next message.)"
"""The last text of a turn whose place another message takes, for the model and for people."""


class Iteration(Struct):
    """The iteration in progress, for the hooks that run after parts of it.

    `outcome` is that of the model call with its hooks.
    """

    number: int
    key: str
    started_at: float
    outcome: Outcome[Reply] | None = None
    results: dict[int, ToolResult] = {}
    denial: str | None = None
    before_tools_called: bool = False
    is_replaced: bool = False
    """Whether a hook replaced a reply that a model may have streamed, and readers were notified."""
    checked: dict[int, CheckedCall | Invocation] = {}
    """The calls of the reply that were checked before they were due to run, by index."""
    asked: Outcome[Reply] | None = None
    """The outcome of the model itself, the last time that it was called."""
    called_by: str = ""
    """The middleware that made the calls of the reply in place of a model."""
    output_call: ToolCall | None = None
    """The call of an output function, whose arguments are the text of the reply."""

    @property
    def reply(self) -> Reply | None:
        """The reply of the model; None when the call failed."""
        return self.outcome.value if isinstance(self.outcome, Done) else None

    @property
    def exception(self) -> BaseException | None:
        """The exception of the model call; None when it succeeded."""
        return self.outcome.error if isinstance(self.outcome, Failed) else None

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the reply, or the call of the output function."""
        if self.output_call is not None:
            return (self.output_call,)
        return self.reply.calls if self.reply is not None else ()


class TurnHooks:
    """The hooks of one turn.

    Args:
        chain: the compiled hooks.
        folds: the states of the middlewares.
        facts: the data that all hook contexts of this turn share.
        instructions: the instructions of this turn.
    """

    __slots__ = (
        "chain",
        "facts",
        "failure",
        "folds",
        "instructions",
        "iteration",
        "model_call",
        "refused",
        "stop",
    )

    def __init__(self, chain: Chain, folds: Folds, facts: RunFacts, instructions: str) -> None:
        self.chain = chain
        self.folds = folds
        self.facts = facts
        self.instructions = instructions
        self.model_call: ModelCall | None = None
        """The last model call, for live filters of a reply that broke off."""
        self.iteration: Iteration | None = None
        self.stop: tuple[str, Stop] | None = None
        self.refused = False
        """Whether `stop` refuses the message of the user."""
        self.failure: MiddlewareError | None = None

    def set_turn(self, turn: int, iteration: int = 0) -> None:
        """Set the numbers of the turn and the iteration that the hooks are called for."""
        if self.facts.turn != turn or self.facts.iteration != iteration:
            self.facts = msgspec.structs.replace(self.facts, turn=turn, iteration=iteration)

    def enter_iteration(self, this: Iteration | None) -> None:
        """Set the iteration that the hooks are called for; None for none in progress."""
        self.iteration = this
        if this is not None:
            self.set_turn(self.facts.turn, this.number)

    def record_failure(self, error: MiddlewareError | None) -> None:
        """Store the first failure, which ends the turn."""
        if self.failure is None:
            self.failure = error

    def ask_to_stop(self, hook: Hook, decision: Decision) -> None:
        """Store the first Stop, which ends the turn at the next possible point."""
        if isinstance(decision, Stop) and self.stop is None:
            self.stop = (hook.owner, decision)

    def interrupt(self) -> None:
        """End the turn at the next possible point, since another message takes its place."""
        if self.stop is None:
            self.stop = ("on_busy", Stop("interrupted", INTERRUPTED_TEXT))

    def apply_stop(self, context: M, hook: Hook, decision: Decision) -> M:
        """Like `ask_to_stop`, for hooks that may return nothing but a Stop; returns the context."""
        self.ask_to_stop(hook, decision)
        return context

    def refuse_message(self, hook: Hook, denial: Deny) -> None:
        """End the turn before its message is sent to a model."""
        self.stop, self.refused = (hook.owner, Stop("denied", denial.reason)), True

    def wants_to_end(self) -> bool:
        """Whether a hook or a fold has failed, or a hook has stopped the turn."""
        return self.stop is not None or self.failure is not None or self.folds.failure is not None

    def blocks_tools(self) -> bool:
        """Whether no other tool may run."""
        this = self.iteration
        return self.stop is not None or (this is not None and this.denial is not None)

    def stop_event(self, turn: int, at: float) -> TurnStopped:
        """Return the event that ends the turn after a failure or a Stop."""
        self.record_failure(self.folds.failure)
        if self.failure is not None:
            info = self.failure.info.to_public()
            by = f"{self.failure.middleware}.{self.failure.hook}"
            return TurnStopped(stopped_key(turn), at, info.safe, by=by, error=info)
        if self.stop is None:
            raise HoldfastBug("no hook has stopped the turn")
        by, stop = self.stop
        return TurnStopped(
            key=stopped_key(turn),
            at=at,
            reason=stop.reason,
            text=stop.message,
            by=by,
            refused=self.refused,
        )
