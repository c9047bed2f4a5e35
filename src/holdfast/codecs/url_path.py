"""A model's name as a part of a URL's path. It must never change the path around it."""

from __future__ import annotations

import re

from holdfast.core.errors import ConfigurationError

_PATH_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.:@-]*)*")


def to_path_segment(model: str) -> str:
    """The model's name, fit to stand in a URL's path.

    Raises:
        ConfigurationError: it has characters that would change the path.

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
