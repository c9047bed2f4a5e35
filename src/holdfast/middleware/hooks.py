"""Middleware: the base class. Every hook is optional; a hook that is not overridden costs nothing.

An instance serves any number of runs at once, so it must never store the state of one run. Define
`fold` instead, and read the state with `context.state_of(self)`.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, Literal, Self, TypeAlias

from typing_extensions import TypeVar

from holdfast.core.argument_checks import check_arguments
from holdfast.core.constraints import PositiveFloat
from holdfast.core.events import Event
from holdfast.core.limits import Limits
from holdfast.core.messages import Reply, ToolResult
from holdfast.middleware import hook_contexts as at
from holdfast.middleware.decisions import CallTools, Decision, Deny, Patch, Replace, Stop, UseReply
from holdfast.middleware.live import LiveFilter

S = TypeVar("S", default=None)

Neighbour: TypeAlias = "str | type[Middleware[object]]"
"""Another middleware, by its class or by the name of its class."""

Enabled: TypeAlias = Callable[[str, at.RunFacts], bool]
"""Takes the name of a hook and the facts about the turn; returns whether the hook is called."""

HOOK_TIMEOUT = 30.0
"""Seconds that a before or after hook may wait for something."""


class Middleware(Generic[S]):
    """Behaviour around turns, iterations and tools.

    Before hooks run in the order of registration, after hooks in reverse order, and the first
    registered wrap hook is the outermost. After hooks also run when the operation failed, was denied
    or was replaced. When a before hook raises, the operation does not run: the turn fails, or the
    tool gets an error result. The errors of after hooks are collected, and the turn fails.

    Class attributes that a subclass may set, and `only` changes for one instance:

    * `tools`: names or patterns (`"pay_*"`) of the tools that the tool hooks apply to.
    * `priority`: a middleware with a lower number stands before all with a higher one; those with
      equal numbers stand in the order of registration.
    * `before`, `after`: middlewares that this one must stand before, or after.
    * `hook_timeout`: seconds for a hook that waits; None means no limit. Wrap hooks have no timeout.
    * `scope`: whether the fold starts again with each "turn", or lasts for the "session".
    * `events`: the kinds of events that `fold` receives; None means all of them, and () means that
      there is no fold.
    * `rewinds`: whether a rewind of the session resets the state. Set it to False for facts that cannot be
      undone, such as money that was spent.

    >>> class Brief(Middleware):
    ...     async def before_iteration(self, context):
    ...         return Patch(instructions=context.instructions + " Be brief.")
    >>> Brief().name
    'Brief'
    """

    tools: Sequence[str] = ()
    priority: int = 0
    before: Sequence[Neighbour] = ()
    after: Sequence[Neighbour] = ()
    hook_timeout: float | None = HOOK_TIMEOUT
    scope: Literal["turn", "session"] = "turn"
    events: Sequence[type[Event]] | None = None
    rewinds: bool = True
    enabled_if: Enabled | None = None
    """The condition that `only(enabled=...)` sets."""

    @property
    def name(self) -> str:
        """The name in errors and in `describe()`."""
        return type(self).__name__

    @property
    def initial(self) -> S:
        """The state before the first event."""
        return None  # type: ignore[return-value]  # REASON: the state of a middleware without a fold

    def fold(self, state: S, event: Event) -> S:  # noqa: ARG002  # REASON: for overriding
        """Return the state after `event`. It must be pure: a replay of the run computes it again."""
        return state

    def enabled(self, hook: str, facts: at.RunFacts) -> bool:  # noqa: ARG002  # REASON: for overriding
        """Return whether a hook has anything to do now; otherwise it is skipped.

        It is asked before each call of a hook, so it must be cheap, and it must change nothing. A fold
        receives its events in any case. A hook or a fold that a subclass overrides without overriding
        this method is always called.

        Args:
            hook: the name of the hook, such as "before_tool" or "live".
            facts: the facts about the turn: `turn`, `iteration`, `session`, `deps`, and the state
                of the fold as `facts.state_of(self)`.
        """
        return True

    def tool_settings(self, given: Mapping[str, object]) -> dict[str, object]:  # noqa: ARG002  # REASON: for overriding
        """Return the settings of tool calls that this middleware changes, by name.

        The names are the fields of `RetryOptions`, and `tool_timeout` and `detailed_errors` of the
        agent. A middleware changes the settings of the agent's retries and must never add a second
        layer of retries.

        Args:
            given: the settings without this middleware.
        """
        return {}

    def limits(self, given: Limits | None) -> Limits | None:
        """Return the limits of a turn. `given` are those of the turn or the agent, or None."""
        return given

    def describe(self) -> dict[str, object]:
        """The settings, as plain values."""
        return {}

    @check_arguments
    def only(
        self,
        *,
        tools: Sequence[str] | None = None,
        enabled: Enabled | None = None,
        priority: int | None = None,
        before: Sequence[Neighbour] | None = None,
        after: Sequence[Neighbour] | None = None,
        hook_timeout: PositiveFloat | None = None,
    ) -> Self:
        """Return a copy with other tools, condition, priority, order or timeout; None keeps a value.

        Args:
            tools: names or patterns of the tools that the tool hooks apply to.
            enabled: a condition with the arguments of the method `enabled`. A hook is called if both
                are true; the condition is checked first.
            priority: a lower number stands before all with a higher one; the default is 0.
            before: the middlewares that this one must stand before.
            after: the middlewares that this one must stand after.
            hook_timeout: seconds for a hook that waits.

        >>> Middleware().only(tools=["pay_*"]).tools
        ('pay_*',)
        """
        other = copy.copy(self)
        if tools is not None:
            other.tools = tuple(tools)
        if enabled is not None:
            other.enabled_if = enabled
        other.priority = priority if priority is not None else self.priority
        other.before = tuple(before) if before is not None else self.before
        other.after = tuple(after) if after is not None else self.after
        other.hook_timeout = hook_timeout if hook_timeout is not None else self.hook_timeout
        return other

    async def before_turn(self, context: at.BeforeTurn[Any]) -> Patch | Deny | Stop | None:
        """Called once for each user message, before anything of it is saved."""

    async def after_turn(self, context: at.AfterTurn[Any]) -> None:
        """Called once for each turn that has begun, unless it was cancelled."""

    async def before_iteration(
        self, context: at.BeforeIteration[Any]
    ) -> Patch | UseReply | CallTools | Stop | None:
        """Called before each model call."""

    async def wrap_model(
        self, context: at.ModelCall[Any], call_next: Callable[[at.ModelCall[Any]], Awaitable[Reply]]
    ) -> Reply:
        """Called around a model call and all its attempts; `call_next` raises the final error."""
        return await call_next(context)

    def live(self, context: at.ModelCall[Any]) -> LiveFilter | None:  # noqa: ARG002  # REASON: for overriding
        """Return a filter of the deltas of this call while they are streamed; None for no filter."""
        return None

    async def on_context_window(self, context: at.ModelCall[Any]) -> Patch | None:
        """Called once when the context window is too small: may return a request to send instead."""

    async def after_reply(self, context: at.AfterReply[Any]) -> UseReply | CallTools | Stop | None:
        """Called after each model call, before its tools; also when it failed or was replaced."""

    async def after_iteration(self, context: at.AfterIteration[Any]) -> Stop | None:
        """Called after the tools of an iteration, or after a reply without tool calls."""

    async def before_tools(self, context: at.BeforeTools[Any]) -> Deny | Stop | None:
        """Called once when the model asked for tools, before any of them runs."""

    async def before_tool(self, context: at.BeforeTool[Any]) -> Replace | Deny | Stop | None:
        """Called before each tool."""

    async def wrap_tool(
        self,
        context: at.ToolUse[Any],
        call_next: Callable[[at.ToolUse[Any]], Awaitable[ToolResult]],
    ) -> ToolResult:
        """Called around one tool and all its attempts; `call_next` raises the exception of the tool."""
        return await call_next(context)

    async def wrap_attempt(
        self,
        context: at.ToolUse[Any],  # noqa: ARG002  # REASON: for overriding
        call_next: Callable[[], Awaitable[ToolResult]],
    ) -> ToolResult:
        """Called around each attempt of a tool, inside of its retries.

        `context.attempt` counts from 1. The call cannot be changed here. `call_next` raises the
        exception of the tool, and an exception of this hook counts as one of the tool: it may be retried.
        """
        return await call_next()

    async def after_tool(self, context: at.AfterTool[Any]) -> Replace | Stop | None:
        """Called after each tool; also when it failed, was denied or was replaced."""

    async def on_error(self, context: at.OnError[Any]) -> Stop | None:
        """Called when a model call or a tool failed after all attempts, before its after hooks."""


BEFORE = ("before_turn", "before_iteration", "on_context_window", "before_tools", "before_tool")
WRAP = ("wrap_model", "wrap_tool", "wrap_attempt")
AFTER = ("after_reply", "after_iteration", "after_tool", "after_turn", "on_error")
TOOL_HOOKS = ("before_tool", "wrap_tool", "wrap_attempt", "after_tool")

ALLOWED: dict[str, tuple[type[Decision], ...]] = {
    "before_turn": (Patch, Deny, Stop),
    "before_iteration": (Patch, UseReply, CallTools, Stop),
    "on_context_window": (Patch,),
    "after_reply": (UseReply, CallTools, Stop),
    "after_iteration": (Stop,),
    "before_tools": (Deny, Stop),
    "before_tool": (Replace, Deny, Stop),
    "after_tool": (Replace, Stop),
    "after_turn": (),
    "on_error": (Stop,),
}
"""The decisions that each hook may return, besides None."""


def is_older(kind: type[object], name: str, than: str) -> bool:
    """Whether a class inherits `name` from a more distant base class than `than`."""
    for base_class in kind.__mro__:
        if name in vars(base_class):
            return False
        if than in vars(base_class):
            return True
    return False
