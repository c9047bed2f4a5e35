"""Reads the wish of a client from the messages of its run. This module is pure.

Of the messages, those at the end count: a message of the user, or results of tools of the page. The
history is the journal's: that of the client is not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from holdfast.core.client_tools import ClientTool
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Media, Message, Text
from holdfast.journal.encoding import to_json
from holdfast.server.protocols.agui.interrupts import ResumeEntry
from holdfast.server.protocols.media_addresses import (
    MediaFields,
    read_media_data,
    read_media_url,
)
from holdfast.server.protocols.protocol_names import ClientId
from holdfast.server.protocols.request_arguments import MOST_CLIENT_TOOLS
from holdfast.sessions.names import check_session_name

_MEDIA = {"image": "image/png", "audio": "audio/mpeg", "video": "video/mp4"}


class ThreadInput(Struct, frozen=True, rename="camel"):
    """A message of the client. Fields that we do not read are left out."""

    id: ClientId
    role: str
    content: str | list[dict[str, object]] | None = None
    tool_call_id: str = ""
    error: str | None = None


class InputTool(Struct, frozen=True):
    """A tool of the page."""

    name: str
    description: str = ""
    parameters: dict[str, object] | None = None


class InputContext(Struct, frozen=True):
    """A text of the application for the agent, for one run."""

    description: str
    value: str


class RunInput(Struct, frozen=True, rename="camel"):
    """The input of a run.

    Args:
        thread_id: the thread, which is the session.
        run_id: the client's id of the run.
        messages: the messages of the client. The last ones count, and only they are read.
        tools: the tools of the page.
        context: the texts of the application for the agent.
        state: the state of the application.
        forwarded_props: other values of the application.
        resume: answers to interrupts.
    """

    thread_id: str
    run_id: ClientId
    messages: list[dict[str, object]]
    tools: list[InputTool] = []
    context: list[InputContext] = []
    state: object = None
    forwarded_props: object = None
    resume: list[ResumeEntry] | UnsetType | None = UNSET


class AguiMessageSent(Struct, frozen=True):
    """A message of the user begins a turn, or asks for the turn that it began.

    Args:
        message_id: the client's id of the message.
        message: the message.
        regenerates: whether another answer to it is wanted.
    """

    message_id: str
    message: Message
    regenerates: bool = False


class GiveAnswers(Struct, frozen=True):
    """Answers continue a turn.

    Args:
        resume: the answers to interrupts.
        results: the results of tools of the page, by the call: the text, and whether it failed.
    """

    resume: tuple[ResumeEntry, ...] = ()
    results: Mapping[str, tuple[str, bool]] = {}


class Attach(Struct, frozen=True):
    """The client wants to see the thread as it is, and its next events."""


RunAct: TypeAlias = AguiMessageSent | GiveAnswers | Attach
"""The wish of a client."""


def read_run(given: RunInput) -> RunAct:
    """Return the wish of a client. Raises ConfigurationError if a message is none of ours."""
    check_session_name(given.thread_id, "threadId")
    if given.resume:
        return GiveAnswers(tuple(given.resume), _read_results(given.messages))
    last = _read_thread(given.messages, -1) if given.messages else None
    if last is not None and last.role == "user":
        props = given.forwarded_props
        again = isinstance(props, Mapping) and props.get("regenerate") is True
        return AguiMessageSent(last.id, read_message(last), again)
    results = _read_results(given.messages)
    return GiveAnswers((), results) if results else Attach()


def _read_thread(messages: Sequence[dict[str, object]], index: int) -> ThreadInput:
    """Return a message. Raises ConfigurationError if it is none."""
    try:
        return msgspec.convert(messages[index], ThreadInput)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"messages[{index}]", str(error)) from error


def _read_results(messages: Sequence[dict[str, object]]) -> dict[str, tuple[str, bool]]:
    """Return the results of tools after the last other message."""
    results: dict[str, tuple[str, bool]] = {}
    for index in range(-1, -len(messages) - 1, -1):
        if messages[index].get("role") != "tool":
            break
        message = _read_thread(messages, index)
        text = message.content if isinstance(message.content, str) else to_json(message.content)
        shown = text if isinstance(text, str) else text.decode()
        is_error = message.error is not None
        results[message.tool_call_id] = (shown or message.error or "", is_error)
    return results


def read_tools(given: RunInput) -> tuple[ClientTool, ...]:
    """Return the tools of the page. Raises ConfigurationError."""
    if len(given.tools) > MOST_CLIENT_TOOLS:
        problem = f"has {len(given.tools)} tools; at most {MOST_CLIENT_TOOLS} are allowed"
        raise ConfigurationError("tools", problem, fix="Leave some out")
    return tuple(_read_tool(tool, f"tools[{at}]") for at, tool in enumerate(given.tools))


def _read_tool(tool: InputTool, field: str) -> ClientTool:
    try:
        return ClientTool(tool.name, tool.description, tool.parameters or {})
    except ConfigurationError as error:
        place = field + error.argument.removeprefix("ClientTool")
        raise ConfigurationError(place, error.problem, fix=error.fix) from error


def read_context(given: RunInput) -> str:
    """Return the texts of the application for the agent, as instructions."""
    lines = [f"- {one.description}: {one.value}" for one in given.context]
    return "\n".join(["The application says:", *lines]) if lines else ""


def read_metadata(given: RunInput) -> dict[str, object]:
    """Return the part of the input that a turn keeps for tools and hooks."""
    kept = {"run_id": given.run_id, "state": given.state, "forwarded_props": given.forwarded_props}
    return {name: value for name, value in kept.items() if value not in (None, {}, "")}


def read_message(given: ThreadInput) -> Message:
    """Return a message of the user as one of ours. Raises ConfigurationError."""
    if isinstance(given.content, str):
        parts: list[Text | Media] = [Text(given.content)] if given.content.strip() else []
    else:
        parts = [
            _read_part(part, f"messages[-1].content[{index}]")
            for index, part in enumerate(given.content or ())
        ]
    if not parts:
        raise ConfigurationError("messages[-1].content", "is empty", fix="Say something")
    return Message("user", tuple(parts))


def _read_part(part: Mapping[str, object], field: str) -> Text | Media:
    kind, source = str(part.get("type", "")), part.get("source")
    if kind == "text":
        text = part.get("text")
        if not isinstance(text, str):
            raise ConfigurationError(f"{field}.text", "must be a text")
        return Text(text)
    if kind not in ("image", "audio", "video", "document") or not isinstance(source, Mapping):
        fix = "Send a text, an image, an audio, a video or a document with its source"
        raise ConfigurationError(field, f"is {kind!r}", fix=fix)
    value, media_type = source.get("value"), source.get("mimeType") or _MEDIA.get(kind)
    if not isinstance(value, str) or not isinstance(media_type, str):
        raise ConfigurationError(f"{field}.source", "needs the texts value and mimeType")
    fields = MediaFields(f"{field}.source.value", f"{field}.source.mimeType")
    if source.get("type") == "url":
        return read_media_url(value, media_type, fields)
    if source.get("type") == "data":
        return read_media_data(value, media_type, fields)
    fix = 'Send a source of the type "data" or "url"'
    raise ConfigurationError(f"{field}.source.type", f"is {source.get('type')!r}", fix=fix)
