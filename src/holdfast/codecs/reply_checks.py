"""Whether a reply may be accepted: one kind for each reply, and an error for those that may not.

Judged in this order; the first that applies is the kind:

    1  ERROR_REPLY     an error came inside the reply, or it ended with the word for one
    2  NOT_A_REPLY     the bytes are no reply of this wire
    3  EMPTY           a whole reply without a candidate
    4  FILTERED        a content filter stopped it, after text or before
    5  REFUSED         the model declined, in words of its own or by the wire's word for that
    6  UNTERMINATED    nothing proves that it is whole: it may have been cut anywhere
    7  TRUNCATED       cut at the output limit; accepted with tool calls, which nobody runs
    8  PAUSED          accepted: the provider wants the same history again
    9  MALFORMED_CALL  accepted: a call has no name, or arguments that are no JSON object; the model
                       is told, and nobody runs it
   10  EMPTY           tool calls were announced and none came, and there is no text either
   11  ONLY_REASONING  nothing but thoughts
   12  EMPTY           nothing to show and nothing to do
   13  COMPLETE        accepted

The proof that a reply is whole is the wire's end marker or its finish reason (see `Quirks`).
Content that follows a finish reason makes it void until the next one. An end marker without a valid
finish reason proves a call only if its arguments are a whole JSON object: some gateways send the
marker after the connection behind them failed, and arguments that are absent may be lost ones. The
same holds for a finish reason where the wire has an end marker and it is missing. A provider that
gives neither is believed when there is text and every call in it can be parsed.
Cut text must never look like an answer, and a cut call must never look as if it could be run.
"""

from __future__ import annotations

from msgspec import Struct

from holdfast.codecs.json_text import read_strict_json
from holdfast.codecs.wire import RESPONSE_OBJECT, Quirks
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


class Evidence(Struct):
    """What a body said about itself, beside its content.

    Args:
        finish: the last finish reason.
        raw_finish: the same in the wire's own word.
        is_last: nothing follows that finish reason on this wire.
        content_since_finish: content came and no finish reason has followed it yet.
        ended: the wire's end marker came.
        whole: the body was one JSON text, which cannot have been cut.
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
        """Note one delta that is no content; the first error stands, and the last reason."""
        # A pattern of classes would be several times slower, and each reply has two of these.
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

    def finish_is_valid(self, quirks: Quirks) -> bool:
        """Whether a finish reason came, no content followed it, and it needs no end marker."""
        if self.finish is None or self.content_since_finish:
            return False
        return self.ended or quirks.ends_without_marker


def classify_reply(parts: tuple[Part, ...], evidence: Evidence, quirks: Quirks) -> ReplyKind:
    """The kind of a reply, by the order above."""
    finish = evidence.finish
    if evidence.error is not None or finish is FinishReason.ERROR:
        return ReplyKind.ERROR_REPLY
    if evidence.not_a_reply is not None:
        return ReplyKind.NOT_A_REPLY
    if evidence.no_choices is not None and not parts:
        return ReplyKind.EMPTY
    if finish is FinishReason.CONTENT_FILTER:
        return ReplyKind.FILTERED
    if finish is FinishReason.REFUSAL or Refusal in map(type, parts):
        return ReplyKind.REFUSED
    if not _is_whole(parts, evidence, quirks):
        return ReplyKind.UNTERMINATED
    if finish is FinishReason.LENGTH:
        return ReplyKind.TRUNCATED
    if finish is FinishReason.PAUSE:
        return ReplyKind.PAUSED
    return _classify_content(parts)


def _classify_content(parts: tuple[Part, ...]) -> ReplyKind:
    calls = [part for part in parts if isinstance(part, ToolCall)]
    for call in calls:
        if not (call.name and _is_json_object(call.arguments)):
            return ReplyKind.MALFORMED_CALL
    if calls or any(map(_is_visible, parts)):
        return ReplyKind.COMPLETE
    return ReplyKind.ONLY_REASONING if Reasoning in map(type, parts) else ReplyKind.EMPTY


def _is_whole(parts: tuple[Part, ...], evidence: Evidence, quirks: Quirks) -> bool:
    if evidence.whole:
        return True
    missing = evidence.end_missing
    if missing is not None and missing.inside_event:
        return False
    valid = evidence.finish_is_valid(quirks)
    if valid and (missing is None or evidence.finish is FinishReason.LENGTH):
        return True
    # Either no finish reason covers the calls, or one without an end marker, and some servers give
    # one in each chunk. Each call must prove by itself that it was not cut.
    calls = [part for part in parts if isinstance(part, ToolCall)]
    if not all(call.arguments.strip() and _is_json_object(call.arguments) for call in calls):
        return False
    if valid or evidence.ended:
        return True
    never_finishes = quirks.ends_without_finish and evidence.finish is None
    return never_finishes and _classify_content(parts) is ReplyKind.COMPLETE


def _is_json_object(arguments: str) -> bool:
    return not arguments.strip() or isinstance(read_strict_json(arguments), dict)


def _is_visible(part: Part) -> bool:
    return isinstance(part, Media) or (isinstance(part, Text) and bool(part.text.strip()))


def error_for_reply(reply: Reply, evidence: Evidence) -> HoldfastError | None:
    """Why a reply must not be accepted, with the reply as `.partial`; None when it may be."""
    match reply.kind:
        case ReplyKind.COMPLETE | ReplyKind.PAUSED | ReplyKind.MALFORMED_CALL:
            return None
        case ReplyKind.ERROR_REPLY:
            return exception_for(evidence.error or _error_finish_info(reply), reply)
        case ReplyKind.NOT_A_REPLY:
            return _not_a_reply_error(evidence.not_a_reply or NotAReply("reply", "none"), reply)
        case ReplyKind.TRUNCATED:
            return None if reply.calls else _truncated_error(reply)
        case ReplyKind.FILTERED:
            said = "A content filter withheld " + ("the rest of the reply" if reply.text else "it")
            info = _make_info(ErrorCategory.CONTENT_FILTERED, said, "filtered")
            return FilteredError(said, info=info, partial=reply)
        case ReplyKind.REFUSED:
            said = "The model declined to answer"
            info = _make_info(ErrorCategory.CONTENT_FILTERED, said, "refused")
            return RefusedError(said, info=info, partial=reply)
        case ReplyKind.UNTERMINATED:
            said = "The reply stopped before its end: the connection or the provider cut it"
            info = _make_info(ErrorCategory.TRANSIENT, said, "unterminated")
            return UnterminatedError(said, info=info, partial=reply)
        case ReplyKind.EMPTY | ReplyKind.ONLY_REASONING:
            return _empty_reply_error(reply, evidence)


def _make_info(category: ErrorCategory, said: str, code: str) -> ErrorInfo:
    return ErrorInfo(category=category, safe=said, landed=Landed.UNKNOWN, code=code)


def _error_finish_info(reply: Reply) -> ErrorInfo:
    word = redact(reply.raw_finish[:80])
    said = f"The provider ended the reply with an error (finish reason {word!r})"
    return _make_info(ErrorCategory.SERVER_ERROR, said, "error_finish")


def _truncated_error(reply: Reply) -> TruncatedError:
    spent = f" after {reply.usage.output} tokens" if reply.usage.output else ""
    said = f"The reply was cut at the output limit{spent}"
    return TruncatedError(
        said, info=_make_info(ErrorCategory.TRUNCATED, said, "truncated"), partial=reply
    )


def _not_a_reply_error(found: NotAReply, reply: Reply) -> ResponseValidationError:
    kind: type[ResponseValidationError] = InvalidStructureError
    if found.got == "missing":
        kind = MissingAttributeError
    elif found.expected == RESPONSE_OBJECT:
        kind = UnexpectedTypeError
    said = str(kind(found.expected, found.got))
    info = _make_info(ErrorCategory.INVALID_RESPONSE, said, "not_a_reply")
    return kind(found.expected, found.got, info=info, partial=reply)


def _empty_reply_error(reply: Reply, evidence: Evidence) -> EmptyResponseError:
    kind: type[EmptyResponseError] = NoTextError
    category = ErrorCategory.EMPTY_RESPONSE
    if evidence.no_choices is not None:
        kind, reason, code = NoCandidatesError, evidence.no_choices.reason, "no_candidates"
    elif reply.finish is FinishReason.TOOL_CALLS:
        kind, reason, code = NoToolActivityError, "no tool call in response", "no_tool_activity"
    elif reply.kind is ReplyKind.ONLY_REASONING:
        reason, code = "only reasoning and no text in response", "only_reasoning"
    elif items := _opaque_item_types(reply):
        # Asked again, the model would ask for the same, and be paid for it again.
        category = ErrorCategory.CLIENT_ERROR
        reason, code = f"no text in response, only {items}, which nobody here runs", "only_items"
    else:
        reason, code = "no text in response", "no_text"
    said = str(kind(reason))
    info = _make_info(category, said, code)
    return kind(reason, info=info, partial=reply)


def _opaque_item_types(reply: Reply) -> str:
    """The types of the items that were kept as they came; notes about a reply have none."""
    items = (part.data.get("type") for part in reply.parts if isinstance(part, Opaque))
    return ", ".join(dict.fromkeys(item[:40] for item in items if isinstance(item, str)))
