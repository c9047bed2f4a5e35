"""Answers a model call that was made before from memory (seed 002).

The key is a digest of everything that the model would see, and not a hash that may collide. A
failure, and a reply that somebody else gave, must never be kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from hashlib import blake2b

import msgspec

from holdfast.core.checks import check_type
from holdfast.core.limits import check_seconds, check_whole
from holdfast.core.messages import Reply, ReplyKind, Usage
from holdfast.middleware.hooks import Middleware
from holdfast.middleware.moments import ModelCall

_encode = msgspec.json.Encoder(order="deterministic").encode


class IterationCache(Middleware):
    """Keeps replies for a while; all runs of the agent share them.

    A reply from here costs no tokens, so its usage is nothing.

    Args:
        seconds: how long a reply is kept; 10 minutes in seed 002.
        entries: how many replies are kept; the one that was not used longest goes first.
    """

    def __init__(self, seconds: float = 600.0, entries: int = 1000) -> None:
        check_type("seconds", seconds, float)
        check_seconds("seconds", seconds)
        check_whole("entries", entries, at_least=1)
        self.seconds = seconds
        self.entries = entries
        # A cache is no state of a run: any entry may be dropped at any moment.
        self._kept: OrderedDict[bytes, tuple[float, Reply]] = OrderedDict()

    async def wrap_model(
        self, moment: ModelCall, call_next: Callable[[ModelCall], Awaitable[Reply]]
    ) -> Reply:
        """The kept reply, or the model's."""
        key = _key(moment)
        found = self._kept.get(key)
        if found is not None and moment.clock() < found[0]:
            self._kept.move_to_end(key)
            return found[1]
        reply = await call_next(moment)
        if reply.kind is ReplyKind.COMPLETE:
            free = msgspec.structs.replace(reply, usage=Usage())
            self._kept[key] = (moment.clock() + self.seconds, free)
            self._kept.move_to_end(key)
            while len(self._kept) > self.entries:
                self._kept.popitem(last=False)
        return reply

    def describe(self) -> dict[str, object]:
        """The limits."""
        return {"seconds": self.seconds, "entries": self.entries}


def _key(moment: ModelCall) -> bytes:
    seen = blake2b(digest_size=32)
    seen.update(_encode((moment.agent, moment.instructions, moment.settings, moment.tools)))
    for message in moment.messages:
        encoded = _encode(message)
        seen.update(len(encoded).to_bytes(8, "big"))
        seen.update(encoded)
    return seen.digest()
