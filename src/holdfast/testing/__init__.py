"""Tools to prove behaviour: a scripted model, a fake clock, a provider emulator with faults.

This room is public, and must never be imported by the runtime itself; it must not need the network.
Names are imported when they are asked for, because pytest loads this package in every project.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.middleware.folds import folding_twice as folding_twice
    from holdfast.testing.crash import CrashAt as CrashAt
    from holdfast.testing.crash import SimulatedCrash as SimulatedCrash
    from holdfast.testing.emulator import Emulator as Emulator
    from holdfast.testing.fake_clock import FakeClock as FakeClock
    from holdfast.testing.fake_clock import FixedRng as FixedRng
    from holdfast.testing.replaying import ReplayDifference as ReplayDifference
    from holdfast.testing.replaying import ReplayResult as ReplayResult
    from holdfast.testing.replaying import replay as replay
    from holdfast.testing.scripted import ScriptedModel as ScriptedModel
    from holdfast.testing.waits import no_waits as no_waits

_HOME: dict[str, str] = {
    "CrashAt": "holdfast.testing.crash",
    "Emulator": "holdfast.testing.emulator",
    "FakeClock": "holdfast.testing.fake_clock",
    "FixedRng": "holdfast.testing.fake_clock",
    "ReplayDifference": "holdfast.testing.replaying",
    "ReplayResult": "holdfast.testing.replaying",
    "ScriptedModel": "holdfast.testing.scripted",
    "SimulatedCrash": "holdfast.testing.crash",
    "folding_twice": "holdfast.middleware.folds",
    "no_waits": "holdfast.testing.waits",
    "replay": "holdfast.testing.replaying",
}
"""Public name -> the module that defines it. Sorted."""

__all__ = [
    "CrashAt",
    "Emulator",
    "FakeClock",
    "FixedRng",
    "ReplayDifference",
    "ReplayResult",
    "ScriptedModel",
    "SimulatedCrash",
    "folding_twice",
    "no_waits",
    "replay",
]


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
