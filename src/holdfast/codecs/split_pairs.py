r"""Joins a character whose two UTF-16 halves came in two events.

Programs that cut text by UTF-16 units send half a character at the end of one event and the other half
at the beginning of the next, as `"\ud83d"` and `"\ude00"`. Alone, each half would be replaced. This
module moves the first half into the later event. It never changes any other event, and never waits
for more than one event.
"""

from __future__ import annotations

import re

from holdfast.codecs.sse import SseEvent

# An escape has an odd number of backslashes. A quote behind which an escape follows opens a string.
_FIRST_HALF = re.compile(rb'(?<!\\)(?:\\\\)*(\\u[dD][89abAB][0-9a-fA-F]{2})"')
_SECOND_HALF = re.compile(rb'(?<!\\)"(\\u[dD][c-fC-F][0-9a-fA-F]{2})')


class PairJoiner:
    r"""Passes on the events of one body, and holds one back that ends with half a character.

    It is called for the events that are not read on a fast path: none with half a character is.

    Attributes:
        waiting: an event is held back, so the next one must pass through here too.

    >>> joiner = PairJoiner()
    >>> joiner.feed(b"", b'{"text": "Hi \\ud83d"}')
    []
    >>> joiner.feed(b"", b'{"text": "\\ude00!"}')
    [(b'', b'{"text": "Hi "}'), (b'', b'{"text": "\\ud83d\\ude00!"}')]
    """

    __slots__ = ("_event", "waiting")

    def __init__(self) -> None:
        self._event: SseEvent | None = None
        self.waiting = False

    def feed(self, name: bytes, payload: bytes) -> list[SseEvent]:
        """Return the events that can be read now, in their order."""
        events = self.close()
        if events:
            joined = _join_halves(events[0][1], payload)
            if joined is not None:
                events, payload = [(events[0][0], joined[0])], joined[1]
        if b"\\u" in payload and _FIRST_HALF.search(payload) is not None:
            self._event, self.waiting = (name, payload), True
        else:
            events.append((name, payload))
        return events

    def close(self) -> list[SseEvent]:
        """Return the event that is held back, if there is one."""
        event, self._event, self.waiting = self._event, None, False
        return [] if event is None else [event]


def _join_halves(first: bytes, second: bytes) -> tuple[bytes, bytes] | None:
    """Move the only first half into the event with the only second half; None for any other events."""
    ends, starts = list(_FIRST_HALF.finditer(first)), list(_SECOND_HALF.finditer(second))
    if len(ends) != 1 or len(starts) != 1:
        return None
    half, at = ends[0], starts[0].start(1)
    rest = first[: half.start(1)] + first[half.end(1) :]
    return rest, second[:at] + half[1] + second[at:]
