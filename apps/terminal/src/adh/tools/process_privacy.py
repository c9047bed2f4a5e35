"""Hides the memory and the environment of this process from other processes of the same user.

A command gets no API key, but on Linux it could read those of the program in `/proc`. This module must
never fail: a system without this protection is used as it is.
"""

from __future__ import annotations

import ctypes
import sys

_PR_SET_DUMPABLE = 4


def hide_process() -> bool:
    """Hide this process, and return whether the system can do that. Commands that it starts are not hidden."""
    if sys.platform != "linux":
        return False
    try:
        return bool(ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False
