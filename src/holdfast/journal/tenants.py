"""The tenants of a journal: each has runs of its own, with names and requests of its own.

A journal object belongs to one tenant. Two objects of one store never see each other's runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar, runtime_checkable
from weakref import WeakValueDictionary

from holdfast.journal.journal_names import check_name

J = TypeVar("J")


@runtime_checkable
class TenantList(Protocol):
    """A journal that knows the tenants of its store."""

    async def tenants(self, *, turn_open: bool = False) -> Sequence[str]:
        """Return the tenants that have runs, sorted.

        Args:
            turn_open: return only the tenants with a run whose last turn has not ended.
        """
        ...


class TenantViews(Generic[J]):
    """The journal objects of the tenants of one store; each tenant has one while it is used.

    Args:
        tenant: the tenant of the first object.
        first: the first object.
    """

    __slots__ = ("_lock", "_views")

    def __init__(self, tenant: str, first: J) -> None:
        self._lock = threading.Lock()
        self._views: WeakValueDictionary[str, J] = WeakValueDictionary({tenant: first})

    def get(self, tenant: str, make: Callable[[], J]) -> J:
        """Return the object of a tenant; `make` makes it if there is none."""
        check_name("tenant", tenant)
        with self._lock:
            view = self._views.get(tenant)
            if view is None:
                view = self._views[tenant] = make()
            return view
