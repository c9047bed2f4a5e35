"""Tools for tests: a scripted model, a fake clock, and emulators that inject faults.

The runtime must never import this public package, which must never need a network. Names are
imported on first use, because pytest loads this package in every project with Holdfast installed.
"""

from __future__ import annotations

from holdfast import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.middleware.folds import folding_twice as folding_twice
    from holdfast.testing.crash import CrashAt as CrashAt
    from holdfast.testing.crash import SimulatedCrash as SimulatedCrash
    from holdfast.testing.emulator.server import Emulator as Emulator
    from holdfast.testing.engine_conformance import EngineCarrier as EngineCarrier
    from holdfast.testing.engine_conformance import EngineConformance as EngineConformance
    from holdfast.testing.fake_clock import FakeClock as FakeClock
    from holdfast.testing.fake_clock import FixedRng as FixedRng
    from holdfast.testing.fake_clock import no_waits as no_waits
    from holdfast.testing.mcp_emulator import McpEmulator as McpEmulator
    from holdfast.testing.replaying import ReplayDifference as ReplayDifference
    from holdfast.testing.replaying import ReplayResult as ReplayResult
    from holdfast.testing.replaying import replay as replay
    from holdfast.testing.scripted import ScriptedModel as ScriptedModel

_HOME: dict[str, str] = {
    "CrashAt": "holdfast.testing.crash",
    "Emulator": "holdfast.testing.emulator.server",
    "EngineCarrier": "holdfast.testing.engine_conformance",
    "EngineConformance": "holdfast.testing.engine_conformance",
    "FakeClock": "holdfast.testing.fake_clock",
    "FixedRng": "holdfast.testing.fake_clock",
    "McpEmulator": "holdfast.testing.mcp_emulator",
    "ReplayDifference": "holdfast.testing.replaying",
    "ReplayResult": "holdfast.testing.replaying",
    "ScriptedModel": "holdfast.testing.scripted",
    "SimulatedCrash": "holdfast.testing.crash",
    "folding_twice": "holdfast.middleware.folds",
    "no_waits": "holdfast.testing.fake_clock",
    "replay": "holdfast.testing.replaying",
}
"""Public name -> the module that defines it. Sorted."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_names(globals(), _HOME)
