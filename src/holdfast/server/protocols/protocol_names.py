"""Reversible names: an id of a protocol that says which session, turn and effect it stands for.

No table is needed to find a run again, after any restart, in any process. A name proves nothing about
who may see the place that it stands for: the journal of the tenant decides that.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

ClientId: TypeAlias = Annotated[str, Meta(max_length=2000)]
"""A client's id of a message or a run. One that we made for a client has the name of the session."""

_RUN_ID = re.compile(r"[0-9a-f]{32}")
_PLACE = re.compile(r"[a-z0-9.]{1,200}")
_LONGEST = 2_000


class Named(Struct, frozen=True):
    """The place that a name stands for.

    Args:
        session: the session.
        place: a place in it, such as `t1.i0.tool.2`.
    """

    session: str
    place: str


def make_name(prefix: str, session: str, place: str) -> str:
    """Return the name of a place in a session.

    Args:
        prefix: the kind of the name, such as "resp_".
        session: the session.
        place: small letters, digits and dots.

    >>> make_name("resp_", "ada", "t1.0")
    'resp_dDEuMDphZGE'
    """
    packed = b"\0" + bytes.fromhex(session) if _RUN_ID.fullmatch(session) else session.encode()
    return prefix + urlsafe_b64encode(place.encode() + b":" + packed).rstrip(b"=").decode()


def read_name(prefix: str, name: str) -> Named | None:
    """Return the place that a name stands for; None if `make_name` does not make such a name.

    >>> read_name("resp_", "resp_dDEuMDphZGE")
    Named(session='ada', place='t1.0')
    """
    text = name.removeprefix(prefix)
    if text == name or len(text) > _LONGEST:
        return None
    try:
        found = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        place, colon, packed = found.partition(b":")
        session = packed[1:].hex() if packed[:1] == b"\0" else packed.decode()
        named = Named(session, place.decode())
    except (Base64Error, UnicodeError, ValueError):
        return None
    if not (colon and session and _PLACE.fullmatch(named.place)):
        return None
    return named if make_name(prefix, session, named.place) == name else None
