"""The stage of each effect of a turn in this process, by key.

The journal does not contain this: it only has the outcomes of effects. This module must not save an
event or finish an effect.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial

from msgspec import Struct, field


class EffectStage(Struct):
    """The stage of one effect.

    Attributes:
        is_started: the effect has started and has no outcome yet.
        is_called: its tool or model was called, not only the hooks before it.
        is_left: it started earlier; another process left it unfinished, or it was suspended.
        is_in_doubt: another process may have called its tool.
        waits_for: the keys of the questions for which it is suspended; None if it is not suspended.
    """

    is_started: bool = False
    is_called: bool = False
    is_left: bool = False
    is_in_doubt: bool = False
    waits_for: frozenset[str] | None = None


_UNKNOWN = EffectStage()


class EffectTable(Struct, eq=False):
    """The stages of the effects of one turn."""

    _stages: defaultdict[str, EffectStage] = field(
        default_factory=partial(defaultdict, EffectStage)
    )
    suspended_count: int = 0
    """How many effects are suspended."""
    on_finish: Callable[[str], None] | None = None
    """Called with the key of an effect that has an outcome, or that waits for an answer."""

    def __getitem__(self, key: str) -> EffectStage:
        """Return the stage of an effect. The caller must not change it."""
        return self._stages.get(key, _UNKNOWN)

    def start(self, key: str) -> None:
        """Note that the effect starts."""
        self._stages[key].is_started = True

    def finish(self, key: str) -> None:
        """Note that the outcome of the effect is saved."""
        self._stages[key].is_started = False
        if self.on_finish is not None:
            self.on_finish(key)

    def note_call(self, key: str) -> None:
        """Note that the tool or model of the effect is called."""
        self._stages[key].is_called = True

    def leave(self, keys: Iterable[str]) -> None:
        """Note that these effects started earlier and were left unfinished."""
        for key in keys:
            self._stages[key].is_left = True

    def put_in_doubt(self, keys: Iterable[str]) -> None:
        """Note that another process may have called the tools of these effects."""
        for key in keys:
            self._stages[key].is_in_doubt = True

    def suspend(self, key: str, questions: frozenset[str]) -> None:
        """Suspend an effect; it is performed again when there is an answer.

        Args:
            key: the key of the effect.
            questions: the keys of the questions that it has asked.
        """
        stage = self._stages[key]
        self.suspended_count += stage.waits_for is None
        if not stage.is_called:
            stage.is_started = False
        stage.is_called = False
        stage.is_left = True
        stage.waits_for = questions
        if self.on_finish is not None:
            self.on_finish(key)

    def wake(self, ended: Iterable[str]) -> None:
        """Resume the effects that are suspended for one of these questions."""
        over = frozenset(ended)
        for stage in self._stages.values():
            if stage.waits_for is not None and not over.isdisjoint(stage.waits_for):
                stage.waits_for = None
                self.suspended_count -= 1

    def started_keys(self) -> tuple[str, ...]:
        """Return the sorted keys of the effects that have started and have no outcome."""
        return tuple(sorted(key for key, stage in self._stages.items() if stage.is_started))
