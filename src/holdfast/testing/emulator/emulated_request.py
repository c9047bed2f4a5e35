"""A client's request in a form that does not depend on the wire, for reply and fault functions."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from holdfast.core.messages import Message, ToolResult
from holdfast.core.model_request import ToolSpec


class EmulatedRequest(Struct, frozen=True, kw_only=True):
    """A model call that the emulator received.

    Args:
        number: the number of the model call, from 1.
        wire: the name of the wire.
        model: the requested model.
        messages: the history in neutral form, including system messages.
        tools: the tools in the request.
        stream: whether the client wants a stream.
        array: whether the stream should be one JSON array instead of events.
        include_usage: whether the stream should report its tokens.
        include_state: whether reasoning should include its encrypted state.
        headers: the headers with names in lower case and secrets masked.
        body: the parsed JSON.
        size: the size of the body in bytes.
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
        """The number of replies after the last user message; 0 for the first call."""
        count = 0
        for message in reversed(self.messages):
            if message.role == "user":
                break
            count += message.role == "assistant"
        return count

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The tool results after the last reply of the model."""
        found: list[ToolResult] = []
        for message in reversed(self.messages):
            if message.role == "assistant":
                break
            found[:0] = [part for part in message.parts if isinstance(part, ToolResult)]
        return tuple(found)


class MalformedRequest(ValueError):
    """A request that the real provider refuses with status 400; the text is its message."""
