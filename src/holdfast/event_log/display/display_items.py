"""The items that a turn shows to a person. A protocol for user interfaces words each of them.

A *step* is one iteration of a turn: a reply of the model and the tools that it calls. Its key is such
as `t1.i0`. A *call* is named by the key of its effect, such as `t1.i0.tool.2`, because ids of
providers repeat.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from holdfast.codecs.citation import Citation
from holdfast.codecs.hosted_calls import HostedCall
from holdfast.core.errors import ErrorInfo, UnansweredReason
from holdfast.core.events import Status
from holdfast.core.messages import Media, Message, ToolResult, Usage
from holdfast.core.questions import AnyQuestion


class UserShown(Struct, frozen=True):
    """The message with which a turn begins; None for a turn that tries the last one again.

    Args:
        turn: the number of the turn.
        message: the message.
        metadata: the metadata that the caller passed with the turn.
        client_tools: the names of the tools that the client runs itself.
    """

    turn: int
    message: Message | None
    metadata: Mapping[str, object] = {}
    client_tools: frozenset[str] = frozenset()


class StepStarted(Struct, frozen=True):
    """A step begins."""

    step: str


class StepFinished(Struct, frozen=True):
    """A step has ended: its reply and the results of its tools were shown."""

    step: str


class StepWithdrawn(Struct, frozen=True):
    """Everything that was shown of a step is void. The text and calls that count follow."""

    step: str
    reason: str


class TextShown(Struct, frozen=True):
    """More text of the reply of a step."""

    step: str
    text: str


class TextEnded(Struct, frozen=True):
    """The text of a step is complete."""

    step: str


class ReasoningShown(Struct, frozen=True):
    """More reasoning of the reply of a step."""

    step: str
    text: str


class ReasoningEnded(Struct, frozen=True):
    """A piece of reasoning is complete."""

    step: str


class MediaShown(Struct, frozen=True):
    """A picture, a sound or a file of the reply of a step."""

    step: str
    media: Media


class CallStarted(Struct, frozen=True):
    """The model begins to write a call of a tool."""

    step: str
    call: str
    name: str


class CallArgumentsShown(Struct, frozen=True):
    """More of the JSON text of the arguments of a call."""

    call: str
    text: str


class CallReady(Struct, frozen=True):
    """A call as the model wrote it. `CallStarted` may have come before it.

    Args:
        step: its step.
        call: the call.
        name: the tool.
        arguments: all arguments, as JSON text.
        streamed: the number of characters of them that were shown before.
    """

    step: str
    call: str
    name: str
    arguments: str
    streamed: int = 0


class ResultShown(Struct, frozen=True):
    """A call has its result.

    Args:
        call: the call.
        result: the result, as the model reads it.
        is_denied: a person did not allow the call.
    """

    call: str
    result: ToolResult
    is_denied: bool = False


class HostedCallShown(Struct, frozen=True):
    """A call of a tool that the provider runs. It is shown again when more is known of it.

    Args:
        step: its step.
        call: the name of the call, such as `t1.i0.hosted.2`.
        hosted: the call as far as it is known.
    """

    step: str
    call: str
    hosted: HostedCall


class SourcesShown(Struct, frozen=True):
    """The sources that the text of a step cites."""

    step: str
    sources: tuple[Citation, ...]


class AgentStarted(Struct, frozen=True):
    """An agent that runs as a tool begins to work. This is not saved.

    Args:
        call: the call of the first agent.
        agents: the names of the nested agents, from the one that was called first to this one.
    """

    call: str
    agents: tuple[str, ...]


class AgentTextShown(Struct, frozen=True):
    """Text of an agent that runs as a tool: `shown = shown[:offset] + text`. This is not saved.

    Args:
        call: the call of the first agent.
        agents: the names of the nested agents, from the one that was called first to this one.
        offset: the number of characters before it of the reply that the agent writes.
        text: the text.
    """

    call: str
    agents: tuple[str, ...]
    offset: int
    text: str


class QuestionShown(Struct, frozen=True):
    """A person is asked a question.

    Args:
        question: the question, with its key and its binding.
        call: the call that asks; "" if no call does.
        until: after this time, in seconds since the epoch, an answer is too late.
    """

    question: AnyQuestion
    call: str
    until: float | None = None


class QuestionClosed(Struct, frozen=True):
    """A question is no longer open.

    Args:
        question: the question.
        call: the call that asked; "" if no call did.
        answer: the answer; None if there is none.
        why: why there is none.
    """

    question: AnyQuestion
    call: str
    answer: object = None
    why: UnansweredReason | None = None


class NoticeShown(Struct, frozen=True):
    """A notice of a hook or a tool, an announced retry, or another way to request the output. It is not saved.

    Args:
        name: its class name in snake case.
        fields: its fields, as JSON values.
    """

    name: str
    fields: Mapping[str, object]


class TurnEnded(Struct, frozen=True):
    """The turn has ended.

    Args:
        status: how.
        error: why it failed.
        usage: the tokens of its replies, by the model.
    """

    status: Status
    error: ErrorInfo | None = None
    usage: Mapping[str, Usage] = {}


class TurnWaits(Struct, frozen=True):
    """The turn waits for answers, and nothing else happens before."""

    questions: tuple[QuestionShown, ...]
    usage: Mapping[str, Usage] = {}


class StreamCut(Struct, frozen=True):
    """The stream ends here, and the turn goes on unless it was deleted. The reader may come back."""

    reason: Literal["too_slow", "shutting_down", "deleted", "access_ended"]


DisplayItem: TypeAlias = (
    UserShown
    | StepStarted
    | StepFinished
    | StepWithdrawn
    | TextShown
    | TextEnded
    | ReasoningShown
    | ReasoningEnded
    | MediaShown
    | CallStarted
    | CallArgumentsShown
    | CallReady
    | ResultShown
    | HostedCallShown
    | SourcesShown
    | AgentStarted
    | AgentTextShown
    | QuestionShown
    | QuestionClosed
    | NoticeShown
    | TurnEnded
    | TurnWaits
    | StreamCut
)
"""Everything that a turn shows."""


_BETWEEN = "~"


def question_id(question: AnyQuestion) -> str:
    """Return the id of a question that was asked.

    >>> from holdfast.core.questions import ClarificationQuestion
    >>> question_id(ClarificationQuestion(question="Where?", key="t1.i0.tool.0.ask.0", binding="0f"))
    't1.i0.tool.0.ask.0~0f'
    """
    return f"{question.key}{_BETWEEN}{question.binding}"


def parse_question_id(text: str) -> tuple[str, str] | None:
    """Return the key and the binding that an id names; None if it is the id of something else.

    >>> parse_question_id("t1.i0.tool.0.ask.0~0f")
    ('t1.i0.tool.0.ask.0', '0f')
    """
    key, between, binding = text.partition(_BETWEEN)
    return (key, binding) if between and ".ask." in key and binding else None


def parse_arguments(text: str) -> dict[str, object] | None:
    """Return the arguments of a call; None if the text is not a JSON object.

    >>> parse_arguments('{"a": 1}'), parse_arguments(""), parse_arguments("[]")
    ({'a': 1}, {}, None)
    """
    if not text.strip():
        return {}
    try:
        value: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_result(result: ToolResult) -> object:
    """Return the value of a result: an object or a list that was written as JSON, otherwise its text.

    >>> from holdfast.core.messages import Text
    >>> read_result(ToolResult("c", "t", (Text('{"a": 1}'),))), read_result(ToolResult("c", "t", (Text("5"),)))
    ({'a': 1}, '5')
    """
    text = result.text
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        value: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
    return value
