"""Checks that a model's name can stand in the path of a URL without changing the path."""

from __future__ import annotations

import re

from holdfast.core.errors import ConfigurationError

_PATH_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.:@-]*)*")


def to_path_segment(model: str) -> str:
    """Return the model's name if it can stand in the path of a URL.

    Raises:
        ConfigurationError: the name has characters that would change the path.

    >>> to_path_segment("gemini-2.5-flash")
    'gemini-2.5-flash'
    """
    if not _PATH_SEGMENT.fullmatch(model):
        raise ConfigurationError(
            "model",
            f"{model[:80]!r} cannot stand in a URL",
            fix="use letters, digits and . _ : @ - with single slashes between",
        )
    return model
