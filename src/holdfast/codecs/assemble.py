"""Builds one reply from its deltas, streamed or not, and measures it while it is read.

`codecs.reply_checks` decides whether the reply is accepted. This module never repairs arguments; it only
drops repetitions that `codecs.call_arguments` proves. The work for one delta never grows with the
length of the reply. Measuring does, so it is not done
for each delta: a reply cannot grow faster than its body, and the next measurement is due when the
body could have reached a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable

from msgspec import Struct
from msgspec.structs import replace

from holdfast.codecs.call_arguments import drop_repetitions, grows_by_repeating
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.reply_checks import Evidence, classify_reply, error_for_reply
from holdfast.core.deltas import (
    CharactersReplaced,
    Delta,
    EndMissing,
    ErrorReceived,
    HostedToolFinished,
    HostedToolStarted,
    NoChoices,
    NotAReply,
    PartReceived,
    ReasoningDelta,
    RefusalDelta,
    ReplyFinished,
    ReplyStarted,
    StreamEnded,
    TextDelta,
    ToolCallDelta,
    UsageReceived,
)
from holdfast.core.errors import ErrorCategory, ErrorInfo, HoldfastError, ReplyTooLargeError
from holdfast.core.limits import ReplyLimits
from holdfast.core.messages import (
    Extra,
    FinishReason,
    Opaque,
    Part,
    Reasoning,
    Refusal,
    Reply,
    ReplyKind,
    Text,
    ToolCall,
    Usage,
)

_SMALLEST_CALL = 16
"""No wire describes a call in fewer bytes."""

_GROWTH = 3
"""A byte that is not UTF-8 becomes U+FFFD, which has three."""

_STEP = 128 * 1024
"""The fewest bytes between two checks, because a check costs more than small replies themselves."""
_NEVER = 1 << 62


class AssembledReply(Struct, frozen=True):
    """A reply, and the error when the reply is not accepted."""

    reply: Reply
    error: HoldfastError | None = None


class _TextParts(Struct):
    pieces: list[str]
    extra: Extra | None = None


class _ReasoningParts(Struct):
    pieces: list[str]
    signature: str | None = None
    extra: Extra | None = None


class _CallParts(Struct):
    pieces: list[str]
    id: str = ""
    name: str = ""
    extra: Extra | None = None
    measured: int = 0
    size: int = 0

    def measure(self) -> int:
        """Return the bytes of the arguments. Pieces that may be repetitions are not joined: they are the proof."""
        if grows_by_repeating(self.pieces, self.measured):
            self.size += sum(map(_count_bytes, self.pieces[self.measured :]))
        else:
            self.size = _join_pieces(self.pieces)
        self.measured = len(self.pieces)
        return self.size


class _RefusalParts(Struct):
    pieces: list[str]


_NO_START = ReplyStarted()
_UNKNOWN = FinishReason.UNKNOWN  # access to enum members is slow
_NO_USAGE = Usage()


class Assembler:
    """Builds the reply of one attempt from its deltas.

    Text (or reasoning) is appended to the part with the same index. If a part of another kind came
    in between, the text starts a new part, so that the parts stay in the order of the model.

    Args:
        profile: how this provider marks the end of a reply.
        wire: the codec's name; it is stored on parts that hold data of that wire.
        partial: the part of the same reply that earlier attempts received; this attempt continues it.

    Attributes:
        has_dropped: whether arguments of a call were repeated, as far as `finish` has found.
        rewritten_tools: the tools whose arguments a decoder has rewritten, piece by piece; their
            repetitions are no longer equal, so they are not looked for.

    >>> from holdfast.core.deltas import ReplyFinished, StreamEnded
    >>> assembler = Assembler(EndpointProfile())
    >>> for delta in (TextDelta("Hel"), TextDelta("lo"), ReplyFinished(FinishReason.STOP), StreamEnded()):
    ...     assembler.feed(delta)
    >>> assembler.finish().reply.text
    'Hello'
    """

    __slots__ = (
        "_calls",
        "_content_since_finish",
        "_evidence",
        "_hosted_calls",
        "_open",
        "_open_kind",
        "_partial",
        "_parts",
        "_profile",
        "_start",
        "_text",
        "_text_at",
        "_texts",
        "_thoughts",
        "_tier",
        "_usage",
        "_wire",
        "has_dropped",
        "rewritten_tools",
    )  # fmt: skip

    def __init__(
        self, profile: EndpointProfile, wire: str = "", partial: Reply | None = None
    ) -> None:
        self._profile = profile
        self._wire = wire or None
        self._parts: list[_TextParts | _ReasoningParts | _CallParts | _RefusalParts | Part] = []
        # The parts of the current kind, by index. It is cleared when a part of another kind begins.
        self._open: dict[int, _TextParts | _ReasoningParts] = {}
        self._open_kind: type[object] | None = None
        self._texts: dict[int, _TextParts] = {}
        self._thoughts: dict[int, _ReasoningParts] = {}
        self._text: list[str] = []
        # The index of the text part that grows; None when the next delta takes the slow path.
        self._text_at: int | None = None
        self._calls: dict[int, _CallParts] = {}
        self._start = _NO_START
        self._usage = _NO_USAGE
        self._tier = ""
        self._evidence = Evidence()
        self._content_since_finish = False
        self._hosted_calls = 0
        self._partial = partial
        self.has_dropped = False
        self.rewritten_tools: Container[str] = ()
        if partial is not None:
            self._take_text(TextDelta(partial.text))

    def feed(self, delta: Delta) -> None:
        """Take the next delta."""
        self.feed_all((delta,))

    def feed_all(self, deltas: Iterable[Delta]) -> None:
        """Take several deltas, as `feed` does with one."""
        append, text_at = self._text.append, self._text_at
        for delta in deltas:
            if type(delta) is TextDelta and delta.index == text_at:
                append(delta.text)
            else:
                _TAKES[type(delta)](self, delta)
                append, text_at = self._text.append, self._text_at

    @property
    def has_visible_parts(self) -> bool:
        """Whether this attempt received anything that a user may have seen."""
        if self._hosted_calls:
            return True
        first = 0
        if self._partial is not None:
            first = 1
            if len(self._continued_text()) > 1:
                return True
        return any(
            bool(part.pieces) if isinstance(part, _ReasoningParts) else not isinstance(part, Opaque)
            for part in self._parts[first:]
        )

    @property
    def ended(self) -> bool:
        """Whether the end marker of the wire came. Nothing after it can change the reply."""
        return self._evidence.ended

    @property
    def is_complete(self) -> bool:
        """Whether the reply is complete even if the body ends here. Only token counts may be missing."""
        evidence = self._evidence_so_far()
        return evidence.ended or (evidence.is_last and evidence.finish_is_valid(self._profile))

    def measure(self) -> tuple[int, int, int]:
        """Return the bytes of text, the bytes of arguments and the number of calls so far.

        The pieces of each part are joined, because many small strings take much more memory.
        """
        text = arguments = 0
        for at, part in enumerate(self._parts):
            if isinstance(part, _CallParts):
                arguments += part.measure()
            elif isinstance(part, _TextParts | _ReasoningParts | _RefusalParts):
                # The text of earlier attempts stays a piece of its own.
                first = 1 if self._partial is not None and at == 0 else 0
                text += _join_pieces(part.pieces, first)
        return text, arguments, len(self._calls)

    def finish(self) -> AssembledReply:
        """Return the reply so far, with its kind. It can be called at any time and more than once."""
        parts = self._build_parts()
        kind = classify_reply(self._own_parts(parts), self._evidence_so_far(), self._profile)
        if kind in _MENDABLE and self._calls and self._drop_repetitions(parts):
            parts = self._build_parts()
            kind = classify_reply(self._own_parts(parts), self._evidence_so_far(), self._profile)
        is_accepted = kind in _ACCEPTED
        if is_accepted and self._calls:
            parts = tuple([_fill_empty_arguments(part) for part in parts])
        usage = self._usage
        if self._hosted_calls:
            usage = replace(usage, hosted_calls=self._hosted_calls)
        reply = Reply(
            parts=parts,
            kind=kind,
            finish=self._evidence.finish or _UNKNOWN,
            usage=usage,
            model=self._start.model,
            id=self._start.id,
            raw_finish=self._evidence.raw_finish,
            tier=self._tier,
        )
        if (partial := self._partial) is not None:
            has_continued = self.has_visible_parts or self.ended
            usage, continued = partial.usage + reply.usage, partial.continued + has_continued
            reply = replace(reply, usage=usage, continued=continued)
        return AssembledReply(
            reply, None if is_accepted else error_for_reply(reply, self._evidence)
        )

    def _evidence_so_far(self) -> Evidence:
        # Every delta sets this flag, and an attribute of this object is cheaper than one of Evidence.
        self._evidence.content_since_finish = self._content_since_finish
        return self._evidence

    def _drop_repetitions(self, parts: tuple[Part, ...]) -> bool:
        """Drop the repetitions in the arguments of calls; returns whether there were any."""
        dropped = False
        for built, part in zip(parts, self._parts, strict=True):
            if isinstance(built, ToolCall) and isinstance(part, _CallParts):
                if built.name in self.rewritten_tools or not built.arguments.strip():
                    continue
                if (arguments := drop_repetitions(part.pieces)) is not None:
                    part.pieces = [arguments]
                    part.measured = part.size = 0
                    dropped = self.has_dropped = True
        return dropped

    def _own_parts(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """The parts of this attempt only. Earlier text does not prove that the rest is complete."""
        if self._partial is None:
            return parts
        new_text = "".join(self._continued_text()[1:])
        return (Text(new_text), *parts[1:]) if new_text else parts[1:]

    def _continued_text(self) -> list[str]:
        """The pieces of the continued text; the first is the text of the earlier attempts."""
        first = self._parts[0]
        return first.pieces if isinstance(first, _TextParts) else []

    def _build_parts(self) -> tuple[Part, ...]:
        built: list[Part] = []
        for part in self._parts:
            # A match statement would be several times slower.
            if isinstance(part, _TextParts):
                built.append(Text("".join(part.pieces), part.extra))
            elif isinstance(part, _CallParts):
                wire = self._wire if part.extra else None
                text = "".join(part.pieces)
                built.append(ToolCall(part.id, part.name, text, wire, part.extra))
            elif isinstance(part, _ReasoningParts):
                wire = self._wire if part.signature or part.extra else None
                built.append(Reasoning("".join(part.pieces), part.signature, wire, part.extra))
            elif isinstance(part, _RefusalParts):
                built.append(Refusal("".join(part.pieces)))
            else:
                built.append(part)
        return tuple(built)

    def _begin_part(
        self, part: _TextParts | _ReasoningParts | _CallParts | _RefusalParts | Part
    ) -> None:
        """Start a part, and close the open parts of another kind."""
        kind = type(part)
        if kind is not self._open_kind:
            self._open.clear()
            self._open_kind = kind
            self._text_at = None
        self._parts.append(part)

    def _take_start(self, delta: ReplyStarted) -> None:
        # The last model name wins: another model may continue the reply.
        start = self._start
        self._start = ReplyStarted(start.id or delta.id, delta.model or start.model)

    def _take_nothing(self, delta: CharactersReplaced | HostedToolFinished) -> None:
        """Ignore the delta: its content is in other deltas too."""

    def _count_hosted_call(self, delta: HostedToolStarted) -> None:  # noqa: ARG002 - its part follows
        self._hosted_calls += 1

    def _take_finish(self, delta: ReplyFinished) -> None:
        self._content_since_finish = False
        self._take_evidence(delta)

    def _take_evidence(self, delta: Delta) -> None:
        # Text after a finish reason makes that reason invalid, so it takes the slow path.
        self._text_at = None
        self._evidence.note_delta(delta)

    def _take_usage(self, delta: UsageReceived) -> None:
        self._usage = delta.usage
        self._tier = delta.tier or self._tier

    def _take_part(self, delta: PartReceived) -> None:
        part, open_text = delta.part, self._texts.get(delta.index)
        if isinstance(part, Text) and not part.text and open_text is not None:
            # A text without content carries the extra fields of the text with the same index.
            open_text.extra = part.extra
            return
        self._begin_part(part)
        if not delta.note:
            self._content_since_finish = True

    def _take_text(self, delta: TextDelta) -> None:
        if not delta.text:
            return
        index = delta.index
        text_parts = self._open.get(index)
        if not isinstance(text_parts, _TextParts):
            text_parts = _TextParts([])
            self._begin_part(text_parts)
            self._open[index] = self._texts[index] = text_parts
        text_parts.pieces.append(delta.text)
        self._text, self._text_at = text_parts.pieces, index
        self._content_since_finish = True

    def _take_reasoning(self, delta: ReasoningDelta) -> None:
        if not (delta.text or delta.signature or delta.extra):
            return
        index = delta.index
        reasoning = self._open.get(index)
        if not isinstance(reasoning, _ReasoningParts):
            # A signature may come after other parts. More text starts a new reasoning part.
            earlier = None if delta.text else self._thoughts.get(index)
            reasoning = earlier or _ReasoningParts([])
            if earlier is None:
                self._begin_part(reasoning)
                self._open[index] = self._thoughts[index] = reasoning
        if delta.text:
            reasoning.pieces.append(delta.text)
            self._content_since_finish = True
        if delta.signature:
            reasoning.signature = delta.signature
        if delta.extra:
            reasoning.extra = {**(reasoning.extra or {}), **delta.extra}

    def _take_call(self, delta: ToolCallDelta) -> None:
        call = self._calls.get(delta.index)
        if call is None:
            call = self._calls[delta.index] = _CallParts([])
            self._begin_part(call)
            self._content_since_finish = True
        call.id = call.id or delta.id
        call.name = call.name or delta.name
        if delta.arguments:
            call.pieces.append(delta.arguments)
            self._content_since_finish = True
        elif delta.name:
            self._content_since_finish = True
        if delta.extra:
            call.extra = {**(call.extra or {}), **delta.extra}

    def _take_refusal(self, delta: RefusalDelta) -> None:
        text = delta.text
        if not text:
            return
        self._content_since_finish = True
        last = self._parts[-1] if self._parts else None
        if isinstance(last, _RefusalParts):
            last.pieces.append(text)
        else:
            self._begin_part(_RefusalParts([text]))


def _join_pieces(pieces: list[str], first: int = 0) -> int:
    """Join the pieces from `first` on, in the same list, and return the bytes of all."""
    if len(pieces) > first + 1:
        pieces[first:] = ["".join(pieces[first:])]
    return sum(map(_count_bytes, pieces))


def _count_bytes(piece: str) -> int:
    return len(piece) if piece.isascii() else len(piece.encode())


_MENDABLE = (ReplyKind.MALFORMED_CALL, ReplyKind.UNTERMINATED)
"""The kinds of a reply whose calls may have repeated arguments."""

_ACCEPTED = (ReplyKind.COMPLETE, ReplyKind.PAUSED, ReplyKind.MALFORMED_CALL)


def _fill_empty_arguments(part: Part) -> Part:
    """Give a call with an empty argument text the arguments `{}`."""
    if isinstance(part, ToolCall) and not part.arguments.strip():
        return replace(part, arguments="{}")
    return part


_TAKES: dict[type[Delta], Callable[..., None]] = {
    TextDelta: Assembler._take_text,
    CharactersReplaced: Assembler._take_nothing,
    HostedToolStarted: Assembler._count_hosted_call,
    HostedToolFinished: Assembler._take_nothing,
    ToolCallDelta: Assembler._take_call,
    ReasoningDelta: Assembler._take_reasoning,
    RefusalDelta: Assembler._take_refusal,
    PartReceived: Assembler._take_part,
    ReplyStarted: Assembler._take_start,
    UsageReceived: Assembler._take_usage,
    ReplyFinished: Assembler._take_finish,
    StreamEnded: Assembler._take_evidence,
    ErrorReceived: Assembler._take_evidence,
    NotAReply: Assembler._take_evidence,
    NoChoices: Assembler._take_evidence,
    EndMissing: Assembler._take_evidence,
}


class ReplyMeter:
    """Measures one reply.

    Args:
        limits: the limits of the reply.
        safe_size: the result of `find_safe_size` for the limits.
        assembler: builds the reply.
    """

    __slots__ = ("_assembler", "_due", "_limits", "_received", "_safe_size")

    def __init__(self, limits: ReplyLimits, safe_size: int, assembler: Assembler) -> None:
        self._limits = limits
        self._safe_size = safe_size
        self._assembler = assembler
        self._received = 0
        self._due = max(safe_size, _STEP)

    def note_bytes(self, count: int) -> None:
        """Add the size of a piece of the body.

        Raises:
            ReplyTooLargeError: the reply exceeds a limit.
        """
        self._received += count
        if self._received >= self._due:
            self._check()

    def check_end(self) -> None:
        """Check the complete reply.

        Raises:
            ReplyTooLargeError: the reply exceeds a limit.
        """
        if self._received >= self._safe_size:
            self._check()

    def _check(self) -> None:
        text, arguments, calls = self._assembler.measure()
        limits = self._limits
        _check_limit("body", "bytes", self._received, limits.body)
        _check_limit("text", "bytes of text", text, limits.text)
        _check_limit("arguments", "bytes of arguments", arguments, limits.arguments)
        _check_limit("calls", "tool calls", calls, limits.calls)
        growth = _smallest_growth(limits, self._received, text, arguments, calls)
        self._due = self._received + max(growth, _STEP)


def find_safe_size(limits: ReplyLimits) -> int:
    """Return a size of the body; a reply with a smaller body cannot exceed a limit."""
    return _smallest_growth(limits, 0, 0, 0, 0)


def _smallest_growth(
    limits: ReplyLimits, received: int, text: int, arguments: int, calls: int
) -> int:
    """Return how many bytes the body must grow before the reply can exceed a limit."""
    left = [_NEVER if limits.body is None else limits.body - received]
    for limit, size in ((limits.text, text), (limits.arguments, arguments)):
        left += [] if limit is None else [(limit - size) // _GROWTH]
    left += [] if limits.calls is None else [(limits.calls - calls) * _SMALLEST_CALL]
    return max(min(left), 1)


def _check_limit(name: str, unit: str, size: int, limit: int | None) -> None:
    if limit is not None and size > limit:
        code = f"reply_limits.{name}"
        message = f"The reply has more than {limit} {unit}, the limit of {code}"
        info = ErrorInfo(category=ErrorCategory.TRUNCATED, safe=message, code=code)
        raise ReplyTooLargeError(message, info=info)
