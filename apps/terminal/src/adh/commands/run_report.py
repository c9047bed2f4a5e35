"""The report of `adh run`: the calls of a turn as its transcript shows them, one value, and its three forms.

Everything here is pure. A call counts as approved only if it ran and somebody said yes. A report must never say
success for a run in which a call was stopped, and no form may carry a control character of a model or a tool to
the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from adh.commands.exit_statuses import ExitStatus
from adh.transcript.blocks import Block, ToolBlock, ToolState
from adh.transcript.tool_fold import FAILED_CHECKS
from holdfast.errors import redact
from holdfast.middleware import escape_invisible

CallOutcome = Literal["ran", "approved", "errored", "denied", "blocked", "failed", "cancelled"]
_OUTCOMES: dict[CallOutcome, str] = {
    "ran": "ran",
    "approved": "asked, and ran",
    "errored": "ran, and failed",
    "denied": "asked, and denied",
    "blocked": "blocked by a rule",
    "failed": "did not run: a safety check failed",
    "cancelled": "stopped before its end",
}
_LONGEST_CELL = 200


class ReportedCall(Struct, frozen=True, kw_only=True):
    """A call of a tool, and the decision about it.

    Args:
        tool: its name.
        arguments: its arguments, redacted, as text.
        level: the level of supervision that held.
        risk: its risk.
        rule: the rule that decided, with its file and line; empty if none matched.
        outcome: the outcome of the call.
        by: who said yes or no: a user, "--yes", "nobody"; empty if nobody was asked.
        reason: why it was denied or blocked; may be empty.
        agent: the agent that called.
    """

    tool: str
    arguments: str
    level: str
    risk: str
    outcome: CallOutcome
    rule: str = ""
    by: str = ""
    reason: str = ""
    agent: str = ""

    @property
    def is_stopped(self) -> bool:
        """Whether no person who was asked chose this: a rule, a check or the lack of a person stopped it."""
        return self.outcome in ("blocked", "failed") or (
            self.outcome == "denied" and self.by == "nobody"
        )


class RunMetadata(Struct, frozen=True, kw_only=True):
    """The resources that a run used.

    Args:
        execution_time_ms: the milliseconds that it took.
        tools_used: the tools that ran, each once, in order.
        model: the model, as the endpoint knows it.
        agent: the agent.
        session: the id of the conversation.
        usage: the tokens by kind.
    """

    execution_time_ms: int
    tools_used: tuple[str, ...]
    model: str
    agent: str
    session: str
    usage: dict[str, int]


class RunReport(Struct, frozen=True, kw_only=True):
    """How a run ended.

    Args:
        kind: the kind of its outcome, such as "done", "refused", "failed".
        response: the answer of the model; empty if there is none.
        error: the error, for a person; empty if there was none.
        partial: the text of a reply that broke off.
        prompt: the task.
        metadata: its model, tools, tokens and time.
        calls: the calls of tools, in order.
    """

    kind: str
    response: str
    metadata: RunMetadata
    error: str = ""
    partial: str = ""
    prompt: str = ""
    calls: tuple[ReportedCall, ...] = ()

    @property
    def status(self) -> ExitStatus:
        """The exit status: blocked if a call was stopped, even if the model then gave an answer."""
        if self.kind == "cancelled":
            return ExitStatus.INTERRUPTED
        if self.kind in ("blocked_by_policy", "waiting") or any(
            call.is_stopped for call in self.calls
        ):
            return ExitStatus.BLOCKED
        return ExitStatus.DONE if self.kind == "done" else ExitStatus.FAILED


def format_json(report: RunReport) -> str:
    """Return the report as one JSON object on one line.

    Keys without a value, `error` and `partial`, are left out.
    """
    fields: dict[str, object] = {
        "success": report.status is ExitStatus.DONE,
        "kind": report.kind,
        "response": report.response,
    }
    if report.error:
        fields["error"] = report.error
    if report.partial:
        fields["partial"] = report.partial
    fields["metadata"] = report.metadata
    return msgspec.json.encode(fields).decode()


def format_text(report: RunReport) -> str:
    """Return the answer alone, without invisible characters; of an unfinished one the part that exists."""
    return escape_invisible(report.response or report.partial)


def format_markdown(report: RunReport) -> str:
    """Return a report for people: the task, its end, and each call with the decision about it."""
    metadata = report.metadata
    used = ", ".join(f"{count:,} {kind}" for kind, count in metadata.usage.items() if count)
    stopped = sum(call.is_stopped for call in report.calls)
    lines = [
        "# Run of adh",
        "",
        f"- Outcome: **{report.kind}** (exit status {report.status.value})",
        f"- Agent: {_escape_cell(metadata.agent)}, model: {_escape_cell(metadata.model)}",
        f"- Session: `{metadata.session}`",
        f"- Time: {metadata.execution_time_ms / 1000:.1f} s; tokens: {used or 'none'}",
        f"- Calls: {len(report.calls)}, of which {stopped} were stopped",
        "",
        "## Task",
        "",
        *_quote(report.prompt),
        "",
        "## What was asked and denied",
        "",
        *_format_calls(report.calls),
        "",
        "## Answer",
        "",
        escape_invisible(report.response) or "There is no answer.",
    ]
    if report.partial:
        lines += ["", "## Not finished", "", *_quote(report.partial)]
    if report.error:
        lines += ["", "## Error", "", *_quote(report.error)]
    return "\n".join(lines)


def _format_calls(calls: Sequence[ReportedCall]) -> list[str]:
    if not calls:
        return ["No tool was called."]
    rows = ["| # | tool | arguments | level, risk | rule | outcome |", "|---|---|---|---|---|---|"]
    for number, call in enumerate(calls, 1):
        by = f" by {call.by}" if call.by else ""
        reason = f": {call.reason}" if call.reason else ""
        cells = (
            call.tool + (f" (via {call.agent})" if call.agent else ""),
            call.arguments,
            f"{call.level}, {call.risk}",
            call.rule or "no rule",
            f"{_OUTCOMES[call.outcome]}{by}{reason}",
        )
        rows.append(f"| {number} | " + " | ".join(_escape_cell(cell) for cell in cells) + " |")
    return rows


def _escape_cell(text: str) -> str:
    """Return a text that cannot leave its cell and is no markup."""
    short = (
        text
        if len(text) <= _LONGEST_CELL
        else f"{text[:_LONGEST_CELL]}... ({len(text):,} characters)"
    )
    shown = escape_invisible(" ".join(short.split()))
    for sign in ("\\", "|", "`", "*", "_", "[", "]", "<", ">", "#", "!"):
        shown = shown.replace(sign, f"\\{sign}")
    return shown


def _quote(text: str) -> list[str]:
    return [f"> {line}".rstrip() for line in escape_invisible(text).split("\n")]


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
