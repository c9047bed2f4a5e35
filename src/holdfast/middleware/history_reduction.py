"""Sends the model the latest turns of a long conversation, with a summary of the others if wanted.

The history itself stays whole. Turns are sent whole or not at all, so a call and its result must
never be parted. The cut moves seldom, so that a provider's cache of the prefix stays useful.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from hashlib import blake2b
from typing import TypeAlias

import msgspec

from holdfast.core.argument_checks import check_optional_callable
from holdfast.core.events import Event, ModelReplied, ToolFinished, TurnOpened
from holdfast.core.limits import check_count, check_whole
from holdfast.core.messages import Message
from holdfast.middleware.decisions import Patch
from holdfast.middleware.hook_contexts import BeforeIteration, ModelCall
from holdfast.middleware.hooks import Middleware
from holdfast.middleware.token_estimate import TokenEstimate, message_size, update_estimate

_log = logging.getLogger("holdfast")

Summarize: TypeAlias = Callable[[Sequence[Message]], Awaitable[str]]
"""Messages to a summary of them."""

HEADING = "\n\nSummary of the earlier conversation:\n"
_MOST_SUMMARIES = 256
_MOST_RUNS = 256
_LEFT = 0.75
"""Of the tokens, after a cut."""


class HistoryReduction(Middleware[TokenEstimate]):
    """Omits the oldest turns if a conversation is longer than `target + threshold` messages.

    System messages, the turn under way, and turns with a pinned message are always sent. When the
    provider says that the context window is too small for what was sent, it is asked once more with
    the latest turns that make up half of it.

    Args:
        target: how many messages are left after a cut.
        threshold: how many more may gather before the next cut.
        tokens: the most that the messages may be, besides their number, by the rule of
            `middleware.token_estimate`: an estimate that learns from what the provider bills. A
            cut leaves three quarters of them. Instructions and tools come on top.
        summarize: makes a summary of what is left out, which goes into the instructions. When it
            fails, the turns are left out without one.
        pinned: whether a message, and so its turn, is always sent.
    """

    scope = "session"
    events = (TurnOpened, ModelReplied, ToolFinished)

    def __init__(
        self,
        target: int = 20,
        threshold: int = 5,
        *,
        tokens: int | None = None,
        summarize: Summarize | None = None,
        pinned: Callable[[Message], bool] | None = None,
    ) -> None:
        check_whole("target", target, at_least=1)
        check_whole("threshold", threshold, at_least=0)
        check_optional_callable("summarize", summarize)
        check_optional_callable("pinned", pinned)
        check_count("tokens", tokens, at_least=1)
        self.target = target
        self.threshold = threshold
        self.tokens = tokens
        self.summarize = summarize
        self.pinned = pinned
        # Summaries by the digest of what they stand for, and sizes by the run: caches, and no state
        # of a run.
        self._summaries: OrderedDict[bytes, str] = OrderedDict()
        self._sizes: OrderedDict[str, list[tuple[Message, int]]] = OrderedDict()

    @property
    def initial(self) -> TokenEstimate:
        """Nothing was billed yet."""
        return TokenEstimate()

    def fold(self, state: TokenEstimate, event: Event) -> TokenEstimate:
        """Learn how many tokens messages are."""
        return update_estimate(state, event)

    def acts(self, hook: str) -> bool | Callable[[BeforeIteration], bool]:
        """When there may be more than is kept."""
        if hook == "fold":
            return self.tokens is not None
        if hook != "before_iteration" or self.tokens is not None:
            return True
        most = self.target + self.threshold
        return lambda moment: len(moment.messages) > most

    async def before_iteration(self, context: BeforeIteration) -> Patch | None:
        """The latest turns, when there are too many."""
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
        """The latest turns that make up half of what was too much for the model."""
        turns = _split_turns(context.messages)
        sizes = [sum(map(message_size, turn)) for turn in turns]
        half = sum(sizes) / 2
        return await self._drop_turns(context, turns, self._count_dropped(sizes, half, half))

    async def _drop_turns(
        self, context: BeforeIteration, turns: list[list[Message]], count: int
    ) -> Patch | None:
        """What is sent without the first `count` turns, but for those that stay."""
        left = [turn for turn in turns[:count] if not self._is_pinned(turn)]
        if not left:
            return None
        gone = {id(turn) for turn in left}
        kept = tuple(message for turn in turns if id(turn) not in gone for message in turn)
        instructions = None
        if self.summarize is not None:
            said = await self._find_summary([message for turn in left for message in turn])
            instructions = context.instructions + HEADING + said if said else None
        return Patch(messages=kept, instructions=instructions)

    def _count_dropped(self, sizes: Sequence[int], target: float, limit: float) -> int:
        """How many turns, from the first, are left out: what cutting all along would have given."""
        start, size = 0, 0
        for index, one in enumerate(sizes):
            size += one
            if size <= limit:
                continue
            while start < index and size > target:
                size -= sizes[start]
                start += 1
        return start

    def _message_sizes(self, context: BeforeIteration) -> list[int]:
        """The size of each message; those of an earlier call of the run are known."""
        known = self._sizes.setdefault(context.run_id, [])
        self._sizes.move_to_end(context.run_id)
        if len(self._sizes) > _MOST_RUNS:
            self._sizes.popitem(last=False)
        messages = context.messages
        same = len(known) <= len(messages) and (
            not known or known[-1][0] is messages[len(known) - 1]
        )
        if not same:
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
            said = await self.summarize(messages)
        except Exception as error:  # noqa: BLE001  # REASON: the summariser is the user's code
            _log.warning(
                "the summary of %d messages failed: %s", len(messages), type(error).__name__
            )
            return ""
        self._summaries[key] = said
        while len(self._summaries) > _MOST_SUMMARIES:
            self._summaries.popitem(last=False)
        return said

    def describe(self) -> dict[str, object]:
        """The numbers."""
        return {
            "target": self.target,
            "threshold": self.threshold,
            "tokens": self.tokens,
            "summarize": self.summarize is not None,
        }


def _split_turns(messages: Sequence[Message]) -> list[list[Message]]:
    """Whole turns: each begins with what a user said; a system message stands alone."""
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
    """The sizes of the messages of each turn."""
    start = 0
    for turn in turns:
        yield sizes[start : start + len(turn)]
        start += len(turn)
