"""The interface of a wire: encode a request, decode a response, classify an error.

A codec is pure: it opens no connection, reads no clock and no environment variable, and holds no
API key. A difference between two providers of one wire is a field of `EndpointProfile`, never an `if` on a
provider's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar, Protocol

from msgspec import Struct

from holdfast.codecs.endpoint_profile import EndpointProfile, find_endpoint_dialects
from holdfast.codecs.request_body import HeadCache
from holdfast.codecs.retry_after import LIMITS, LimitHeaders
from holdfast.codecs.schemas.rewriting import Rewritings
from holdfast.core.deltas import Decoder
from holdfast.core.errors import ConfigurationError, ErrorInfo
from holdfast.core.model_request import ModelRequest

RESPONSE_OBJECT = "response object"
"""`NotAReply.expected` of a body that is not a JSON object: HTML, text, an array."""

CHOICES = "choices attribute"
"""`NotAReply.expected` of an object that is not a reply of Chat Completions."""


_PATH_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.:@-]*)*")


class EncodedRequest(Struct, frozen=True):
    """A request as it is sent to the server: the path below the base URL, headers and body.

    `rewritings` are the changes that its reply needs, because the schemas that are sent differ from the
    original ones; usually there are none.
    """

    path: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    rewritings: Rewritings | None = None


class Failure(Struct, frozen=True, kw_only=True):
    """An error response, as the input of `classify`.

    Args:
        provider: the preset's name ("openai", "groq", ...), for rows of one provider.
        status: the HTTP status; None for an error inside a stream.
        headers: names in lower case.
        body: the raw bytes (perhaps HTML, truncated or empty), or the JSON text of the event.
        now: seconds since the epoch, for dates in headers; None when unknown.
    """

    provider: str = ""
    status: int | None = None
    headers: Mapping[str, str] = {}
    body: bytes = b""
    now: float | None = None


class Codec(Protocol):
    """One wire. Its state depends only on the arguments of its constructor."""

    @property
    def name(self) -> str:
        """`openai_chat`, `anthropic`, ..."""
        ...

    @property
    def limit_headers(self) -> LimitHeaders:
        """The rate limit headers of this wire."""
        ...

    def encode(self, request: ModelRequest) -> EncodedRequest:
        """Encode a request; raises ConfigurationError if this wire cannot express it."""
        ...

    def can_continue(self, request: ModelRequest, /) -> bool:
        """Whether a reply to this request that broke off can be continued by `request.prefill`."""
        ...

    def make_decoder(
        self, content_type: str, provider: str = "", request: ModelRequest | None = None
    ) -> Decoder:
        """Return a decoder for a body of this content type: an event stream or a whole reply.

        Args:
            content_type: the header's value, or "".
            provider: the preset's name, for the messages of errors inside the body.
            request: the request that is answered, if it is known.
        """
        ...

    def classify(self, failure: Failure) -> ErrorInfo:
        """Classify an error response."""
        ...


class WireCodec:
    """The base class of the codecs: the profile of one provider, and the heads of its last requests.

    Args:
        profile: how this provider's form of the wire differs from the vendor's; None for no difference.

    A codec declares the fields of `ModelSettings` that its encoder reads, in `settings_read`. It sends
    them, or refuses settings that the wire cannot express. Fields in `settings_ignored` have no effect, as the
    documentation says. Any other field that a request sets is refused.
    """

    wire: ClassVar[str]
    settings_read: ClassVar[frozenset[str]]
    settings_ignored: ClassVar[frozenset[str]] = frozenset()
    limit_headers: LimitHeaders = LIMITS
    default_max_tokens: ClassVar[int | None] = None
    """The limit of a reply that is sent if the user sets none; None if none is sent."""

    def __init__(self, profile: EndpointProfile | None = None) -> None:
        self.profile = profile or EndpointProfile()
        self.dialects = find_endpoint_dialects(self.wire, self.profile)
        self._heads = HeadCache(self.wire, self.settings_read | self.settings_ignored)

    @property
    def name(self) -> str:
        """The name of the wire."""
        return self.wire

    def can_continue(self, request: ModelRequest, /) -> bool:  # noqa: ARG002 - subclasses use it
        """Return False: by default a wire cannot continue a reply."""
        return False

    def has_tool_search(self, model: str) -> bool:  # noqa: ARG002 - subclasses use it
        """Return False: by default a provider does not search deferred tools itself."""
        return False


def to_path_segment(model: str) -> str:
    """Return the model's name if it can stand in the path of a URL.

    Raises:
        ConfigurationError: the name has characters that would change the path.

    >>> to_path_segment("gemini-2.5-flash")
    'gemini-2.5-flash'
    """
    if not _PATH_SEGMENT.fullmatch(model):
        raise ConfigurationError(
            "model",
            f"{model[:80]!r} cannot stand in a URL",
            fix="use letters, digits and . _ : @ - with single slashes between",
        )
    return model
