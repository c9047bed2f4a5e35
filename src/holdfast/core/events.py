"""Facts about a run, as they are journaled. The state of a run is a fold over these.

An event names the effect that it ends (`key`) and when it happened (`at`, seconds since the
epoch, passed in). It must never carry a secret or the private half of an error: the constructor
refuses that. Names and tags are for ever, since old journals are read by newer versions.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias

from msgspec import Struct

from holdfast.core.errors import ErrorInfo, UnansweredReason
from holdfast.core.limits import Limits
from holdfast.core.messages import Message, Reply, ToolResult, Usage
from holdfast.core.output import OutputParsedBy
from holdfast.core.problems import Problem


class Status(StrEnum):
    """How a turn ended, or that it is still running."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    LIMIT = "limit"
    CANCELLED = "cancelled"
    STOPPED = "stopped"
    WAITING = "waiting"


def _refuse_private(error: ErrorInfo | None) -> None:
    if error is not None and error.private:
        raise ValueError("an event takes error.public(): the private half stays in the log")


class FailedTarget(Struct, frozen=True):
    """One target that failed, with the reason."""

    target: str
    attempts: int
    error: ErrorInfo

    def __post_init__(self) -> None:
        _refuse_private(self.error)


class TurnOpened(Struct, frozen=True, tag="turn_opened"):
    """A turn begins with a message. Key: `t{turn}`. `flags` numbers the behaviour to replay with.

    `agent` is the name of the agent that was asked; "" in journals from before it was kept.
    `instructions` are those of this turn where a hook changed the agent's, for who goes on with it.
    `history` is what was said before the first turn of a run that has no session, for the same.
    """

    key: str
    at: float
    message: Message
    limits: Limits = Limits()
    flags: int = 0
    agent: str = ""
    instructions: str | None = None
    history: tuple[Message, ...] = ()


class ModelReplied(Struct, frozen=True, tag="model_replied", omit_defaults=True):
    """One accepted reply. Key: `t{turn}.i{iteration}.model`.

    `tried` are the models that were asked before the one that answered, and why each was left.
    `lost` are the tokens of attempts before it, which were paid for and are in no reply. `downtime` is
    for how many seconds before it no process drove the turn; of a turn that goes on, one event says it.
    """

    key: str
    at: float
    reply: Reply
    attempts: int = 1
    tried: tuple[FailedTarget, ...] = ()
    lost: Usage | None = None
    downtime: float = 0.0


class ModelFailed(Struct, frozen=True, tag="model_failed", omit_defaults=True):
    """No attempt gave a reply that can be used; `partial` is what the last one got.

    `lost` are the tokens of the attempts before that.
    """

    key: str
    at: float
    error: ErrorInfo
    partial: Reply | None = None
    attempts: int = 1
    tried: tuple[FailedTarget, ...] = ()
    lost: Usage | None = None

    def __post_init__(self) -> None:
        _refuse_private(self.error)


class ToolsBegun(Struct, frozen=True, tag="tools_begun"):
    """The tools of one iteration are about to run. Key: `t{turn}.i{iteration}.begun`.

    Written before the batch, so that after a crash an unfinished tool is known to be in doubt.
    """

    key: str
    at: float


class ToolFinished(Struct, frozen=True, tag="tool_finished", omit_defaults=True):
    """A tool call has its result or error. Key: `t{turn}.i{iteration}.tool.{index}`.

    `usage` is what agents and models that worked in the call have spent; `downtime` as in `ModelReplied`.
    """

    key: str
    at: float
    result: ToolResult
    error: ErrorInfo | None = None
    attempts: int = 1
    usage: Usage = Usage()
    downtime: float = 0.0

    def __post_init__(self) -> None:
        _refuse_private(self.error)


OnWait = Literal["hold", "suspend"]
"""While nobody has answered: keep the run going, or end it until somebody has."""


class OutputChecked(Struct, frozen=True, tag="output_checked", omit_defaults=True):
    """An output was checked against its type. Key: `t{turn}.i{iteration}.output`.

    `parsed_by` says how it was read; "" means that it was not, and `problems` why. With `error` a check
    of the user's own failed, and nothing is known about the answer. The value is not kept: it is
    read again from the reply. `downtime` as in `ModelReplied`.
    """

    key: str
    at: float
    parsed_by: OutputParsedBy = ""
    problems: tuple[Problem, ...] = ()
    error: ErrorInfo | None = None
    downtime: float = 0.0

    def __post_init__(self) -> None:
        _refuse_private(self.error)


class QuestionAsked(Struct, frozen=True, tag="question_asked", omit_defaults=True):
    """A question was asked. Key: `{effect's key}.ask.{n}.asked`.

    `question` is its plain form, so that a kept answer is used for the very same question only.
    With `wait="suspend"` whoever asks does nothing before the answer and may be run again from its
    beginning. `before_effect` says that a hook asks, and that the effect itself has not begun. From
    `until` on, in seconds since the epoch, an answer is too late.
    """

    key: str
    at: float
    kind: str
    question: object
    wait: OnWait = "hold"
    before_effect: bool = False
    until: float | None = None


class QuestionAnswered(Struct, frozen=True, tag="question_answered", omit_defaults=True):
    """The answer to a question, as JSON data. Key: `{effect's key}.ask.{n}`.

    `deferred` says that nobody waited for it any more: whoever asked is to be run again.
    """

    key: str
    at: float
    answer: object
    deferred: bool = False


class QuestionUnanswered(Struct, frozen=True, tag="question_unanswered", omit_defaults=True):
    """Nobody answered, and it will not be asked again. Key and `deferred` as for an answer."""

    key: str
    at: float
    why: UnansweredReason
    deferred: bool = False


class TurnResumed(Struct, frozen=True, tag="turn_resumed"):
    """Those whose questions were answered `later` are run again. Key: `t{turn}.resumed.{n}`."""

    key: str
    at: float


class LimitExtended(Struct, frozen=True, tag="limit_extended"):
    """The turn may continue for more iterations. Key: `t{turn}.i{iteration}.extended`."""

    key: str
    at: float
    iterations: int

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise ValueError("a limit is extended by at least 1 iteration")


class TurnInterrupted(Struct, frozen=True, tag="turn_interrupted", omit_defaults=True):
    """The turn was stopped from outside while something was under way. Key: `t{turn}.interrupted`.

    `started` are the keys of tools that had begun and have no result: their outcome is unknown.
    `usage` is what agents in them had spent.
    """

    key: str
    at: float
    reason: Literal["cancelled", "deadline"]
    started: tuple[str, ...] = ()
    partial: Reply | None = None
    usage: Usage = Usage()


class TurnStopped(Struct, frozen=True, tag="turn_stopped", omit_defaults=True):
    """A middleware ended the turn. Key: `t{turn}.stopped`.

    `text` is the answer, word for word. With `error` the turn failed, and there is no answer.
    """

    key: str
    at: float
    reason: str
    text: str = ""
    by: str = ""
    error: ErrorInfo | None = None

    def __post_init__(self) -> None:
        _refuse_private(self.error)


class TurnClosed(Struct, frozen=True, tag="turn_closed", omit_defaults=True):
    """The turn has ended. Key: `t{turn}.closed`."""

    key: str
    at: float
    status: Status
    error: ErrorInfo | None = None

    def __post_init__(self) -> None:
        _refuse_private(self.error)


class SessionRewound(Struct, frozen=True, tag="session_rewound"):
    """The history goes back to its state after turn number `to`. Key: `t{turn}`.

    A change of the history takes a number as a turn does, so that of a change and a turn that begin
    at the same time one is refused. `to` is 0 for the empty history before the first turn.
    """

    key: str
    at: float
    to: int

    def __post_init__(self) -> None:
        if self.to < 0:
            raise ValueError("a session is rewound to a number from 0")


class HistoryCompacted(Struct, frozen=True, tag="history_compacted", omit_defaults=True):
    """A summary replaces a part of the history. Key: `t{turn}`.

    `retained_ranges` are the ranges of messages that stay, each from its first message up to the one after
    its last. `summary` is the model's own words; without one, the rest is left out.
    """

    key: str
    at: float
    retained_ranges: tuple[tuple[int, int], ...] = ()
    summary: str = ""


class SessionTitled(Struct, frozen=True, tag="session_titled"):
    """The session has this title for people from now on. Key: `t{turn}`.

    Titles are kept in a run of their own beside the session's, since a session may get another one
    at any time, also while a turn is under way.
    """

    key: str
    at: float
    title: str


Event: TypeAlias = (
    TurnOpened
    | ModelReplied
    | ModelFailed
    | ToolsBegun
    | ToolFinished
    | OutputChecked
    | QuestionAsked
    | QuestionAnswered
    | QuestionUnanswered
    | TurnResumed
    | LimitExtended
    | TurnInterrupted
    | TurnStopped
    | TurnClosed
    | SessionRewound
    | HistoryCompacted
    | SessionTitled
)
