"""A struct that holds personal data, and whose `repr` shows none of it."""

from typing import Any

from msgspec import Struct


class Redacted(Struct, frozen=True):
    """Shows its name alone, so that no log, traceback or failed assertion holds a person's data."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []
