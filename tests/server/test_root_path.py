"""A service below a path: which paths are possible, and what the application sees of a request."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.routing import Mount, Route

from holdfast import Agent
from holdfast.errors import ConfigurationError
from holdfast.server import create_app
from holdfast.server.access.asgi import Message, Receive, Scope, Send
from holdfast.server.app import OWN_PATHS, RootPath, check_root_path
from holdfast.testing import ScriptedModel


def see(path: str, raw_path: bytes | None, root: str = "/a/b") -> dict[str, Any]:
    """Return the scope that an application below `root` sees of a request."""
    seen: list[Scope] = []

    async def keep(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)

    async def receive() -> Message:
        raise AssertionError

    async def send(message: Message) -> None:
        raise AssertionError

    scope: Scope = {"type": "http", "path": path, "raw_path": raw_path, "root_path": ""}
    asyncio.run(RootPath(keep, root)(scope, receive, send))
    return dict(seen[0])


@pytest.mark.parametrize(
    ("path", "raw"),
    [
        ("/a/b/api/v1/sessions/x/y", b"/a/b/api/v1/sessions/x%2Fy"),  # passed as it was sent
        ("/api/v1/sessions/x/y", b"/api/v1/sessions/x%2Fy"),  # the proxy removed the path
    ],
)
def test_the_application_sees_the_whole_path_whatever_the_proxy_does(path: str, raw: bytes) -> None:
    seen = see(path, raw)
    assert seen["root_path"] == "/a/b"
    assert seen["path"] == "/a/b/api/v1/sessions/x/y"
    assert seen["raw_path"] == b"/a/b/api/v1/sessions/x%2Fy"


def test_a_path_that_only_looks_like_the_root_path_is_below_it() -> None:
    assert see("/a/bc", b"/a/bc")["path"] == "/a/b/a/bc"
    assert see("/a/b", b"/a/b")["path"] == "/a/b"
    assert see("/health", None)["path"] == "/a/b/health"


def test_no_path_of_the_service_can_begin_the_root_path() -> None:
    app = create_app(Agent(ScriptedModel("Hello."), name="greeter"))
    paths = [route.path for route in app.routes if isinstance(route, Mount | Route)]
    assert len(paths) == len(app.routes)
    assert {path.split("/")[1] for path in paths} <= OWN_PATHS
    for own in OWN_PATHS:
        with pytest.raises(ConfigurationError, match="begins like"):
            check_root_path(f"/{own}/x")
