"""Set-up for the examples in README.md and docs/: providers on loopback in place of the real ones.

A document starts them in invisible blocks, and `conftest.py` calls `restore` at its end.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack

import msgspec

from holdfast.models import presets
from holdfast.testing import Emulator
from holdfast.testing.emulator.faults import FaultEntry
from holdfast.testing.emulator.script import Replies

_REAL = presets.PRESETS
_started = ExitStack()


def emulated(
    replies: Replies, *, provider: str = "openai", faults: Sequence[FaultEntry] = ()
) -> Emulator:
    """An emulator that `provider` leads to until the document ends, with its key in the environment."""
    emulator = _started.enter_context(Emulator(replies, faults=faults))
    preset = _REAL[provider]
    there = msgspec.structs.replace(preset, base_url=emulator.base_url_for(preset.wire))
    presets.PRESETS = {**presets.PRESETS, provider: there}
    for variable in preset.key_env:
        _set(variable, "made-up")
    return emulator


def _set(variable: str, value: str) -> None:
    before = os.environ.get(variable)
    os.environ[variable] = value

    def put_back() -> None:
        os.environ.pop(variable, None)
        if before is not None:
            os.environ[variable] = before

    _started.callback(put_back)


def restore() -> None:
    """Stop what was started, and lead to the real providers again."""
    _started.close()
    presets.PRESETS = _REAL
