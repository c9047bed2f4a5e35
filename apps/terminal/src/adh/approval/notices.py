"""The notices of the approval. They are shown and not saved."""

from __future__ import annotations

from typing import Literal

from holdfast.events import CustomNotice

BLOCKED_TEXT = "⛔ Action blocked by policy: {reason}"
"""The text for the person about a call that a rule blocks."""


class CallJudged(CustomNotice, frozen=True):
    """A call was judged, or begins.

    Args:
        tool: the name of the tool.
        call: the key of the call in its run.
        agent: the agent that calls.
        level: its supervision.
        risk: its risk.
        rule: the rule that decided, with its file and line; empty if none matched.
        outcome: "asks" before a person is asked, "runs" when it begins, "blocked" when it does not run.
        reason: why it is blocked.
    """

    tool: str
    call: str
    agent: str
    level: str
    risk: str
    rule: str
    outcome: Literal["runs", "asks", "blocked"]
    reason: str = ""


class AuditBroken(CustomNotice, frozen=True):
    """The audit log cannot be written, so nothing runs but automatic reads.

    Args:
        problem: the problem with it, and the fix.
    """

    problem: str
