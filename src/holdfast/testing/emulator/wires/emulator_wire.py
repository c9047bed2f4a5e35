"""The functions that each wire module has, the settings of a rendered reply, and the wire of a path.

The module of a wire is imported on first use. A new wire needs one line here and one module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from holdfast.core.constraints import PositiveInt
from holdfast.core.messages import Reply, Usage
from holdfast.testing.emulator.emulated_request import EmulatedRequest, MalformedRequest
from holdfast.testing.emulator.faults import ErrorKind
from holdfast.testing.emulator.wires.dresses import Dress

Chunking: TypeAlias = Literal["words", "whole"] | PositiveInt
"""How a text is cut into deltas: by words, not at all, or every n characters."""


class Rendering(Struct, frozen=True, kw_only=True):
    """The settings of a rendered reply.

    Args:
        model: the name of the model.
        number: the number of the request, for ids.
        created: the time in seconds since the epoch.
        usage: the tokens to report.
        chunking: how texts are cut.
        include_usage: whether a stream reports its tokens.
        include_state: whether reasoning includes its encrypted state.
        terminate: whether a stream has its finish reason and end marker.
        choices: whether the reply has a candidate.
        repeats: how the pieces of streamed arguments repeat; see `RepeatedArguments`.
        array: whether a stream is sent as one JSON array; the wire renders events in both cases.
        dress: the endpoint of the Chat Completions wire, which decides the form of its streams.
        namespaces: the namespace of each tool of the request that is in one; OpenAI Responses.
    """

    model: str
    number: int = 1
    created: int = 0
    usage: Usage = Usage()
    chunking: Chunking = "words"
    include_usage: bool = False
    include_state: bool = True
    terminate: bool = True
    choices: bool = True
    repeats: Literal["", "cumulative", "again"] = ""
    array: bool = False
    dress: Dress = Dress()  # REASON: a dress never changes
    namespaces: Mapping[str, str] = {}


class EmulatedError(Struct, frozen=True):
    """An error response with the provider's text."""

    status: int
    body: Mapping[str, object]
    headers: Mapping[str, str] = {}


class EmulatorWire(Protocol):
    """A module of this package."""

    @property
    def NAME(self) -> str:  # noqa: N802
        """The name of the wire."""
        ...

    @property
    def BASE_PATH(self) -> str:  # noqa: N802
        """The path of the base URL for a client of this provider."""
        ...

    @property
    def REQUEST_ID(self) -> str:  # noqa: N802
        """The header with the id of a request, or ""."""
        ...

    @property
    def KEEP_ALIVE(self) -> bytes:  # noqa: N802
        """The keep-alive bytes of a stream."""
        ...

    def matches(self, path: str) -> bool:
        """Whether a POST to this path (without its query) is a model call of this wire."""
        ...

    def parse_request(self, path: str, headers: Mapping[str, str], body: bytes) -> EmulatedRequest:
        """Parse a request. Raises MalformedRequest if the provider would refuse it."""
        ...

    def render_whole(self, reply: Reply, rendering: Rendering) -> bytes:
        """Render the body of a reply that is not streamed."""
        ...

    def render_chunks(self, reply: Reply, rendering: Rendering) -> list[bytes]:
        """Render the events of a streamed reply."""
        ...

    def error_body(self, kind: ErrorKind) -> EmulatedError:
        """Return the provider's error response of this kind."""
        ...

    def invalid_request(self, error: MalformedRequest) -> EmulatedError:
        """Make the error response of a refused request."""
        ...

    def error_event(self, body: bytes) -> bytes:
        """Make an error event of a stream from the body of an error response."""
        ...

    def error_whole(self, body: bytes) -> bytes:
        """Make the body of a response with status 200 that contains this error."""
        ...


_WORD = re.compile(r"\s*\S+|\s+\Z")


def split_text(text: str, chunking: Chunking) -> list[str]:
    """Split a text into chunks.

    >>> split_text("One two", "words"), split_text("abcde", 2), split_text("", "words")
    (['One', ' two'], ['ab', 'cd', 'e'], [])
    """
    if not text:
        return []
    if chunking == "whole":
        return [text]
    if chunking == "words":
        return _WORD.findall(text)
    return [text[start : start + chunking] for start in range(0, len(text), chunking)]


_KIND_BY_STATUS: dict[int, ErrorKind] = {
    401: "bad_key",
    403: "bad_key",
    404: "model_not_found",
    429: "rate_limit",
    503: "overloaded",
    529: "overloaded",
}


def kind_for(status: int) -> ErrorKind:
    """Return the most likely kind of error for a status.

    >>> kind_for(429), kind_for(502), kind_for(422)
    ('rate_limit', 'server_error', 'invalid_request')
    """
    if status in _KIND_BY_STATUS:
        return _KIND_BY_STATUS[status]
    return "server_error" if status >= 500 else "invalid_request"


_MODULES: dict[str, str] = {
    "/chat/completions": "openai_chat",
    "/messages": "anthropic",
    "/responses": "openai_responses",
    ":generateContent": "gemini",
    ":streamGenerateContent": "gemini",
}
"""The end of a path -> the name of the module."""

WIRES: tuple[str, ...] = tuple(dict.fromkeys(_MODULES.values()))
"""The names of the wires."""


@cache
def get_wire(name: str) -> EmulatorWire:
    """Return the wire of this name."""
    module: EmulatorWire = import_module(f"holdfast.testing.emulator.wires.{name}")
    return module


def wire_for(path: str) -> EmulatorWire | None:
    """Return the wire of a path, or None.

    >>> wire_for("/v1/chat/completions").NAME, wire_for("/v1/messages").NAME
    ('openai_chat', 'anthropic')
    """
    for ending, name in _MODULES.items():
        if path.endswith(ending):
            wire = get_wire(name)
            if wire.matches(path):
                return wire
    return None
