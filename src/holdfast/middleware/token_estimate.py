"""How many tokens messages are, as far as can be told without the tokenizer of their model.

The rule: the bytes of all text, of the arguments of calls and of their results, in UTF-8, divided
by the bytes per token, and 4 tokens for each message. A picture, a sound or a file counts 1,000
tokens. There are 4 bytes in a token until the provider has said what messages really cost: from
then on as many as those had. It must never depend on anything but the messages and the events.
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
"""Bytes per token that can be true; anything else comes from a history that was cut meanwhile."""

ENOUGH = 200
"""Tokens that must have been billed before they are believed."""

_PER_MESSAGE = 16
_PER_MEDIA = 4000


class TokenEstimate(Struct, frozen=True, gc=False):
    """Bytes of messages, and what the provider billed for them.

    Args:
        size: of messages whose tokens are known.
        tokens: of these.
        last: input tokens of the last model call; 0 when they are not known.
        since: bytes of what came after it.
    """

    size: int = 0
    tokens: int = 0
    last: int = 0
    since: int = 0

    @property
    def bytes_per_token(self) -> float:
        """Measured, where enough is known.

        >>> TokenEstimate().bytes_per_token, TokenEstimate(size=900, tokens=300).bytes_per_token
        (4.0, 3.0)
        """
        return self.size / self.tokens if self.tokens >= ENOUGH else BYTES_PER_TOKEN


def message_size(message: Message) -> int:
    """Bytes of a message, by the rule of this module.

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
        return sum([_part_size(one) for one in part.content])
    return _PER_MEDIA if isinstance(part, Media) else 0


def update_estimate(state: TokenEstimate, event: Event) -> TokenEstimate:
    """The state after an event: what one call was billed more than the one before is known."""
    if isinstance(event, TurnOpened):
        return _add_size(state, message_size(event.message))
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
