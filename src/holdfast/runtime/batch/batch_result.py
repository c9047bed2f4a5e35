"""The outcomes of a batch: of one item, so far, and of all items."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic

from typing_extensions import TypeVar

from holdfast.core.messages import Usage
from holdfast.runtime.result import Result

ItemT = TypeVar("ItemT")
T = TypeVar("T", default=str)


@dataclass(frozen=True)
class BatchItem(Generic[ItemT, T]):
    """The outcome of one item: its result or its error.

    Args:
        index: the position of the item, from 0.
        item: the item.
        result: the result of its turn; None when it failed.
        error: why it failed; None when it did not.
        attempts: how often it was tried in this process.
        usage: the tokens of all tries; for a result from the journal those of its turn.
    """

    index: int
    item: ItemT
    result: Result[T] | None = None
    error: Exception | None = None
    attempts: int = 1
    usage: Usage = field(default_factory=Usage)

    @property
    def output(self) -> T:
        """The output. Raises the error of an item that failed."""
        if self.result is None:
            raise self.error or ValueError("the item has no result")
        return self.result.output


@dataclass(frozen=True)
class BatchProgress:
    """How far a batch is.

    Args:
        done: items that have ended, with those that failed.
        failed: items that failed.
        total: the number of all items; None while it is not known.
        usage: the tokens so far.
    """

    done: int = 0
    failed: int = 0
    total: int | None = None
    usage: Usage = field(default_factory=Usage)

    def add_item(self, usage: Usage, *, has_failed: bool) -> BatchProgress:
        """Return the progress after another item has ended."""
        failed = self.failed + has_failed
        return BatchProgress(self.done + 1, failed, self.total, self.usage + usage)


@dataclass(frozen=True)
class BatchResult(Generic[ItemT, T]):
    """The outcomes of all items that were started, in the order of the items.

    Args:
        items: the outcomes.
        usage: the tokens of all items.
        cost: what they cost, if `price` was given.
        seconds: how long the batch ran in this process.
        ended_by: "tokens" when no other item was started because of that limit, otherwise "".
    """

    items: tuple[BatchItem[ItemT, T], ...]
    usage: Usage
    cost: float | None
    seconds: float
    ended_by: str = ""

    @property
    def outputs(self) -> list[T | None]:
        """The outputs, in order; None for an item that failed."""
        return [one.result.output if one.result is not None else None for one in self.items]

    @property
    def failures(self) -> tuple[BatchItem[ItemT, T], ...]:
        """The items that failed, in order."""
        return tuple(one for one in self.items if one.error is not None)

    def __str__(self) -> str:
        failed = len(self.failures)
        cost = f", cost {self.cost:g}" if self.cost is not None else ""
        ended = f", ended by the limit of {self.ended_by}" if self.ended_by else ""
        return (
            f"{len(self.items)} items: {len(self.items) - failed} done, {failed} failed, "
            f"{self.usage.total:,} tokens{cost}, {self.seconds:.1f} s{ended}"
        )
