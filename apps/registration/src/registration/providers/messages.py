"""A message as its provider knows it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

MessageState = Literal["queued", "sent", "delivered", "failed"]


class SentMessage(Struct, frozen=True):
    """A message that a provider accepted; neither its text nor its receiver is read back."""

    id: str
    state: MessageState
