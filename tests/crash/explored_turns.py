"""Small conversations for the explorer: the tool calls of the model, and its final answer.

A reply depends on the messages only, so every process receives the same replies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.tool_results import texts_of_results

from holdfast.core.messages import FinishReason, Message, Reply, Text, ToolCall
from holdfast.tools.tool import ToolEffect

RUN = "run"


@dataclass(frozen=True)
class Plan:
    """The effect of a tool, and whether it asks a person first."""

    effect: ToolEffect
    asks: bool = False


@dataclass(frozen=True)
class Story:
    """A conversation.

    Args:
        name: for the table.
        tools: what the agent has.
        replies: the tools that each reply calls, by name; the answer follows.
        after: how a process starts after a crash: "resume", "recover" or "message".
        crashes: at most so many in one history.
        overlaps: so many drivers may begin while another one lives.
        cancels: so often a driver is cancelled; with "recover", only one that recovers.
        outages: so often the model fails for a driver that recovers.
        asks_before: whether a hook before the turn asks a person.
        asks_after: whether a hook after each iteration asks a person.
        filters: whether the provider refuses each request with a result of a tool.
    """

    name: str
    tools: Mapping[str, Plan]
    replies: Sequence[Sequence[str]]
    after: str = "resume"
    crashes: int = 2
    overlaps: int = 1
    cancels: int = 0
    outages: int = 0
    asks_before: bool = False
    asks_after: bool = False
    filters: bool = False

    def refuses(self, messages: Sequence[Message]) -> bool:
        """Whether the filter of the provider refuses these messages."""
        return self.filters and any(" did " in text for text in texts_of_results(messages))

    def reply(self, messages: Sequence[Message]) -> Reply:
        """Return the reply of the model to these messages."""
        asked = 0
        for message in reversed(messages):
            if message.role == "user":
                break
            asked += bool(message.calls)
        last_user = [message for message in messages if message.role == "user"][-1]
        if asked < len(self.replies) and last_user.text == "please run":
            names = self.replies[asked]
            calls = tuple(ToolCall(f"c{asked}{index}", name) for index, name in enumerate(names))
            return Reply(calls, finish=FinishReason.TOOL_CALLS)
        return Reply((Text("I know: " + " | ".join(texts_of_results(messages))),))


READ, WRITE, AGAIN = Plan("read"), Plan("write"), Plan("idempotent")

STORIES = (
    Story("one write", {"pay": WRITE}, [["pay"]]),
    Story("one read", {"look": READ}, [["look"]]),
    Story("read and write at once", {"look": READ, "pay": WRITE}, [["look", "pay"]], crashes=1),
    Story("two writes at once", {"pay": WRITE, "book": WRITE}, [["pay", "book"]], crashes=1),
    Story("idempotent and read", {"put": AGAIN, "look": READ}, [["put", "look"]], crashes=1),
    Story("tools, then a tool", {"look": READ, "pay": WRITE}, [["look"], ["pay"]], crashes=1),
    Story("a question", {"pay": Plan("write", asks=True)}, [["pay"]]),
    Story("a question again", {"put": Plan("idempotent", asks=True)}, [["put"]], crashes=1),
    Story(
        "question beside a tool",
        {"put": Plan("idempotent", asks=True), "pay": WRITE},
        [["put", "pay"]],
        crashes=1,
        overlaps=0,
    ),
    Story("a hook asks before the turn", {"pay": WRITE}, [["pay"]], crashes=1, asks_before=True),
    Story(
        "a hook asks before the turn, recovered",
        {},
        [],
        after="recover",
        crashes=1,
        overlaps=0,
        cancels=1,
        asks_before=True,
    ),
    Story(
        "a hook asks after each iteration",
        {"pay": WRITE},
        [["pay"]],
        crashes=1,
        asks_after=True,
    ),
    Story(
        "refused results",
        {"look": READ, "pay": WRITE},
        [["look", "pay"]],
        crashes=1,
        filters=True,
    ),
    Story(
        "refused results, recovered and cancelled",
        {"pay": WRITE},
        [["pay"]],
        after="recover",
        crashes=1,
        overlaps=0,
        cancels=1,
        filters=True,
    ),
    Story(
        "another message",
        {"look": READ, "pay": WRITE},
        [["look", "pay"]],
        after="message",
        crashes=1,
    ),
    Story(
        "cancelled",
        {"look": READ, "pay": WRITE},
        [["look", "pay"]],
        crashes=1,
        overlaps=0,
        cancels=1,
    ),
    Story(
        "recovered, cancelled and recovered",
        {"look": READ, "pay": WRITE},
        [["look", "pay"]],
        after="recover",
        crashes=1,
        overlaps=0,
        cancels=1,
    ),
    Story(
        "recovered in an outage",
        {"pay": WRITE},
        [["pay"]],
        after="recover",
        crashes=1,
        outages=1,
    ),
)
