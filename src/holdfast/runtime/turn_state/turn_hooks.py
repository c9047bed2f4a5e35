"""The hooks of one turn under way: what they decided that is not carried out yet.

It lives as long as the turn. What a hook decided must end in an event; what stands here is only on
its way there.
"""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.effects import stopped_key
from holdfast.core.errors import MiddlewareError
from holdfast.core.events import TurnStopped
from holdfast.core.messages import Reply, ToolCall, ToolResult
from holdfast.middleware.chain import Chain, Hook
from holdfast.middleware.decisions import Decision, Stop
from holdfast.middleware.folds import Folds
from holdfast.middleware.hook_contexts import ModelCall, RunFacts
from holdfast.resilience.pipeline import Done, ExecutionContext, Failed, Outcome
from holdfast.tools.checked_call import CheckedCall, Invocation


class Iteration(Struct):
    """The iteration that is under way, for the hooks that look back at it."""

    number: int
    key: str
    started_at: float
    outcome: Outcome[Reply] | None = None
    results: dict[int, ToolResult] = {}
    denial: str | None = None
    before_tools_called: bool = False
    checked: dict[int, CheckedCall | Invocation] = {}
    """The calls of the reply that were checked before their own turn came."""

    @property
    def reply(self) -> Reply | None:
        """What the model said; None when the call failed."""
        return self.outcome.value if isinstance(self.outcome, Done) else None

    @property
    def exception(self) -> BaseException | None:
        """What the call failed with."""
        return self.outcome.error if isinstance(self.outcome, Failed) else None

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """What the reply asks for."""
        return self.reply.calls if self.reply is not None else ()


class TurnHooks:
    """The hooks of one turn.

    Args:
        chain: the compiled hooks.
        folds: what the middlewares remember.
        facts: what all moments of this turn have in common.
        instructions: the instructions of this turn.
    """

    __slots__ = (
        "chain",
        "env",
        "facts",
        "failure",
        "folds",
        "instructions",
        "iteration",
        "model_call",
        "stop",
    )

    def __init__(self, chain: Chain, folds: Folds, facts: RunFacts, instructions: str) -> None:
        self.chain = chain
        self.folds = folds
        self.facts = facts
        self.instructions = instructions
        self.model_call: ModelCall | None = None
        """The last model call, for what is made of a reply that broke off."""
        self.env: ExecutionContext | None = None
        """Of the model call under way, where what it shows goes through middlewares."""
        self.iteration: Iteration | None = None
        self.stop: tuple[str, Stop] | None = None
        self.failure: MiddlewareError | None = None

    def record_failure(self, error: MiddlewareError | None) -> None:
        """Keep the first failure: the turn ends with it."""
        if self.failure is None:
            self.failure = error

    def ask_to_stop(self, hook: Hook, decision: Decision) -> None:
        """Keep the first Stop: the turn ends with it at the next moment where it can."""
        if isinstance(decision, Stop) and self.stop is None:
            self.stop = (hook.owner, decision)

    def wants_to_end(self) -> bool:
        """Whether there is a verdict: cheaper to ask than to make."""
        return self.stop is not None or self.failure is not None or self.folds.failure is not None

    def blocks_tools(self) -> bool:
        """Whether no tool may run any more."""
        this = self.iteration
        return self.stop is not None or (this is not None and this.denial is not None)

    def stop_event(self, turn: int, at: float) -> TurnStopped | None:
        """The event that ends the turn, when something wants it to end."""
        self.record_failure(self.folds.failure)
        if self.failure is not None:
            info = self.failure.info.to_public()
            by = f"{self.failure.middleware}.{self.failure.hook}"
            return TurnStopped(stopped_key(turn), at, info.safe, by=by, error=info)
        if self.stop is not None:
            by, stop = self.stop
            return TurnStopped(stopped_key(turn), at, stop.reason, stop.message, by)
        return None
