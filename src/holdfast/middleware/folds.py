"""What middlewares remember: folds over the events of a turn or of a session.

A fold that raises keeps the state that it had; the failure is reported once, by the next hook
point. States must never be kept anywhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import MiddlewareError
from holdfast.core.events import Event, TurnOpened
from holdfast.core.redaction import redact

if TYPE_CHECKING:
    from holdfast.middleware.hooks import Middleware


class Folds:
    """The states of the middlewares of one run, kept up event by event.

    Args:
        middlewares: those that fold.
    """

    __slots__ = ("_middlewares", "failure", "states")

    def __init__(self, middlewares: tuple[Middleware[Any], ...]) -> None:
        self._middlewares = middlewares
        self.states: dict[int, object] = {id(one): one.initial for one in middlewares}
        self.failure: MiddlewareError | None = None

    @property
    def view(self) -> Mapping[int, object]:
        """The states by the identity of their middleware."""
        return self.states

    def apply(self, event: Event) -> None:
        """Take one fact."""
        opened = isinstance(event, TurnOpened)
        states = self.states
        for one in self._middlewares:
            state = one.initial if opened and one.scope == "turn" else states[id(one)]
            try:
                states[id(one)] = one.fold(state, event)
            except Exception as error:  # noqa: BLE001  # REASON: a fold is the user's code
                name = type(error).__name__
                self.failure = MiddlewareError(
                    one.name, "fold", f"raised {name}", private=redact(f"{name}: {error}")
                )
                self.failure.__cause__ = error
