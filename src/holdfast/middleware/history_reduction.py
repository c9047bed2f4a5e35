"""Sends the model the latest turns of a long conversation, with a summary of the others if wanted.

The history itself stays whole. Turns are sent whole or not at all, so a call and its result must
never be parted. The cut moves seldom, so that a provider's cache of the prefix stays useful.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from hashlib import blake2b
from typing import TypeAlias

import msgspec

from holdfast.core.errors import ConfigurationError
from holdfast.core.limits import check_count
from holdfast.core.messages import Message
from holdfast.middleware.decisions import Patch
from holdfast.middleware.hooks import Middleware
from holdfast.middleware.moments import BeforeIteration

_log = logging.getLogger("holdfast")

Summarize: TypeAlias = Callable[[Sequence[Message]], Awaitable[str]]
"""Messages to a summary of them."""

HEADING = "\n\nSummary of the earlier conversation:\n"
_MOST_SUMMARIES = 256


class HistoryReduction(Middleware):
    """Leaves out the oldest turns when a conversation is longer than `target + threshold`.

    System messages, the turn under way, and turns with a pinned message are always sent.

    Args:
        target: how many messages are left after a cut.
        threshold: how many more may gather before the next cut.
        summarize: makes a summary of what is left out, which goes into the instructions. When it
            fails, the turns are left out without one.
        pinned: whether a message, and so its turn, is always sent.
    """

    def __init__(
        self,
        target: int = 20,
        threshold: int = 5,
        *,
        summarize: Summarize | None = None,
        pinned: Callable[[Message], bool] | None = None,
    ) -> None:
        for name, value, least in (("target", target, 1), ("threshold", threshold, 0)):
            if value is None:
                raise ConfigurationError(name, "must be a whole number, got None")
            check_count(name, value, at_least=least)
        self.target = target
        self.threshold = threshold
        self.summarize = summarize
        self.pinned = pinned
        # Summaries by the digest of what they stand for: a cache, and no state of a run.
        self._summaries: OrderedDict[bytes, str] = OrderedDict()

    def acts(self, hook: str) -> Callable[[BeforeIteration], bool]:
        """When there is more than is kept."""
        del hook
        most = self.target + self.threshold
        return lambda moment: len(moment.messages) > most

    async def before_iteration(self, moment: BeforeIteration) -> Patch | None:
        """The latest turns, when there are too many."""
        messages = moment.messages
        if len(messages) <= self.target + self.threshold:
            return None
        turns = _turns(messages)
        cut = self._cut(turns)
        left = [turn for turn in turns[:cut] if not self._stays(turn)]
        if not left:
            return None
        gone = {id(turn) for turn in left}
        kept = tuple(message for turn in turns if id(turn) not in gone for message in turn)
        instructions = None
        if self.summarize is not None:
            said = await self._summary([message for turn in left for message in turn])
            instructions = moment.instructions + HEADING + said if said else None
        return Patch(messages=kept, instructions=instructions)

    def _cut(self, turns: Sequence[Sequence[Message]]) -> int:
        """How many turns, from the first, are left out: what cutting all along would have given."""
        start, size = 0, 0
        for index, turn in enumerate(turns):
            size += len(turn)
            if size <= self.target + self.threshold:
                continue
            while start < index and size > self.target:
                size -= len(turns[start])
                start += 1
        return start

    def _stays(self, turn: Sequence[Message]) -> bool:
        if turn[0].role == "system":
            return True
        return self.pinned is not None and any(self.pinned(message) for message in turn)

    async def _summary(self, messages: Sequence[Message]) -> str:
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
            "summarize": self.summarize is not None,
        }


def _turns(messages: Sequence[Message]) -> list[list[Message]]:
    """Whole turns: each begins with what a user said; a system message stands alone."""
    turns: list[list[Message]] = []
    for message in messages:
        alone = message.role in ("system", "user") or not turns or turns[-1][0].role == "system"
        if alone:
            turns.append([message])
        else:
            turns[-1].append(message)
    return turns
