"""The error of a model whose provider has no key."""

from __future__ import annotations

from holdfast import ConfigurationError


class MissingKeyError(ConfigurationError):
    """There is no API key for the provider of a model; the text says what to set."""
