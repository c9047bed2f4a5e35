"""Answers a model call that was made before from memory.

The key is a digest of everything that the model would see, and not a hash that may collide. A
failure, and a reply that somebody else gave, must never be kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from hashlib import blake2b

import msgspec

from holdfast.core.argument_checks import check_type
from holdfast.core.limits import check_seconds, check_whole
from holdfast.core.messages import Reply, ReplyKind, Usage
from holdfast.middleware.hook_contexts import ModelCall
from holdfast.middleware.hooks import Middleware

_encode = msgspec.json.Encoder(order="deterministic").encode


class IterationCache(Middleware):
    """Reuses replies for some time; all runs of the agent share them.

    A reply from here costs no tokens, so its usage is nothing.

    Args:
        seconds: how long a reply is kept.
        entries: how many replies are kept; the one that was not used longest goes first.
    """

    def __init__(self, seconds: float = 600.0, entries: int = 1000) -> None:
        check_type("seconds", seconds, float)
        check_seconds("seconds", seconds)
        check_whole("entries", entries, at_least=1)
        self.seconds = seconds
        self.entries = entries
        # A cache is no state of a run: any entry may be dropped at any moment.
        self._replies: OrderedDict[bytes, tuple[float, Reply]] = OrderedDict()

    async def wrap_model(
        self, context: ModelCall, call_next: Callable[[ModelCall], Awaitable[Reply]]
    ) -> Reply:
        """The kept reply, or the model's."""
        key = _request_key(context)
        found = self._replies.get(key)
        if found is not None and context.clock() < found[0]:
            self._replies.move_to_end(key)
            return found[1]
        reply = await call_next(context)
        if reply.kind is ReplyKind.COMPLETE:
            free = msgspec.structs.replace(reply, usage=Usage())
            self._replies[key] = (context.clock() + self.seconds, free)
            self._replies.move_to_end(key)
            while len(self._replies) > self.entries:
                self._replies.popitem(last=False)
        return reply

    def describe(self) -> dict[str, object]:
        """The limits."""
        return {"seconds": self.seconds, "entries": self.entries}


def _request_key(context: ModelCall) -> bytes:
    seen = blake2b(digest_size=32)
    seen.update(_encode((context.agent, context.instructions, context.settings, context.tools)))
    for message in context.messages:
        encoded = _encode(message)
        seen.update(len(encoded).to_bytes(8, "big"))
        seen.update(encoded)
    return seen.digest()
