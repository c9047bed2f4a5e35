"""Keeps personal data out of requests and the journal and, optionally, out of replies.

User messages are cleaned before anything of them is saved. A blocked text must never be sent, saved
or shown. If replies are cleaned, they are also cleaned while they are streamed.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.core.argument_checks import check_arguments
from holdfast.core.messages import Media, Part, Text
from holdfast.middleware.decisions import Deny, Patch, Replace, UseReply
from holdfast.middleware.hook_contexts import AfterReply, AfterTool, BeforeTurn, ModelCall, RunFacts
from holdfast.middleware.hooks import Middleware
from holdfast.middleware.pii import DEFAULTS, Action, CleanedText, Kind, clean_text
from holdfast.middleware.pii_stream import MaskedStream

BLOCKED = "PII of type '{kind}' detected. Message blocked for security."


class PIIProtection(Middleware):
    """Removes personal data from messages. Register it first, so that no other middleware sees the data.

    Five kinds are found, by their form: names, postal addresses, phone numbers outside North America,
    IPv6 and much else are not. Pictures, files, the arguments of tool calls and saved reasoning are
    not searched.

    Args:
        actions: the actions for some kinds: "redact", "mask", "hash", "block" or "keep".
        on_input: clean user messages; a blocked message is refused before it is saved.
        on_output: clean the replies of the model, also while they stream, which delays the text by a
            word or a number. Text before a blocked match has already been streamed.
        on_tool_results: clean the results of tools.
    """

    @check_arguments
    def __init__(
        self,
        actions: Mapping[Kind, Action] | None = None,
        *,
        on_input: bool = True,
        on_output: bool = False,
        on_tool_results: bool = False,
    ) -> None:
        self.actions = {**DEFAULTS, **(actions or {})}
        self.on_input = on_input
        self.on_output = on_output
        self.on_tool_results = on_tool_results
        self._hooks = (
            *(("before_turn",) if on_input else ()),
            *(("after_reply", "live") if on_output else ()),
            *(("after_tool",) if on_tool_results else ()),
        )

    def enabled(self, hook: str, facts: RunFacts) -> bool:
        """Where it cleans."""
        del facts
        return hook in self._hooks

    async def before_turn(self, context: BeforeTurn) -> Patch | Deny | None:
        """Clean the user's message, or refuse it."""
        parts: list[Part] = []
        for part in context.message.parts:
            if isinstance(part, Text):
                cleaned = clean_text(part.text, self.actions)
                if cleaned.blocked_kind is not None:
                    return Deny(_blocked_message(cleaned), save_message=False)
                parts.append(msgspec.structs.replace(part, text=cleaned.text))
            else:
                parts.append(part)
        if tuple(parts) == context.message.parts:
            return None
        return Patch(messages=(msgspec.structs.replace(context.message, parts=tuple(parts)),))

    def live(self, context: ModelCall) -> MaskedStream:
        """Clean what is streamed; text that may continue in the next delta is delayed."""
        del context
        return MaskedStream(self.actions, lambda kind: BLOCKED.format(kind=kind))

    async def after_reply(self, context: AfterReply) -> UseReply | None:
        """Clean the text of the reply; its tool calls stay unchanged."""
        if context.reply is None:
            return None
        parts = tuple(
            msgspec.structs.replace(part, text=self._cleaned_text(part.text))
            if isinstance(part, Text)
            else part
            for part in context.reply.parts
        )
        if parts == context.reply.parts:
            return None
        return UseReply(msgspec.structs.replace(context.reply, parts=parts))

    async def after_tool(self, context: AfterTool) -> Replace | None:
        """Clean the result of a tool."""
        content: tuple[Text | Media, ...] = tuple(
            msgspec.structs.replace(part, text=self._cleaned_text(part.text))
            if isinstance(part, Text)
            else part
            for part in context.result.content
        )
        if content == context.result.content:
            return None
        return Replace(msgspec.structs.replace(context.result, content=content))

    def _cleaned_text(self, text: str) -> str:
        cleaned = clean_text(text, self.actions)
        return cleaned.text if cleaned.blocked_kind is None else _blocked_message(cleaned)

    def describe(self) -> dict[str, object]:
        """The actions, and where they apply."""
        return {
            **{str(kind): action for kind, action in self.actions.items()},
            "on_input": self.on_input,
            "on_output": self.on_output,
            "on_tool_results": self.on_tool_results,
        }


def _blocked_message(cleaned: CleanedText) -> str:
    return BLOCKED.format(kind=cleaned.blocked_kind)
