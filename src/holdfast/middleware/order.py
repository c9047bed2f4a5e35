"""Checks that the order of middlewares works.

The user chooses the order by the registration and by priorities, and nothing is reordered here. A
wrong order is an error when the agent is made, and the error must always name both middlewares.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast.middleware.hooks import Middleware, Neighbour


def check_order(middlewares: Sequence[Middleware[Any]]) -> None:
    """Raise ConfigurationError when a middleware is on the wrong side of another."""
    for index, middleware in enumerate(middlewares):
        for neighbour in middleware.before:
            for other in middlewares[:index]:
                if _matches_neighbour(other, neighbour):
                    raise _order_error(middleware, "before", other)
        for neighbour in middleware.after:
            for other in middlewares[index + 1 :]:
                if _matches_neighbour(other, neighbour):
                    raise _order_error(middleware, "after", other)


def _matches_neighbour(other: Middleware[Any], neighbour: Neighbour) -> bool:
    if isinstance(neighbour, str):
        return any(kind.__name__ == neighbour for kind in type(other).__mro__)
    return isinstance(other, neighbour)


def _order_error(
    middleware: Middleware[Any], side: str, other: Middleware[Any]
) -> ConfigurationError:
    if any(
        _matches_neighbour(middleware, neighbour)
        for neighbour in (other.before if side == "before" else other.after)
    ):
        return ConfigurationError(
            "middleware",
            f"{middleware.name} and {other.name} contradict each other: each must stand {side} the other",
            fix=f"Give one of them another `{side}`, as in {middleware.name}(...).only({side}=[])",
        )
    return ConfigurationError(
        "middleware",
        f"{middleware.name} must stand {side} {other.name}",
        fix=f"Register {middleware.name} {side} {other.name}",
    )
