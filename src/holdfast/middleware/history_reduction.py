"""Sends the model only the latest turns of a long conversation, optionally with a summary.

The history itself stays complete. A turn is sent as a whole or not at all, so a call and its result
are never separated. The cut moves rarely, so that a provider's cache of the prefix stays useful.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from hashlib import blake2b
from typing import TypeAlias

import msgspec
from msgspec import Struct

from holdfast.core.argument_checks import check_arguments
from holdfast.core.constraints import NonNegativeInt, PositiveInt
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
from holdfast.middleware.decisions import Patch
from holdfast.middleware.hook_contexts import BeforeIteration, ModelCall
from holdfast.middleware.hooks import Middleware

BYTES_PER_TOKEN = 4.0
LEAST, MOST = 1.5, 8.0
"""Plausible bytes per token. Any other measure means that the history was cut in between."""

ENOUGH = 200
"""The tokens that must have been billed before the measured value is used."""

_PER_MESSAGE = 16
_PER_MEDIA = 4000


class TokenEstimate(Struct, frozen=True, gc=False):
    """The size of messages, and the tokens that the provider billed for them.

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


_log = logging.getLogger("holdfast")

Summarize: TypeAlias = Callable[[Sequence[Message]], Awaitable[str]]
"""An async function that takes messages and returns their summary."""

HEADING = "\n\nSummary of the earlier conversation:\n"
_MOST_SUMMARIES = 256
_MOST_RUNS = 256
_LEFT = 0.75
"""The part of the limit of tokens that is left after a cut."""


class HistoryReduction(Middleware[TokenEstimate]):
    """Omits the oldest turns if a conversation is longer than `target + threshold` messages.

    System messages, the current turn, and turns with a pinned message are always sent. When the
    provider reports that the messages do not fit into the context window, the call is repeated once
    with the latest turns that make up half of them.

    Args:
        target: how many messages remain after a cut.
        threshold: how many more messages may be added before the next cut.
        tokens: a limit of tokens for the messages, in addition to their number. Tokens are estimated
            from the tokens that the provider bills. A cut leaves three quarters of the limit.
            Instructions and tools are not counted.
        summarize: summarises the messages that are left out; the summary is added to the
            instructions. When it fails, the turns are left out without a summary.
        pinned: decides whether a message, and with it its turn, is always sent.
    """

    scope = "session"
    events: Sequence[type[Event]] | None = (TurnOpened, ModelReplied, ToolFinished)

    @check_arguments
    def __init__(
        self,
        target: PositiveInt = 20,
        threshold: NonNegativeInt = 5,
        *,
        tokens: PositiveInt | None = None,
        summarize: Summarize | None = None,
        pinned: Callable[[Message], bool] | None = None,
    ) -> None:
        self.target = target
        self.threshold = threshold
        self.tokens = tokens
        if tokens is None:
            self.events = ()
        self.summarize = summarize
        self.pinned = pinned
        # Summaries by the digest of their messages, and sizes by the run: these are caches, not the
        # state of a run.
        self._summaries: OrderedDict[bytes, str] = OrderedDict()
        self._sizes: OrderedDict[str, list[tuple[Message, int]]] = OrderedDict()

    @property
    def initial(self) -> TokenEstimate:
        """The estimate before the first bill."""
        return TokenEstimate()

    def fold(self, state: TokenEstimate, event: Event) -> TokenEstimate:
        """Update the estimate of tokens."""
        return update_estimate(state, event)

    async def before_iteration(self, context: BeforeIteration) -> Patch | None:
        """Send only the latest turns when there are too many messages."""
        if self.tokens is None and len(context.messages) <= self.target + self.threshold:
            return None
        turns = _split_turns(context.messages)
        cut = self._count_dropped(
            [len(turn) for turn in turns], self.target, self.target + self.threshold
        )
        if self.tokens is not None:
            most = self.tokens * context.state_of(self).bytes_per_token
            sizes = [sum(part) for part in _sizes_by_turn(self._message_sizes(context), turns)]
            cut = max(cut, self._count_dropped(sizes, most * _LEFT, most))
        return await self._drop_turns(context, turns, cut)

    async def on_context_window(self, context: ModelCall) -> Patch | None:
        """Send the latest turns that make up half of the messages that did not fit."""
        turns = _split_turns(context.messages)
        sizes = [sum(map(message_size, turn)) for turn in turns]
        half = sum(sizes) / 2
        return await self._drop_turns(context, turns, self._count_dropped(sizes, half, half))

    async def _drop_turns(
        self, context: BeforeIteration, turns: list[list[Message]], count: int
    ) -> Patch | None:
        """Leave out the first `count` turns, except pinned ones."""
        dropped = [turn for turn in turns[:count] if not self._is_pinned(turn)]
        if not dropped:
            return None
        ids = {id(turn) for turn in dropped}
        messages = tuple(message for turn in turns if id(turn) not in ids for message in turn)
        instructions = None
        if self.summarize is not None:
            summary = await self._find_summary([message for turn in dropped for message in turn])
            instructions = context.instructions + HEADING + summary if summary else None
        return Patch(messages=messages, instructions=instructions)

    def _count_dropped(self, sizes: Sequence[int], target: float, limit: float) -> int:
        """Return how many turns are left out at the beginning.

        The cuts of all earlier calls are computed again, so the result needs no state.
        """
        start, size = 0, 0
        for index, turn_size in enumerate(sizes):
            size += turn_size
            if size <= limit:
                continue
            while start < index and size > target:
                size -= sizes[start]
                start += 1
        return start

    def _message_sizes(self, context: BeforeIteration) -> list[int]:
        """Return the size of each message; the sizes from earlier calls of the run are cached."""
        known = self._sizes.setdefault(context.run_id, [])
        self._sizes.move_to_end(context.run_id)
        if len(self._sizes) > _MOST_RUNS:
            self._sizes.popitem(last=False)
        messages = context.messages
        is_extended = len(known) <= len(messages) and (
            not known or known[-1][0] is messages[len(known) - 1]
        )
        if not is_extended:
            known.clear()
        known.extend((message, message_size(message)) for message in messages[len(known) :])
        return [size for _, size in known]

    def _is_pinned(self, turn: Sequence[Message]) -> bool:
        if turn[0].role == "system":
            return True
        return self.pinned is not None and any(self.pinned(message) for message in turn)

    async def _find_summary(self, messages: Sequence[Message]) -> str:
        key = blake2b(msgspec.json.encode(messages), digest_size=32).digest()
        found = self._summaries.get(key)
        if found is not None:
            return found
        if self.summarize is None:
            return ""
        try:
            summary = await self.summarize(messages)
        except Exception as error:  # noqa: BLE001  # REASON: the summariser is the user's code
            _log.warning(
                "the summary of %d messages failed: %s", len(messages), type(error).__name__
            )
            return ""
        self._summaries[key] = summary
        while len(self._summaries) > _MOST_SUMMARIES:
            self._summaries.popitem(last=False)
        return summary

    def describe(self) -> dict[str, object]:
        """The settings."""
        return {
            "target": self.target,
            "threshold": self.threshold,
            "tokens": self.tokens,
            "summarize": self.summarize is not None,
        }


def _split_turns(messages: Sequence[Message]) -> list[list[Message]]:
    """Split messages into turns. A turn begins with a user message; a system message is alone."""
    turns: list[list[Message]] = []
    for message in messages:
        alone = message.role in ("system", "user") or not turns or turns[-1][0].role == "system"
        if alone:
            turns.append([message])
        else:
            turns[-1].append(message)
    return turns


def _sizes_by_turn(
    sizes: Sequence[int], turns: Sequence[Sequence[Message]]
) -> Iterator[Sequence[int]]:
    """Yield the sizes of the messages of each turn."""
    start = 0
    for turn in turns:
        yield sizes[start : start + len(turn)]
        start += len(turn)
