"""Estimates the tokens of messages without the tokenizer of the model.

The rule: the UTF-8 bytes of all text, of the arguments of calls and of their results, divided by the
bytes per token, plus 4 tokens for each message. A picture, a sound or a file counts as 1,000 tokens.
A token has 4 bytes until the provider has billed enough messages to measure it. The estimate must
never depend on anything but the messages and the events.
"""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.events import Event, ModelReplied, ToolFinished, TurnOpened
from holdfast.core.messages import (
    Media,
    Message,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)

BYTES_PER_TOKEN = 4.0
LEAST, MOST = 1.5, 8.0
"""Plausible bytes per token. Any other measure means that the history was cut in between."""

ENOUGH = 200
"""The tokens that must have been billed before the measured value is used."""

_PER_MESSAGE = 16
_PER_MEDIA = 4000


class TokenEstimate(Struct, frozen=True, gc=False):
    """The size of messages, and what the provider billed for them.

    Args:
        size: the bytes of the messages whose tokens are known.
        tokens: the tokens of these messages.
        last: the input tokens of the last model call; 0 when they are not known.
        since: the bytes of the messages after that call's request.
    """

    size: int = 0
    tokens: int = 0
    last: int = 0
    since: int = 0

    @property
    def bytes_per_token(self) -> float:
        """The measured bytes per token; 4 until enough tokens were billed.

        >>> TokenEstimate().bytes_per_token, TokenEstimate(size=900, tokens=300).bytes_per_token
        (4.0, 3.0)
        """
        return self.size / self.tokens if self.tokens >= ENOUGH else BYTES_PER_TOKEN


def message_size(message: Message) -> int:
    """Return the bytes of a message, by the rule of this module.

    >>> from holdfast.core.messages import user
    >>> message_size(user("Hello"))
    21
    """
    return _PER_MESSAGE + sum([_part_size(part) for part in message.parts])


def _part_size(part: Part) -> int:
    if isinstance(part, Text | Reasoning | Refusal):
        return len(part.text.encode("utf-8", "surrogatepass"))
    if isinstance(part, ToolCall):
        return len(part.name) + len(part.arguments.encode("utf-8", "surrogatepass"))
    if isinstance(part, ToolResult):
        return sum([_part_size(inner) for inner in part.content])
    return _PER_MEDIA if isinstance(part, Media) else 0


def update_estimate(state: TokenEstimate, event: Event) -> TokenEstimate:
    """Return the state after an event.

    The difference between the bills of two calls measures the messages that were added in between.
    """
    if isinstance(event, TurnOpened):
        return state if event.message is None else _add_size(state, message_size(event.message))
    if isinstance(event, ToolFinished):
        return _add_size(state, sum([_part_size(part) for part in event.result.content]))
    if not isinstance(event, ModelReplied):
        return state
    size, tokens, cost = state.size, state.tokens, event.reply.usage.input
    grown = cost - state.last
    if state.last and grown > 0 and LEAST <= state.since / grown <= MOST:
        size, tokens = size + state.since, tokens + grown
    return TokenEstimate(size, tokens, cost, message_size(event.reply.message))


def _add_size(state: TokenEstimate, size: int) -> TokenEstimate:
    return TokenEstimate(state.size, state.tokens, state.last, state.since + size)
