"""The middleware of the agent that answers general questions: its reply must be prose.

This module must never show JSON that was cut, or a page of HTML.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from holdfast import Reply
from holdfast.middleware import Middleware, ModelCall
from registration.flow.model_calls import CallKind
from registration.flow.parts import Parts

CALL_TYPE = "Universal Agent"


class AnswerInProse(Middleware):
    """Repeats the call of the model until its reply can be shown.

    Args:
        parts: repeats the call.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def wrap_model(
        self, context: ModelCall[Any], call_next: Callable[[ModelCall[Any]], Awaitable[Reply]]
    ) -> Reply:
        """Repeat the call until its reply can be shown."""
        kind = CallKind(
            call_type=CALL_TYPE,
            session=context.session or "",
            step=None,
            seconds=self._parts.settings.model_seconds,
        )
        return await self._parts.calls.answer_freely(lambda: call_next(context), kind)
