"""A budget for retries: a share of the calls may be repeated, so that retries cannot multiply load.

When an endpoint fails for everybody, each run by itself retries three times, and a provider in
trouble gets four times its load. So all runs of the process that talk to one endpoint share a
bucket of tokens: each call puts a fraction in, each retry takes one out, and a small reserve that
fills with time lets a quiet process retry too. An empty bucket must never delay a call: it fails
at once, and the error says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

from msgspec import Struct

from holdfast.resilience.checks import check_number
from holdfast.resilience.pipeline import settings_of


class BudgetOptions(Struct, frozen=True, kw_only=True):
    """The settings.

    Args:
        ratio: tokens that each call puts in; 0.1 allows one retry for ten calls in the long run.
        reserve: tokens that are there at the start, and that time fills up to.
        reserve_per_second: how fast time fills them.
        capacity: the bucket's size; calls do not put in more.
    """

    ratio: float = 0.1
    reserve: float = 10.0
    reserve_per_second: float = 0.5
    capacity: float = 100.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            check_number(f"budget.{name}", getattr(self, name))


class Bucket(Struct, frozen=True):
    """Tokens, and the moment of the monotonic clock at which they were counted."""

    tokens: float
    at: float


def refill_bucket(options: BudgetOptions, bucket: Bucket, now: float) -> Bucket:
    """The bucket after time went by; a clock that went back adds nothing.

    >>> refill_bucket(BudgetOptions(reserve=2, reserve_per_second=1), Bucket(0.0, 10.0), 11.5)
    Bucket(tokens=1.5, at=11.5)
    """
    tokens = bucket.tokens
    if tokens < options.reserve and now > bucket.at:
        gained = (now - bucket.at) * options.reserve_per_second
        tokens = min(options.reserve, tokens + gained)
    return Bucket(tokens, now)


def deposit_tokens(bucket: Bucket, ratio: float, capacity: float) -> Bucket:
    """The bucket after one more first attempt.

    Args:
        bucket: the one before.
        ratio: tokens that are put in.
        capacity: the most that it can hold.
    """
    return Bucket(min(capacity, bucket.tokens + ratio), bucket.at)


def bucket_capacity(options: BudgetOptions) -> float:
    """The most tokens that a bucket can hold."""
    return max(options.capacity, options.reserve)


def withdraw_token(bucket: Bucket) -> Bucket | None:
    """The bucket after one retry; None when there is not enough for it."""
    return Bucket(bucket.tokens - 1.0, bucket.at) if bucket.tokens >= 1.0 else None


class RetryBudget:
    """One bucket that all runs of the process share; safe from any thread.

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
        """Take what one retry costs, if it is there.

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
        """What is in the bucket, as last counted."""
        return self._bucket.tokens

    def describe(self) -> Mapping[str, object]:
        """The settings."""
        return settings_of(self.options)
