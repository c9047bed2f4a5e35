"""The log of a program that runs for long: a line for each warning and error on standard error."""

from __future__ import annotations

import logging
import time


class _LogFormatter(logging.Formatter):
    """Begins each line with the time in UTC."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"


def configure_log() -> None:
    """Write a line for each warning and error to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(_LogFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.getLogger().addHandler(handler)
