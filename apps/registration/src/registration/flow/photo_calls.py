"""The middleware of the agent that checks photos: its calls are repeated by their row of the table.

This module must never read a verdict; the output of the agent is one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from holdfast import Reply
from holdfast.middleware import Middleware, ModelCall
from registration.flow.model_calls import CallKind
from registration.flow.parts import Parts

CALL_TYPE: Final = "Photo Upload"
SECONDS: Final = 80.0


class RepeatPhotoCalls(Middleware):
    """Repeats the call of the model until there is a reply.

    Args:
        parts: repeats the call.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def wrap_model(
        self, context: ModelCall[Any], call_next: Callable[[ModelCall[Any]], Awaitable[Reply]]
    ) -> Reply:
        """Repeat the call until there is a reply."""
        session = context.metadata.get("session")
        kind = CallKind(
            call_type=CALL_TYPE,
            session=session if isinstance(session, str) else "",
            step=None,
            seconds=SECONDS,
        )
        return await self._parts.calls.look_at_photo(lambda: call_next(context), kind)
