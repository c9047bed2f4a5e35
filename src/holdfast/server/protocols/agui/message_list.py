"""The messages of a thread as an AG-UI client has them, for snapshots. This module is pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from holdfast.core.messages import Media, Message, Text, ToolResult
from holdfast.event_log.display.display_fold import show_records
from holdfast.event_log.display.display_items import (
    CallReady,
    DisplayItem,
    HostedCallShown,
    ReasoningShown,
    ResultShown,
    SourcesShown,
    StepStarted,
    StepWithdrawn,
    TextShown,
    UserShown,
)
from holdfast.journal.port import Record
from holdfast.server.protocols.session_turns import user_message_id

HOSTED_TOOL, SOURCES = "hosted_tool", "sources"
"""The types of activities: a call that the provider runs, and the sources that a text cites."""

ThreadMessage = dict[str, object]
"""A message of AG-UI, as JSON values."""


class MessageList:
    """The messages of a thread, with those of a turn as they come.

    Args:
        session: the session, which is the thread.
        messages: the messages before.
    """

    __slots__ = ("_messages", "_session", "_step_start")

    def __init__(self, session: str, messages: Iterable[ThreadMessage] = ()) -> None:
        self._session = session
        self._messages = [dict(message) for message in messages]
        self._step_start = len(self._messages)

    @property
    def messages(self) -> Sequence[ThreadMessage]:
        """The messages so far."""
        return self._messages

    def add(self, item: DisplayItem) -> None:
        """Add an item that a turn shows."""
        if isinstance(item, UserShown):
            self._add_user(item)
        elif isinstance(item, StepStarted):
            self._step_start = len(self._messages)
        elif isinstance(item, StepWithdrawn):
            self._withdraw_step()
        elif isinstance(item, TextShown):
            message = self._find(step_message_id(self._session, item.step), "assistant")
            message["content"] = f"{message.get('content', '')}{item.text}"
        elif isinstance(item, ReasoningShown):
            message = self._find(reasoning_id(self._session, item.step), "reasoning")
            message["content"] = f"{message.get('content', '')}{item.text}"
        elif isinstance(item, CallReady):
            message = self._find(step_message_id(self._session, item.step), "assistant")
            function = {"name": item.name, "arguments": item.arguments}
            calls = message.setdefault("toolCalls", [])
            if isinstance(calls, list):
                calls.append({"id": item.call, "type": "function", "function": function})
        elif isinstance(item, ResultShown):
            self._messages.append(format_result_message(self._session, item.call, item.result))
        elif isinstance(item, HostedCallShown | SourcesShown):
            self._put(format_activity(self._session, item))

    def _add_user(self, item: UserShown) -> None:
        name = user_message_id(self._session, item.turn, item.metadata)
        is_known = any(message.get("id") == name for message in self._messages)
        if item.message is not None and not is_known:
            content = format_content(item.message)
            self._messages.append({"id": name, "role": "user", "content": content})
        self._step_start = len(self._messages)

    def _withdraw_step(self) -> None:
        """Remove everything that the step has shown. A client keeps reasoning that no event empties."""
        withdrawn = self._messages[self._step_start :]
        del self._messages[self._step_start :]
        for message in withdrawn:
            if message["role"] == "reasoning":
                self._messages.append({**message, "content": ""})

    def _put(self, activity: ThreadMessage) -> None:
        """Add an activity, or replace its content."""
        for at, message in enumerate(self._messages):
            if message["id"] == activity["id"]:
                self._messages[at] = activity
                return
        self._messages.append(activity)

    def _find(self, name: str, role: str) -> ThreadMessage:
        for message in reversed(self._messages[self._step_start :]):
            if message["id"] == name:
                return message
        message = {"id": name, "role": role}
        self._messages.append(message)
        return message


def list_messages(session: str, records: Sequence[Record]) -> list[ThreadMessage]:
    """Return the messages of a session.

    Args:
        session: the session.
        records: all its records.
    """
    found = MessageList(session)
    for _, item, _ in show_records(session, records):
        found.add(item)
    return [message for message in found.messages if message.get("content") != ""]


def step_message_id(session: str, step: str) -> str:
    """Return the id of the assistant's message of a step.

    >>> step_message_id("ada", "t1.i0")
    'ada.t1.i0'
    """
    return f"{session}.{step}"


def reasoning_id(session: str, step: str) -> str:
    """Return the id of the reasoning of a step."""
    return f"{session}.{step}.reasoning"


def format_result_message(session: str, call: str, result: ToolResult) -> ThreadMessage:
    """Return the message of a tool with the result of a call."""
    message: ThreadMessage = {
        "id": f"{session}.{call}.result",
        "role": "tool",
        "toolCallId": call,
        "content": format_parts(result.content),
    }
    return {**message, "error": result.text} if result.is_error else message


def format_activity(session: str, item: HostedCallShown | SourcesShown) -> ThreadMessage:
    """Return the message of a call that the provider runs, or of the sources of a text."""
    if isinstance(item, SourcesShown):
        name = f"{step_message_id(session, item.step)}.sources"
        kind, content = SOURCES, {"sources": msgspec.to_builtins(item.sources)}
    else:
        name, kind = f"{session}.{item.call}", HOSTED_TOOL
        content = msgspec.to_builtins(item.hosted)
    return {"id": name, "role": "activity", "activityType": kind, "content": content}


def format_content(message: Message) -> object:
    """Return the content of a message of the user: a text, or parts if it has media."""
    return format_parts([part for part in message.parts if isinstance(part, Text | Media)])


def format_parts(parts: Sequence[Text | Media]) -> object:
    """Return texts and media as the content of a message.

    >>> format_parts([Text("a"), Text("b")])
    'ab'
    """
    if not any(isinstance(part, Media) for part in parts):
        return "".join(part.text for part in parts if isinstance(part, Text))
    return [_format_part(part) for part in parts]


def _format_part(part: Text | Media) -> Mapping[str, object]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    kind = part.media_type.partition("/")[0]
    if part.url is not None:
        source = {"type": "url", "value": part.url, "mimeType": part.media_type}
    else:
        data = b64encode(part.data or b"").decode()
        source = {"type": "data", "value": data, "mimeType": part.media_type}
    word = kind if kind in ("image", "audio", "video") else "document"
    named = {"metadata": {"filename": part.name}} if part.name else {}
    return {"type": word, "source": source, **named}
