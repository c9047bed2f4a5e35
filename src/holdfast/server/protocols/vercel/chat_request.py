"""Reads the body of `POST .../chat`: the wish of the client, from the messages that it sent.

Of the messages, the last one counts. The history is the journal's: that of the client is
not read. This module is pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from holdfast.core.client_tools import ClientTool
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Media, Message, Text
from holdfast.event_log.positions import parse_position
from holdfast.server.api.request_bodies import LONGEST_FILE_NAME
from holdfast.server.protocols.media_addresses import MediaFields, read_media_url
from holdfast.server.protocols.protocol_names import ClientId
from holdfast.server.protocols.vercel.projection import turn_of_message
from holdfast.sessions.names import check_session_name


class UiMessage(Struct, frozen=True):
    """A message of the client."""

    id: ClientId
    role: Literal["system", "user", "assistant"]
    parts: list[dict[str, object]]
    metadata: object = None


class VercelRequest(Struct, frozen=True, rename="camel"):
    """The body that `DefaultChatTransport` sends. An application may add fields of its own.

    Args:
        id: the id of the chat, which is the session.
        messages: the messages of the client. The last one counts.
        message: the last message, from a client that sends no others.
        trigger: whether a message is sent, or an answer is wanted again.
        message_id: the message to edit, to answer again or to continue.
        tools: tools that the page runs itself; an application adds them to the body.
    """

    id: str
    messages: list[UiMessage] = []
    message: UiMessage | None = None
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    message_id: ClientId | None = None
    tools: list[ClientTool] = []


class VercelMessageSent(Struct, frozen=True):
    """A message of the user begins a turn.

    Args:
        message_id: the client's id of the message.
        message: the message.
        is_edit: whether it replaces the message with its id.
        regenerates: whether another answer to the same message is wanted.
        turn: the turn whose answer is to be replaced; 0 if the client does not say it.
    """

    message_id: str
    message: Message
    is_edit: bool = False
    regenerates: bool = False
    turn: int = 0


class GivenAnswer(Struct, frozen=True):
    """An answer that the client has put into its message of the assistant.

    Args:
        id: the id of the question, or the call that the client ran.
        kind: "approval" for yes or no, "output" for a value, "error" for a call that failed.
        approved: whether the answer is yes.
        value: the value, or the text of the error.
        reason: why not.
    """

    id: str
    kind: Literal["approval", "output", "error"]
    approved: bool = False
    value: object = None
    reason: str = ""


class ContinueTurn(Struct, frozen=True):
    """Answers continue a turn.

    Args:
        turn: the turn.
        answers: the answers.
        sequence: the number of records that the client has seen; None if it does not say it.
    """

    turn: int
    answers: tuple[GivenAnswer, ...]
    sequence: int | None = None


ChatAct: TypeAlias = VercelMessageSent | ContinueTurn
"""The wish of a client."""


def read_chat(request: VercelRequest) -> ChatAct:
    """Return the wish of a client.

    Raises:
        ConfigurationError: the messages do not say it.
    """
    check_session_name(request.id, "id")
    messages = request.messages or ([request.message] if request.message is not None else [])
    if not messages:
        raise ConfigurationError("messages", "are missing", fix="Send the last message at least")
    last = messages[-1]
    if request.trigger == "regenerate-message":
        asked = next((one for one in reversed(messages) if one.role == "user"), None)
        if asked is None:
            raise ConfigurationError("messages", "have no message of the user to answer again")
        turn = turn_of_message(request.id, request.message_id or "")
        return VercelMessageSent(asked.id, read_message(asked), regenerates=True, turn=turn)
    if last.role == "user":
        is_edit = request.message_id == last.id
        return VercelMessageSent(last.id, read_message(last), is_edit=is_edit)
    return _read_answers(request, _find_answered(request, messages))


def _find_answered(request: VercelRequest, messages: Sequence[UiMessage]) -> UiMessage:
    """Return the message of the assistant that the client wants to continue."""
    for message in messages:
        if message.role == "assistant" and message.id == request.message_id:
            return message
    if messages[-1].role != "assistant":
        raise ConfigurationError("messages", "end with a message of the system", fix="Leave it out")
    return messages[-1]


def _read_answers(request: VercelRequest, message: UiMessage) -> ContinueTurn:
    turn = turn_of_message(request.id, message.id)
    if not turn:
        raise ConfigurationError(
            "messages",
            f"end with the message {message.id!r}, which no turn of this chat has written",
            fix="Send a message of the user, or the answer to a question of this chat",
        )
    answers = [_read_answer(part) for part in message.parts if _is_call(part)]
    return ContinueTurn(
        turn,
        tuple(answer for answer in answers if answer is not None),
        _read_sequence(message.metadata),
    )


def _read_sequence(metadata: object) -> int | None:
    """Return the number of records that the client has seen, from the metadata that we sent."""
    place = metadata.get("position") if isinstance(metadata, Mapping) else None
    if not isinstance(place, str):
        return None
    try:
        return parse_position(place).sequence
    except ConfigurationError:
        return None


def _is_call(part: Mapping[str, object]) -> bool:
    kind = part.get("type")
    return isinstance(kind, str) and (kind == "dynamic-tool" or kind.startswith("tool-"))


def _read_answer(part: Mapping[str, object]) -> GivenAnswer | None:
    call, state, approval = part.get("toolCallId"), part.get("state"), part.get("approval")
    if state == "approval-responded" and isinstance(approval, Mapping):
        name, reason = approval.get("id"), approval.get("reason")
        return GivenAnswer(
            name if isinstance(name, str) else "",
            "approval",
            approved=approval.get("approved") is True,
            reason=reason if isinstance(reason, str) else "",
        )
    if not isinstance(call, str) or part.get("providerExecuted") is True:
        return None
    if state == "output-available" and not part.get("preliminary"):
        return GivenAnswer(call, "output", value=part.get("output"))
    if state == "output-error":
        return GivenAnswer(call, "error", value=part.get("errorText"))
    return None


def read_message(message: UiMessage) -> Message:
    """Return a message of the client as one of ours.

    Raises:
        ConfigurationError: it is empty, or has a part that no message of a user can have.
    """
    parts: list[Text | Media] = []
    for index, part in enumerate(message.parts):
        kind, field = str(part.get("type", "")), f"messages[-1].parts[{index}]"
        if kind == "text":
            text = part.get("text")
            if not isinstance(text, str):
                raise ConfigurationError(f"{field}.text", "must be a text")
            if text:
                parts.append(Text(text))
        elif kind == "file":
            parts.append(_read_file(part, field))
        elif not kind.startswith("data-"):  # which are for the page only
            raise ConfigurationError(
                f"{field}.type", f"is {kind!r}", fix='Send parts of the types "text" and "file"'
            )
    if not any(isinstance(part, Media) or part.text.strip() for part in parts):
        raise ConfigurationError("messages[-1].parts", "are empty", fix="Say something")
    return Message("user", tuple(parts))


def _read_file(part: Mapping[str, object], field: str) -> Media:
    url, kind, name = part.get("url"), part.get("mediaType"), part.get("filename")
    if not isinstance(url, str) or not isinstance(kind, str):
        raise ConfigurationError(field, "needs the texts url and mediaType")
    fields = MediaFields(f"{field}.url", f"{field}.mediaType")
    if isinstance(name, str) and len(name) > LONGEST_FILE_NAME:
        problem = f"has {len(name):,} characters of at most {LONGEST_FILE_NAME}"
        raise ConfigurationError(f"{field}.filename", problem)
    return read_media_url(url, kind, fields, name if isinstance(name, str) else None)
