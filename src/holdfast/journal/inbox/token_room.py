"""How many turns of a tenant may run at once, by the tokens that its quota leaves for this day.

A turn is stopped between two countings only, and its use until then is unknown. So each turn that
runs has a reservation: of the most that this tenant counted at once so far, or of `RESERVED_TOKENS` if
that is more. Turns run at once only if the quota has room for the reservations of all of them; one runs
alone as long as anything is left. So the quota is exceeded by at most the use of one turn. A reservation
is no row of its own: an entry that is admitted has one, until it ends, waits or is postponed, whichever
worker dies meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from holdfast.journal.inbox import inbox_statements as sql
from holdfast.journal.inbox.entry_rows import to_float, to_int, to_limits
from holdfast.journal.inbox.queue_limits import LimitTable
from holdfast.journal.inbox.statements import Statement, Transaction
from holdfast.journal.inbox.submitting import name_day

RESERVED_TOKENS = 50_000
"""The tokens that are reserved for a turn, unless its tenant counted more at once."""


class TokenUse(Struct, frozen=True):
    """The tokens of a tenant on this day.

    Args:
        left: how many it may still use; None for any number.
        uncounted_before: the time from which they are counted, in seconds since the epoch, if the tokens
            of the day before it are not known yet; else None.
        is_crowded: whether more of its turns run at once than the rest is reserved for.
    """

    left: int | None = None
    uncounted_before: float | None = None
    is_crowded: bool = False


def count_allowed(left: int, largest: int) -> int:
    """Return how many turns of a tenant may run at once.

    One may also if nothing is left: it learns that it has to wait for the next day.

    Args:
        left: how many tokens its quota leaves.
        largest: the most that it counted at once.

    >>> [count_allowed(left, 400) for left in (1_000_000, 99_999, 100, 0)]
    [20, 1, 1, 1]
    >>> count_allowed(1_000_000, 300_000)
    3
    """
    return max(1, left // max(largest, RESERVED_TOKENS))


def add_tokens(tenant: str, tokens: int, at: float) -> Transaction[TokenUse]:
    """Count tokens of this day, if the tenant has a quota of them.

    Args:
        tenant: the tenant.
        tokens: how many; those from before the counting began are in the journal, and not added.
        at: when they were used, in seconds since the epoch.
    """
    limits = LimitTable(to_limits((yield Statement(sql.ALL_LIMITS))))
    most = limits.of_tenant(tenant).tokens_per_day
    if most is None:
        return TokenUse()
    yield sql.LOCK  # nobody admits a turn between the counting of tokens and that of turns
    now = to_float((yield sql.NOW)[0][0])
    values = {"tenant": tenant, "day": name_day(now), "tokens": tokens, "at": at}
    counted, earlier, since = (yield Statement(sql.ADD_TOKENS, values))[0]
    left = max(0, most - to_int(counted) - to_int(earlier or 0))
    largest = to_int((yield Statement(sql.LARGEST_USE, {"tenant": tenant}))[0][0])
    running = to_int((yield Statement(sql.RUNNING_OF, {"tenant": tenant}))[0][0])
    return TokenUse(
        left,
        to_float(since) if earlier is None else None,
        is_crowded=running > count_allowed(left, largest),
    )


def read_allowed(tenants: Collection[str], limits: LimitTable) -> Transaction[Mapping[str, int]]:
    """Return how many turns of tenants may run at once, of those that have a quota of tokens.

    Under the lock of the inbox.
    """
    quotas = {tenant: limits.of_tenant(tenant).tokens_per_day for tenant in sorted(tenants)}
    limited = {tenant: most for tenant, most in quotas.items() if most is not None}
    if not limited:
        return {}
    now = to_float((yield sql.NOW)[0][0])
    # As long as the tokens from before the counting are unknown, one turn runs, which finds out.
    allowed = dict.fromkeys(limited, 1)
    for name, used, largest in (yield sql.read_tokens(list(limited), name_day(now))):
        left = max(0, limited[str(name)] - to_int(used))
        allowed[str(name)] = count_allowed(left, to_int(largest))
    return allowed


def count_again(tenant: str) -> Transaction[None]:
    """Let the journal report the use of a tenant on this day again, if it has a quota."""
    now = to_float((yield sql.NOW)[0][0])
    yield Statement(sql.TOKENS_LEFT_OUT, {"tenant": tenant, "day": name_day(now)})
