"""What the screen imports before its prompt is painted."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("holdfast", "adh.workspace", "adh.conversation", "adh.agents", "adh.approval")

PROGRAM = f"""
import sys
import adh.commands.screen_command
print(*[name for name in sys.modules if name.startswith({HEAVY!r})])
"""


def test_the_prompt_waits_neither_for_the_library_nor_for_the_agent() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
