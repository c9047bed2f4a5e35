"""Passes the deltas of a streamed reply through the live filters of the middlewares.

This module is used only when a run has a reader. A filter that raises ends the turn, and no more
deltas are published: text that a filter would hide must never be published because it failed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, TypeAlias

import msgspec

from holdfast.core.deltas import ReasoningDelta, RefusalDelta, TextDelta, ToolCallDelta
from holdfast.core.errors import MiddlewareError
from holdfast.core.messages import Part, Reply, Text
from holdfast.core.notices import AttemptAbandoned, Notice
from holdfast.core.redaction import redact
from holdfast.middleware.chain import Hook
from holdfast.middleware.hook_calls import has_enabled_hooks, is_enabled
from holdfast.middleware.hook_contexts import ModelCall
from holdfast.middleware.live import Delta, LiveFilter
from holdfast.resilience.pipeline import ExecutionContext, Outcome
from holdfast.runtime.active_turn import ActiveTurn
from holdfast.runtime.turn_state.turn_hooks import TurnHooks

ModelOperation: TypeAlias = Callable[[ModelCall], Awaitable[Outcome[Reply]]]
"""Calls the model, with all attempts."""

AskModel: TypeAlias = Callable[[ExecutionContext, ModelCall], Awaitable[Outcome[Reply]]]
"""Calls the model, which streams to the given execution context."""

_DELTAS = frozenset({TextDelta, ReasoningDelta, RefusalDelta, ToolCallDelta})


class LiveFilters:
    """The filters of one model call. The filter that was registered first is applied last.

    Args:
        hooks: the hooks of the turn.
        publish: receives the filtered notices.
        context: the hook context of the model call.
    """

    __slots__ = ("_filters", "_hooks", "_publish")

    def __init__(
        self, hooks: TurnHooks, publish: Callable[[Notice], None], context: ModelCall
    ) -> None:
        self._hooks = hooks
        self._publish = publish
        self._filters: list[tuple[str, LiveFilter]] | None = []
        for hook in reversed(hooks.chain.live):
            made = self._call_filter(hook.owner, _make_filter, hook, context)
            if made is not None:
                self._filters.append((hook.owner, made))

    def emit(self, notice: Notice) -> None:
        """Publish a notice. A delta passes through the filters first."""
        if type(notice) not in _DELTAS:
            if type(notice) is AttemptAbandoned:
                self._reset_filters()
            self._publish(notice)
            return
        self._apply_filters((notice,), 0)  # type: ignore[arg-type]  # _DELTAS are the kinds of Delta

    def flush(self) -> None:
        """Publish the deltas that the filters still buffer."""
        for index, (name, one) in enumerate(self._filters or ()):
            self._apply_filters(self._call_filter(name, one.flush) or (), index + 1)

    def _apply_filters(self, deltas: Iterable[Delta], begin: int) -> None:
        if self._filters is None:
            return
        for name, one in self._filters[begin:]:
            deltas = [
                shown
                for delta in deltas
                for shown in self._call_filter(name, one.feed, delta) or ()
            ]
        if self._hooks.failure is None:
            for delta in deltas:
                self._publish(delta)

    def _reset_filters(self) -> None:
        for name, one in self._filters or ():
            self._call_filter(name, one.reset)

    def _call_filter(self, name: str, function: Callable[..., Any], *given: object) -> Any:
        """Call a filter and return its result; None when it raises, which ends the turn."""
        try:
            return function(*given)
        except Exception as error:  # noqa: BLE001  # REASON: filters are the user's code
            kind = type(error).__name__
            problem = MiddlewareError(
                name, "live", f"raised {kind}", private=redact(f"{kind}: {error}")
            )
            problem.__cause__ = error
            self._hooks.record_failure(problem)
            return None


def _make_filter(hook: Hook, context: ModelCall) -> Any:
    return hook.function(context) if is_enabled(hook, context.facts) else None


def with_live_filters(run: ActiveTurn, ask: AskModel) -> ModelOperation:
    """Return the model call, with the live filters of the middlewares around its stream.

    Args:
        run: the turn.
        ask: asks the model.
    """
    hooks, env = run.hooks, run.env
    publish = env.publish
    if publish is None or not has_enabled_hooks(hooks.chain.live, hooks.facts):
        return partial(ask, env)

    async def ask_filtered(call: ModelCall) -> Outcome[Reply]:
        live = LiveFilters(hooks, publish, call)
        try:
            return await ask(msgspec.structs.replace(env, publish=live.emit), call)
        finally:
            live.flush()

    return ask_filtered


def filter_partial(run: ActiveTurn, partial: Reply | None) -> Reply | None:
    """Filter a partial reply before it is saved, because no later hook sees it."""
    hooks = run.hooks
    if partial is None or hooks.model_call is None:
        return partial
    if not has_enabled_hooks(hooks.chain.live, hooks.facts):
        return partial
    parts: list[Part] = []
    for part in partial.parts:
        if isinstance(part, Text):
            said: list[str] = []
            live = LiveFilters(hooks, _collect_into(said), hooks.model_call)
            live.emit(TextDelta(part.text))
            live.flush()
            parts.append(Text("".join(said), part.extra))
        else:
            parts.append(part)
    return msgspec.structs.replace(partial, parts=tuple(parts))


def _collect_into(texts: list[str]) -> Callable[[Notice], None]:
    """Return a publisher that collects the text of the deltas."""

    def publish(notice: Notice) -> None:
        if isinstance(notice, TextDelta):
            texts.append(notice.text)

    return publish
