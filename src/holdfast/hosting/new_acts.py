"""Makes the acts of people and programs, which the journal saves with what they write."""

from __future__ import annotations

import time
from uuid import uuid4

from holdfast.core.acts import Act


def new_act(
    act: str, session: str, *, by: str, act_id: str = "", digest: str = "", **details: object
) -> Act:
    """Return an act that is done now.

    Args:
        act: the name of the act.
        session: the session.
        by: who does it.
        act_id: its id; "" makes one. An act with the id of a saved one is refused.
        digest: the digest of the request for it.
        details: JSON values.

    >>> new_act("rewind", "ada", by="ann", act_id="a1", to=2).read_details()
    {'to': 2}
    """
    made = Act(
        id=act_id or uuid4().hex, act=act, session=session, by=by, at=time.time(), digest=digest
    )
    return made.with_details(**details) if details else made
