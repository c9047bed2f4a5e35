"""All operations of the native API."""

from __future__ import annotations

from holdfast.server.api import (
    act_routes,
    agent_routes,
    event_routes,
    question_routes,
    session_routes,
    turn_routes,
)
from holdfast.server.api.operations import AnyOperation

OPERATIONS: tuple[AnyOperation, ...] = (
    *agent_routes.OPERATIONS,
    *session_routes.OPERATIONS,
    *act_routes.OPERATIONS,
    *turn_routes.OPERATIONS,
    *event_routes.OPERATIONS,
    *question_routes.OPERATIONS,
)
"""What the native API can do."""
