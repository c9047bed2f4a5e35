"""What a parent sees who opens a payment link that does not lead to a page of the provider.

This module must never show a name, an amount or what went wrong inside: anybody may open a link.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape
from typing import Final

from msgspec import Struct
from starlette.responses import HTMLResponse

_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:1.125rem/1.5 system-ui,sans-serif;max-width:32rem;margin:3rem auto;padding:0 1rem}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

HEADERS: Final = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none';"
        " form-action 'none'; frame-ancestors 'none'"
    ),
}
"""Of every answer to a payment link, which is a secret that must not be passed on."""

_LATER_SECONDS = 60


class LinkPage(Struct, frozen=True):
    """A page.

    Args:
        title: its heading.
        text: what to do, in plain words.
        status: of the response.
    """

    title: str
    text: str
    status: int = 200

    def respond(self) -> HTMLResponse:
        """Return the response."""
        title, text = escape(self.title), escape(self.text)
        body = (
            '<!doctype html><html lang="en-GB"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            f"<title>{title}</title><style>{_STYLE}</style></head>"
            f"<body><main><h1>{title}</h1><p>{text}</p></main></body></html>"
        )
        headers = dict(HEADERS)
        if self.status == 503:
            headers["Retry-After"] = str(_LATER_SECONDS)
        return HTMLResponse(body, self.status, headers)


PAID: Final = LinkPage(
    "Thank you, this is paid already", "There is nothing left to do. You can close this page."
)
UNKNOWN: Final = LinkPage(
    "We do not know this link",
    "Please open the link in your message again, or copy all of it. If that does not help, ask your club.",
    404,
)
CLOSED: Final = LinkPage(
    "This payment cannot be made here any more",
    "We have told the club, and they will be in touch. Nothing was paid.",
    409,
)
NOT_READY: Final = LinkPage(
    "The payment page is not ready yet",
    "Please open the link in your message again in a few minutes. The link stays the same.",
    503,
)
LATER: Final = LinkPage(
    "The payment page cannot be opened right now",
    "Nothing was paid, and nothing is lost. Please open the link in your message again in a few minutes.",
    503,
)
