"""Keeps what the person's patterns match out of the saved conversation.

The arguments of calls are not changed, since the tool needs them; the audit log redacts its own copy. The text
of a reply that matches is shown while it streams, and is saved and shown redacted afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from holdfast import Message, Middleware, Text, ToolResult
from holdfast.middleware import AfterReply, AfterTool, BeforeTurn, Patch, Replace, UseReply

MARK = "[redacted]"


class RedactPatterns(Middleware):
    """Replaces what the patterns match in messages, replies and results.

    Args:
        patterns: regular expressions.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = tuple(re.compile(pattern) for pattern in patterns)

    def describe(self) -> dict[str, object]:
        """How many patterns there are."""
        return {"patterns": len(self._patterns)}

    async def before_turn(self, context: BeforeTurn[Any]) -> Patch | None:
        """Redact the message of the person."""
        parts = self._clean_parts(context.message.parts)
        if parts == context.message.parts:
            return None
        return Patch(messages=(Message(context.message.role, parts),))

    async def after_reply(self, context: AfterReply[Any]) -> UseReply | None:
        """Redact the text of a reply."""
        reply = context.reply
        if reply is None:
            return None
        parts = self._clean_parts(reply.parts)
        return None if parts == reply.parts else UseReply(replace(reply, parts=parts))

    async def after_tool(self, context: AfterTool[Any]) -> Replace | None:
        """Redact the result of a tool."""
        result: ToolResult = context.result
        content = self._clean_parts(result.content)
        return None if content == result.content else Replace(replace(result, content=content))

    def _clean_parts(self, parts: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(
            replace(part, text=self._clean(part.text)) if isinstance(part, Text) else part
            for part in parts
        )

    def _clean(self, text: str) -> str:
        for pattern in self._patterns:
            text = pattern.sub(MARK, text)
        return text
