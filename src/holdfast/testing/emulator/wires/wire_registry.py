"""Finds the wire of a path; the module of a wire is imported on first use.

A new wire needs one line here and one module.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from holdfast.testing.emulator.wires.emulator_wire import EmulatorWire

_MODULES: dict[str, str] = {
    "/chat/completions": "openai_chat",
    "/messages": "anthropic",
    "/responses": "openai_responses",
    ":generateContent": "gemini",
    ":streamGenerateContent": "gemini",
}
"""The end of a path -> the name of the module."""

WIRES: tuple[str, ...] = tuple(dict.fromkeys(_MODULES.values()))
"""The names of the wires."""


@cache
def get_wire(name: str) -> EmulatorWire:
    """Return the wire of this name."""
    module: EmulatorWire = import_module(f"holdfast.testing.emulator.wires.{name}")
    return module


def wire_for(path: str) -> EmulatorWire | None:
    """Return the wire of a path, or None.

    >>> wire_for("/v1/chat/completions").NAME, wire_for("/v1/messages").NAME
    ('openai_chat', 'anthropic')
    """
    for ending, name in _MODULES.items():
        if path.endswith(ending):
            wire = get_wire(name)
            if wire.matches(path):
                return wire
    return None
