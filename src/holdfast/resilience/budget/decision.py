"""The decisions of the retry budget: retries are limited to a share of the calls. Pure.

During an outage each run retries three times, and the provider gets four times its load. Therefore
all runs of a process that call one endpoint share a bucket of tokens: each call adds a fraction, each
retry takes one, and a small reserve that fills with time lets a quiet process retry too. A retry
after a wait that the provider asked for takes none: the provider chose its time. An empty bucket must
never delay a call: the call fails at once, and the error says why.
"""

from __future__ import annotations

from msgspec import Struct

from holdfast.resilience.budget.options import BudgetOptions


class Bucket(Struct, frozen=True):
    """Tokens, and the moment of the monotonic clock at which they were counted."""

    tokens: float
    at: float


def refill_bucket(options: BudgetOptions, bucket: Bucket, now: float) -> Bucket:
    """The bucket after time has passed; a clock that went back adds nothing.

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
        ratio: tokens that are added.
        capacity: the largest number of tokens.
    """
    return Bucket(min(capacity, bucket.tokens + ratio), bucket.at)


def bucket_capacity(options: BudgetOptions) -> float:
    """The largest number of tokens in a bucket."""
    return max(options.capacity, options.reserve)


def withdraw_token(bucket: Bucket) -> Bucket | None:
    """The bucket after one retry; None when there is not enough for it."""
    return Bucket(bucket.tokens - 1.0, bucket.at) if bucket.tokens >= 1.0 else None
