"""The files of the parent's page, sent as they are, without a build step.

The page names a folder that is called by the digest of all files: a browser keeps them for as long as
they are the same. This module must never send what belongs to a person.
"""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from registration.http.problems import Problem

CONTENT_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
"""Only files with these suffixes are sent."""

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)

_HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "geolocation=(), microphone=()",
}
_PAGE = "index.html"


class PageFiles:
    """The files, read once.

    Args:
        content: the content of each file by its name; one is `index.html`.
    """

    def __init__(self, content: dict[str, bytes]) -> None:
        digest = sha256()
        for name, body in sorted(content.items()):
            digest.update(f"{name}\0{len(body)}\0".encode() + body)
        self.version = digest.hexdigest()[:16]
        """The name of the folder under which the files are sent."""
        self._page = content[_PAGE].replace(b"{version}", self.version.encode())
        self._files = {name: body for name, body in content.items() if name != _PAGE}
        self._page_tag = f'"{sha256(self._page).hexdigest()[:32]}"'

    def send_page(self, request: Request) -> Response:
        """Return the page, which a browser asks for again each time."""
        headers = {**_HEADERS, "Cache-Control": "no-cache", "ETag": self._page_tag}
        if _has_tag(request, self._page_tag):
            return Response(status_code=304, headers=headers)
        return Response(self._page, headers=headers, media_type=CONTENT_TYPES["html"])

    def send_file(self, request: Request) -> Response:
        """Return a file. Raises Problem for one of another version."""
        name = request.path_params["name"]
        body = self._files.get(name)
        if body is None or request.path_params["version"] != self.version:
            raise Problem("not_found", "There is no such file.")
        tag = f'"{self.version}"'
        headers = {
            **_HEADERS,
            "Cache-Control": "public, max-age=31536000, immutable",
            "ETag": tag,
        }
        if _has_tag(request, tag):
            return Response(status_code=304, headers=headers)
        kind = CONTENT_TYPES[name.rpartition(".")[2]]
        return Response(body, headers=headers, media_type=kind)


def routes() -> list[Route]:
    """Return the routes of the page."""
    folder = files("registration.http") / "pages"
    sent = PageFiles({
        one.name: one.read_bytes()
        for one in folder.iterdir()
        if one.name.rpartition(".")[2] in CONTENT_TYPES
    })  # fmt: skip
    return [
        Route("/", sent.send_page, methods=["GET"]),
        Route("/page/{version}/{name}", sent.send_file, methods=["GET"]),
    ]


def _has_tag(request: Request, tag: str) -> bool:
    known = request.headers.get("if-none-match", "")
    return tag in (one.strip().removeprefix("W/") for one in known.split(","))
