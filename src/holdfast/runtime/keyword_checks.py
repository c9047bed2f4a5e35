"""The check of the keywords of `Agent`. This module must stay cheap to import."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar, cast

F = TypeVar("F", bound=Callable[..., None])


def name_wrong_keywords(init: F) -> F:
    """Let `__init__` raise ConfigurationError for a wrong keyword, with the right one."""

    @wraps(init)
    def check_and_init(self: object, *args: object, **keywords: object) -> None:
        known = {*(init.__kwdefaults__ or {}), "model"}
        if not keywords.keys() <= known:
            from holdfast.runtime.run_keywords import check_names  # only for the error

            check_names("Agent", keywords, known)
        init(self, *args, **keywords)

    return cast("F", check_and_init)
