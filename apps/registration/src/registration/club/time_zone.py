"""The time zone of the club, in which its days begin.

This module must never read a clock.
"""

from __future__ import annotations

from typing import Final
from zoneinfo import ZoneInfo

LONDON: Final = ZoneInfo("Europe/London")
