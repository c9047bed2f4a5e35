"""Passes the deltas of a streamed reply through the live filters of the middlewares.

This module is used only when a run has a reader. A filter that raises ends the turn, and no more
deltas are published: text that a filter would hide must never be published because it failed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

import msgspec

from holdfast.core.deltas import ReasoningDelta, RefusalDelta, TextDelta, ToolCallDelta
from holdfast.core.effects import CallModel
from holdfast.core.errors import MiddlewareError
from holdfast.core.messages import Part, Reply, Text
from holdfast.core.model_request import ModelRequest
from holdfast.core.notices import AttemptAbandoned, Notice
from holdfast.core.redaction import redact
from holdfast.middleware.hook_contexts import ModelCall
from holdfast.middleware.live import Delta, LiveFilter
from holdfast.resilience.pipeline import Outcome
from holdfast.runtime.active_turn import ActiveTurn
from holdfast.runtime.turn_state.turn_hooks import TurnHooks

AskModel: TypeAlias = Callable[[ActiveTurn, CallModel, ModelRequest], Awaitable[Outcome[Reply]]]
"""Calls the model, with all attempts."""

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
        for one in reversed(hooks.chain.live):
            made = self._call_filter(one.name, one.live, context)
            if made is not None:
                self._filters.append((one.name, made))

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


def with_live_filters(ask: AskModel, context: ModelCall) -> AskModel:
    """Wrap the model call so that its notices pass through the live filters."""

    async def ask_watched(
        run: ActiveTurn, effect: CallModel, request: ModelRequest
    ) -> Outcome[Reply]:
        hooks = run.hooks
        if hooks is None or run.env.publish is None:
            return await ask(run, effect, request)
        live = LiveFilters(hooks, run.env.publish, context)
        hooks.env = msgspec.structs.replace(run.env, publish=live.emit)
        try:
            return await ask(run, effect, request)
        finally:
            hooks.env = None
            live.flush()

    return ask_watched


def filter_partial(run: ActiveTurn, partial: Reply | None) -> Reply | None:
    """Filter a partial reply before it is saved, because no later hook sees it."""
    hooks = run.hooks
    if partial is None or hooks is None or hooks.model_call is None:
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
