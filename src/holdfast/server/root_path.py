"""Serves an application below a path of a proxy, whether the proxy removes this path or not.

Nginx and Caddy can pass a path as it was sent, which keeps an encoded `/` in the name of a session.
Other proxies remove the path below which they show a service. Both kinds are understood, because no
path of the service itself begins like the root path.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.core.errors import ConfigurationError
from holdfast.core.redaction import quote_setting
from holdfast.server.access.asgi import ASGIApp, Receive, Scope, Send

OWN_PATHS: Final = frozenset(
    {"agui", "api", "console", "favicon.ico", "health", "metrics", "ready", "v1", "vercel"}
)
"""How the paths of a service begin."""

_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)+")


class RootPath:
    """A middleware that tells an application below which path it is shown.

    Args:
        app: the application.
        path: the path, such as "/agents".

    Raises:
        ConfigurationError: it is not a path, or begins like a path of the service.
    """

    def __init__(self, app: ASGIApp, path: str) -> None:
        check_root_path(path)
        self._app = app
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            path, raw = str(scope["path"]), bytes(scope.get("raw_path") or b"")
            scope["root_path"] = self._path
            if path != self._path and not path.startswith(f"{self._path}/"):
                scope["path"] = self._path + path
                scope["raw_path"] = self._path.encode() + raw if raw else raw
        await self._app(scope, receive, send)


def check_root_path(path: str) -> None:
    """Refuse a path below which no service can be shown.

    Args:
        path: the path.

    Raises:
        ConfigurationError: it is not a path, or begins like a path of the service.

    >>> check_root_path("/agents")
    """
    if not _PATH.fullmatch(path) or any(part in (".", "..") for part in path.split("/")):
        raise ConfigurationError(
            "root_path",
            f"{quote_setting(path)} is not a path",
            fix='Write it with a slash before each part and none at the end, such as "/agents"',
        )
    if path.split("/")[1] in OWN_PATHS:
        raise ConfigurationError(
            "root_path",
            f"{quote_setting(path)} begins like a path of the service",
            fix='Choose another one, such as "/agents"',
        )
