"""Marks the ends of pages: what `next` says, and what a client passes for the page after it."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec
from msgspec import Struct

from holdfast.core.errors import ConfigurationError


class PageMark(Struct, frozen=True, array_like=True):
    """The end of a page, which `next` says.

    Args:
        changed_at: the time of the latest record of its last session.
        session: its last session.
    """

    changed_at: float
    session: str


def write_mark(mark: PageMark) -> str:
    """Return a mark as text.

    >>> read_mark(write_mark(PageMark(1.5, "ada")), "before")
    PageMark(changed_at=1.5, session='ada')
    """
    return urlsafe_b64encode(msgspec.json.encode(mark)).decode().rstrip("=")


def read_mark(text: str, field: str) -> PageMark:
    """Return the mark that a client passed.

    Args:
        text: the mark as text.
        field: the field of the query, for the error.

    Raises:
        ConfigurationError: nobody got this text.
    """
    try:
        padded = text.encode() + b"=" * (-len(text) % 4)
        return msgspec.json.decode(urlsafe_b64decode(padded), type=PageMark)
    except (ValueError, msgspec.DecodeError):
        raise ConfigurationError(
            field, "is not the `next` of a page", fix="Pass `next` as it was given, or nothing"
        ) from None
