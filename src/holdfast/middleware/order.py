"""Checks that middlewares stand in an order that works.

The order is the user's: nothing is moved, so that what is written is what runs. A wrong order is an
error when the agent is made, and it must always name both middlewares.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast.middleware.hooks import Middleware, Neighbour


def check_order(middlewares: Sequence[Middleware[Any]]) -> None:
    """Raise ConfigurationError when one stands on the wrong side of another."""
    for index, one in enumerate(middlewares):
        for neighbour in one.before:
            for other in middlewares[:index]:
                if _matches_neighbour(other, neighbour):
                    raise _order_error(one, "before", other)
        for neighbour in one.after:
            for other in middlewares[index + 1 :]:
                if _matches_neighbour(other, neighbour):
                    raise _order_error(one, "after", other)


def _matches_neighbour(other: Middleware[Any], neighbour: Neighbour) -> bool:
    if isinstance(neighbour, str):
        return any(kind.__name__ == neighbour for kind in type(other).__mro__)
    return isinstance(other, neighbour)


def _order_error(one: Middleware[Any], side: str, other: Middleware[Any]) -> ConfigurationError:
    if any(
        _matches_neighbour(one, neighbour)
        for neighbour in (other.before if side == "before" else other.after)
    ):
        return ConfigurationError(
            "middleware",
            f"{one.name} and {other.name} contradict each other: each must stand {side} the other",
            fix=f"Give one of them another `{side}`, as in {one.name}(...).only({side}=[])",
        )
    return ConfigurationError(
        "middleware",
        f"{one.name} must stand {side} {other.name}",
        fix=f"Register {one.name} {side} {other.name}",
    )
