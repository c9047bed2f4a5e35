"""Runs the service of `holdfast serve` under uvicorn until the process gets a signal to end."""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.cli.serve_targets import describe_served
from holdfast.cli.serving_process import configure_log, listen, make_address, notify_ready
from holdfast.core.errors import ConfigurationError
from holdfast.core.import_part import install_command
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.journal.memory import MemoryJournal

try:
    import uvicorn

    from holdfast.cli.serve_settings import ServeSettings
    from holdfast.server.access.connections import make_server_config, raise_file_limit
    from holdfast.server.access.responses import access_log
    from holdfast.server.app import RootPath, create_app
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


def serve(
    agents: list[AnyAgent], journal: str, settings: ServeSettings, *, opens_browser: bool = False
) -> None:
    """Serve agents until the process gets a signal to end; print the addresses.

    Args:
        agents: the agents.
        journal: the address of the journal.
        settings: all settings.
        opens_browser: whether the console is opened in a browser.

    Raises:
        ConfigurationError: the address cannot be used.
    """
    process = settings.process
    app = _create_app(agents, journal, settings)
    shown = _show_below(app, settings) if process.root_path else app
    _check_bind(app, settings)
    listener = listen(settings.find_source("port", "--port"), process.host, process.port)
    address = make_address(process.host, listener) + process.root_path

    def announce() -> None:
        print(describe_served(app.state.service.agents, journal))
        print(f"api      {address}/api/v1\nconsole  {address}/console", flush=True)
        if opens_browser:
            webbrowser.open(f"{address}/console")
        notify_ready()

    raise_file_limit()
    _configure_log(logs_requests=process.logs_requests)
    config = make_server_config(shown)
    config.lifespan = "on"
    # A client that does not read would otherwise hold the process without end.
    seconds = settings.service.drain + process.grace + SECONDS_TO_CLOSE
    config.timeout_graceful_shutdown = math.ceil(seconds)
    AnnouncingServer(config, announce).run(sockets=[listener])


def check_agents(agents: list[AnyAgent], settings: ServeSettings) -> None:
    """Refuse settings that do not fit the agents. Raises ConfigurationError."""
    with _naming(settings):
        ServiceTenants(agents, MemoryJournal(), settings.service)


def _create_app(agents: list[AnyAgent], journal: str, settings: ServeSettings) -> Starlette:
    """Return the application. Raises ConfigurationError with the source of the setting."""
    with _naming(settings):
        return create_app(
            agents,
            journal=journal,
            access=settings.access,
            grace=settings.process.grace,
            options=settings.service,
            queue=settings.queue,
        )


_ARGUMENTS = {
    "queue": "queue.parallel",
    "engine": "queue.engine",
    "hold_text": "service.hold_text",
    "on_disconnect": "service.on_disconnect",
    "host": "host",
    "root_path": "root_path",
}
"""The settings that errors of an application may be about, by the names of its arguments."""


@contextmanager
def _naming(settings: ServeSettings) -> Iterator[None]:
    """Give an error about an argument the source of the setting."""
    try:
        yield
    except ConfigurationError as error:
        name = _ARGUMENTS.get(error.argument)
        if name is None or name not in settings.given:
            raise
        settings.raise_error(name, error.problem, error.fix)


def _show_below(app: Starlette, settings: ServeSettings) -> RootPath:
    """Return the application below a path. Raises ConfigurationError."""
    with _naming(settings):
        return RootPath(app, settings.process.root_path)


def _check_bind(app: Starlette, settings: ServeSettings) -> None:
    """Refuse an address of other machines while there is no key. Raises ConfigurationError."""
    with _naming(settings):
        asyncio.run(app.state.access.check_bind(settings.process.host))


def _configure_log(*, logs_requests: bool) -> None:
    """Write a line for each warning and error, and for each request if wanted."""
    configure_log()
    access_log.setLevel(logging.INFO if logs_requests else logging.WARNING)
