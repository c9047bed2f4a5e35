"""A small client of AG-UI: it keeps the rules of the protocol's own client, and joins events to messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class AguiReader:
    """The messages of a thread."""

    def __init__(self, messages: Iterable[dict[str, Any]] = ()) -> None:
        self.messages = [dict(message) for message in messages]
        self._open: set[tuple[str, str]] = set()
        self._is_over = True

    def take(self, event: dict[str, Any]) -> None:
        """Apply an event, and check that it may come now."""
        kind = str(event["type"])
        assert self._is_over == (kind == "RUN_STARTED")
        ids = ("toolCallId", "messageId", "stepName", "subagentRunId")
        name = next((str(event[one]) for one in ids if one in event), "")
        group, _, what = kind.rpartition("_")
        if what in ("START", "STARTED") and group != "RUN":
            assert (group, name) not in self._open
            self._open.add((group, name))
        elif (what in ("END", "FINISHED") and group != "RUN") or kind == "SUBAGENT_ERROR":
            self._open.remove((group, name))
        elif what in ("CONTENT", "ARGS"):
            assert (group, name) in self._open
            assert event["delta"] != ""
        elif kind in ("RUN_FINISHED", "RUN_ERROR"):
            assert kind == "RUN_ERROR" or not self._open
            self._is_over = True
        self._is_over = kind in ("RUN_FINISHED", "RUN_ERROR")
        self._join(kind, event)

    def disconnect(self) -> None:
        """Forget what is open, as after a lost connection."""
        self._open.clear()
        self._is_over = True

    def _join(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "MESSAGES_SNAPSHOT":
            self._replace([dict(one) for one in event["messages"]])
        elif kind == "ACTIVITY_SNAPSHOT":
            message = self._find(event["messageId"], "activity")
            message |= {name: event[name] for name in ("activityType", "content")}
        elif kind == "TEXT_MESSAGE_START":
            self._find(event["messageId"], "assistant")
        elif kind == "REASONING_MESSAGE_START":
            self._find(event["messageId"], "reasoning")
        elif kind in ("TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT"):
            message = self._find(event["messageId"], "")
            message["content"] = f"{message.get('content') or ''}{event['delta']}"
        else:
            self._join_call(kind, event)

    def _join_call(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "TOOL_CALL_START":
            function = {"name": event["toolCallName"], "arguments": ""}
            call = {"id": event["toolCallId"], "type": "function", "function": function}
            message = self._find(event["parentMessageId"], "assistant")
            message.setdefault("toolCalls", []).append(call)
        elif kind == "TOOL_CALL_ARGS":
            for message in self.messages:
                for call in message.get("toolCalls", ()):
                    if call["id"] == event["toolCallId"]:
                        call["function"]["arguments"] += event["delta"]
        elif kind == "TOOL_CALL_RESULT":
            names = ("toolCallId", "content", "role")
            self.messages.append(
                {"id": event["messageId"], **{name: event[name] for name in names}}
            )

    def _find(self, name: str, role: str) -> dict[str, Any]:
        for message in self.messages:
            if message["id"] == name:
                return message
        assert role
        self.messages.append({"id": name, "role": role})
        return self.messages[-1]

    def _replace(self, snapshot: list[dict[str, Any]]) -> None:
        new = {message["id"]: message for message in snapshot}
        has_reasoning = any(message["role"] == "reasoning" for message in snapshot)
        kept = [
            new.pop(message["id"], message)
            for message in self.messages
            if message["id"] in new or (message["role"] == "reasoning" and not has_reasoning)
        ]
        self.messages = [*kept, *new.values()]

    def shown(self) -> list[dict[str, Any]]:
        """Return the messages that are not empty."""
        return [
            message
            for message in self.messages
            if message.get("content") or message.get("toolCalls") or message["role"] == "tool"
        ]
