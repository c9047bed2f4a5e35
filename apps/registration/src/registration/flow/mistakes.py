"""How a mistake of this program is named: by its kind and place, since its text may quote a parent.

This module must never read the text of an exception.
"""

from __future__ import annotations

import traceback
from pathlib import Path


class ToolMistake(Exception):
    """A tool raised what it should not; the text names the kind and the place."""


def name_mistake(error: Exception) -> str:
    """Return the kind of an exception, and the file and line that raised it.

    >>> try:
    ...     {}["07700 900123"]
    ... except KeyError as error:
    ...     name_mistake(error).partition(" at ")[0]
    'KeyError'
    """
    kind, frames = type(error).__name__, traceback.extract_tb(error.__traceback__)
    return f"{kind} at {Path(frames[-1].filename).stem}:{frames[-1].lineno}" if frames else kind
