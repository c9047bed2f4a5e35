"""The routes of the console's files, and the policy that they are sent with."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from holdfast.console.page_files import PageFiles

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


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
