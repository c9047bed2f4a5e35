"""The check of the keywords of a constructor, which Python itself answers with a bare TypeError."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import wraps
from typing import TypeVar, cast

F = TypeVar("F", bound=Callable[..., None])


def name_wrong_keywords(
    explain: Callable[[Collection[str], Collection[str]], None],
) -> Callable[[F], F]:
    """Decorate an `__init__`, so that a wrong keyword raises ConfigurationError.

    Args:
        explain: called with the names of a wrong call and the known names; raises the error.
    """

    def decorate(init: F) -> F:
        @wraps(init)
        def check_and_init(self: object, *args: object, **keywords: object) -> None:
            known = {*(init.__kwdefaults__ or {}), "model"}
            if not keywords.keys() <= known:
                explain(keywords, known)
            init(self, *args, **keywords)

        return cast("F", check_and_init)

    return decorate
