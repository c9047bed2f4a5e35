"""Joins chunks to the message that a client shows, as the client itself does.

So a page that loads a chat shows the same as a page that was there all the time. This module is pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from holdfast.core.messages import Media, Message, Text
from holdfast.event_log.display.display_fold import show_records
from holdfast.event_log.display.display_items import UserShown
from holdfast.journal.port import Record
from holdfast.server.protocols.session_turns import user_message_id
from holdfast.server.protocols.vercel.projection import VercelProjection, format_media
from holdfast.server.protocols.vercel.provider_chunks import Chunk

UiPart = dict[str, object]
"""A part of a message, as JSON values."""


class MessageBuilder:
    """The message of the assistant of one turn."""

    def __init__(self) -> None:
        self._id = ""
        self._metadata: dict[str, object] = {}
        self._parts: list[UiPart] = []
        self._open: dict[str, UiPart] = {}

    def add(self, chunks: Iterable[Chunk]) -> None:
        """Add chunks."""
        for chunk in chunks:
            kind = str(chunk["type"])
            if "messageMetadata" in chunk:
                metadata = chunk["messageMetadata"]
                self._metadata |= metadata if isinstance(metadata, dict) else {}
            if kind == "start":
                self._id = str(chunk["messageId"])
            elif kind == "start-step":
                self._parts.append({"type": "step-start"})
            elif kind == "reset-step":
                self._reset_step()
            elif kind == "file" or kind.startswith("source-"):
                self._parts.append(dict(chunk))
            elif kind.startswith("tool-"):
                self._add_call(kind, chunk)
            elif kind.startswith(("text-", "reasoning-")):
                part, _, what = kind.partition("-")
                self._add_text(part, what, chunk)

    def build(self) -> dict[str, object]:
        """Return the message so far."""
        return {
            "id": self._id,
            "role": "assistant",
            "metadata": self._metadata,
            "parts": self._parts,
        }

    def _reset_step(self) -> None:
        while self._parts and self._parts[-1]["type"] != "step-start":
            self._parts.pop()
        self._open.clear()

    def _add_text(self, kind: str, what: str, chunk: Chunk) -> None:
        name = str(chunk["id"])
        if what == "start":
            part: UiPart = {"type": kind, "text": "", "state": "streaming"}
            self._open[name] = part
            self._parts.append(part)
        elif what == "delta":
            part = self._open[name]
            part["text"] = f"{part['text']}{chunk['delta']}"
        else:
            self._open.pop(name)["state"] = "done"

    def _add_call(self, kind: str, chunk: Chunk) -> None:
        if kind == "tool-input-delta":
            return
        part = self._find_call(chunk)
        if kind == "tool-input-start":
            part |= {"state": "input-streaming"}
        elif kind == "tool-input-available":
            part |= {"state": "input-available", "input": chunk["input"]}
        elif kind == "tool-approval-request":
            approval = {"id": chunk["approvalId"], "descriptor": chunk["approvalDescriptor"]}
            part |= {"state": "approval-requested", "approval": approval}
        elif kind == "tool-approval-response":
            known = part.get("approval")
            given = {name: chunk[name] for name in ("approved", "reason") if name in chunk}
            answered: UiPart = {**known} if isinstance(known, dict) else {}
            part |= {"state": "approval-responded", "approval": answered | given}
        elif kind == "tool-output-available":
            part |= {"state": "output-available", "output": chunk["output"]}
            part.pop("preliminary", None)
            if chunk.get("preliminary"):
                part["preliminary"] = True
        elif kind == "tool-output-denied":
            part |= {"state": "output-denied"}
        else:
            part |= {"state": "output-error", "errorText": chunk["errorText"]}
            part.setdefault("input", chunk.get("input"))

    def _find_call(self, chunk: Chunk) -> UiPart:
        """Return the part of a call, by its id or by the id of its approval; make it if it is new."""
        for part in reversed(self._parts):
            if "toolCallId" in chunk:
                is_found = part.get("toolCallId") == chunk["toolCallId"]
            else:
                approval = part.get("approval")
                is_found = isinstance(approval, dict) and approval["id"] == chunk["approvalId"]
            if is_found:
                if chunk.get("providerExecuted") is False:
                    part.pop("providerExecuted", None)
                return part
        name = chunk["toolName"]
        part = (
            {"type": "dynamic-tool", "toolName": name}
            if chunk.get("dynamic")
            else {"type": f"tool-{name}"}
        )
        part["toolCallId"] = chunk["toolCallId"]
        if chunk.get("providerExecuted"):
            part["providerExecuted"] = True
        self._parts.append(part)
        return part


def format_user(message: Message | None, message_id: str) -> dict[str, object]:
    """Return a message of the user as a client has it.

    Args:
        message: the message.
        message_id: its id.
    """
    parts: list[UiPart] = []
    for part in message.parts if message is not None else ():
        if isinstance(part, Text):
            parts.append({"type": "text", "text": part.text})
        elif isinstance(part, Media):
            name = {"filename": part.name} if part.name else {}
            parts.append({**format_media(part), **name})
    return {"id": message_id, "role": "user", "parts": parts}


def read_history(
    session: str, records: Sequence[Record], static: Collection[str] = ()
) -> list[dict[str, object]]:
    """Return the messages of the turns that count, as a client has them.

    Args:
        session: the session.
        records: all its records.
        static: the tools that the agent always has.
    """
    messages: list[dict[str, object]] = []
    projection, builder = VercelProjection(session, 0), MessageBuilder()
    for turn, item, position in show_records(session, records):
        if isinstance(item, UserShown):
            projection, builder = VercelProjection(session, turn, static), MessageBuilder()
            builder.add([projection.start()])
            name = user_message_id(session, turn, item.metadata)
            messages += [format_user(item.message, name), builder.build()]
        builder.add(projection.feed(item, position))
    return messages
