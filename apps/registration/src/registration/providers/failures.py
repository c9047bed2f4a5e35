"""The two ways in which a request to a provider fails."""

from __future__ import annotations


class ProviderFailure(Exception):
    """A provider did not do what it was asked, or nobody knows whether it did.

    Args:
        provider: "payments", "sms", "mail" or "addresses".
        reason: a short word, such as "unreachable"; it never holds what belongs to a person.
        retry_after: how many seconds the provider asks to wait, if it does.
    """

    def __init__(self, provider: str, reason: str, retry_after: float | None = None) -> None:
        super().__init__(provider, reason, retry_after)
        self.provider = provider
        self.reason = reason
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.provider}: {self.reason}"


class Refused(ProviderFailure):
    """It certainly did not happen: the provider said no, or the request never left.

    `temporary` is true if the same request may be accepted later: the provider is busy or cannot be
    reached. Otherwise a repetition is refused again.
    """

    TEMPORARY = frozenset({"busy", "unreachable"})

    @property
    def temporary(self) -> bool:
        """Whether the same request may be accepted later."""
        return self.reason in self.TEMPORARY


class Unanswered(ProviderFailure):
    """Nobody knows whether it happened: ask `find` with the same key, or repeat it with that key."""
