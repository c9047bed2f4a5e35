"""Which wire a path belongs to; a wire's module is imported when its path is first asked for.

A new wire is one line here and one module.
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
"""The end of a path -> the module that speaks there."""

WIRES: tuple[str, ...] = tuple(dict.fromkeys(_MODULES.values()))
"""The names of the wires."""


@cache
def get_wire(name: str) -> EmulatorWire:
    """The wire of this name."""
    module: EmulatorWire = import_module(f"holdfast.testing.emulator.wires.{name}")
    return module


def wire_for(path: str) -> EmulatorWire | None:
    """The wire whose model calls go to `path`, or None.

    >>> wire_for("/v1/chat/completions").NAME, wire_for("/v1/messages").NAME
    ('openai_chat', 'anthropic')
    """
    for ending, name in _MODULES.items():
        if path.endswith(ending):
            wire = get_wire(name)
            if wire.matches(path):
                return wire
    return None
