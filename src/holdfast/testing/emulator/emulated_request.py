"""What a client asked, read from any wire: what a brain decides by and a fault script looks at.

This module must never know a wire: `wires` fills the records.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from holdfast.core.messages import Message, ToolResult
from holdfast.core.model_request import ToolSpec


class EmulatedRequest(Struct, frozen=True, kw_only=True):
    """One model call as it came in.

    Args:
        number: of this model call, from 1.
        wire: the name of the wire.
        model: the model that was asked for.
        messages: the history in neutral form, system messages included.
        tools: the tools that were offered.
        stream: whether a stream is wanted.
        array: whether the stream is wanted as one JSON array and not as events.
        include_usage: whether the stream shall report its tokens.
        include_state: whether a thought shall bring its sealed state along.
        headers: names in lower case, secrets masked.
        body: the parsed JSON.
        size: bytes of the body.
    """

    number: int = 0
    wire: str = ""
    model: str = ""
    messages: tuple[Message, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    stream: bool = False
    array: bool = False
    include_usage: bool = False
    include_state: bool = True
    headers: Mapping[str, str] = {}
    body: Mapping[str, object] = {}
    size: int = 0

    @property
    def text(self) -> str:
        """The text of the last user message."""
        for message in reversed(self.messages):
            if message.role == "user":
                return message.text
        return ""

    @property
    def iteration(self) -> int:
        """How many replies of the model follow the last user message; 0 for the first call."""
        count = 0
        for message in reversed(self.messages):
            if message.role == "user":
                break
            count += message.role == "assistant"
        return count

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The results that this request brings: those after the last reply of the model."""
        found: list[ToolResult] = []
        for message in reversed(self.messages):
            if message.role == "assistant":
                break
            found[:0] = [part for part in message.parts if isinstance(part, ToolResult)]
        return tuple(found)


class MalformedRequest(ValueError):
    """The request is one that the real provider refuses with a 400; the text is its message."""
