"""What the hooks of one turn tell each other. This module must never hold what a crash may not lose."""

from __future__ import annotations

from registration.flow.conversations import Conversation
from registration.flow.next_action import LetRead, Next


class TurnNotes:
    """What is known of a turn while this process drives it; nothing rests on it after a crash."""

    def __init__(self) -> None:
        self.conversation = Conversation()
        self.next: Next = LetRead()
        self.began: float | None = None
        self.degraded = False
