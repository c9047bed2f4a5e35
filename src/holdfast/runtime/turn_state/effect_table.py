"""How far each effect of a turn is in this process: one record per key.

The journal does not tell this: it knows only which effects have an outcome. Nothing here may save
an event or end an effect.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct


class EffectStage(Struct):
    """How far one effect is.

    `is_started`: its performance has begun and has no outcome. `is_called`: its tool or model was
    called, not only the hooks before it. `is_left`: it began earlier, and was left by another process
    or to wait for an answer. `is_in_doubt`: another process may have called its tool. `waits_for`: the
    keys of the questions that it is suspended for; None when it is not suspended.
    """

    is_started: bool = False
    is_called: bool = False
    is_left: bool = False
    is_in_doubt: bool = False
    waits_for: frozenset[str] | None = None


_UNKNOWN = EffectStage()


class EffectTable:
    """The stages of the effects of one turn."""

    __slots__ = ("_stages", "_suspended_count")

    def __init__(self) -> None:
        self._stages: dict[str, EffectStage] = {}
        self._suspended_count = 0

    def __getitem__(self, key: str) -> EffectStage:
        """The stage of an effect, to be read only."""
        return self._stages.get(key, _UNKNOWN)

    def _stage_of(self, key: str) -> EffectStage:
        stage = self._stages.get(key)
        if stage is None:
            stage = self._stages[key] = EffectStage()
        return stage

    def start(self, key: str) -> None:
        """Its performance begins."""
        self._stage_of(key).is_started = True

    def finish(self, key: str) -> None:
        """Its outcome is saved."""
        self._stage_of(key).is_started = False

    def note_call(self, key: str) -> None:
        """Its tool or model is called."""
        self._stage_of(key).is_called = True

    def leave(self, keys: Iterable[str]) -> None:
        """They began, and somebody left them."""
        for key in keys:
            self._stage_of(key).is_left = True

    def put_in_doubt(self, keys: Iterable[str]) -> None:
        """Another process may have called their tools."""
        for key in keys:
            self._stage_of(key).is_in_doubt = True

    def suspend(self, key: str, questions: frozenset[str]) -> None:
        """It waits for answers, and is performed again when there is one.

        Args:
            key: of the effect.
            questions: the keys of what it has asked.
        """
        stage = self._stage_of(key)
        self._suspended_count += stage.waits_for is None
        if not stage.is_called:
            stage.is_started = False
        stage.is_called = False
        stage.is_left = True
        stage.waits_for = questions

    def wake(self, ended: Iterable[str]) -> None:
        """Effects that are suspended for one of these questions wait no longer."""
        over = frozenset(ended)
        for stage in self._stages.values():
            if stage.waits_for is not None and not over.isdisjoint(stage.waits_for):
                stage.waits_for = None
                self._suspended_count -= 1

    @property
    def has_suspended(self) -> bool:
        """Whether an effect is suspended."""
        return self._suspended_count > 0

    def started_keys(self) -> tuple[str, ...]:
        """The keys of the effects that have begun and have no outcome, sorted."""
        return tuple(sorted(key for key, stage in self._stages.items() if stage.is_started))
