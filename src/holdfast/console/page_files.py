"""Sends the files of a page that has no build step, with headers for caching and safety, and the console so.

The page names a folder that is called by the digest of all files, so a browser keeps them for as long
as they are the same, and asks for all of them again after an update. This module must never send a
file of a kind that it does not know, nor read one after the start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from holdfast.core.argument_checks import check_arguments
from holdfast.core.errors import ConfigurationError

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

_PAGE = "index.html"
_VERSION_MARK = b"{version}"
_NOT_FOUND = "There is no such file"

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


class PageFiles:
    """The files of a page, read once: `index.html`, and what it names below `{version}/`.

    Every answer forbids the browser to guess a content type, to tell other sites the address, and to
    share a window with them. The page is asked for again each time; its files are kept for a year.

    Args:
        folder: where they are, such as `files("your_package") / "pages"`. In `index.html`, `{version}`
            stands for `version`.
        policy: the Content-Security-Policy of every answer.
        headers: more headers of every answer.

    Attributes:
        version: a digest of all files: the name of the folder under which they are sent.

    Raises:
        ConfigurationError: there is no `index.html` in the folder.
    """

    @check_arguments
    def __init__(
        self, folder: Traversable, *, policy: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self._files = dict(_read_files(folder, ""))
        digest = sha256()
        for name, content in sorted(self._files.items()):
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
        self.version = digest.hexdigest()[:16]
        if _PAGE not in self._files:
            raise ConfigurationError("folder", f"has no {_PAGE}: {folder}")
        page = self._files.pop(_PAGE)
        self._page = page.replace(_VERSION_MARK, self.version.encode())
        self._page_tag = f'"{sha256(self._page).hexdigest()[:32]}"'
        self._headers = {
            "Content-Security-Policy": policy,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Opener-Policy": "same-origin",
            **(headers or {}),
        }

    def send_page(self, request: Request) -> Response:
        """Return the page, which a browser asks for again each time."""
        headers = {**self._headers, "Cache-Control": "no-cache", "ETag": self._page_tag}
        if _has_tag(request, self._page_tag):
            return Response(status_code=304, headers=headers)
        return Response(self._page, headers=headers, media_type=CONTENT_TYPES[".html"])

    def send_file(self, request: Request) -> Response:
        """Return the file of the path's `version` and `name`.

        Raises:
            HTTPException: 404, there is no such file, or it is of another version.
        """
        name = request.path_params["name"]
        content = self._files.get(name)
        if content is None or request.path_params["version"] != self.version:
            raise HTTPException(404, _NOT_FOUND, self._headers)
        tag = f'"{self.version}"'
        headers = {
            **self._headers,
            "Cache-Control": "public, max-age=31536000, immutable",
            "ETag": tag,
        }
        if _has_tag(request, tag):
            return Response(status_code=304, headers=headers)
        suffix = name[name.rindex(".") :]
        return Response(content, headers=headers, media_type=CONTENT_TYPES[suffix])


def _read_files(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _read_files(entry, f"{prefix}{entry.name}/")
        elif any(entry.name.endswith(suffix) for suffix in CONTENT_TYPES):
            yield f"{prefix}{entry.name}", entry.read_bytes()


def _has_tag(request: Request, tag: str) -> bool:
    known = request.headers.get("If-None-Match", "")
    return tag in (part.strip().removeprefix("W/") for part in known.split(","))


def console_routes() -> Sequence[BaseRoute]:
    """Return the routes of the console, to be mounted under `/console`."""
    sent = PageFiles(files("holdfast.console") / "static", policy=CONTENT_SECURITY_POLICY)
    return [
        Route("/", sent.send_page, name="console"),
        Route("/{version}/{name:path}", sent.send_file),
    ]


def redirect_to_console(request: Request) -> Response:
    """Return a redirect to the page, whose address ends with a slash."""
    return RedirectResponse(f"{request.scope.get('root_path', '')}/console/", 307)
