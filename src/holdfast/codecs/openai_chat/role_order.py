"""Puts the messages of a history into an order that strict providers accept.

Some providers and chat templates require that user and assistant messages alternate, and that an
assistant message follows the results of tools. A turn that failed leaves a user message or results
of tools without an answer, and the next user message follows directly. This module changes only
what is sent. It must never change a message of the history.

Source: Mistral's API answers such a request with status 400, `invalid_request_message_order`; the
chat templates of Mistral and Gemma models raise "Conversation roles must alternate".
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.messages import Message, Part, Text, assistant

NO_ANSWER = assistant("(No answer was given.)")
"""What is sent between the results of tools and a user message."""


def alternate_roles(messages: Sequence[Message], known_count: int = 0) -> Sequence[Message]:
    r"""Return the messages with alternating roles; the same object if they alternate already.

    Args:
        messages: the history.
        known_count: how many messages, from the first, are known to alternate. They are not read
            again, so that an iteration of a long run stays cheap.

    >>> from holdfast.core.messages import user
    >>> [message.text for message in alternate_roles([user("Hello?"), user("Are you there?")])]
    ['Hello?\n\nAre you there?']
    """
    last = ""
    for message in messages[max(known_count - 1, 0) :]:
        if message.role == "user" and last in ("user", "tool"):
            break
        last = message.role
    else:
        return messages
    ordered: list[Message] = []
    for message in messages:
        last = ordered[-1].role if ordered else ""
        if message.role == "user" and last == "user":
            ordered[-1] = Message("user", _join_parts(ordered[-1].parts, message.parts))
            continue
        if message.role == "user" and last == "tool":
            ordered.append(NO_ANSWER)
        ordered.append(message)
    return ordered


def _join_parts(first: tuple[Part, ...], second: tuple[Part, ...]) -> tuple[Part, ...]:
    """Join the parts of two messages; two plain texts become one, since templates expect a string."""
    end, start = first[-1:], second[:1]
    if len(end) == len(start) == 1:
        before, after = end[0], start[0]
        if (
            isinstance(before, Text)
            and isinstance(after, Text)
            and not (before.extra or after.extra)
        ):
            return (*first[:-1], Text(f"{before.text}\n\n{after.text}"), *second[1:])
    return (*first, *second)
