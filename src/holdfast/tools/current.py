"""The current tool call, for code anywhere below the tool.

It is a context variable, so it is correct in threads, nested tasks and concurrent calls. Calls of an
agent that works as a tool are nested: when they end, the outer call is current again. Holdfast's own
code passes the context explicitly and does not use this module.
"""

from __future__ import annotations

from contextvars import ContextVar, Token

from msgspec import Struct

from holdfast.tools.context import ToolContext

_current: ContextVar[ToolContext[object] | None] = ContextVar("holdfast-tool-call", default=None)


def current_tool_call() -> ToolContext[object] | None:
    """Return the context of the tool call that this code is part of; None outside of a call.

    It is for code deep below a tool that has no `ToolContext` parameter: a client that sends an
    idempotency key, or a logger. A task or thread that outlives the tool still sees its call.

    >>> current_tool_call() is None
    True
    """
    return _current.get()


class tool_call_scope(Struct, eq=False):  # noqa: N801 - used like a function; twice as fast as a generator
    """Makes this call the current one for a block and for the tasks and threads that the block starts."""

    context: ToolContext[object]
    _token: Token[ToolContext[object] | None] | None = None

    def __enter__(self) -> None:
        self._token = _current.set(self.context)

    def __exit__(self, *_error: object) -> None:
        if self._token is not None:
            _current.reset(self._token)
