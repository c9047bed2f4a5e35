"""Which tool call the code that asks is part of, found from anywhere below the tool.

A context variable carries it, so that it is right in threads, in nested tasks and with any number of
calls at once; an agent that works as a tool has calls of its own, and when they end it is the outer
call again. This module must never be the way in which our own code finds a context.
"""

from __future__ import annotations

from contextvars import ContextVar

from holdfast.tools.context import ToolContext

_current: ContextVar[ToolContext[object] | None] = ContextVar("holdfast-tool-call", default=None)


def current_tool_call() -> ToolContext[object] | None:
    """The tool call that this code is part of, or None outside of a tool.

    For code deep below a tool, where no `ToolContext` was passed on: a client that sends an
    idempotency key, a logger. A task or a thread that a tool leaves behind goes on to see its call.

    >>> current_tool_call() is None
    True
    """
    return _current.get()


class tool_call_scope:  # noqa: N801 - used as a function, and twice as fast as one that yields
    """The code in this block, and what it starts, answers this call."""

    __slots__ = ("_context", "_token")

    def __init__(self, context: ToolContext[object]) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._token = _current.set(self._context)

    def __exit__(self, *_error: object) -> None:
        _current.reset(self._token)
