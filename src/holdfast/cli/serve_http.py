"""Runs the service of `holdfast serve` under uvicorn until the process gets a signal to end."""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import webbrowser
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holdfast.cli.options import name_options
from holdfast.cli.serve_targets import describe_served
from holdfast.cli.serving_process import configure_log, listen, make_address, notify_ready
from holdfast.core.errors import ConfigurationError
from holdfast.core.import_part import install_command
from holdfast.hosting.tenant_service import ServiceOptions
from holdfast.models.prices import Prices

try:
    import uvicorn

    from holdfast.server.access.connections import make_server_config, raise_file_limit
    from holdfast.server.access.options import AccessOptions
    from holdfast.server.access.responses import access_log
    from holdfast.server.app import RootPath, create_app
    from holdfast.server.queued_turns import QueueOptions
except ModuleNotFoundError as error:
    if error.name not in ("uvicorn", "starlette"):
        raise
    raise ConfigurationError(
        "serve", f"needs {error.name}", fix=install_command("server")
    ) from error

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from holdfast.hosting.bound_agents import AnyAgent


SECONDS_TO_CLOSE = 5
"""Seconds that clients have to read the rest of their responses, after the drain and the grace."""


class ServeOptions(Struct, frozen=True, kw_only=True):
    """Where and how a service listens.

    Args:
        host: the address.
        port: the port; 0 takes a free one.
        root_path: the path below which a proxy shows the service, such as "/agents"; "" for none.
        trusted_proxies: addresses or networks of proxies whose `X-Forwarded-*` headers count.
        allowed_hosts: the names under which the service is reached; none allows every name.
        grace: how long a process that gets a signal to end waits for writing tools, in seconds.
        drain: how long it serves, before that, requests whose client cannot come back, in seconds.
        queue: the fields of `QueueOptions`; None for the default.
        prices: the prices of tokens; None if nobody says it.
        opens_browser: whether the console is opened in a browser.
        logs_requests: whether each request is a line on standard error.
    """

    host: str
    port: int
    root_path: str = ""
    trusted_proxies: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    grace: float = 60.0
    drain: float = 30.0
    queue: dict[str, Any] | None = None
    prices: Prices | None = None
    opens_browser: bool = False
    logs_requests: bool = True


class AnnouncingServer(uvicorn.Server):
    """A server that says when it answers.

    Args:
        config: the configuration of uvicorn.
        announce: called when the server answers.
    """

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        if not self.should_exit:
            self._announce()


def serve(agents: list[AnyAgent], journal: str, options: ServeOptions) -> None:
    """Serve agents until the process gets a signal to end; print the addresses.

    Raises:
        ConfigurationError: the address cannot be used.
    """
    app = _create_app(agents, journal, options)
    shown = _show_below(app, options.root_path) if options.root_path else app
    _check_bind(app, options.host)
    listener = listen("--port", options.host, options.port)
    address = make_address(options.host, listener) + options.root_path

    def announce() -> None:
        print(describe_served(app.state.service.agents, journal))
        print(f"api      {address}/api/v1\nconsole  {address}/console", flush=True)
        if options.opens_browser:
            webbrowser.open(f"{address}/console")
        notify_ready()

    raise_file_limit()
    _configure_log(logs_requests=options.logs_requests)
    config = make_server_config(shown)
    config.lifespan = "on"
    # A client that does not read would otherwise hold the process without end.
    seconds = options.drain + options.grace + SECONDS_TO_CLOSE
    config.timeout_graceful_shutdown = math.ceil(seconds)
    AnnouncingServer(config, announce).run(sockets=[listener])


def _create_app(agents: list[AnyAgent], journal: str, options: ServeOptions) -> Starlette:
    """Return the application. Raises ConfigurationError with the name of the option."""
    with name_options({"trusted_proxies": "--trusted-proxy", "allowed_hosts": "--allowed-host"}):
        access = AccessOptions(
            trusted_proxies=options.trusted_proxies, allowed_hosts=options.allowed_hosts
        )
    with name_options({"queue": "--no-worker", "engine": "--engine", "drain": "--drain"}):
        queue = None if options.queue is None else QueueOptions(**options.queue)
        return create_app(
            agents,
            journal=journal,
            access=access,
            grace=options.grace,
            options=ServiceOptions(prices=options.prices, drain=options.drain),
            queue=queue,
        )


def _show_below(app: Starlette, path: str) -> RootPath:
    """Return the application below a path. Raises ConfigurationError."""
    with name_options({"root_path": "--root-path"}):
        return RootPath(app, path)


def _check_bind(app: Starlette, host: str) -> None:
    """Refuse an address of other machines while there is no key. Raises ConfigurationError."""
    with name_options({"host": "--host"}):
        asyncio.run(app.state.access.check_bind(host))


def _configure_log(*, logs_requests: bool) -> None:
    """Write a line for each warning and error, and for each request if wanted."""
    configure_log()
    access_log.setLevel(logging.INFO if logs_requests else logging.WARNING)
