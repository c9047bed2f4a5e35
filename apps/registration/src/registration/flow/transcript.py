"""The words of the parent and the club: messages and answers, and nothing between.

This module must never show the calls of tools, nor their results.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast import Message
from registration.club.redaction import Redacted


class Line(Redacted, frozen=True):
    """A message of a conversation.

    Args:
        by: "parent" or "club".
        text: the words.
    """

    by: str
    text: str


class _Reply(Redacted, frozen=True):
    agent_final_response: str


def list_lines(messages: Iterable[Message]) -> list[Line]:
    """Return a conversation as people see it. A message that was sent again after a failure is there once.

    Args:
        messages: the messages of the conversation.
    """
    lines: list[Line] = []
    for message in messages:
        if message.role == "user" and message.text:
            line = Line("parent", message.text)
            if not lines or lines[-1] != line:
                lines.append(line)
        elif message.role == "assistant" and message.text and not message.calls:
            lines.append(Line("club", _read_words(message.text)))
    return lines


def _read_words(text: str) -> str:
    try:
        return msgspec.json.decode(text.encode(), type=_Reply).agent_final_response
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return text
