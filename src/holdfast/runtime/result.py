"""The result of a turn: its output, its status, and the history to continue from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct

from holdfast.core.cost import Cost
from holdfast.core.errors import ErrorInfo
from holdfast.core.events import FailedTarget, Status
from holdfast.core.messages import Message, Usage
from holdfast.core.output import OutputParsedBy
from holdfast.core.questions import AnyQuestion
from holdfast.core.transcript import Transcript
from holdfast.core.turn_options import Metadata

T = TypeVar("T")


class Result(Struct, Generic[T], frozen=True, kw_only=True):
    """The outcome of one turn.

    Args:
        output: the output, of the type that was passed to the agent; None when there is none.
        text: the text of the last reply; the partial text when the turn did not complete.
        status: how the turn ended.
        usage: tokens of all replies of this turn, of failed attempts that reported their usage,
            and of subagents.
        cost: their cost, if the agent has prices; None without.
        iterations: the number of model calls of this turn.
        run_id: the id of the run in its journal.
        history: the whole conversation; pass it as `history=` to continue.
        error: why the turn did not complete.
        tried: the models that failed before another model replied.
        stop_reason: why a middleware ended the turn, when `status` is STOPPED; `text` is then the
            text that it set.
        questions: the questions that the turn waits for, when `status` is WAITING. Answer them with
            `agent.answer(run_id, ...)` and continue with `agent.resume(run_id)`. `output` is None.
        parsed_by: which parser read a structured output: "strict", "embedded", "repaired" or "raw".
        metadata: the value of `agent.run(metadata=...)`.
    """

    output: T
    text: str
    status: Status
    usage: Usage
    iterations: int
    run_id: str
    history: Transcript
    error: ErrorInfo | None = None
    tried: tuple[FailedTarget, ...] = ()
    stop_reason: str = ""
    questions: tuple[AnyQuestion, ...] = ()
    parsed_by: OutputParsedBy = ""
    metadata: Metadata = {}
    cost: Cost | None = None

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation as a tuple."""
        return tuple(self.history)

    if not TYPE_CHECKING:  # so that a type checker refuses a name that does not exist

        def __getattr__(self, name: str) -> object:
            from holdfast.core.argument_checks import explain_attribute  # only for the error

            raise AttributeError(explain_attribute("Result", name), name=name, obj=self)
