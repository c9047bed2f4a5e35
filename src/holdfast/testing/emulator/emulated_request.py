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
        max_tokens: the limit of the reply in tokens, as the endpoint understood it; None without one.
            The reply of the script is sent as it is: a function may cut it.
        include_state: whether reasoning should include its encrypted state.
        namespaces: the namespace of each tool that is in one; OpenAI Responses.
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
    max_tokens: int | None = None
    include_state: bool = True
    namespaces: Mapping[str, str] = {}
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


def find_limit(fields: Mapping[str, object], *names: str) -> int | None:
    """Return the first of these fields that holds a whole number, the limit of output tokens.

    >>> find_limit({"max_tokens": 9}, "max_completion_tokens", "max_tokens")
    9
    """
    limits = (fields.get(name) for name in names)
    return next((limit for limit in limits if type(limit) is int), None)


class MalformedRequest(ValueError):
    """A request that the real provider refuses, with status 400 unless it has another; the text is its message.

    Args:
        message: the provider's words.
        param: the field that OpenAI's servers name beside the message.
        code: the code that OpenAI's servers give.
        details: the details that Google's server adds.
        status: the status of the response.
        body: the body of a provider with a form of its own, in place of the wire's.
    """

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        details: tuple[Mapping[str, object], ...] = (),
        status: int = 400,
        body: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.param = param
        self.code = code
        self.details = details
        self.status = status
        self.body = body
