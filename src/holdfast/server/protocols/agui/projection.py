"""Turns the items that a turn shows into events of AG-UI.

This module is pure. It must never end a message, a call or a step that it has not begun.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from holdfast.core.client_tools import ClientToolQuestion
from holdfast.core.events import Status
from holdfast.core.messages import Usage
from holdfast.event_log.display.display_items import (
    AgentStarted,
    AgentTextShown,
    CallArgumentsShown,
    CallReady,
    CallStarted,
    DisplayItem,
    HostedCallShown,
    NoticeShown,
    ReasoningEnded,
    ReasoningShown,
    ResultShown,
    SourcesShown,
    StepFinished,
    StepStarted,
    StepWithdrawn,
    StreamCut,
    TextEnded,
    TextShown,
    TurnEnded,
    TurnWaits,
)
from holdfast.server.protocols.agui.interrupts import format_interrupt
from holdfast.server.protocols.agui.message_list import (
    HOSTED_TOOL,
    SOURCES,
    MessageList,
    format_activity,
    format_result_message,
    reasoning_id,
    step_message_id,
)

AguiEvent: TypeAlias = dict[str, object]
"""An event of AG-UI, as JSON values."""

PROTOCOL_VERSION = "1.0"

_OWNED = {"@ag-ui/client": {"authoritativeActivityTypes": [HOSTED_TOOL, SOURCES]}}
"""Says that a snapshot has all our activities; without it a client keeps those that it leaves out."""


class AguiProjection:
    """The events of one run.

    Args:
        session: the session, which is the thread.
        run: the client's id of the run.
        messages: the messages of the thread before.
    """

    __slots__ = (
        "_agents",
        "_calls",
        "_messages",
        "_reasoning",
        "_run",
        "_session",
        "_step",
        "_text",
    )

    def __init__(self, session: str, run: str, messages: MessageList) -> None:
        self._session = session
        self._run = run
        self._messages = messages
        self._step = ""
        self._text = ""  # ids of the open message and reasoning; "" if none is open
        self._reasoning = ""
        self._calls: list[str] = []
        self._agents = _Subagents()

    def start(self, told: Sequence[str] | None = None) -> Iterator[AguiEvent]:
        """Yield the first events of a run.

        Args:
            told: the ids of the messages that the client has; None if it needs no snapshot.
        """
        ids = {"threadId": self._session, "runId": self._run}
        yield {"type": "RUN_STARTED", **ids, "protocolVersion": PROTOCOL_VERSION}
        if told is not None:
            if not self._is_beginning(told):
                # A client keeps the places of the messages that it has, so it has to drop them.
                yield {"type": "MESSAGES_SNAPSHOT", "messages": [], "metadata": _OWNED}
            yield self._snapshot()

    def _is_beginning(self, told: Sequence[str]) -> bool:
        """Whether the messages that the client keeps are the beginning of the thread."""
        ids = [str(message["id"]) for message in self._messages.messages]
        kept = [name for name in told if name in set(ids)]
        return kept == ids[: len(kept)]

    def feed(self, item: DisplayItem) -> Iterator[AguiEvent]:
        """Yield the events of an item."""
        self._messages.add(item)
        if isinstance(item, StepStarted):
            self._step = item.step
            yield {"type": "STEP_STARTED", "stepName": item.step}
        elif isinstance(item, StepFinished):
            yield from self._end_step()
        elif isinstance(item, StepWithdrawn):
            yield from self._end_parts()
            yield self._snapshot()
        elif isinstance(item, TextShown | TextEnded):
            yield from self._format_text(item)
        elif isinstance(item, ReasoningShown | ReasoningEnded):
            yield from self._format_reasoning(item)
        elif isinstance(item, CallStarted | CallArgumentsShown | CallReady):
            yield from self._format_call(item)
        elif isinstance(item, AgentStarted | AgentTextShown | ResultShown):
            yield from self._agents.feed(item)
            yield from self._format_result(item) if isinstance(item, ResultShown) else ()
        elif isinstance(item, HostedCallShown | SourcesShown | NoticeShown):
            yield self._format_activity(item)
        elif isinstance(item, TurnEnded | TurnWaits | StreamCut):
            yield from self._end_step()
            yield from self._agents.end_all(suspended=isinstance(item, TurnWaits))
            yield self._format_end(item)

    def finish_idle(self) -> AguiEvent:
        """Return the last event of a run in a thread in which nothing happens."""
        return {**self._describe_end(), "outcome": {"type": "success"}}

    def _snapshot(self) -> AguiEvent:
        return {
            "type": "MESSAGES_SNAPSHOT",
            "messages": [dict(one) for one in self._messages.messages],
            "metadata": _OWNED,
        }

    def _format_text(self, item: TextShown | TextEnded) -> Iterator[AguiEvent]:
        if isinstance(item, TextEnded):
            yield from self._end_text()
            return
        name = step_message_id(self._session, item.step)
        if not self._text:
            self._text = name
            yield {"type": "TEXT_MESSAGE_START", "messageId": name, "role": "assistant"}
        yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": name, "delta": item.text}

    def _format_reasoning(self, item: ReasoningShown | ReasoningEnded) -> Iterator[AguiEvent]:
        if isinstance(item, ReasoningEnded):
            yield from self._end_reasoning()
            return
        name = reasoning_id(self._session, item.step)
        if not self._reasoning:
            self._reasoning = name
            yield {"type": "REASONING_START", "messageId": name}
            yield {"type": "REASONING_MESSAGE_START", "messageId": name, "role": "reasoning"}
        yield {"type": "REASONING_MESSAGE_CONTENT", "messageId": name, "delta": item.text}

    def _format_activity(self, item: HostedCallShown | SourcesShown | NoticeShown) -> AguiEvent:
        if isinstance(item, NoticeShown):
            return {"type": "CUSTOM", "name": item.name, "value": dict(item.fields)}
        worded = format_activity(self._session, item)
        shown = {name: worded[name] for name in ("activityType", "content")}
        return {"type": "ACTIVITY_SNAPSHOT", "messageId": worded["id"], **shown}

    def _format_result(self, item: ResultShown) -> Iterator[AguiEvent]:
        worded = format_result_message(self._session, item.call, item.result)
        yield {
            "type": "TOOL_CALL_RESULT",
            "messageId": worded["id"],
            "toolCallId": item.call,
            "content": worded["content"],
            "role": "tool",
        }

    def _format_call(
        self, item: CallStarted | CallArgumentsShown | CallReady
    ) -> Iterator[AguiEvent]:
        if isinstance(item, CallArgumentsShown):
            if item.call in self._calls:
                yield {"type": "TOOL_CALL_ARGS", "toolCallId": item.call, "delta": item.text}
        elif isinstance(item, CallStarted):
            yield self._begin_call(item)
        else:
            yield from self._complete_call(item)

    def _begin_call(self, item: CallStarted | CallReady) -> AguiEvent:
        self._calls.append(item.call)
        return {
            "type": "TOOL_CALL_START",
            "toolCallId": item.call,
            "toolCallName": item.name,
            "parentMessageId": step_message_id(self._session, item.step),
        }

    def _complete_call(self, item: CallReady) -> Iterator[AguiEvent]:
        streamed = item.streamed
        if item.call not in self._calls:
            streamed = 0
            yield self._begin_call(item)
        if rest := item.arguments[max(0, streamed) :]:
            yield {"type": "TOOL_CALL_ARGS", "toolCallId": item.call, "delta": rest}
        self._calls.remove(item.call)
        yield {"type": "TOOL_CALL_END", "toolCallId": item.call}

    def _end_text(self) -> Iterator[AguiEvent]:
        if self._text:
            yield {"type": "TEXT_MESSAGE_END", "messageId": self._text}
            self._text = ""

    def _end_reasoning(self) -> Iterator[AguiEvent]:
        if self._reasoning:
            yield {"type": "REASONING_MESSAGE_END", "messageId": self._reasoning}
            yield {"type": "REASONING_END", "messageId": self._reasoning}
            self._reasoning = ""

    def _end_parts(self) -> Iterator[AguiEvent]:
        yield from self._end_reasoning()
        yield from self._end_text()
        for call in self._calls:
            yield {"type": "TOOL_CALL_END", "toolCallId": call}
        self._calls.clear()

    def _end_step(self) -> Iterator[AguiEvent]:
        yield from self._end_parts()
        if self._step:
            yield {"type": "STEP_FINISHED", "stepName": self._step}
            self._step = ""

    def _describe_end(self) -> AguiEvent:
        return {"type": "RUN_FINISHED", "threadId": self._session, "runId": self._run}

    def _format_end(self, item: TurnEnded | TurnWaits | StreamCut) -> AguiEvent:
        if isinstance(item, StreamCut):
            text = "The stream ends here, and the run goes on: run the agent again to see it."
            if item.reason == "deleted":
                text = "The thread was deleted."
            return {"type": "RUN_ERROR", "message": text, "code": item.reason}
        usage = format_usage(item.usage)
        if isinstance(item, TurnWaits):
            return {**self._describe_end(), "outcome": _format_waiting(item), **usage}
        if item.status is Status.FAILED:
            error = item.error
            text = error.safe if error is not None else "The turn failed."
            code = error.category.value if error is not None else "failed"
            return {"type": "RUN_ERROR", "message": text, "code": code, **usage}
        if item.status is Status.CANCELLED:
            return {**self._describe_end(), "outcome": {"type": "cancelled"}, **usage}
        result = {"status": item.status.value}
        return {**self._describe_end(), "outcome": {"type": "success"}, "result": result, **usage}


def _format_waiting(item: TurnWaits) -> dict[str, object]:
    """Return the outcome of a run that waits: for people, or for tools of the page only."""
    asked = [one for one in item.questions if not isinstance(one.question, ClientToolQuestion)]
    if asked:
        return {"type": "interrupt", "interrupts": [format_interrupt(one) for one in asked]}
    return {"type": "success", "pendingToolCallIds": [one.call for one in item.questions]}


def format_usage(usage: Mapping[str, Usage]) -> dict[str, object]:
    """Return the field `usage` of the last event of a run; nothing if there are no tokens.

    >>> format_usage({"m": Usage(10, 5)})
    {'usage': [{'inputTokens': 10, 'outputTokens': 5, 'totalTokens': 15, 'model': 'm'}]}
    """
    entries = []
    for model, tokens in usage.items():
        entry: dict[str, object] = {
            "inputTokens": tokens.input,
            "outputTokens": tokens.output,
            "totalTokens": tokens.total,
        }
        parts = {
            "reasoningTokens": tokens.reasoning,
            "cachedInputTokens": tokens.cached_input,
            "cacheWriteInputTokens": tokens.cache_write,
        }
        entry |= {name: count for name, count in parts.items() if count}
        entries.append({**entry, "model": model} if model else entry)
    return {"usage": entries} if entries else {}


class _Subagents:
    """The agents at work in the tools of one run.

    Their texts are not part of the thread, whose messages can be read again: so they have events, and no messages.
    """

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: dict[tuple[str, tuple[str, ...]], str] = {}

    def feed(self, item: AgentStarted | AgentTextShown | ResultShown) -> Iterator[AguiEvent]:
        """Yield the events of an item. The result of a call ends the agents in it."""
        if isinstance(item, ResultShown):
            yield from self._end(item)
        elif isinstance(item, AgentStarted):
            yield from self._start(item)
        elif name := self._open.get((item.call, item.agents)):
            value = {"toolCallId": item.call, "offset": item.offset, "text": item.text}
            event = {"type": "CUSTOM", "name": "agent_text", "value": value}
            yield {**event, "subagentRunId": name}

    def end_all(self, *, suspended: bool) -> Iterator[AguiEvent]:
        """Yield the ends of all agents at the end of a run.

        Args:
            suspended: whether they wait for answers, and go on in another run.
        """
        outcome = {"outcome": {"type": "suspended"}} if suspended else {}
        for name in reversed(self._open.values()):
            yield {"type": "SUBAGENT_FINISHED", "subagentRunId": name, **outcome}
        self._open.clear()

    def _start(self, item: AgentStarted) -> Iterator[AguiEvent]:
        for depth, name in enumerate(item.agents, 1):
            agents = item.agents[:depth]
            if (item.call, agents) in self._open:
                continue
            run = self._open[item.call, agents] = f"{item.call}.{'.'.join(agents)}"
            parent = self._open.get((item.call, agents[:-1]))
            place = {"parentSubagentRunId": parent} if parent else {"parentToolCallId": item.call}
            yield {"type": "SUBAGENT_STARTED", "subagentRunId": run, "name": name, **place}

    def _end(self, item: ResultShown) -> Iterator[AguiEvent]:
        for call, agents in reversed([known for known in self._open if known[0] == item.call]):
            ended: AguiEvent = {"subagentRunId": self._open.pop((call, agents))}
            if item.result.is_error and len(agents) == 1:
                yield {"type": "SUBAGENT_ERROR", **ended, "message": item.result.text}
            else:
                yield {"type": "SUBAGENT_FINISHED", **ended}
