"""Decides the kind of a reply, and the error for a kind that is not accepted.

The rules are checked in this order; the first that applies gives the kind:

    1  ERROR_REPLY     an error came inside the reply, or the finish reason names one
    2  NOT_A_REPLY     the bytes are not a reply of this wire
    3  EMPTY           the response is complete but holds no candidate
    4  FILTERED        a content filter stopped the reply, before or after some text
    5  REFUSED         the model declined, in its own text or by the finish reason
    6  UNTERMINATED    nothing proves that the reply is complete; it may have been cut anywhere
    7  TRUNCATED       cut at the output limit; accepted if it has tool calls, which do not run
    8  PAUSED          accepted: the provider expects the same history again
    9  MALFORMED_CALL  accepted: a call has no name, or its arguments are not a JSON object; the call
                       does not run and the model gets an error as its result
   10  EMPTY           the finish reason announces tool calls, but there are none and no text
   11  ONLY_REASONING  there is only reasoning
   12  EMPTY           there is no text, no media and no call
   13  COMPLETE        accepted

A streamed reply is complete if a finish reason came. Content after a finish reason makes the reason
invalid until the next one comes. The end marker of the wire proves nothing by itself: gateways send
it after their own connection failed. If the wire has an end marker and it is missing, the finish
reason proves a call only if its arguments are a complete JSON object; the same holds for a marker
after calls that followed a finish reason, and for an empty finish reason. Some providers end complete
replies without a finish reason; such a provider (see `EndpointProfile`) is trusted if there is content and
every call can be parsed. So truncated text is never accepted as a reply, and a truncated call never
runs.
"""

from __future__ import annotations

import re

from msgspec import Struct

from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.json_text import read_strict_json
from holdfast.codecs.wire import RESPONSE_OBJECT
from holdfast.core.deltas import (
    Delta,
    EndMissing,
    ErrorReceived,
    NoChoices,
    NotAReply,
    ReplyFinished,
    StreamEnded,
)
from holdfast.core.errors import (
    EmptyResponseError,
    ErrorCategory,
    ErrorInfo,
    FilteredError,
    HoldfastError,
    InvalidStructureError,
    Landed,
    MissingAttributeError,
    NoCandidatesError,
    NoTextError,
    NoToolActivityError,
    RefusedError,
    ResponseValidationError,
    TruncatedError,
    UnexpectedTypeError,
    UnterminatedError,
    exception_for,
)
from holdfast.core.messages import (
    FinishReason,
    Media,
    Opaque,
    Part,
    Reasoning,
    Refusal,
    Reply,
    ReplyKind,
    Text,
    ToolCall,
)
from holdfast.core.redaction import redact

# Access to enum members is slow, and these are needed for every reply.
_ERROR, _FILTER, _REFUSAL = FinishReason.ERROR, FinishReason.CONTENT_FILTER, FinishReason.REFUSAL
_LENGTH, _PAUSE, _COMPLETE = FinishReason.LENGTH, FinishReason.PAUSE, ReplyKind.COMPLETE
_UNKNOWN = FinishReason.UNKNOWN


class Evidence(Struct):
    """The end and the errors of a body.

    Args:
        finish: the last finish reason.
        raw_finish: the same, as the wire spells it.
        is_last: on this wire, nothing follows that finish reason.
        content_since_finish: content came, and no finish reason after it.
        ended: the wire's end marker came.
        whole: the body was one JSON text, so it was not cut.
        end_missing: the body ended without the end marker of its wire.
        error: the first error inside the body.
        not_a_reply: why the body is not a reply of this wire.
        no_choices: the reply has no candidate.
    """

    finish: FinishReason | None = None
    raw_finish: str = ""
    is_last: bool = False
    content_since_finish: bool = False
    ended: bool = False
    whole: bool = False
    end_missing: EndMissing | None = None
    error: ErrorInfo | None = None
    not_a_reply: NotAReply | None = None
    no_choices: NoChoices | None = None

    def note_delta(self, delta: Delta) -> None:
        """Record a delta without content. The first error and the last finish reason count."""
        # A match statement would be several times slower, and each reply has two of these deltas.
        if isinstance(delta, ReplyFinished):
            self.finish, self.raw_finish, self.is_last = delta.reason, delta.raw, delta.last
        elif isinstance(delta, StreamEnded):
            self.ended, self.whole = True, self.whole or delta.whole
        elif isinstance(delta, ErrorReceived):
            self.error = self.error or delta.error
        elif isinstance(delta, NotAReply):
            self.not_a_reply = self.not_a_reply or delta
        elif isinstance(delta, NoChoices):
            self.no_choices = delta
        elif isinstance(delta, EndMissing):
            self.end_missing = self.end_missing or delta
        else:
            raise TypeError(f"{type(delta).__name__} is content")

    def finish_is_valid(self, profile: EndpointProfile) -> bool:
        """Whether a finish reason came, no content followed it, and the end marker came or is not needed."""
        if self.finish is None or self.content_since_finish:
            return False
        return self.ended or profile.ends_without_marker


def classify_reply(
    parts: tuple[Part, ...], evidence: Evidence, profile: EndpointProfile
) -> ReplyKind:
    """Return the kind of a reply, by the rules in the module's docstring."""
    finish = evidence.finish
    if evidence.error is not None or finish is _ERROR:
        return ReplyKind.ERROR_REPLY
    if evidence.not_a_reply is not None:
        return ReplyKind.NOT_A_REPLY
    if evidence.no_choices is not None and not parts:
        return ReplyKind.EMPTY
    if finish is _FILTER:
        return ReplyKind.FILTERED
    if finish is _REFUSAL or Refusal in map(type, parts):
        return ReplyKind.REFUSED
    if not _is_whole(parts, evidence, profile):
        return ReplyKind.UNTERMINATED
    if finish is _LENGTH:
        return ReplyKind.TRUNCATED
    if finish is _PAUSE:
        return ReplyKind.PAUSED
    return _classify_content(parts)


def _classify_content(parts: tuple[Part, ...]) -> ReplyKind:
    calls = [part for part in parts if isinstance(part, ToolCall)]
    for call in calls:
        if not (call.name and _is_json_object(call.arguments)):
            return ReplyKind.MALFORMED_CALL
    if calls:
        return _COMPLETE
    for part in parts:
        if _is_visible(part):
            return _COMPLETE
    return ReplyKind.ONLY_REASONING if Reasoning in map(type, parts) else ReplyKind.EMPTY


def _is_whole(parts: tuple[Part, ...], evidence: Evidence, profile: EndpointProfile) -> bool:
    if evidence.whole:
        return True
    missing = evidence.end_missing
    if missing is not None and missing.inside_event:
        return False
    valid = evidence.finish_is_valid(profile)
    is_empty = evidence.finish is _UNKNOWN and not evidence.raw_finish
    if valid and not is_empty and (missing is None or evidence.finish is _LENGTH):
        return True
    if not parts and evidence.ended and evidence.finish is None:
        # Nothing came that could have been cut: the reply is empty.
        return True
    # There is no valid finish reason, an empty one, or one without the end marker, and some servers
    # send a finish reason in every chunk. So each call must have complete arguments.
    calls = [part for part in parts if isinstance(part, ToolCall)]
    if not all(call.arguments.strip() and _is_json_object(call.arguments) for call in calls):
        return False
    if valid or (calls and evidence.ended and evidence.finish is not None):
        return True
    never_finishes = profile.ends_without_finish and evidence.finish is None
    return never_finishes and (evidence.ended or _classify_content(parts) is _COMPLETE)


def _is_json_object(arguments: str) -> bool:
    return not arguments.strip() or isinstance(read_strict_json(arguments), dict)


def _is_visible(part: Part) -> bool:
    return isinstance(part, Media) or (isinstance(part, Text) and bool(part.text.strip()))


def error_for_reply(reply: Reply, evidence: Evidence) -> HoldfastError | None:
    """Return the error of a reply that is not accepted, with the reply as `.partial`, or None."""
    match reply.kind:
        case ReplyKind.COMPLETE | ReplyKind.PAUSED | ReplyKind.MALFORMED_CALL:
            return None
        case ReplyKind.ERROR_REPLY:
            return exception_for(evidence.error or _error_finish_info(reply), reply)
        case ReplyKind.NOT_A_REPLY:
            return _not_a_reply_error(evidence.not_a_reply or NotAReply("reply", "none"), reply)
        case ReplyKind.TRUNCATED:
            return None if reply.calls else truncated_error(reply)
        case ReplyKind.FILTERED:
            message = (
                "A content filter withheld the " + ("rest of the " if reply.text else "") + "reply"
            )
            info = _make_info(ErrorCategory.CONTENT_FILTERED, message, "filtered")
            return FilteredError(message, info=info, partial=reply)
        case ReplyKind.REFUSED:
            message = "The model declined to answer"
            info = _make_info(ErrorCategory.CONTENT_FILTERED, message, "refused")
            return RefusedError(message, info=info, partial=reply)
        case ReplyKind.UNTERMINATED:
            message = "The reply stopped before its end: the connection or the provider cut it"
            info = _make_info(ErrorCategory.TRANSIENT, message, "unterminated")
            return UnterminatedError(message, info=info, partial=reply)
        case ReplyKind.EMPTY | ReplyKind.ONLY_REASONING:
            return _empty_reply_error(reply, evidence)


def _make_info(category: ErrorCategory, message: str, code: str) -> ErrorInfo:
    return ErrorInfo(category=category, safe=message, landed=Landed.UNKNOWN, code=code)


def _error_finish_info(reply: Reply) -> ErrorInfo:
    finish = redact(reply.raw_finish[:80])
    message = f"The provider ended the reply with an error (finish reason {finish!r})"
    return _make_info(ErrorCategory.SERVER_ERROR, message, "error_finish")


def truncated_error(reply: Reply) -> TruncatedError:
    """Return the error of a reply that was cut at its output limit."""
    after = f" after {reply.usage.output} tokens" if reply.usage.output else ""
    message = f"The reply was cut at the output limit{after}"
    return TruncatedError(
        message, info=_make_info(ErrorCategory.TRUNCATED, message, "truncated"), partial=reply
    )


def _not_a_reply_error(problem: NotAReply, reply: Reply) -> ResponseValidationError:
    kind: type[ResponseValidationError] = InvalidStructureError
    if problem.got == "missing":
        kind = MissingAttributeError
    elif problem.expected == RESPONSE_OBJECT:
        kind = UnexpectedTypeError
    message = str(kind(problem.expected, problem.got))
    info = _make_info(ErrorCategory.INVALID_RESPONSE, message, "not_a_reply")
    return kind(problem.expected, problem.got, info=info, partial=reply)


def _empty_reply_error(reply: Reply, evidence: Evidence) -> EmptyResponseError:
    kind: type[EmptyResponseError] = NoTextError
    category = ErrorCategory.EMPTY_RESPONSE
    if evidence.no_choices is not None:
        kind, reason, code = NoCandidatesError, evidence.no_choices.reason, "no_candidates"
    elif reply.finish is FinishReason.TOOL_CALLS:
        kind, reason, code = NoToolActivityError, "no tool call in response", "no_tool_activity"
    elif items := _unanswered_item_types(reply):
        # It is not retried: the model would produce the same items again, at the same price.
        category = ErrorCategory.CLIENT_ERROR
        reason, code = (
            f"no text in response, only {items}, which Holdfast does not run",
            "only_items",
        )
    elif reply.kind is ReplyKind.ONLY_REASONING:
        reason, code = "only reasoning and no text in response", "only_reasoning"
    else:
        reason, code = "no text in response", "no_text"
    message = str(kind(reason))
    info = _make_info(category, message, code)
    return kind(reason, info=info, partial=reply)


# The server itself runs these, so after reasoning another attempt may give the answer that is missing.
_SERVER_ITEMS = re.compile(
    r"(?:web_search|file_search|code_interpreter|image_generation|mcp)_call|mcp_list_tools|compaction|"
    r"(?:server|mcp)_tool_use|\w{1,60}_(?:result|output)"
)


def _unanswered_item_types(reply: Reply) -> str:
    """Return the types of the items that somebody has to run; notes about a reply have no type.

    Without reasoning, an item that the server ran counts too: it is all that the model gave.
    """
    types = (part.data.get("type") for part in reply.parts if isinstance(part, Opaque))
    items = list(dict.fromkeys(item[:40] for item in types if isinstance(item, str)))
    if reply.kind is ReplyKind.ONLY_REASONING:
        items = [item for item in items if not _SERVER_ITEMS.fullmatch(item)]
    return ", ".join(items)
