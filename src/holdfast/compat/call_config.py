"""How often, and how patiently, each kind of call is repeated, as data.

The numbers are those of seed 003. This module must never decide anything but which row applies.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypedDict

from holdfast.core.argument_checks import check_arguments


class RetryConfig(TypedDict):
    """Named arguments of the retrying calls: `delay` is in seconds."""

    max_retries: int
    delay: float


CALL_CONFIGS: Mapping[str, RetryConfig] = MappingProxyType(
    {
        "photo_upload": {"max_retries": 5, "delay": 2.0},
        "routine_34": {"max_retries": 5, "delay": 2.0},
        "payment": {"max_retries": 2, "delay": 0.5},
        "default": {"max_retries": 3, "delay": 1.0},
    }
)
"""Normalised call type -> how it is repeated."""

_BETWEEN_WORDS = re.compile(r"[^a-z0-9]+")


def normalise_call_type(call_type: str) -> str:
    """A call type as the table spells it.

    >>> normalise_call_type("Photo Upload"), normalise_call_type(" re-registration ")
    ('photo_upload', 're_registration')
    """
    return _BETWEEN_WORDS.sub("_", call_type.lower()).strip("_")


@check_arguments
def get_retry_config(call_type: str, routine_number: int | None = None) -> RetryConfig:
    """The row for a call; a routine that has a row of its own goes before the call type.

    Args:
        call_type: in any spelling; one that has no row gets "default".
        routine_number: the routine that the call belongs to.

    >>> get_retry_config("Photo Upload")
    {'max_retries': 5, 'delay': 2.0}
    >>> get_retry_config("Registration", 34) == get_retry_config("routine_34")
    True
    >>> get_retry_config("Registration", 3)
    {'max_retries': 3, 'delay': 1.0}
    """
    row = CALL_CONFIGS.get(f"routine_{routine_number}") or CALL_CONFIGS.get(
        normalise_call_type(call_type)
    )
    return (row or CALL_CONFIGS["default"]).copy()
