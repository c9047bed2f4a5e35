"""Bash itself says which words 50,000 lines of quotes have: what is read otherwise must be asked.

It needs bash alone, and no sandbox: the lines run no program.
"""

from __future__ import annotations

import os

import pytest
from apps.terminal.tests.shell.word_lines import find_differences

LINES = int(os.environ.get("LINES", "0")) or 50_000
SEED = int(os.environ.get("HOLDFAST_SEED", "20"))


@pytest.mark.timeout(1200)
def test_no_word_is_read_otherwise_than_by_bash() -> None:
    differences, readable, ran = find_differences(SEED, LINES)
    print(f"{LINES} lines of seed {SEED}, {readable} readable, {ran} of these ran")
    print("\n".join(differences))
    assert not differences
    assert ran > LINES // 4
    assert ran > readable * 0.9
