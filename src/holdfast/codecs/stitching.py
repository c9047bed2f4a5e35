"""Continues a reply that broke off, and joins the two texts.

The text that arrived is sent back as the beginning of the reply, and the provider writes the rest.
Only plain text can be continued. A reply with a tool call, with reasoning (which needs its
signature) or with a typed output is requested again from the start. This module never guesses
missing text, and never loses or repeats a character.

Whitespace at the end is not sent, because some servers reject it and models continue badly after
it. If the rest begins with the same whitespace, it is removed, because it was already shown.
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.deltas import (
    CharactersReplaced,
    Decoder,
    Delta,
    ReplyStarted,
    TextDelta,
    UsageReceived,
)
from holdfast.core.errors import ConfigurationError, ErrorCategory
from holdfast.core.messages import Reply, ReplyKind, Text
from holdfast.core.model_request import ModelRequest

_BROKEN = frozenset({ReplyKind.UNTERMINATED, ReplyKind.ERROR_REPLY})
_PASSING = frozenset(
    {
        ErrorCategory.TRANSIENT,
        ErrorCategory.TIMEOUT,
        ErrorCategory.SERVER_ERROR,
        ErrorCategory.RATE_LIMIT_RETRYABLE,
    }
)
_SILENT = (ReplyStarted, UsageReceived, CharactersReplaced)


def allows_continuation(request: ModelRequest) -> bool:
    """Whether the reply to this request can be continued, on a wire that supports it.

    >>> from holdfast.core.messages import assistant, user
    >>> allows_continuation(ModelRequest(model="m", messages=[user("Hi")]))
    True
    >>> allows_continuation(ModelRequest(model="m", messages=[user("Hi"), assistant("Hel")]))
    False
    """
    settings, messages = request.settings, request.messages
    thinks = settings.reasoning_effort not in (None, "none") or bool(settings.reasoning_tokens)
    forced = settings.tool_choice not in (None, "auto", "none")
    has_prefill = bool(messages) and messages[-1].role == "assistant"
    return request.output is None and not (thinks or forced or has_prefill)


def can_continue_reply(reply: Reply, category: ErrorCategory) -> bool:
    """Whether a reply that broke off with such an error can be continued: it holds only plain text.

    >>> broken = Reply((Text("Once upon"),), kind=ReplyKind.UNTERMINATED)
    >>> can_continue_reply(broken, ErrorCategory.TRANSIENT), can_continue_reply(broken, ErrorCategory.CONTENT_FILTERED)
    (True, False)
    """
    return (
        category in _PASSING
        and reply.kind in _BROKEN
        and bool(reply.text.strip())
        and all(type(part) is Text and not part.extra for part in reply.parts)
    )


def prefill_request(request: ModelRequest, partial: Reply) -> ModelRequest:
    """Return the request with the text of `partial` as the beginning of the reply."""
    return replace(request, prefill=partial.text.rstrip())


def refuse_prefill(request: ModelRequest, wire: str) -> None:
    """Raise ConfigurationError if the request has a `prefill`, on a wire that does not support it."""
    if request.prefill:
        raise ConfigurationError(
            "prefill", f"{wire} does not continue a reply", fix="send the request without a prefill"
        )


class StitchingDecoder:
    r"""A decoder that joins the text of a continuation to the text before it.

    Args:
        inner: decodes the continuation.
        beginning: the text before it, including the whitespace at its end.
        echoes: the provider repeats the beginning before the continuation.

    >>> class Pieces:
    ...     def feed(self, data):
    ...         return [TextDelta(data.decode())]
    ...     def close(self):
    ...         return []
    >>> StitchingDecoder(Pieces(), "Hello ").feed(b" world")
    [TextDelta(text='world', index=0)]
    """

    __slots__ = ("_blanks", "_buffer", "_echo", "_inner", "_is_joined")

    def __init__(self, inner: Decoder, beginning: str, *, echoes: bool = False) -> None:
        sent = beginning.rstrip()
        self._inner = inner
        self._echo = sent if echoes else ""
        self._blanks = beginning[len(sent) :]
        self._buffer = ""
        self._is_joined = not (self._echo or self._blanks)

    def feed(self, data: bytes) -> list[Delta]:
        """Return the deltas that these bytes complete, without repeated text."""
        deltas = self._inner.feed(data)
        return deltas if self._is_joined else self._fit_deltas(deltas)

    def close(self) -> list[Delta]:
        """End the body, and return the remaining deltas."""
        deltas = self._inner.close()
        if self._is_joined:
            return deltas
        return [*self._fit_deltas(deltas), *self._release_buffer()]

    def _fit_deltas(self, deltas: list[Delta]) -> list[Delta]:
        fitted: list[Delta] = []
        for delta in deltas:
            if type(delta) is TextDelta and not self._is_joined:
                if text := self._fit_text(delta.text):
                    fitted.append(TextDelta(text, delta.index))
                continue
            if not isinstance(delta, _SILENT):
                fitted += self._release_buffer()
            fitted.append(delta)
        return fitted

    def _release_buffer(self) -> list[Delta]:
        """Return text that began like an echo but was shorter than the beginning."""
        text, self._buffer, self._echo = self._buffer, "", ""
        return [TextDelta(rest)] if text and (rest := self._strip_repeated_blanks(text)) else []

    def _fit_text(self, text: str) -> str:
        if self._echo:
            if len(text) < len(self._echo) and self._echo.startswith(text):
                self._buffer += text
                self._echo = self._echo[len(text) :]
                return ""
            is_echo = text.startswith(self._echo)
            text = text[len(self._echo) :] if is_echo else self._buffer + text
            self._echo = self._buffer = ""
        return self._strip_repeated_blanks(text)

    def _strip_repeated_blanks(self, text: str) -> str:
        same = 0
        for expected, actual in zip(self._blanks, text, strict=False):
            if expected != actual:
                break
            same += 1
        text, self._blanks = text[same:], self._blanks[same:]
        if text or not self._blanks:
            self._is_joined, self._blanks = True, ""
        return text
