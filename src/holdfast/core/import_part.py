"""Imports the modules of Holdfast that are imported on first use, and names the packages that are missing for them.

This module must never import anything that its caller did not name.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

_EXTRAS = {
    "cli": "cli",
    "console": "server",
    "server": "server",
    "telemetry": "otel",
    "worker": "worker",
}
"""The extra that a room needs, by the room."""


def import_part(name: str) -> ModuleType:
    """Import a module of Holdfast.

    Raises:
        ModuleNotFoundError: a package of an extra is missing, and the error says how to install it;
            or the module is missing, as in a program that was packed without it, and the error says
            how to include it.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        extra = _EXTRAS.get(name.split(".")[1])
        if missing.partition(".")[0] != "holdfast":
            if extra is None:
                raise
            text = f"{name} needs {missing}. {install_command(extra)}"
            raise ModuleNotFoundError(text, name=missing) from None
        raise ModuleNotFoundError(
            f"{missing} is missing. A program that was packed into one file must include every "
            "module of Holdfast: with PyInstaller add --collect-submodules holdfast",
            name=missing,
        ) from error


def install_command(extra: str) -> str:
    """Return the command that installs an extra: of the checkout, or of the package.

    >>> install_command("server").endswith("[server]'")
    True
    """
    in_checkout = __file__.replace("\\", "/").endswith("/src/holdfast/core/import_part.py")
    if in_checkout:
        return f"In the checkout: pip install '.[{extra}]'"
    return f"Install it: pip install 'holdfast[{extra}]'"
