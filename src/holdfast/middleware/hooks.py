"""Middleware: the class to inherit from. Every hook is optional; one that is not written costs nothing.

An instance serves any number of runs at once, so it must never keep what belongs to one run: write
`fold`, and read the state with `moment.state_of(self)`.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, Literal, Self, TypeAlias

from typing_extensions import TypeVar

from holdfast.core.errors import ConfigurationError
from holdfast.core.events import Event
from holdfast.core.limits import Limits, check_seconds
from holdfast.core.messages import Reply, ToolResult
from holdfast.middleware import hook_contexts as at
from holdfast.middleware.decisions import Decision, Deny, Patch, Replace, Stop, UseReply
from holdfast.middleware.live import LiveFilter

S = TypeVar("S", default=None)

Neighbour: TypeAlias = "str | type[Middleware[object]]"
"""Another middleware, by its class or by the name of its class."""

HOOK_TIMEOUT = 30.0
"""Seconds that a before or after hook may wait for something."""


class Middleware(Generic[S]):
    """Behaviour around turns, iterations and tools.

    Before hooks run in the order of registration, after hooks in reverse, and of the wrap hooks the
    first registered is outermost. After hooks also run when the act failed, was denied or was
    replaced. A before hook that raises stops what it stands before: the turn fails, or the tool
    gets an error result. What after hooks raise is collected, and the turn fails.

    Class attributes that a subclass may set, and `only` changes for one instance:

    * `tools`: names or patterns (`"pay_*"`) of the tools that the tool hooks are for.
    * `when`: a function of the moment; the hook is passed over unless it answers true.
    * `before`, `after`: middlewares that this one must be registered before, or after.
    * `hook_timeout`: seconds for one hook that waits; None waits for ever. Wraps have none.
    * `scope`: whether the fold begins anew with each "turn", or lasts for the "session".
    * `events`: the kinds of events that `fold` is for; empty means all of them.
    * `rewinds`: whether the state goes back when the session is rewound. False is for what does not
      become undone, such as money that was spent.

    >>> class Brief(Middleware):
    ...     async def before_iteration(self, moment):
    ...         return Patch(instructions=moment.instructions + " Be brief.")
    >>> Brief().name
    'Brief'
    """

    tools: Sequence[str] = ()
    when: Callable[[at.HookContext], bool] | None = None
    before: Sequence[Neighbour] = ()
    after: Sequence[Neighbour] = ()
    hook_timeout: float | None = HOOK_TIMEOUT
    scope: Literal["turn", "session"] = "turn"
    events: Sequence[type[Event]] = ()
    rewinds: bool = True

    @property
    def name(self) -> str:
        """What errors and `describe()` call it."""
        return type(self).__name__

    @property
    def initial(self) -> S:
        """The state before the first event."""
        return None  # type: ignore[return-value]  # REASON: the state of a middleware without a fold

    def fold(self, state: S, event: Event) -> S:  # noqa: ARG002  # REASON: for overriding
        """The state after `event`; pure, since it is computed again when a run is replayed."""
        return state

    def acts(self, hook: str) -> bool | Callable[[Any], bool]:  # noqa: ARG002  # REASON: for overriding
        """Whether a hook has anything to do: never, perhaps, or by a quick look at the moment.

        A hook that has nothing to do costs little then. What a subclass writes anew is called
        whatever its parent says here.

        Args:
            hook: the name of a hook that the class has written, or "fold", which takes no moment.
        """
        return True

    def idle(self, state: S) -> bool:  # noqa: ARG002  # REASON: for overriding
        """Whether no hook has anything to do while the fold's state is this one; a pure, quick look.

        It costs less than a look at a moment, which need not be made then. What a subclass writes
        anew is called whatever its parent says here, and so is every hook where `fold` does nothing.
        """
        return False

    def tool_settings(self, given: Mapping[str, object]) -> dict[str, object]:  # noqa: ARG002  # REASON: for overriding
        """What it sets for the calls of tools, by name.

        The names are those of the fields of `RetryOptions`, and `tool_timeout` and
        `detailed_errors` of the agent. The retries themselves stay those of the agent: a middleware
        changes their settings and never adds a second layer.

        Args:
            given: the settings that hold without it.
        """
        return {}

    def limits(self, given: Limits | None) -> Limits | None:
        """The limits of a turn, from those that the agent or the turn was given; None for none."""
        return given

    def describe(self) -> dict[str, object]:
        """The settings, as plain values."""
        return {}

    def only(
        self,
        *,
        tools: Sequence[str] | None = None,
        when: Callable[[at.HookContext], bool] | None = None,
        before: Sequence[Neighbour] | None = None,
        after: Sequence[Neighbour] | None = None,
        hook_timeout: float | None = None,
    ) -> Self:
        """A copy with another scope, condition, place or timeout; what is not given stays.

        >>> Middleware().only(tools=["pay_*"]).tools
        ('pay_*',)
        """
        check_seconds("hook_timeout", hook_timeout)
        other = copy.copy(self)
        if tools is not None:
            if isinstance(tools, str):
                raise ConfigurationError("tools", "must be a list of names", fix='Write ["pay_*"]')
            other.tools = tuple(tools)
        if when is not None:
            other.when = when
        other.before = tuple(before) if before is not None else self.before
        other.after = tuple(after) if after is not None else self.after
        other.hook_timeout = hook_timeout if hook_timeout is not None else self.hook_timeout
        return other

    async def before_turn(self, context: at.BeforeTurn) -> Patch | Deny | Stop | None:
        """Once for each user message, before anything of it is kept."""

    async def after_turn(self, context: at.AfterTurn) -> None:
        """Once for each turn that was begun, unless it was cancelled."""

    async def before_iteration(self, context: at.BeforeIteration) -> Patch | UseReply | Stop | None:
        """Before each model call."""

    async def wrap_model(
        self, context: at.ModelCall, call_next: Callable[[at.ModelCall], Awaitable[Reply]]
    ) -> Reply:
        """Around the model call and all its attempts; `call_next` raises when it failed for good."""
        return await call_next(context)

    def live(self, context: at.ModelCall) -> LiveFilter | None:  # noqa: ARG002  # REASON: for overriding
        """What looks at the pieces of the reply of this call while somebody watches them."""
        return None

    async def on_context_window(self, context: at.ModelCall) -> Patch | None:
        """When the provider says that it was too much: what to send in its place, once."""

    async def after_reply(self, context: at.AfterReply) -> UseReply | Stop | None:
        """After each model call, before its tools; also when it failed or was replaced."""

    async def after_iteration(self, context: at.AfterIteration) -> Stop | None:
        """After the tools of an iteration, or after a reply without any."""

    async def before_tools(self, context: at.BeforeTools) -> Deny | Stop | None:
        """Once, when the model asked for tools and none has run."""

    async def before_tool(self, context: at.BeforeTool) -> Replace | Deny | Stop | None:
        """Before each tool."""

    async def wrap_tool(
        self, context: at.ToolUse, call_next: Callable[[at.ToolUse], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Around one tool and all its attempts; `call_next` raises what the tool raised."""
        return await call_next(context)

    async def after_tool(self, context: at.AfterTool) -> Replace | Stop | None:
        """After each tool; also when it failed, was denied or was replaced."""

    async def on_error(self, context: at.OnError) -> Stop | None:
        """When a model call or a tool failed for good, before its after hooks."""


BEFORE = ("before_turn", "before_iteration", "on_context_window", "before_tools", "before_tool")
WRAP = ("wrap_model", "wrap_tool")
AFTER = ("after_reply", "after_iteration", "after_tool", "after_turn", "on_error")
TOOL_HOOKS = ("before_tool", "wrap_tool", "after_tool")

ALLOWED: dict[str, tuple[type[Decision], ...]] = {
    "before_turn": (Patch, Deny, Stop),
    "before_iteration": (Patch, UseReply, Stop),
    "on_context_window": (Patch,),
    "after_reply": (UseReply, Stop),
    "after_iteration": (Stop,),
    "before_tools": (Deny, Stop),
    "before_tool": (Replace, Deny, Stop),
    "after_tool": (Replace, Stop),
    "after_turn": (),
    "on_error": (Stop,),
}
"""What each hook may decide, besides None."""


def is_older(kind: type[object], name: str, than: str) -> bool:
    """Whether a class inherits `name` from farther up than `than`."""
    for one in kind.__mro__:
        if name in vars(one):
            return False
        if than in vars(one):
            return True
    return False
