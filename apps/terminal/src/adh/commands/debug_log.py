"""The log file of `--debug`, beside the conversations. Without the flag, no log line reaches the terminal.

It must never hold a secret, and is readable by the person alone.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from adh.commands.chat_start import ChatStart
from adh.storage.places import find_places
from adh.storage.private_files import FILE_MODE, make_private_folder

_LOGGERS = ("adh", "holdfast")
_FORM = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _RedactingFormatter(logging.Formatter):
    """Formats records, with their tracebacks, without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text."""
        from holdfast.errors import redact

        return redact(super().format(record))


def open_log(data: Path) -> Path:
    """Write the logs of the program and the library into `adh.log`; return the file.

    Args:
        data: the folder of the conversations and logs.

    Raises:
        StorageError: the folder cannot be made.
        OSError: the file cannot be written.
    """
    make_private_folder(data)
    path = data / "adh.log"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, FILE_MODE))
    handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(_RedactingFormatter(_FORM))
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.setLevel(logging.DEBUG)
        logger.addHandler(handler)
        logger.propagate = False
    return path


def set_up_log(start: ChatStart) -> None:
    """Open the log of `--debug`, or let nothing be logged.

    Args:
        start: how the conversation is opened.

    Raises:
        StorageError: as for `open_log`, as OSError is.
    """
    if start.debug:
        open_log(find_places(start.environ, start.project).data)
        return
    for name in _LOGGERS:
        logging.getLogger(name).addHandler(logging.NullHandler())
