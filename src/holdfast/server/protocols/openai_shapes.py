"""The shapes that Responses and Chat share: names of responses and calls, usage, and the words of errors."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from msgspec import Struct

from holdfast.core.client_tools import ClientToolQuestion
from holdfast.core.errors import ErrorCategory, ErrorInfo
from holdfast.core.events import QuestionAsked
from holdfast.core.json_strict import dump_json
from holdfast.core.messages import Usage
from holdfast.core.question_log import ASKED
from holdfast.server.protocols.protocol_names import Named, make_name, read_name
from holdfast.server.protocols.segments import question_fields

DELETED = "deleted"
"""Why a stream ends whose session was deleted meanwhile."""

CALL = "call_"
REQUEST_KEY = "openai"
"""The name of the values in the metadata of a turn that only these protocols need."""

CallerMetadata: TypeAlias = dict[str, Any]
"""The metadata of a request: JSON values, of which the turn takes up to 16 KB."""

_SEGMENT = re.compile(r"t([1-9]\d{0,8})\.(0|[1-9]\d{0,8})")


class SegmentName(Struct, frozen=True):
    """A segment of a turn: the content of one response of a protocol.

    Args:
        session: the session.
        turn: the number of the turn.
        segment: the number of the segment within the turn, from 0.
    """

    session: str
    turn: int
    segment: int = 0

    def to_id(self, prefix: str) -> str:
        """Return the id of the response.

        >>> SegmentName("ada", 1).to_id("resp_")
        'resp_dDEuMDphZGE'
        """
        return make_name(prefix, self.session, f"t{self.turn}.{self.segment}")


def read_segment_name(prefix: str, name: str) -> SegmentName | None:
    """Return the segment that an id stands for; None if it is not such an id."""
    named = read_name(prefix, name)
    found = None if named is None else _SEGMENT.fullmatch(named.place)
    if named is None or found is None:
        return None
    return SegmentName(named.session, int(found[1]), int(found[2]))


def make_call_id(session: str, asked: QuestionAsked) -> str:
    """Return the id of a call whose result a question asks for."""
    return make_name(CALL, session, asked.key.removesuffix(ASKED))


def read_call_id(name: str) -> Named | None:
    """Return the session and the key of the question of a call; None if it is not such an id."""
    return read_name(CALL, name)


class ClientCall(Struct, frozen=True):
    """A call of a tool that the caller runs.

    Args:
        id: its id for the caller.
        name: the tool.
        arguments: the arguments as JSON text.
    """

    id: str
    name: str
    arguments: str


def to_client_call(session: str, asked: QuestionAsked) -> ClientCall | None:
    """Return the call that a question stands for; None if it asks for something else."""
    if asked.kind != ClientToolQuestion.__name__:
        return None
    fields = question_fields(asked)
    return ClientCall(
        make_call_id(session, asked), str(fields["tool"]), dump_json(fields["arguments"])
    )


def describe_withdrawal(reason: str, name: SegmentName) -> str:
    """Return the words for text that was streamed and does not count."""
    return (
        f"The text of this stream was withdrawn: {reason.rstrip('.')}. The run goes on. "
        f"Read it again: session {name.session}, turn {name.turn}."
    )


def describe_cut(reason: str, name: SegmentName) -> str:
    """Return the words for a stream that the service ends before the run does.

    Args:
        reason: that of a `SegmentCut`.
        name: the segment.
    """
    if reason == DELETED:
        return f"The run was deleted: session {name.session}, turn {name.turn}."
    return (
        "This stream ends, and the run goes on. Send the request again to get its answer, or read it: "
        f"session {name.session}, turn {name.turn}."
    )


def describe_failure(error: ErrorInfo | None, name: SegmentName) -> str:
    """Return the words for a turn that failed."""
    problem = "The turn failed." if error is None else error.safe
    return f"{problem} (session {name.session}, turn {name.turn})"


def name_error(error: ErrorInfo | None) -> str:
    """Return the code of a failure in OpenAI's words."""
    if error is None:
        return "server_error"
    if error.category in (ErrorCategory.RATE_LIMIT_RETRYABLE, ErrorCategory.RATE_LIMIT_TERMINAL):
        return "rate_limit_exceeded"
    if error.category is ErrorCategory.CONTEXT_WINDOW:
        return "context_length_exceeded"
    return "server_error"


def to_responses_usage(usage: Usage) -> dict[str, object]:
    """Return tokens as Responses writes them."""
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached_input},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total,
    }


def to_chat_usage(usage: Usage) -> dict[str, object]:
    """Return tokens as Chat Completions writes them."""
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "prompt_tokens_details": {"cached_tokens": usage.cached_input},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
