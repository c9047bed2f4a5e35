"""Runs the service of `holdfast serve` under uvicorn until the process is told to end."""

from __future__ import annotations

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

    from holdfast.server.app import create_app
except ModuleNotFoundError as error:
    if error.name not in ("uvicorn", "starlette"):
        raise
    raise ConfigurationError(
        "serve", f"needs {error.name}", fix="Install it: pip install 'holdfast[server]'"
    ) from error

if TYPE_CHECKING:
    from starlette.applications import Starlette

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


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
    if options.host not in _LOOPBACK:
        raise ConfigurationError(
            "--host",
            f"{options.host} can be reached by others, and there are no keys",
            fix="Make a key first: holdfast keys create --journal ...",
        )
    app: Starlette = create_app(agents, journal=journal)
    listener = _listen(options)
    address = _make_address(options.host, listener)

    def announce() -> None:
        print(describe_served(app.state.service.agents, journal))
        print(f"api      {address}/api/v1\nconsole  {address}/console", flush=True)
        if options.opens_browser:
            webbrowser.open(f"{address}/console")

    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, lifespan="on"
    )
    AnnouncingServer(config, announce).run(sockets=[listener])


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
