"""Runs the service of `holdfast serve` under uvicorn until the process is told to end."""

from __future__ import annotations

import asyncio
import logging
import socket
import webbrowser
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.cli.run_printer import shorten
from holdfast.cli.serve_targets import AnyAgent
from holdfast.core.errors import ConfigurationError

try:
    import uvicorn

    from holdfast.server.access.connections import build_config, raise_file_limit
    from holdfast.server.access.responses import access_log
    from holdfast.server.app import create_app
except ModuleNotFoundError as error:
    if error.name not in ("uvicorn", "starlette"):
        raise
    raise ConfigurationError(
        "serve", f"needs {error.name}", fix="Install it: pip install 'holdfast[server]'"
    ) from error

if TYPE_CHECKING:
    from starlette.applications import Starlette


class ServeOptions(Struct, frozen=True):
    """Where a service listens.

    Args:
        host: the address.
        port: the port; 0 takes a free one.
        opens_browser: whether the console is opened in a browser.
    """

    host: str
    port: int
    opens_browser: bool = False


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
    """Serve agents until the process is told to end; print the addresses.

    Raises:
        ConfigurationError: the address cannot be used.
    """
    app: Starlette = create_app(agents, journal=journal)
    _check_bind(app, options.host)
    listener = _listen(options)
    address = _make_address(options.host, listener)

    def announce() -> None:
        print(describe_served(app.state.service.agents, journal))
        print(f"api      {address}/api/v1\nconsole  {address}/console", flush=True)
        if options.opens_browser:
            webbrowser.open(f"{address}/console")

    raise_file_limit()
    _log_requests()
    config = build_config(app)
    config.lifespan = "on"
    AnnouncingServer(config, announce).run(sockets=[listener])


def _check_bind(app: Starlette, host: str) -> None:
    """Refuse an address of other machines while there is no key. Raises ConfigurationError."""
    try:
        asyncio.run(app.state.access.check_bind(host))
    except ConfigurationError as error:
        raise ConfigurationError("--host", error.problem, fix=error.fix) from error


def _log_requests() -> None:
    """Write a line for each request to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    access_log.addHandler(handler)
    access_log.setLevel(logging.INFO)
    access_log.propagate = False


def _listen(options: ServeOptions) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        return socket.create_server((options.host, options.port), family=family, backlog=2048)
    except OSError as error:
        raise ConfigurationError(
            "--port",
            f"cannot listen on {options.host}:{options.port}: {error.strerror}",
            fix="Pass another --port, or 0 for a free one",
        ) from error


def _make_address(host: str, listener: socket.socket) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listener.getsockname()[1]}"


def describe_served(names: Iterable[str], journal: str) -> str:
    """Return the lines that say what is served; of the journal, nothing that may be a password.

    >>> print(describe_served(["shop"], "postgresql://me:secret@db/runs"))
    agents   shop
    journal  postgresql
    """
    place = journal.partition(":")[0]
    if place == "sqlite":
        place = shorten(journal.removeprefix("sqlite:///"), 100)
    return f"agents   {', '.join(names)}\njournal  {place}"
