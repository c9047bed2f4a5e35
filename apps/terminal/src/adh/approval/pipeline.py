"""The two middlewares through which every call of every agent goes.

Agents that other agents call take the safeguards alone: the permission of the caller judges their calls too.
This module must never make one without the other.
"""

from __future__ import annotations

from msgspec import Struct

from adh.approval.approval_source import ApprovalSource
from adh.approval.safeguards import Safeguards
from adh.approval.setup import ApprovalSetup
from holdfast import ToolPermission


class ApprovalPipeline(Struct, frozen=True):
    """What judges and guards the calls of one conversation.

    Args:
        permission: asks and denies, for the agent that the person talks to.
        safeguards: checks and records, for this agent and for each agent that it calls.
    """

    permission: ToolPermission
    safeguards: Safeguards


def make_pipeline(setup: ApprovalSetup) -> ApprovalPipeline:
    """Return the middlewares of one conversation.

    A question waits without limit once its run is suspended, so that it is there again after a restart. A
    screen that stays open answers it with `ApprovalQuestion.leave_unanswered()` after 300 seconds.

    Args:
        setup: what the approval works with.
    """
    safeguards = Safeguards(setup)
    return ApprovalPipeline(ToolPermission(source=ApprovalSource(setup, safeguards)), safeguards)
