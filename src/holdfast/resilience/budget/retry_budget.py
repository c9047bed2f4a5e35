"""The retry budget of one endpoint, which all runs of the process share. Safe from any thread."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

from holdfast.resilience.budget.decision import (
    Bucket,
    bucket_capacity,
    deposit_tokens,
    refill_bucket,
    withdraw_token,
)
from holdfast.resilience.budget.options import BudgetOptions
from holdfast.resilience.pipeline import settings_of


class RetryBudget:
    """The retry budget of an endpoint, shared by all runs; safe to use from any thread.

    >>> budget = RetryBudget(BudgetOptions(reserve=1, reserve_per_second=0, ratio=0.5))
    >>> budget.withdraw(0.0), budget.withdraw(0.0)
    (True, False)
    """

    __slots__ = ("_bucket", "_capacity", "_lock", "options")

    def __init__(self, options: BudgetOptions | None = None) -> None:
        self.options = options or BudgetOptions()
        self._bucket = Bucket(self.options.reserve, float("-inf"))
        self._capacity = bucket_capacity(self.options)
        self._lock = Lock()

    def deposit(self) -> None:
        """Count one first attempt."""
        if self._bucket.tokens >= self._capacity:
            return
        with self._lock:
            self._bucket = deposit_tokens(self._bucket, self.options.ratio, self._capacity)

    def withdraw(self, now: float) -> bool:
        """Take the token of one retry; False when there is none.

        Args:
            now: the monotonic clock, in seconds.
        """
        with self._lock:
            began = self._bucket.at == float("-inf")
            if began:
                self._bucket = Bucket(self._bucket.tokens, now)
            self._bucket = refill_bucket(self.options, self._bucket, now)
            after = withdraw_token(self._bucket)
            if after is None:
                return False
            self._bucket = after
            return True

    @property
    def tokens(self) -> float:
        """The tokens in the bucket, as last counted."""
        return self._bucket.tokens

    def describe(self) -> Mapping[str, object]:
        """The settings."""
        return settings_of(self.options)
