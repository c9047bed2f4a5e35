"""Words the work of agents that run as tools. This module is pure.

What such an agent writes is not part of the thread, whose messages can be read again: so it has
events, and no messages.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.server.protocols.display.display_items import (
    AgentStarted,
    AgentTextShown,
    ResultShown,
)

_AgentEvent = dict[str, object]


class Subagents:
    """The agents at work in the tools of one run."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: dict[tuple[str, tuple[str, ...]], str] = {}

    def feed(self, item: AgentStarted | AgentTextShown | ResultShown) -> Iterator[_AgentEvent]:
        """Yield the events of an item. The result of a call ends the agents in it."""
        if isinstance(item, ResultShown):
            yield from self._end(item)
        elif isinstance(item, AgentStarted):
            yield from self._start(item)
        elif name := self._open.get((item.call, item.agents)):
            value = {"toolCallId": item.call, "offset": item.offset, "text": item.text}
            event = {"type": "CUSTOM", "name": "agent_text", "value": value}
            yield {**event, "subagentRunId": name}

    def end_all(self, *, suspended: bool) -> Iterator[_AgentEvent]:
        """Yield the ends of all agents at the end of a run.

        Args:
            suspended: whether they wait for answers, and go on in another run.
        """
        outcome = {"outcome": {"type": "suspended"}} if suspended else {}
        for name in reversed(self._open.values()):
            yield {"type": "SUBAGENT_FINISHED", "subagentRunId": name, **outcome}
        self._open.clear()

    def _start(self, item: AgentStarted) -> Iterator[_AgentEvent]:
        for depth, name in enumerate(item.agents, 1):
            agents = item.agents[:depth]
            if (item.call, agents) in self._open:
                continue
            run = self._open[item.call, agents] = f"{item.call}.{'.'.join(agents)}"
            parent = self._open.get((item.call, agents[:-1]))
            place = {"parentSubagentRunId": parent} if parent else {"parentToolCallId": item.call}
            yield {"type": "SUBAGENT_STARTED", "subagentRunId": run, "name": name, **place}

    def _end(self, item: ResultShown) -> Iterator[_AgentEvent]:
        for call, agents in reversed([known for known in self._open if known[0] == item.call]):
            ended: _AgentEvent = {"subagentRunId": self._open.pop((call, agents))}
            if item.result.is_error and len(agents) == 1:
                yield {"type": "SUBAGENT_ERROR", **ended, "message": item.result.text}
            else:
                yield {"type": "SUBAGENT_FINISHED", **ended}
