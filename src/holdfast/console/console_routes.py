"""Sends the files of the console.

The page names a folder that is called by the digest of all files, so a browser keeps them for as long
as they are the same, and asks for all of them again after an update.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

CONTENT_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
"""Only files with these suffixes are sent."""

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)

_PAGE = "index.html"
_VERSION_MARK = b"{version}"
_HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class ConsoleFiles:
    """The files of the console, read once.

    Args:
        folder: where they are.
    """

    def __init__(self, folder: Traversable) -> None:
        self._content = dict(_read_files(folder, ""))
        digest = sha256()
        for name, content in sorted(self._content.items()):
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
        self.version = digest.hexdigest()[:16]
        """The name of the folder under which the files are sent."""
        page = self._content.pop(_PAGE)
        self._page = page.replace(_VERSION_MARK, self.version.encode())
        self._page_tag = f'"{sha256(self._page).hexdigest()[:32]}"'

    def send_page(self, request: Request) -> Response:
        """Return the page, which a browser asks for again each time."""
        headers = {**_HEADERS, "Cache-Control": "no-cache", "ETag": self._page_tag}
        if _has_tag(request, self._page_tag):
            return Response(status_code=304, headers=headers)
        return Response(self._page, headers=headers, media_type=CONTENT_TYPES[".html"])

    def send_file(self, request: Request) -> Response:
        """Return a file; one of another version is not found."""
        name = request.path_params["name"]
        content = self._content.get(name)
        if content is None or request.path_params["version"] != self.version:
            return Response("There is no such file.", 404, _HEADERS, "text/plain")
        tag = f'"{self.version}"'
        headers = {
            **_HEADERS,
            "Cache-Control": "public, max-age=31536000, immutable",
            "ETag": tag,
        }
        if _has_tag(request, tag):
            return Response(status_code=304, headers=headers)
        suffix = name[name.rindex(".") :]
        return Response(content, headers=headers, media_type=CONTENT_TYPES[suffix])


def console_routes() -> Sequence[BaseRoute]:
    """Return the routes of the console, to be mounted under `/console`."""
    sent = ConsoleFiles(files("holdfast.console") / "static")
    return [
        Route("/", sent.send_page, name="console"),
        Route("/{version}/{name:path}", sent.send_file),
    ]


def redirect_to_console(request: Request) -> Response:
    """Return a redirect to the page, whose address ends with a slash."""
    return RedirectResponse(f"{request.scope.get('root_path', '')}/console/", 307)


def _read_files(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _read_files(entry, f"{prefix}{entry.name}/")
        elif any(entry.name.endswith(suffix) for suffix in CONTENT_TYPES):
            found.append((f"{prefix}{entry.name}", entry.read_bytes()))
    return found


def _has_tag(request: Request, tag: str) -> bool:
    known = request.headers.get("If-None-Match", "")
    return tag in (part.strip().removeprefix("W/") for part in known.split(","))
