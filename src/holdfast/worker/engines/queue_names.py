"""Names of queues as engines can store them, and the waits before a job is delivered again. Pure.

Different names must never become equal.
"""

from __future__ import annotations

import hashlib
import re

_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,32}")

_LONGEST_DELAY = 60.0


def encode_queue(queue: str) -> str:
    r"""Return a name of at most 34 ASCII letters, digits, hyphens and underscores for a queue.

    PostgreSQL accepts a channel of 63 bytes, of which procrastinate uses 23. NATS accepts no spaces,
    dots and wildcards.

    >>> encode_queue("planner"), encode_queue("planner\x1facme")
    ('n-planner', 'h-2313a1fc2348cd97c96e9056c1c0b95b')
    """
    if _PLAIN.fullmatch(queue):
        return f"n-{queue}"
    digest = hashlib.sha256(queue.encode("utf-8", "surrogatepass")).hexdigest()
    return f"h-{digest[:32]}"


def redelivery_delay(attempts: int) -> float:
    """Return the seconds before a job is delivered again that was not done so many times.

    >>> [redelivery_delay(attempts) for attempts in (1, 2, 3, 99)]
    [1.0, 2.0, 4.0, 60.0]
    """
    return min(_LONGEST_DELAY, 2.0 ** min(max(attempts - 1, 0), 10))
