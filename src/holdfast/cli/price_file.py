"""`--prices FILE`: the prices of tokens, by model, in a TOML file."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

from holdfast.core.errors import ConfigurationError
from holdfast.telemetry.token_prices import TokenPrices

_OPTION = "--prices"


def read_prices(path: Path) -> dict[str, TokenPrices]:
    """Return the prices in a file. Raises ConfigurationError that names the problem in it."""
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(_OPTION, f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigurationError(_OPTION, f"{path} is not TOML: {error}") from error
    try:
        return msgspec.convert(found, dict[str, TokenPrices])
    except (msgspec.ValidationError, ConfigurationError) as error:
        fix = 'Write for each model, such as: ["gpt-5.2"], then input = 1.25 and output = 10'
        raise ConfigurationError(_OPTION, f"{path}: {error}", fix=fix) from error
