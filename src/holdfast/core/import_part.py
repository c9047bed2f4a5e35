"""Imports the modules of Holdfast that are imported on first use, and says how to pack them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def import_part(name: str) -> ModuleType:
    """Import a module of Holdfast.

    Raises:
        ModuleNotFoundError: it is missing, as in a program that was packed without it; the error
            says how to include it.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("holdfast"):
            raise
        raise ModuleNotFoundError(
            f"{error.name} is missing. A program that was packed into one file must include every "
            "module of Holdfast: with PyInstaller add --collect-submodules holdfast",
            name=error.name,
        ) from error
