"""Caches the replies of model calls in memory.

The key is a cryptographic digest of everything that the model would see, so keys do not collide. Only
a complete reply is ever stored.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from hashlib import blake2b

import msgspec

from holdfast.core.argument_checks import check_arguments
from holdfast.core.constraints import PositiveFloat, PositiveInt
from holdfast.core.messages import Reply, ReplyKind, Usage
from holdfast.middleware.hook_contexts import ModelCall
from holdfast.middleware.hooks import Middleware

_log = logging.getLogger("holdfast")
_encode = msgspec.json.Encoder(order="deterministic").encode


class IterationCache(Middleware):
    """Stores replies for a limited time; all runs of the agent share them.

    A reply from the cache costs no tokens, so its usage is zero. It is logged, `AfterReply.replaced`
    is true, and its `ModelReplied` event has 0 attempts.

    Args:
        seconds: how long a reply is stored; 10 minutes by default.
        entries: how many replies are stored; the least recently used one is removed first.
    """

    @check_arguments
    def __init__(self, seconds: PositiveFloat = 600.0, entries: PositiveInt = 1000) -> None:
        self.seconds = seconds
        self.entries = entries
        # A cache is not the state of a run: any entry may be dropped at any time.
        self._replies: OrderedDict[bytes, tuple[float, Reply]] = OrderedDict()

    async def wrap_model(
        self, context: ModelCall, call_next: Callable[[ModelCall], Awaitable[Reply]]
    ) -> Reply:
        """Return the stored reply, or call the model."""
        key = _request_key(context)
        entry = self._replies.get(key)
        if entry is not None and context.clock() < entry[0]:
            self._replies.move_to_end(key)
            _log.info("Cache hit for iteration %d of run %s", context.iteration, context.run_id)
            return entry[1]
        reply = await call_next(context)
        if reply.kind is ReplyKind.COMPLETE:
            cached = msgspec.structs.replace(reply, usage=Usage())
            self._replies[key] = (context.clock() + self.seconds, cached)
            self._replies.move_to_end(key)
            while len(self._replies) > self.entries:
                self._replies.popitem(last=False)
        return reply

    def describe(self) -> dict[str, object]:
        """The limits."""
        return {"seconds": self.seconds, "entries": self.entries}


def _request_key(context: ModelCall) -> bytes:
    digest = blake2b(digest_size=32)
    digest.update(_encode((context.agent, context.instructions, context.settings, context.tools)))
    for message in context.messages:
        encoded = _encode(message)
        digest.update(len(encoded).to_bytes(8, "big"))
        digest.update(encoded)
    return digest.digest()
