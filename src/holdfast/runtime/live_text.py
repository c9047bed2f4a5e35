"""What is shown of a reply while it is written, through the middlewares that want to see it.

Where nobody reads a stream, nothing here is called. A filter that raises ends the turn, and shows
nothing more: a piece that was to be hidden must never be shown because the hiding failed.
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
"""Asks the model, with all its attempts."""

_DELTAS = frozenset({TextDelta, ReasoningDelta, RefusalDelta, ToolCallDelta})


class LiveFilters:
    """The filters of one model call, the first registered outermost: it has the last word.

    Args:
        hooks: of the turn.
        publish: shows what passes.
        context: of the model call.
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
        """Show a notice; a piece of a reply through the filters."""
        if type(notice) not in _DELTAS:
            if type(notice) is AttemptAbandoned:
                self._reset_filters()
            self._publish(notice)
            return
        self._apply_filters((notice,), 0)  # type: ignore[arg-type]  # _DELTAS are the kinds of Delta

    def flush(self) -> None:
        """Show what was held back."""
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
        """What it returns; None when it fails, which ends the turn."""
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
    """The act of asking the model, with the filters around what it shows."""

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
    """What is kept of a reply that broke off: no hook after it sees it, so the filters do."""
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
    """Collects the text of what is published."""

    def publish(notice: Notice) -> None:
        if isinstance(notice, TextDelta):
            texts.append(notice.text)

    return publish
