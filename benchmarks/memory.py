"""How much memory a process takes, in bytes."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def peak_bytes() -> float:
    """The most that this process has held since it started."""
    return _status("VmHWM") or _usage_peak()


def resident_bytes() -> float:
    """What this process holds now; its peak where the system does not say."""
    return _status("VmRSS") or _usage_peak()


def _status(field: str) -> float:
    if not _STATUS.exists():
        return 0.0
    for line in _STATUS.read_text().splitlines():
        if line.startswith(field):
            return float(line.split()[1]) * 1024
    return 0.0


def _usage_peak() -> float:
    # On Linux this would count the parent before exec: /proc comes first.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak if sys.platform == "darwin" else peak * 1024)
