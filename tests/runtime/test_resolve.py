"""From what a user writes to a model that can be asked."""

import pytest

from holdfast.codecs.presets import PRESETS, Preset
from holdfast.runtime.resolve import _codec


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda preset: preset.name)
def test_every_preset_has_its_codec(preset: Preset) -> None:
    assert _codec(preset.wire, preset.quirks).name == preset.wire
