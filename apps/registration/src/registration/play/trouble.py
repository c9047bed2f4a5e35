"""The faults of the play: for a share of the requests to each party, by chance from a seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from registration.emulators.courier import WebhookPlan
from registration.emulators.faults import Faults
from registration.emulators.model import CountedFaults
from registration.parties import Trouble

_PROVIDERS = ("payments", "sms", "mail", "addresses")
_LATE = 2.0  # seconds

PATIENCE: Mapping[str, str] = {
    f"REGISTRATION_{name.upper()}_TOTAL_SECONDS": "1.5" for name in _PROVIDERS
}
"""Settings with which a provider that is late answers after the service gave up."""


class CountedTrouble:
    """Faults of all parties, and how often each occurred.

    Args:
        share: which share of the requests fails, from 0 to 1.
        seed: of the chance.
    """

    def __init__(self, share: float, seed: int) -> None:
        self._providers = {name: Faults(chance=share, seed=seed, late=_LATE) for name in _PROVIDERS}
        self._model = CountedFaults(share, seed)
        self.trouble = Trouble(
            providers=self._providers,
            model=self._model,
            webhooks=WebhookPlan(spread=1.0, reverse=True, seed=seed),
        )

    def count_faults(self) -> dict[str, Counter[str]]:
        """Return how often each party failed, by kind."""
        found = {
            name: Counter[str](one.fault for one in faults.happened)
            for name, faults in self._providers.items()
        }
        return {"model": self._model.happened, **found}

    def count_requests(self) -> dict[str, int]:
        """Return how many requests each party received."""
        found = {name: faults.received.total() for name, faults in self._providers.items()}
        return {"model": self._model.requests, **found}

    def count_questions(self) -> int:
        """Return how often payments and SMS were asked for the outcome of a request."""
        return sum(self._providers[name].received["GET"] for name in ("payments", "sms"))
