"""Events: the facts of a run, as the journal saves them. The state of a run is a fold over them.

An event names the effect that it ends (`key`) and the time at which it happened (`at`, in seconds
since the epoch, passed in). It must never carry a secret or the private half of an error; the
constructor refuses that.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias

from msgspec import Struct

from holdfast.core.cost import Cost
from holdfast.core.errors import ErrorInfo, UnansweredReason
from holdfast.core.limits import Limits
from holdfast.core.messages import NO_USAGE, Message, Reply, ToolCall, ToolResult, Usage
from holdfast.core.output import OutputParsedBy
from holdfast.core.problems import Problem
from holdfast.core.turn_options import TurnOptions


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
        raise ValueError("an event takes error.to_public(): the private half stays in the log")


class FailedTarget(Struct, frozen=True, omit_defaults=True):
    """A target that was tried without success, and its last error.

    `usage` and `cost` are those of its attempts, as far as they are known.
    """

    target: str
    attempts: int
    error: ErrorInfo
    usage: Usage = NO_USAGE
    cost: Cost | None = None

    def __post_init__(self) -> None:
        _refuse_private(self.error)


class TurnOpened(Struct, frozen=True, tag="turn_opened", omit_defaults=True):
    """A turn begins with a user message. Key: `t{turn}`. `flags` numbers the behaviour to replay with.

    Without a message, the turn tries the last one again: it continues after the user's message or
    the results of tools with which the history ends. `agent` is the name of the agent.
    `instructions` are those of this turn when a function or a hook wrote them, and `history` holds the
    messages before the first turn of a run without a session; a process that resumes the turn needs
    both. `request` is the idempotency key of the caller: a journal accepts one turn with it.
    `hooks_called` counts the hooks before the turn that were called when one of them asked a question;
    the others are called before the first model call, and `TurnAccepted` follows. `options` are
    the options of the caller for this turn only, besides its limits.
    """

    key: str
    at: float
    message: Message | None
    limits: Limits = Limits()
    flags: int = 0
    agent: str = ""
    instructions: str | None = None
    history: tuple[Message, ...] = ()
    request: str = ""
    options: TurnOptions | None = None
    hooks_called: int | None = None


class TurnAccepted(Struct, frozen=True, tag="turn_accepted", omit_defaults=True):
    """The hooks before a turn have accepted its message after a question. Key: `t{turn}.accepted`.

    `message` and `instructions` are those of the turn from now on, where hooks have changed them since
    the turn was opened.
    """

    key: str
    at: float
    message: Message | None = None
    instructions: str | None = None


class ModelReplied(Struct, frozen=True, tag="model_replied", omit_defaults=True):
    """One accepted reply. Key: `t{turn}.i{iteration}.model`.

    `tried` are the models that failed before this reply, each with its error. `lost` are the tokens of
    failed attempts, which were paid for and are in no reply. `downtime` is the number of seconds before
    this event that are no time of the turn: no process drove it, or the wall clock stepped (a step back
    is negative). Most events have none. `drive` is the `traceparent` of the drive that saved the event, if it
    is the first one of a drive that has continued the turn. `offered` are the names of the tools that the model was
    offered, if functions of the user decided about them. `by` is the middleware whose code made the
    calls of the reply, as `CallTools`; empty for a reply of the model. `cost` is the cost of all
    attempts, also of those that failed, each at the prices of its model; None without prices.
    """

    key: str
    at: float
    reply: Reply
    attempts: int = 1
    tried: tuple[FailedTarget, ...] = ()
    lost: Usage | None = None
    downtime: float = 0.0
    offered: tuple[str, ...] | None = None
    by: str = ""
    cost: Cost | None = None
    drive: str = ""


class ModelFailed(Struct, frozen=True, tag="model_failed", omit_defaults=True):
    """No attempt gave a usable reply; `partial` is the part that the last one received.

    `lost` are the tokens of the attempts before the last. `cost` is as in `ModelReplied`.
    """

    key: str
    at: float
    error: ErrorInfo
    partial: Reply | None = None
    attempts: int = 1
    tried: tuple[FailedTarget, ...] = ()
    lost: Usage | None = None
    cost: Cost | None = None

    def __post_init__(self) -> None:
        _refuse_private(self.error)


class ResultsWithheld(Struct, frozen=True, tag="results_withheld", omit_defaults=True):
    """A provider's filter refused a request, so the new results of tools are withheld from now on.

    Key: `t{turn}.i{iteration}.withheld`. In the history, a line takes the place of each result that was
    not in a request that a model answered; their `ToolFinished` keep the results. `tools` are the names
    of these tools. The model is asked again. `error` says why the request was refused, `lost` are the
    tokens of the refused attempts, and `tried` are the models that failed before. `cost` is as in
    `ModelReplied`.
    """

    key: str
    at: float
    error: ErrorInfo
    tools: tuple[str, ...] = ()
    attempts: int = 1
    tried: tuple[FailedTarget, ...] = ()
    lost: Usage | None = None
    cost: Cost | None = None

    def __post_init__(self) -> None:
        _refuse_private(self.error)


class ToolsBegun(Struct, frozen=True, tag="tools_begun"):
    """The tools of an iteration are about to run. Key: `t{turn}.i{iteration}.begun`.

    It is saved before the tools start, so that after a crash an unfinished tool is known to be in
    doubt: it may have taken effect.
    """

    key: str
    at: float


Verdict: TypeAlias = Literal["happened", "not_happened", "unknown"]
"""Whether a call in doubt took effect."""


class DoubtChecked(Struct, frozen=True, tag="doubt_checked", omit_defaults=True):
    """A check looked whether a call in doubt took effect. Key: `t{turn}.i{iteration}.tool.{index}.check.{number}`.

    It is saved before the answer is used. `result` is that of a call that happened, and `why` the reason of
    an unknown outcome. `settled` says that the check began when the call could not act any more: only then
    the call is made again after "not_happened", and this event is the marker of the repetition. `by` is "person"
    if a person has decided it, because the check did not know.
    """

    key: str
    at: float
    verdict: Verdict
    result: ToolResult | None = None
    why: str = ""
    settled: bool = False
    by: Literal["check", "person"] = "check"


class ToolFinished(Struct, frozen=True, tag="tool_finished", omit_defaults=True):
    """One call has its result, a success or an error. Key: `t{turn}.i{iteration}.tool.{index}`.

    `usage` counts the tokens of agents and models that ran inside the call. `downtime` and `drive` are as in
    `ModelReplied`. `same_as` is set if the reply has this call twice: the tool did not run for it, and
    the result is that of the call with this key. `cost` is that of `usage`; None without prices.
    """

    key: str
    at: float
    result: ToolResult
    error: ErrorInfo | None = None
    attempts: int = 1
    usage: Usage = NO_USAGE
    downtime: float = 0.0
    same_as: str = ""
    cost: Cost | None = None
    drive: str = ""

    def __post_init__(self) -> None:
        _refuse_private(self.error)


OnWait = Literal["hold", "suspend"]
"""The state of a run until somebody answers: stay in progress ("hold"), or end and be resumed later
("suspend")."""


class OutputChecked(Struct, frozen=True, tag="output_checked", omit_defaults=True):
    """An output was checked against the wanted type. Key: `t{turn}.i{iteration}.output`.

    `parsed_by` says how it was parsed; "" means that it was not, and `problems` says why. `error` means
    that a validator of the user raised, so nothing is known about the output. The value is not saved:
    it is parsed again from the reply. `call` is the call of an output function that follows: its
    `ToolFinished` has the value that it returned. `downtime` and `drive` are as in `ModelReplied`.
    """

    key: str
    at: float
    parsed_by: OutputParsedBy = ""
    problems: tuple[Problem, ...] = ()
    error: ErrorInfo | None = None
    downtime: float = 0.0
    call: ToolCall | None = None
    drive: str = ""

    def __post_init__(self) -> None:
        _refuse_private(self.error)


class QuestionAsked(Struct, frozen=True, tag="question_asked", omit_defaults=True):
    """A person is asked a question. Key: `{effect's key}.ask.{n}.asked`.

    `question` holds its content as JSON values, so that a saved answer is used for the same question
    only. `nonce` is random: with it, no two questions have the same binding. `origin` is the binding
    of the question of a subagent that this question passes on. `by_hook` means that a hook asks, and
    not a tool. `wait="suspend"` means that the asking hook or tool does nothing before the answer and may
    run again from its beginning. `before_effect` means that a hook asks and the effect itself has not
    begun. After `until`, in seconds since the epoch, an answer is too late.
    """

    key: str
    at: float
    kind: str
    question: object
    wait: OnWait = "hold"
    before_effect: bool = False
    until: float | None = None
    nonce: str = ""
    origin: str = ""
    by_hook: bool = False


class QuestionAnswered(Struct, frozen=True, tag="question_answered", omit_defaults=True):
    """The answer, as JSON values. Key: `{effect's key}.ask.{n}`.

    `deferred` means that the run did not wait for it any more: the hook or tool that asked runs again.
    `by` is who gave it. After `expires_at`, in seconds since the epoch, it does not count any more.
    """

    key: str
    at: float
    answer: object
    deferred: bool = False
    by: str = ""
    expires_at: float | None = None


class QuestionUnanswered(Struct, frozen=True, tag="question_unanswered", omit_defaults=True):
    """Nobody answered, and the question is not asked again. Key and `deferred` as for an answer."""

    key: str
    at: float
    why: UnansweredReason
    deferred: bool = False


class TurnResumed(Struct, frozen=True, tag="turn_resumed"):
    """Hooks and tools with a `deferred` answer run again. Key: `t{turn}.resumed.{n}`."""

    key: str
    at: float


class LimitExtended(Struct, frozen=True, tag="limit_extended"):
    """The turn may take `iterations` more iterations. Key: `t{turn}.i{iteration}.extended`."""

    key: str
    at: float
    iterations: int

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise ValueError("a limit is extended by at least 1 iteration")


class TurnInterrupted(Struct, frozen=True, tag="turn_interrupted", omit_defaults=True):
    """The turn was stopped from outside before it ended. Key: `t{turn}.interrupted`.

    `started` are the keys of tools that had begun and have no result: their outcome is unknown.
    `usage` counts the tokens of agents inside them, and `cost` is that of them and of the model call
    that was cut off. `waited_for` says which server was silent, and
    `by` who cancelled the turn. "imported" means that it was open in a session that was imported. A queue
    that has parked the turn says why, and how often it was begun (`deliveries`).
    """

    key: str
    at: float
    reason: Literal["cancelled", "deadline", "imported", "parked"]
    started: tuple[str, ...] = ()
    partial: Reply | None = None
    usage: Usage = NO_USAGE
    waited_for: str = ""
    by: str = ""
    why: str = ""
    deliveries: int = 0
    cost: Cost | None = None


class TurnStopped(Struct, frozen=True, tag="turn_stopped", omit_defaults=True):
    """A middleware ended the turn. Key: `t{turn}.stopped`.

    `text` is the final text of the turn, word for word. With `error`, the turn failed without one.
    `refused` means that a hook denied the user's message: it is not sent to a model, in this turn or
    a later one.
    """

    key: str
    at: float
    reason: str
    text: str = ""
    by: str = ""
    error: ErrorInfo | None = None
    refused: bool = False

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


class SessionRewound(Struct, frozen=True, tag="session_rewound", omit_defaults=True):
    """The history is reset to its state after turn or change `to`. Key: `t{turn}`.

    A change of the history takes a number as a turn does, so if a change and a turn begin at the same
    time, one of them is refused. `to` is 0 for the history before the first turn. `by` is who did it.
    """

    key: str
    at: float
    to: int
    by: str = ""

    def __post_init__(self) -> None:
        if self.to < 0:
            raise ValueError("a session is rewound to a number from 0")


class HistoryCompacted(Struct, frozen=True, tag="history_compacted", omit_defaults=True):
    """A summary replaces a part of the history from now on. Key: `t{turn}`.

    `retained_ranges` are the ranges of messages that stay, each as start and end like a slice.
    `summary` is the text of the model; without one, the other messages are dropped. `by` is who did it.
    """

    key: str
    at: float
    retained_ranges: tuple[tuple[int, int], ...] = ()
    summary: str = ""
    by: str = ""


class SessionTitled(Struct, frozen=True, tag="session_titled", omit_defaults=True):
    """The session has a new title. Key: `t{turn}`.

    Titles are saved in a separate run beside the session's, since the title may change at any time,
    also while a turn is in progress. `by` is who gave it.
    """

    key: str
    at: float
    title: str
    by: str = ""


Event: TypeAlias = (
    TurnOpened
    | TurnAccepted
    | ModelReplied
    | ModelFailed
    | ResultsWithheld
    | ToolsBegun
    | DoubtChecked
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
"""Everything that a journal saves; the state of a run is computed from it."""
