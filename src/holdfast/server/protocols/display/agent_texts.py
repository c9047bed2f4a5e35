"""What agents that run as tools write while they work. It is live only: their records are elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.server.protocols.display.display_items import (
    AgentStarted,
    AgentTextShown,
    DisplayItem,
)

_VOID = ("attempt_abandoned", "reply_replaced")


class AgentTexts:
    """The replies that nested agents are writing."""

    __slots__ = ("_lengths",)

    def __init__(self) -> None:
        self._lengths: dict[tuple[str, tuple[str, ...]], int] = {}

    def feed(self, fields: Mapping[str, object]) -> Iterator[DisplayItem]:
        """Yield what an event or notice of a nested agent shows.

        Args:
            fields: those of a `FromAgent`.
        """
        call, chain, inner = str(fields.get("key", "")), fields.get("chain"), fields.get("item")
        if not isinstance(chain, list | tuple) or not isinstance(inner, dict):
            return
        agents = tuple(str(name) for name in chain)
        if (call, agents) not in self._lengths:
            self._lengths[call, agents] = 0
            yield AgentStarted(call, agents)
        name, given = inner.get("name"), inner.get("fields")
        shown = given if isinstance(given, dict) else {}
        length = self._lengths[call, agents]
        if name == "text_delta":
            text = str(shown.get("text", ""))
            self._lengths[call, agents] += len(text)
            yield AgentTextShown(call, agents, length, text)
        elif name in _VOID and length:
            self._lengths[call, agents] = 0
            yield AgentTextShown(call, agents, 0, "")
        elif _begins_reply(name, shown):
            self._lengths[call, agents] = 0  # its text replaces that of the reply before


def _begins_reply(name: object, fields: Mapping[str, object]) -> bool:
    is_model = str(fields.get("key", "")).endswith(".model")
    return name == "attempt_started" and is_model and not fields.get("continues")
