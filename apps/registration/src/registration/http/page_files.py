"""The files of the parent's page, sent as they are, without a build step.

This module must never send personal data.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from starlette.routing import Route

from holdfast.server import PageFiles

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
_HEADERS: Final = {"Permissions-Policy": "geolocation=(), microphone=()"}


def routes() -> list[Route]:
    """Return the routes of the page."""
    folder = files("registration.http") / "pages"
    sent = PageFiles(folder, policy=CONTENT_SECURITY_POLICY, headers=_HEADERS)
    return [
        Route("/", sent.send_page, methods=["GET"]),
        Route("/page/{version}/{name}", sent.send_file, methods=["GET"]),
    ]
