"""Folds the events of tool calls into their blocks.

A call is a success only when its saved result says so. This module must never guess an outcome.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Literal

from adh.transcript.block_list import BlockList
from adh.transcript.blocks import OutputLine, ToolBlock, ToolState
from adh.transcript.wording import (
    describe_ending,
    read_arguments,
    shorten_parameters,
    to_line,
    write_arguments,
)
from holdfast import ErrorCategory, Reply, ToolFinished, ToolStarted
from holdfast.events import QuestionAnswered, QuestionAsked, QuestionUnanswered, TurnInterrupted
from holdfast.middleware import escape_invisible

MOST_EXECUTIONS = 100
"""The calls that keep their live output; older blocks keep the rest."""

LONGEST_RESULT = 100_000
"""The characters of a result that a block shows."""

LONGEST_LINE = 4_000

COMMAND_TOOL = "execute_command"

FAILED_CHECKS = "Safety check(s) failed"

Stream = Literal["stdout", "stderr"]


class ToolFold:
    """The calls of one conversation.

    Args:
        blocks: the blocks of the transcript.
    """

    __slots__ = ("_blocks", "_denied", "_open", "_partial", "executions")

    def __init__(self, blocks: BlockList) -> None:
        self._blocks = blocks
        self._open: dict[str, ToolBlock] = {}
        self._denied: set[str] = set()
        self._partial: dict[tuple[str, Stream], str] = {}
        self.executions: deque[ToolBlock] = deque(maxlen=MOST_EXECUTIONS)
        """The newest calls, in their order."""

    def add_calls(self, scope: str, turn: int, key: str, reply: Reply, agent: str) -> None:
        """Add the calls of a reply, in the order of the model.

        Args:
            scope: where the run of the reply is: empty, or the place of an agent in a tool.
            turn: the number of the turn of the conversation.
            key: the key of the model call.
            reply: the reply.
            agent: the agent that delegated work runs in; empty for none.
        """
        place = scope + key.removesuffix(".model")
        for index, call in enumerate(reply.calls):
            block = ToolBlock(
                id=f"{place}.tool.{index}",
                turn=turn,
                name=to_line(call.name or "unknown", 80),
                agent=to_line(agent, 80),
            )
            _set_arguments(block, read_arguments(call.arguments))
            self._open[block.id] = self._blocks.add(block)
            self._remember(block)

    def start(self, scope: str, event: ToolStarted, at: float) -> None:
        """Record that an attempt of a tool begins."""
        block = self._open.get(scope + event.key)
        if block is None:
            return
        if block.started is None:
            block.started = at
        self._set_state(block, ToolState.EXECUTING)

    def ask(self, scope: str, event: QuestionAsked) -> None:
        """Record that a question about a call stands."""
        block = self._open.get(scope + _asker_of(event.key))
        if block is not None and not event.origin:
            self._set_state(block, ToolState.CONFIRMING)

    def answer(self, scope: str, event: QuestionAnswered | QuestionUnanswered) -> None:
        """Record the answer to a question about a call, or that there is none."""
        block = self._open.get(scope + _asker_of(event.key))
        if block is None:
            return
        answer = event.answer if isinstance(event, QuestionAnswered) else {"type": "denied"}
        fields = answer if isinstance(answer, Mapping) else {}
        if fields.get("type") == "denied":
            self._denied.add(block.id)
        edited = fields.get("arguments")
        if isinstance(edited, Mapping):
            _set_arguments(block, dict(edited))
        running = block.started is not None
        self._set_state(block, ToolState.EXECUTING if running else ToolState.PENDING)

    def finish(self, scope: str, event: ToolFinished, at: float) -> ToolBlock | None:
        """Record the result of a call; return its block."""
        block = self._open.pop(scope + event.key, None)
        if block is None:
            return None
        self._end_lines(block)
        text = _shorten(escape_invisible(event.result.text))
        if event.result.is_error:
            block.error = text
        else:
            block.result = text
            if block.name == COMMAND_TOOL:
                block.ending = describe_ending(event.result.text)
        if block.started is not None:
            block.elapsed = max(0.0, at - block.started)
        self._set_state(block, self._judge(block, event))
        self._denied.discard(block.id)
        return block

    def interrupt(self, scope: str, event: TurnInterrupted) -> None:
        """Record that a turn was stopped while calls were in progress."""
        started = {scope + key for key in event.started}
        for block_id, block in list(self._open.items()):
            if block_id in started:
                self._close(block, ToolState.IN_DOUBT)

    def close(self, scope: str) -> None:
        """Record that a turn has ended: calls without a result do not run any more."""
        for block_id, block in list(self._open.items()):
            if block_id.startswith(scope):
                self._close(block, ToolState.CANCELLED)

    def judge(self, block_id: str, level: str, risk: str, rule: str) -> None:
        """Record the decision of the rules about a call."""
        block = self._blocks.find(block_id)
        if isinstance(block, ToolBlock):
            block.level, block.risk = to_line(level, 80), to_line(risk, 80)
            block.rule = to_line(rule, 200)
            self._blocks.mark(block)

    def add_output(self, block_id: str, stream: Stream, text: str) -> None:
        """Add live output of a call. A line without its end is shown when the end or the result comes."""
        block = self._open.get(block_id)
        if block is None:
            return
        lines = (self._partial.pop((block_id, stream), "") + text).split("\n")
        rest = lines.pop()
        if len(rest) > LONGEST_LINE:
            lines.append(rest)
        elif rest:
            self._partial[block_id, stream] = rest
        for line in lines:
            self._add_line(block, stream, line)
        self._blocks.mark(block)

    def _add_line(self, block: ToolBlock, stream: Stream, line: str) -> None:
        if len(block.output) == block.output.maxlen:
            block.dropped_lines += 1
        shown = escape_invisible(line.removesuffix("\r")[:LONGEST_LINE])
        block.output.append(OutputLine(stream, shown))

    def _end_lines(self, block: ToolBlock) -> None:
        streams: tuple[Stream, ...] = ("stdout", "stderr")
        for stream in streams:
            rest = self._partial.pop((block.id, stream), "")
            if rest:
                self._add_line(block, stream, rest)

    def _judge(self, block: ToolBlock, event: ToolFinished) -> ToolState:
        if event.result.in_doubt:
            return ToolState.IN_DOUBT
        if not event.result.is_error:
            return ToolState.SUCCESS
        error = event.error
        code = error.code if error is not None else None
        cancelled = error is not None and error.category is ErrorCategory.CANCELLED
        if block.id in self._denied or code == "stopped" or cancelled:
            return ToolState.CANCELLED
        if code == "denied" or event.result.text.startswith(FAILED_CHECKS):
            return ToolState.BLOCKED
        return ToolState.FAILED

    def _close(self, block: ToolBlock, state: ToolState) -> None:
        self._open.pop(block.id, None)
        self._denied.discard(block.id)
        self._end_lines(block)
        self._set_state(block, state)

    def _set_state(self, block: ToolBlock, state: ToolState) -> None:
        block.state = state
        self._blocks.mark(block)

    def _remember(self, block: ToolBlock) -> None:
        if len(self.executions) == MOST_EXECUTIONS:
            oldest = self.executions[0]
            oldest.dropped_lines += len(oldest.output)
            oldest.output.clear()
            self._blocks.mark(oldest)
        self.executions.append(block)


def _asker_of(key: str) -> str:
    """Return the key of the effect that a question belongs to.

    >>> _asker_of("t1.i0.tool.2.ask.0.asked")
    't1.i0.tool.2'
    """
    return key.partition(".ask.")[0]


def _set_arguments(block: ToolBlock, arguments: dict[str, object]) -> None:
    block.parameters, block.hidden_parameters = shorten_parameters(arguments)
    block.arguments = _shorten(write_arguments(arguments))


def _shorten(text: str) -> str:
    if len(text) <= LONGEST_RESULT:
        return text
    return f"{text[:LONGEST_RESULT]}\n… {len(text) - LONGEST_RESULT:,} more characters"
