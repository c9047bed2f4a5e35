"""The objects that the hooks and tools of one turn share, at most one of each class.

They belong to the process that drives the turn and are never saved. This module must never be used
for what a resumed turn needs: that is a fold over events.
"""

from __future__ import annotations

from typing import TypeVar, cast

from holdfast.core.errors import ConfigurationError

T = TypeVar("T")


def share_object(objects: dict[type, object], kind: type[T]) -> T:
    """Return the object of this class, and make it if there is none; from any thread.

    Args:
        objects: the objects of the turn, by class.
        kind: the class, which can be called without arguments.

    Raises:
        ConfigurationError: `kind` is not a class, or it needs arguments.

    >>> objects: dict[type, object] = {}
    >>> share_object(objects, list).append(1)
    >>> share_object(objects, list)
    [1]
    """
    try:
        found = objects.get(kind)
        if found is None:
            # Of several threads that make one at the same time, all get the first.
            found = objects.setdefault(kind, _make_object(kind))
    except TypeError as error:
        name = getattr(kind, "__qualname__", type(kind).__name__)
        raise ConfigurationError(
            "shared",
            f"needs a class that can be called without arguments, and {name} cannot: {error}",
            fix="Give each field a default",
        ) from error
    return cast("T", found)


def _make_object(kind: type[T]) -> T:
    if not isinstance(kind, type):
        raise TypeError("it is not a class")
    return kind()
