"""What was decided about the calls of a turn, from the blocks of its transcript.

Everything here is pure. A call counts as approved only if it ran and somebody said yes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from adh.commands.run_report import CallOutcome, ReportedCall
from adh.transcript.blocks import Block, ToolBlock, ToolState
from adh.transcript.tool_fold import FAILED_CHECKS
from holdfast.errors import redact

_RAN = (ToolState.SUCCESS, ToolState.FAILED, ToolState.IN_DOUBT, ToolState.EXECUTING)


def collect_calls(
    blocks: Iterable[Block], turn: int, answered_by: Mapping[str, str]
) -> tuple[ReportedCall, ...]:
    """Return the calls of a turn, in order.

    Args:
        blocks: the blocks of the conversation.
        turn: the number of the turn.
        answered_by: who answered, by the key of the question.
    """
    by_call = {key.partition(".ask.")[0]: by for key, by in answered_by.items()}
    return tuple(
        _describe_call(block, _find_answer(block.id, by_call))
        for block in blocks
        if isinstance(block, ToolBlock) and block.turn == turn
    )


def list_used_tools(blocks: Iterable[Block], turn: int) -> tuple[str, ...]:
    """Return the tools that ran in a turn, each once, in order.

    Args:
        blocks: the blocks of the conversation.
        turn: the number of the turn.
    """
    ran = [
        block.name
        for block in blocks
        if isinstance(block, ToolBlock) and block.turn == turn and block.state in _RAN
    ]
    return tuple(dict.fromkeys(ran))


def _describe_call(block: ToolBlock, by: str) -> ReportedCall:
    return ReportedCall(
        tool=block.name,
        arguments=redact(block.arguments),
        level=block.level or "unknown",
        risk=block.risk or "unknown",
        rule=block.rule,
        outcome=_find_outcome(block, by),
        by=by,
        reason="" if block.state is ToolState.SUCCESS else redact(block.error),
        agent=block.agent,
    )


def _find_outcome(block: ToolBlock, by: str) -> CallOutcome:
    match block.state:
        case ToolState.SUCCESS:
            return "approved" if by else "ran"
        case ToolState.FAILED | ToolState.IN_DOUBT:
            return "errored"
        case ToolState.BLOCKED:
            return "failed" if block.error.startswith(FAILED_CHECKS) else "blocked"
        case _:
            return "denied" if by else "cancelled"


def _find_answer(block_id: str, by_call: Mapping[str, str]) -> str:
    """Return who answered for a call. The question of a delegated agent names its place without the caller's."""
    if block_id in by_call:
        return by_call[block_id]
    return next((by for call, by in by_call.items() if block_id.endswith(f"/{call}")), "")
