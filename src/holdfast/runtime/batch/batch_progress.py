"""Shows how far a batch is: a progress bar, or a function of the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from holdfast.core.argument_checks import check_value
from holdfast.core.errors import ConfigurationError
from holdfast.core.import_part import install_command
from holdfast.runtime.batch.batch_result import BatchProgress

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

ShowProgress: TypeAlias = Callable[[BatchProgress], object]
"""A function that is called after each item. It must be fast."""


class Display(Protocol):
    """Shows the progress of a batch."""

    def show(self, progress: BatchProgress) -> None:
        """Show how far the batch is."""
        ...

    def close(self) -> None:
        """Show nothing more."""
        ...


def choose_display(given: bool | ShowProgress) -> Display:
    """Return the display for the argument `progress`.

    Raises:
        ConfigurationError: it is neither a bool nor a function, or the bar is not installed.
    """
    if callable(given):
        return _FunctionDisplay(given)
    check_value("progress", given, bool)
    return _BarDisplay() if given else _FunctionDisplay(None)


class _FunctionDisplay:
    """Calls a function, or nothing."""

    def __init__(self, function: ShowProgress | None) -> None:
        self._function = function

    def show(self, progress: BatchProgress) -> None:
        """Call the function. What it raises ends the batch."""
        if self._function is not None:
            self._function(progress)

    def close(self) -> None:
        """Do nothing."""


class _BarDisplay:
    """A progress bar in a terminal or a notebook; the first item makes it visible."""

    def __init__(self) -> None:
        try:
            from rich.progress import Progress
        except ImportError as error:
            fix = install_command("progress")
            raise ConfigurationError("progress", "needs the package rich", fix=fix) from error
        self._make = Progress
        self._bar: tuple[Progress, TaskID] | None = None

    def show(self, progress: BatchProgress) -> None:
        """Draw the bar."""
        if self._bar is None:
            bar = self._make()
            bar.start()
            self._bar = (bar, bar.add_task("", total=progress.total))
        bar, task = self._bar
        words = f"{progress.done - progress.failed} done, {progress.failed} failed, {progress.usage.total:,} tokens"
        bar.update(task, completed=progress.done, total=progress.total, description=words)

    def close(self) -> None:
        """Leave the bar as it is."""
        if self._bar is not None:
            self._bar[0].stop()
