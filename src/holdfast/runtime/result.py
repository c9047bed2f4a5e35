"""What a run hands back: the answer, and everything needed to judge or go on from it."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

from holdfast.core.errors import ErrorInfo
from holdfast.core.events import FailedTarget, Status
from holdfast.core.messages import Message, Usage
from holdfast.core.output import OutputParsedBy
from holdfast.core.questions import AnyQuestion
from holdfast.core.transcript import Transcript

T = TypeVar("T")


class Result(Struct, Generic[T], frozen=True, kw_only=True):
    """The outcome of one turn.

    Args:
        output: the answer, of the type that the agent was given; None when there is none.
        text: the answer's text; the partial text when the turn did not complete.
        status: how the turn ended.
        usage: tokens of all replies of this turn, also of attempts that failed and said what they cost,
            and of the agents that worked in its tools.
        iterations: model calls of this turn.
        run_id: names the run in its journal.
        history: the whole conversation; pass it as `history=` to go on.
        error: why the turn did not complete.
        tried: the models that were asked in vain before another answered.
        stop_reason: why a middleware ended the turn, when `status` is STOPPED; `text` is then what
            it said in place of an answer.
        questions: what the turn waits for, when `status` is WAITING: answer them with
            `agent.answer(run_id, ...)` and go on with `agent.resume(run_id)`. `output` is None.
        parsed_by: how a typed answer was read: "strict", "embedded", "repaired" or "raw".
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

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation as a tuple."""
        return tuple(self.history)
