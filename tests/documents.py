"""Set-up for the examples in README.md and docs/: providers on loopback in place of the real ones.

A document starts one in an invisible block. It is used by `./run docs` alone.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence

import msgspec

from holdfast.codecs import presets
from holdfast.testing import Emulator
from holdfast.testing.emulator.brain import Brain
from holdfast.testing.emulator.faults import FaultEntry

_REAL = dict(presets.PRESETS)


def emulated(
    brain: Brain, *, provider: str = "openai", faults: Sequence[FaultEntry] = ()
) -> Emulator:
    """An emulator that `provider` leads to from now on, with its key in the environment."""
    emulator = Emulator(brain, faults=faults)
    emulator.__enter__()
    atexit.register(emulator.__exit__, None, None, None)
    preset = _REAL[provider]
    there = msgspec.structs.replace(preset, base_url=emulator.base_url_for(preset.wire))
    presets.PRESETS = {**presets.PRESETS, provider: there}
    for variable in preset.key_env:
        os.environ[variable] = "made-up"
    return emulator
