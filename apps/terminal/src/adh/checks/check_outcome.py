"""The outcome of a safety check. It must never hold a value that the check found, such as a password."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct


class CheckOutcome(Struct, frozen=True):
    """The outcome of one check of one call.

    Args:
        name: the name of the check, such as "disk_space".
        passed: whether the call may run as far as this check can tell.
        detail: what is wrong, or what the check does; a sentence for the person and the model.

    >>> str(CheckOutcome("permission", passed=True))
    'permission: passed'
    """

    name: str
    passed: bool
    detail: str = ""

    def __str__(self) -> str:
        text = f"{self.name}: {'passed' if self.passed else 'failed'}"
        return f"{text} ({self.detail})" if self.detail else text


def explain_failures(outcomes: Iterable[CheckOutcome]) -> str:
    """Return what a person and a model read about the checks that failed; empty if none did.

    >>> explain_failures([CheckOutcome("sandbox", passed=False, detail="/etc/passwd is protected.")])
    'Safety check(s) failed: sandbox. /etc/passwd is protected.'
    """
    failed = [outcome for outcome in outcomes if not outcome.passed]
    if not failed:
        return ""
    names = ", ".join(outcome.name for outcome in failed)
    details = " ".join(outcome.detail for outcome in failed if outcome.detail)
    return f"Safety check(s) failed: {names}. {details}".rstrip()
