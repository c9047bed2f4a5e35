"""The objects that the contexts of hooks and tools hold: the call that an agent works for, and shared objects.

They belong to the process that drives the turn and are never saved, and never read from a journal. This module must
never be used for the state that a resumed turn needs: that is a fold over events.
"""

from __future__ import annotations

from typing import TypeVar, cast

from msgspec import Struct

from holdfast.core.errors import ConfigurationError

T = TypeVar("T")


class OuterCall(Struct, frozen=True):
    """A call of an agent as a tool.

    Args:
        agent: the name of the agent that calls.
        run_id: the id of its run.
        key: the key of the call in that run, such as `t3.i0.tool.0`.
        session: the name of its session, or None.

    >>> OuterCall("boss", "ada", "t3.i0.tool.0", "ada").turn
    3
    """

    agent: str
    run_id: str
    key: str
    session: str | None = None

    @property
    def turn(self) -> int:
        """The number of the calling turn in its session, from 1."""
        return turn_number(self.key)


def turn_number(key: str) -> int:
    """Return the number of the turn that a key belongs to.

    >>> turn_number("t12.i0.tool.2")
    12
    """
    return int(key[1 : key.index(".")])


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
