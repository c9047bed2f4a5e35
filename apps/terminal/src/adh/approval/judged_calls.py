"""The judgements of a turn's calls, from the rules to the run, in one process.

A turn that is resumed judges its calls again, so nothing here must outlive the process.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from adh.approval.file_preview import FilePreview
from adh.rules.decision import Decision
from adh.rules.facts import CallFacts


class JudgedCall(Struct, frozen=True):
    """The judgement of a call.

    Args:
        facts: the call as it was judged, with its arguments.
        decision: the decision of the rules.
        preview: the change that the person was shown; empty if nobody was asked.
        allowed_by: "rule" if nobody need be asked, "person" if a person has approved this question,
            "remembered" if only an earlier answer can have allowed it.
        private_hosts: hosts that the rule allows although they are private.
        must_type: the name that the person must have typed.
        denied: why it must not run; empty if it may.
    """

    facts: CallFacts
    decision: Decision
    preview: FilePreview = FilePreview()
    allowed_by: str = "rule"
    private_hosts: tuple[str, ...] = ()
    must_type: str = ""
    denied: str = ""

    @property
    def rule_text(self) -> str:
        """The rule that decided, with its file and line; empty if none did."""
        return str(self.decision.rule) if self.decision.rule is not None else ""


class JudgedCalls:
    """The judged calls of a turn, by the keys of their effects."""

    def __init__(self) -> None:
        self._calls: dict[str, JudgedCall] = {}

    def record(self, key: str, call: JudgedCall) -> None:
        """Save a judgement; a later one replaces an earlier one."""
        self._calls[key] = call

    def find(self, key: str) -> JudgedCall | None:
        """Return the judgement of a call; None if it was not judged in this process."""
        return self._calls.get(key)

    def find_equal(self, key: str, arguments: Mapping[str, object]) -> JudgedCall | None:
        """Return the judgement of a call with exactly these arguments."""
        found = self._calls.get(key)
        return found if found is not None and found.facts.arguments == arguments else None
