"""Recognizes a server that refuses to stream, and one that refuses every request while it starts.

Some servers stream no reply at all, and some not to every account or of every model. They say so by
a client error that names `stream`, and the same request without it succeeds. A server that loads its
model answers 503 until it is ready.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from threading import Lock

from holdfast.core.errors import ErrorInfo

_STATUSES = frozenset({400, 405, 422, 501})
_LOADING = re.compile(
    r"\bloading (?:the )?model|model .{0,200}\bis (?:currently )?loading", re.IGNORECASE
)
_STREAM = re.compile(r"\bstream", re.IGNORECASE)


def is_stream_refusal(info: ErrorInfo) -> bool:
    """Whether an error may be about streaming, so that the request is worth sending without it.

    >>> import msgspec
    >>> from holdfast.core.errors import ErrorCategory
    >>> refused = ErrorInfo(category=ErrorCategory.CLIENT_ERROR, safe="", status=400)
    >>> is_stream_refusal(msgspec.structs.replace(refused, private="Verify your organization to stream this model"))
    True
    >>> is_stream_refusal(msgspec.structs.replace(refused, private="upstream failed"))
    False
    """
    return info.status in _STATUSES and _STREAM.search(info.private) is not None


def is_loading_model(info: ErrorInfo) -> bool:
    """Whether a server answers that it still loads its model.

    >>> import msgspec
    >>> from holdfast.core.errors import ErrorCategory
    >>> busy = ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="", status=503)
    >>> is_loading_model(msgspec.structs.replace(busy, private='{"error": {"message": "Loading model"}}'))
    True
    >>> is_loading_model(msgspec.structs.replace(busy, private="overloaded"))
    False
    """
    return info.status == 503 and _LOADING.search(info.private) is not None


class StreamRefusals:
    """The accounts and models whose replies are not streamed; safe to use from any thread.

    Args:
        most: how many are remembered.

    >>> refusals = StreamRefusals()
    >>> refusals.remember("account", "m")
    >>> refusals.contains("account", "m"), refusals.contains("account", "n")
    (True, False)
    """

    def __init__(self, most: int = 1024) -> None:
        self._most = most
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._lock = Lock()

    def contains(self, account: str, model: str) -> bool:
        """Whether streaming was refused before."""
        return (account, model) in self._known

    def remember(self, account: str, model: str) -> None:
        """Record a refusal."""
        with self._lock:
            self._known[account, model] = None
            if len(self._known) > self._most:
                self._known.popitem(last=False)


STREAM_REFUSALS = StreamRefusals()
"""The refusals that this process has met."""
