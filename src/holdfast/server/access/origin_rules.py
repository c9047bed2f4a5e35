"""Which requests of a browser are answered: rules for `Host`, `Origin`, `Sec-Fetch-Site` and the body.

A web page of another site must not be able to drive a service, neither with its user's cookie nor,
where there are no keys, because it runs on the same machine. A program other than a browser sends
none of these headers and is not concerned. The sites in `allowed_origins`, and no others, are answered
by CORS. Their pages call with a key: cookies are never sent along.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from msgspec import Struct
from starlette.responses import Response

from holdfast.server.access.asgi import ASGIApp, Message, Receive, Scope, Send, find_header
from holdfast.server.access.client_addresses import is_loopback
from holdfast.server.problem_body import ProblemBody
from holdfast.server.problem_responses import make_problem

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_WITHOUT_KEYS = "A service without keys answers only on this machine"
_PORTS = {"http": 80, "https": 443}
_FORM_TYPE = "application/x-www-form-urlencoded"
_JSON_TYPES = ("application/json", "application/x-ndjson", "application/jsonl")

_ALLOWED = (
    ("Access-Control-Allow-Methods", "GET, HEAD, POST, PATCH, DELETE"),
    (
        "Access-Control-Allow-Headers",
        "Authorization, Content-Type, Accept, Idempotency-Key, Last-Event-ID",
    ),
    ("Access-Control-Max-Age", "600"),
)

_EXPOSED = b"Location, Retry-After"


class RequestHead(Struct, frozen=True, kw_only=True):
    """A request, as the rules see it.

    Args:
        method: the method.
        scheme: "http" or "https".
        host: the `Host`; "" if there is none.
        origin: the `Origin`; None if there is none.
        site: the `Sec-Fetch-Site`; "" if there is none.
        destination: the `Sec-Fetch-Dest` of a navigation; "" for any other request.
        content_type: the `Content-Type`; "" if there is none.
        has_body: whether a body follows.
    """

    method: str
    scheme: str
    host: str
    origin: str | None = None
    site: str = ""
    destination: str = ""
    content_type: str = ""
    has_body: bool = False


def split_host(host: str) -> str:
    """Return the name in a `Host` without its port; "" if it cannot be read.

    >>> split_host("localhost:8000"), split_host("[::1]:80"), split_host("a@b")
    ('localhost', '[::1]', '')
    """
    if any(letter in host for letter in "/?#@ \\\t"):
        return ""
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, ""
    if port and not port.isdecimal():
        return ""
    if ":" in name and not (name.startswith("[") and name.endswith("]")):
        return ""
    return name.lower().rstrip(".")


def check_host(host: str, allowed: Collection[str], *, is_local: bool) -> ProblemBody | None:
    """Judge the `Host` of a request: a page whose name suddenly means this machine sends its own name.

    Args:
        host: the `Host`.
        allowed: the names under which the service is reached; if there are none, any name is.
        is_local: whether the service has no keys, so that the names of this machine are allowed and
            no others are unless they are listed.
    """
    name = split_host(host)
    if name and (name in allowed or (is_local and is_loopback(name))):
        return None
    if name and not is_local and not allowed:
        return None
    return make_problem(
        400,
        "foreign_host",
        f"{_WITHOUT_KEYS}, under its own names." if is_local else "The host is not known here.",
        field="Host",
        fix="Call http://localhost or http://127.0.0.1, or list the name in allowed_hosts",
    )


def check_origin(head: RequestHead, allowed: Collection[str]) -> ProblemBody | None:
    """Judge where a browser sends a request from: only pages of the service itself may.

    A navigation in a tab of its own is allowed, since the page that began it learns nothing of it.

    Args:
        head: the request.
        allowed: origins of other pages that may call the service.
    """
    if head.origin is not None:
        is_own = head.origin in allowed or is_same_origin(head)
    elif head.site in ("", "same-origin", "none"):
        is_own = True
    else:
        is_own = head.method in ("GET", "HEAD") and head.destination == "document"
    if is_own:
        return None
    return make_problem(
        403,
        "foreign_origin",
        "A page of another site may not call this service.",
        field="Origin",
        fix="Call it from a program, or list the origin in allowed_origins",
    )


def is_same_origin(head: RequestHead) -> bool:
    """Whether the `Origin` of a request is the address that it was sent to."""
    if head.origin is None or not head.host:
        return False
    own = _split_origin(f"{head.scheme}://{head.host}")
    return own is not None and own == _split_origin(head.origin)


def is_origin(text: str) -> bool:
    """Whether a text is an origin as a browser writes it: scheme, name and port.

    >>> is_origin("https://app.example.com"), is_origin("https://app.example.com/")
    (True, False)
    """
    parts = _split_origin(text)
    if parts is None:
        return False
    scheme, name, port = parts
    short = f"{scheme}://{f'[{name}]' if ':' in name else name}"
    return text == (short if port == _PORTS[scheme] else f"{short}:{port}")


def _split_origin(origin: str) -> tuple[str, str, int] | None:
    try:
        parts = urlsplit(origin)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not parts.hostname:
        return None
    return parts.scheme, parts.hostname, port or _PORTS[parts.scheme]


def check_content_type(head: RequestHead, *, is_media: bool) -> ProblemBody | None:
    """Judge the type of a body: a form of another page can send three types, and JSON is none of them.

    Args:
        head: the request.
        is_media: whether the route takes pictures and files, of any other type.
    """
    kind = head.content_type.partition(";")[0].strip().lower()
    if head.method in SAFE_METHODS or not head.has_body or kind in _JSON_TYPES:
        return None
    if is_media and kind not in ("", "multipart/form-data", _FORM_TYPE):
        return None
    return make_problem(
        415,
        "content_type",
        "The body must be JSON.",
        field="Content-Type",
        fix="Send Content-Type: application/json",
    )


class CrossOrigin:
    """A middleware that adds the headers of CORS for named origins.

    Args:
        app: the application.
        allowed: the origins.
    """

    def __init__(self, app: ASGIApp, allowed: Collection[str]) -> None:
        self._app = app
        self._allowed = frozenset(allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a question of a browser, or call the application."""
        origin = find_header(scope["headers"], b"origin")
        if origin not in self._allowed:
            await self._app(scope, receive, send)
            return
        headers = [
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-expose-headers", _EXPOSED),
            (b"cross-origin-resource-policy", b"cross-origin"),
            (b"vary", b"Origin"),
        ]

        async def add_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *headers]
            await send(message)

        if is_preflight(scope):
            await Response(status_code=204, headers=dict(_ALLOWED))(scope, receive, add_headers)
        else:
            await self._app(scope, receive, add_headers)


def is_preflight(scope: Scope) -> bool:
    """Whether a browser asks for the rights of a page of another site."""
    asks = find_header(scope["headers"], b"access-control-request-method")
    return scope["method"] == "OPTIONS" and bool(asks)
