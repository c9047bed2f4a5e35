"""The tool fetch_url.

It must never reach an address that is not public unless a rule allows it, must never send the headers of one host
to another, and must never unpack more than was asked for: a small body can unpack to gigabytes.
"""

from __future__ import annotations

import asyncio
import base64
import codecs
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Annotated
from urllib.parse import urljoin

import aiohttp
from msgspec import Meta, Struct

from adh.tools.judged_paths import find_approval
from adh.tools.text_content import find_binary_kind
from adh.tools.tools_context import ToolsContext
from adh.tools.web_addresses import AddressError, CheckedResolver, check_url
from holdfast import current_tool_call, tool
from holdfast.tools import ToolError

MOST_BYTES = 10_000_000
MOST_REDIRECTS = 5
_LONGEST_RESULT = 2 * MOST_BYTES
"""Characters: a body within `max_bytes` is shown whole, as a result that is cut is no JSON."""
_BLOCK = 1 << 15
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_OWN_HEADERS = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_HEADERS = {"Accept-Encoding": "gzip, deflate", "User-Agent": "adh"}

Seconds = Annotated[float, Meta(gt=0, le=120)]
Bytes = Annotated[int, Meta(ge=1, le=MOST_BYTES)]


class _Page(Struct, frozen=True, kw_only=True):
    """A response whose body was read as far as asked."""

    url: str
    status: int
    content_type: str
    charset: str | None
    content: bytes
    is_cut: bool
    location: str = ""


class FetchTools:
    """The tool that fetches URLs.

    Args:
        context: the parts that the tools work with.
    """

    def __init__(self, context: ToolsContext) -> None:
        self._context = context

    def list_tools(self) -> tuple[Callable[..., object], ...]:
        """Return the tool."""
        return (self.fetch_url,)

    @tool(effect="read", timeout=130.0, result_limit=_LONGEST_RESULT)
    async def fetch_url(
        self,
        url: str,
        *,
        timeout: Seconds = 20.0,
        max_bytes: Bytes = 500_000,
        as_text: bool = True,
        encoding: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> dict[str, object]:
        """Fetch a public web page by GET.

        Args:
            url: its http or https address.
            timeout: seconds for all of it, at most 120.
            max_bytes: how much of the body is read, at most 10 MB.
            as_text: whether the body is text; otherwise it is returned as base64.
            encoding: the encoding of the text; by default what the page says.
            headers: additional headers of the request.
        """
        context = current_tool_call()
        private = context is not None and find_approval(context).private_addresses
        try:
            async with asyncio.timeout(timeout):
                page = await self._fetch(url, _check_headers(headers), max_bytes, private=private)
        except TimeoutError:
            raise ToolError(
                f"TimeoutError: url did not answer within {timeout:g} seconds."
            ) from None
        except (AddressError, UnpackError) as error:
            raise ToolError(f"{type(error).__name__}: url {error}.") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ToolError(_describe_client_error(error)) from error
        return _describe_page(page, as_text=as_text, encoding=encoding)

    async def _fetch(
        self, url: str, headers: Mapping[str, str], max_bytes: int, *, private: bool
    ) -> _Page:
        """Fetch a page and follow its redirects, each checked as the first address was."""
        resolver = CheckedResolver(self._context.resolve, private_addresses=private)
        connector = aiohttp.TCPConnector(
            resolver=resolver, use_dns_cache=False, force_close=True, limit=1
        )
        async with aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None),
        ) as session:
            first = parts = check_url(url, private_addresses=private)
            for _redirect in range(MOST_REDIRECTS + 1):
                same_host = (parts.scheme, parts.netloc) == (first.scheme, first.netloc)
                sent = {**_HEADERS, **(headers if same_host else {})}
                page = await _request(session, url, sent, max_bytes)
                if not page.location:
                    return page
                url = urljoin(url, page.location).partition("#")[0]
                was_secure = parts.scheme == "https"
                parts = check_url(url, private_addresses=private)
                if was_secure and parts.scheme != "https":
                    raise AddressError("redirects from https to http")
            raise AddressError(f"redirects more than {MOST_REDIRECTS} times")


async def _request(
    session: aiohttp.ClientSession, url: str, headers: Mapping[str, str], max_bytes: int
) -> _Page:
    async with session.get(url, headers=headers, allow_redirects=False) as response:
        location = response.headers.get("Location", "")
        if response.status in _REDIRECTS and location:
            body = BoundedBody(0, "")
        else:
            location = ""
            body = BoundedBody(max_bytes, response.headers.get("Content-Encoding", ""))
            async for data in response.content.iter_chunked(_BLOCK):
                if not body.add(data):
                    break
        return _Page(
            url=url,
            status=response.status,
            content_type=response.content_type,
            charset=response.charset,
            content=body.content,
            is_cut=body.is_cut,
            location=location,
        )


def _check_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    for name, value in (headers or {}).items():
        if not _TOKEN.fullmatch(name) or any(sign in value for sign in "\r\n\0"):
            raise ToolError("ValueError: headers has a name or a value that HTTP does not allow.")
        if name.lower() in _OWN_HEADERS:
            raise ToolError("ValueError: headers sets one that the client sets itself.")
    return dict(headers or {})


def _describe_client_error(error: Exception) -> str:
    """Return the words for a failure of the connection, without the address."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, AddressError):
            return f"AddressError: url {cause.problem}."
        cause = cause.__cause__ or cause.__context__
    kind = type(error).__name__
    if isinstance(error, aiohttp.InvalidURL):
        return f"{kind}: url is not a URL."
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return f"{kind}: url has no certificate that can be trusted."
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"{kind}: url names a host that is not found."
    if isinstance(error, aiohttp.ClientPayloadError | aiohttp.ServerDisconnectedError):
        return f"{kind}: url broke the connection off."
    if isinstance(error, aiohttp.ClientConnectionError | OSError):
        return f"{kind}: url cannot be connected to."
    return f"{kind}: url answered with what is not HTTP."


def _describe_page(page: _Page, *, as_text: bool, encoding: str | None) -> dict[str, object]:
    described: dict[str, object] = {
        "url": page.url,
        "status": page.status,
        "content_type": page.content_type,
        "truncated": page.is_cut,
    }
    if not as_text:
        return {**described, "base64": base64.b64encode(page.content).decode()}
    try:
        codec = find_encoding(page.content, page.charset, encoding)
    except LookupError:
        raise ToolError("LookupError: encoding is not an encoding of text.") from None
    kind = find_binary_kind(page.content)
    if kind and encoding is None and codec == "utf-8":
        raise ToolError(
            f"ValueError: url is not text but {kind}. Pass as_text=false for its bytes."
        )
    return {**described, "text": page.content.decode(codec, "replace")}


_CHARSET = re.compile(
    rb"<meta[^>]{0,200}charset\s{0,9}=\s{0,9}[\"']?([\w.:-]{1,40})", re.IGNORECASE
)
_META_BYTES = 4_096


class UnpackError(ValueError):
    """A body cannot be unpacked."""


class BoundedBody:
    """A body that arrives in blocks, of which so many bytes are kept.

    Args:
        most_bytes: how many bytes are kept, after unpacking.
        packing: the value of Content-Encoding.

    Raises:
        UnpackError: the packing is unknown.

    >>> body = BoundedBody(3, "")
    >>> body.add(b"abcd"), body.content, body.is_cut
    (False, b'abc', True)
    """

    def __init__(self, most_bytes: int, packing: str) -> None:
        self._most = most_bytes
        self._kept = bytearray()
        self._packing = packing.strip().lower()
        self._unpacker: zlib._Decompress | None = None
        if self._packing in ("gzip", "x-gzip"):
            self._unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
        elif self._packing == "deflate":
            self._unpacker = zlib.decompressobj()
        elif self._packing not in ("", "identity"):
            raise UnpackError("is packed in a way that is not supported")

    @property
    def content(self) -> bytes:
        """The kept part."""
        return bytes(self._kept[: self._most])

    @property
    def is_cut(self) -> bool:
        """Whether there was more."""
        return len(self._kept) > self._most

    def add(self, data: bytes) -> bool:
        """Add a block; whether more is wanted.

        Raises:
            UnpackError: it cannot be unpacked.
        """
        # One byte more shows that there was more.
        room = self._most + 1 - len(self._kept)
        if self._unpacker is not None:
            try:
                data = self._unpacker.decompress(data, room)
            except zlib.error:
                raise UnpackError("cannot be unpacked") from None
        self._kept += data[:room]
        return len(self._kept) <= self._most


def find_encoding(content: bytes, content_type_charset: str | None, wanted: str | None) -> str:
    r"""Return the encoding of a page: as asked for, by its mark, its header, its `<meta>`, or UTF-8.

    Args:
        content: the beginning of the page.
        content_type_charset: the charset of its Content-Type.
        wanted: the encoding that the caller asks for.

    Raises:
        LookupError: the caller asks for an encoding that does not exist.

    >>> find_encoding(b'<meta charset="latin-1">', None, None)
    'iso8859-1'
    """
    if wanted:
        return _find_text_codec(wanted)
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if content.startswith(mark):
            return encoding
    in_page = _CHARSET.search(content[:_META_BYTES])
    for name in (content_type_charset, in_page[1].decode("ascii", "replace") if in_page else None):
        if name:
            try:
                return _find_text_codec(name)
            except LookupError:
                continue
    return "utf-8"


def _find_text_codec(name: str) -> str:
    """Return the name of a codec that makes text of bytes; Python has others, such as zip."""
    found = codecs.lookup(name)
    if not getattr(found, "_is_text_encoding", True):
        raise LookupError(name)
    return found.name
