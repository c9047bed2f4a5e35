"""Acts: a person or a program did something to a session; who it was.

A journal saves an act in the transaction of the records that the act writes. This module must never know a clock
or a journal.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct


class Act(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An act of somebody on a session.

    Args:
        id: names the act in its tenant; a second act with the same id is refused.
        act: the name of the act, such as "cancel".
        session: the session.
        by: who did it.
        at: when, in seconds since the epoch.
        details: the act and its result, as JSON.
        digest: the digest of the request for it; "" without an idempotency key.

    >>> act = Act(id="a1", act="rewind", session="ada", by="ann", at=1.0)
    >>> act.with_details(to=0).with_details(number=2).read_details()
    {'to': 0, 'number': 2}
    """

    id: str
    act: str
    session: str
    by: str
    at: float
    details: str = "{}"
    digest: str = ""

    def with_details(self, **details: object) -> Act:
        """Return the act with more details, which are JSON values."""
        text = msgspec.json.encode({**self.read_details(), **details}).decode()
        return msgspec.structs.replace(self, details=text)

    def read_details(self) -> dict[str, Any]:
        """Return the details."""
        return msgspec.json.decode(self.details, type=dict[str, Any])
