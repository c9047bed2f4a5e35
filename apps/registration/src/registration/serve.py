"""Serves the application with uvicorn.

This module must never log a request: the application does, without personal data.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

import uvicorn
from starlette.applications import Starlette

from holdfast.server import make_server_config
from registration.http.app import create_app
from registration.settings import PREFIX, SettingsError, read_settings

_APP = "registration.serve:create_configured_app"


def run_server(arguments: Mapping[str, str], host: str, port: int, processes: int = 1) -> int:
    """Serve until the process gets a signal to stop; return the exit status.

    The settings are environment variables.

    Args:
        arguments: settings by name, which win over variables.
        host: the address to listen at.
        port: the port.
        processes: how many processes answer at the port. One that ends is started again.

    Raises:
        SettingsError: a setting is missing or cannot be used.
    """
    # The processes are new ones, which read the variables.
    os.environ |= {PREFIX + name.upper(): value for name, value in arguments.items()}
    settings = read_settings(os.environ)
    if processes > 1:
        for name in ("database", "journal"):
            if getattr(settings, name).reveal().startswith("sqlite:"):
                fix = "Set it to the URL of a PostgreSQL database, or use one process"
                raise SettingsError(
                    PREFIX + name.upper(), "is a file, which one process uses at a time", fix
                )
    uvicorn.run(
        _APP,
        # Half a request head, or many idle connections, keep nobody out.
        http=make_server_config(_APP).http,
        factory=True,
        workers=processes,
        host=host,
        port=port,
        access_log=False,
        log_level="warning",
        timeout_graceful_shutdown=15,
        timeout_keep_alive=20,
        h11_max_incomplete_event_size=16_384,
    )
    return 0


def create_configured_app() -> Starlette:
    """Return the application with the settings of the environment.

    Raises:
        SettingsError: a setting is missing or cannot be used.
    """
    settings = read_settings(os.environ)
    configure_logs()
    return create_app(settings)


def configure_logs() -> None:
    """Write a line for each request, and warnings, to standard error."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("registration").setLevel(logging.INFO)
