"""Limits of the queue: how many turns run and wait at once, and quotas of a day.

This module must never know the submitter or the turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.argument_checks import check_fields
from holdfast.core.constraints import between
from holdfast.core.errors import ConfigurationError

ALL = "all"
"""The scope of all turns."""

EACH_TENANT = "tenant"
"""The scope of each tenant that has no limits of its own."""

_MOST = 2**53
_LONGEST_SCOPE = 250


class QueueLimits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The limits of a scope; None is no limit.

    Args:
        running: how many turns run at once.
        queued: how many turns may wait for their begin.
        turns_per_day: how many turns may be submitted in a day, which ends at midnight UTC.
        tokens_per_day: how many tokens the turns of a day may use; a turn that reaches the limit
            stops, and can be resumed when it is raised. Each turn that runs has a reservation, so that
            many at once exceed it by at most one turn.
        is_paused: whether no turn begins.
        is_draining: whether no turn is accepted.

    Raises:
        ConfigurationError: a limit is not a whole number from 0.

    >>> QueueLimits(running=4)
    QueueLimits(running=4, queued=None, turns_per_day=None, tokens_per_day=None, is_paused=False, \
is_draining=False)
    """

    running: Annotated[int, between(0, _MOST)] | None = None
    queued: Annotated[int, between(0, _MOST)] | None = None
    turns_per_day: Annotated[int, between(0, _MOST)] | None = None
    tokens_per_day: Annotated[int, between(0, _MOST)] | None = None
    is_paused: bool = False
    is_draining: bool = False

    def __post_init__(self) -> None:
        check_fields(self)


NO_LIMITS = QueueLimits()

QUOTA_REACHED = "The tenant has used up its tokens of this day."
"""The error of an entry whose turn is stopped until the day ends or the quota is raised."""


def tenant_scope(tenant: str) -> str:
    """Return the scope of one tenant."""
    return f"tenant:{tenant}"


def agent_scope(agent: str) -> str:
    """Return the scope of one agent."""
    return f"agent:{agent}"


def check_scope(scope: str) -> str:
    """Return a scope; "tenant:" is the tenant without a name. Raises ConfigurationError if it is none.

    >>> check_scope("agents")
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: scope: must be "all", "tenant", "tenant:NAME" or \
"agent:NAME", got 'agents'
    """
    if len(scope) > _LONGEST_SCOPE:
        raise ConfigurationError(
            "scope", f"has {len(scope):,} characters of at most {_LONGEST_SCOPE}"
        )
    kind, colon, name = scope.partition(":")
    if scope in (ALL, EACH_TENANT) or (colon and (kind == "tenant" or (kind == "agent" and name))):
        return scope
    raise ConfigurationError(
        "scope", f'must be "all", "tenant", "tenant:NAME" or "agent:NAME", got {scope!r}'
    )


class LimitTable:
    """The limits of every scope.

    Args:
        limits: the limits by scope.

    >>> table = LimitTable({"tenant": QueueLimits(running=4), "tenant:acme": QueueLimits(queued=9)})
    >>> table.of_tenant("acme").running, table.of_tenant("acme").queued, table.of_tenant("b").queued
    (4, 9, None)
    """

    def __init__(self, limits: Mapping[str, QueueLimits]) -> None:
        self._limits = limits

    @property
    def of_all(self) -> QueueLimits:
        """The limits of all turns together."""
        return self._limits.get(ALL, NO_LIMITS)

    @property
    def are_all_tenants_paused(self) -> bool:
        """Whether the limits of each tenant let no turn begin."""
        return self._limits.get(EACH_TENANT, NO_LIMITS).is_paused

    def of_agent(self, agent: str) -> QueueLimits:
        """The limits of an agent."""
        return self._limits.get(agent_scope(agent), NO_LIMITS)

    def of_tenant(self, tenant: str) -> QueueLimits:
        """The limits of a tenant: its own, and those of each tenant where it has none."""
        each = self._limits.get(EACH_TENANT, NO_LIMITS)
        own = self._limits.get(tenant_scope(tenant))
        return each if own is None else _fill_in(own, each)


def _fill_in(own: QueueLimits, each: QueueLimits) -> QueueLimits:
    missing = {
        name: getattr(each, name)
        for name in ("running", "queued", "turns_per_day", "tokens_per_day")
        if getattr(own, name) is None
    }
    return replace(
        own,
        **missing,
        is_paused=own.is_paused or each.is_paused,
        is_draining=own.is_draining or each.is_draining,
    )


def smallest(limits: Iterable[int | None]) -> int | None:
    """Return the smallest of some limits; None if there is none.

    >>> smallest([None, 4, 2]), smallest([None])
    (2, None)
    """
    return min((limit for limit in limits if limit is not None), default=None)
