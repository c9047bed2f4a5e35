"""What every wire module offers, and what it is told about one answer.

This module must never know a single wire; `registry` does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from holdfast.core.messages import Reply, Usage
from holdfast.testing.emulator.emulated_request import EmulatedRequest
from holdfast.testing.emulator.faults import ErrorKind

Chunking: TypeAlias = Literal["words", "whole"] | int
"""How a text is cut into deltas: by words, not at all, or every n characters."""


class Rendering(Struct, frozen=True, kw_only=True):
    """How a reply shall look.

    Args:
        model: the name of the model that answers.
        number: of the request, for ids.
        created: seconds since the epoch.
        usage: the tokens to report.
        chunking: how texts are cut.
        include_usage: whether a stream reports its tokens.
        include_state: whether a thought brings its sealed state along, where that is asked for.
        terminate: False leaves out the finish reason and the end marker of a stream.
        choices: False leaves out every candidate.
        array: a stream goes out as one JSON array; a wire renders events all the same.
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
    array: bool = False


class EmulatedError(Struct, frozen=True):
    """A refusal as the provider words it."""

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
        """What follows the origin in the base URL that a client of this provider is given."""
        ...

    @property
    def REQUEST_ID(self) -> str:  # noqa: N802
        """The header in which this provider names a request, or ""."""
        ...

    @property
    def KEEP_ALIVE(self) -> bytes:  # noqa: N802
        """What this provider sends in a stream while it has nothing to say."""
        ...

    def matches(self, path: str) -> bool:
        """Whether a POST to this path (without its query) is a model call of this wire."""
        ...

    def parse_request(self, path: str, headers: Mapping[str, str], body: bytes) -> EmulatedRequest:
        """The request in neutral form; raises MalformedRequest where the provider refuses it."""
        ...

    def render_whole(self, reply: Reply, rendering: Rendering) -> bytes:
        """The body of a reply that is not streamed."""
        ...

    def render_chunks(self, reply: Reply, rendering: Rendering) -> list[bytes]:
        """The events of a streamed reply, each whole."""
        ...

    def error_body(self, kind: ErrorKind) -> EmulatedError:
        """The provider's own words for a refusal."""
        ...

    def invalid_request(self, message: str) -> EmulatedError:
        """A 400 with these words."""
        ...

    def error_event(self, body: bytes) -> bytes:
        """An error in the middle of a stream, from the body of a refusal."""
        ...

    def error_whole(self, body: bytes) -> bytes:
        """A reply that is not streamed, has the status of a success, and is this error."""
        ...


_WORD = re.compile(r"\s*\S+|\s+\Z")


def split_text(text: str, chunking: Chunking) -> list[str]:
    """Cut a text; the pieces joined are the text.

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
    """The refusal that a bare status most likely means.

    >>> kind_for(429), kind_for(502), kind_for(422)
    ('rate_limit', 'server_error', 'invalid_request')
    """
    if status in _KIND_BY_STATUS:
        return _KIND_BY_STATUS[status]
    return "server_error" if status >= 500 else "invalid_request"
