"""Turns the messages of a chat request into messages of a history, and names what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.messages import (
    Media,
    Message,
    Part,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    tool_results,
)
from holdfast.server.protocols.chat.chat_bodies import (
    AssistantMessage,
    AudioPart,
    ChatMessage,
    ChatTextPart,
    FilePart,
    ImagePart,
    OtherMessage,
    Texts,
    ToolMessage,
    UserMessage,
    UserPart,
)
from holdfast.server.protocols.content_parts import (
    guess_file_type,
    make_media_from_data,
    make_media_from_url,
    refuse,
)


def to_messages(given: Sequence[ChatMessage]) -> list[Message]:
    """Return the messages of a history. Results that follow each other are one message.

    Raises:
        ProblemError: a result has no call before it, a call has no result, or a medium is wrong.
    """
    messages: list[Message] = []
    open_calls: dict[str, str] = {}
    results: list[ToolResult] = []
    for at, message in enumerate(given):
        field = f"messages[{at}]"
        if isinstance(message, ToolMessage):
            name = open_calls.pop(message.tool_call_id, None)
            if name is None:
                raise refuse(f"{field}.tool_call_id", "no call with this id is before it")
            results.append(
                ToolResult(message.tool_call_id, name, (Text(read_text(message.content)),))
            )
            continue
        if results:
            messages.append(tool_results(results))
            results = []
        if open_calls:
            missing = ", ".join(open_calls)
            raise refuse(field, f"the calls before it have no results: {missing}")
        converted = _to_message(message, field)
        open_calls = {call.id: call.name for call in converted.calls}
        messages.append(converted)
    if open_calls:
        raise refuse("messages", f"these calls have no results: {', '.join(open_calls)}")
    if results:
        messages.append(tool_results(results))
    return messages


def _to_message(message: OtherMessage, field: str) -> Message:
    if isinstance(message, UserMessage):
        if isinstance(message.content, str):
            return Message("user", (Text(message.content),))
        parts = [
            _to_part(part, f"{field}.content[{at}]") for at, part in enumerate(message.content)
        ]
        return Message("user", tuple(parts))
    if isinstance(message, AssistantMessage):
        return Message("assistant", tuple(_to_assistant_parts(message)))
    return Message("system", (Text(read_text(message.content)),))


def _to_assistant_parts(message: AssistantMessage) -> list[Part]:
    content = message.content or ()
    parts: list[Part] = [Text(content)] if isinstance(content, str) else []
    if not isinstance(content, str):
        parts += [
            Text(part.text) if isinstance(part, ChatTextPart) else Refusal(part.refusal)
            for part in content
        ]
    if message.refusal:
        parts.append(Refusal(message.refusal))
    calls = message.tool_calls or ()
    parts += [ToolCall(one.id, one.function.name, one.function.arguments or "{}") for one in calls]
    return parts


def read_text(content: Texts) -> str:
    """Return the text of a message."""
    return content if isinstance(content, str) else "".join(part.text for part in content)


def _to_part(part: UserPart, field: str) -> Text | Media:
    if isinstance(part, ChatTextPart):
        return Text(part.text)
    if isinstance(part, ImagePart):
        return make_media_from_url(part.image_url.url, f"{field}.image_url.url", "image/jpeg")
    if isinstance(part, AudioPart):
        audio = part.input_audio
        kind = {"mp3": "audio/mpeg"}.get(audio.format, f"audio/{audio.format}")
        return make_media_from_data(audio.data, kind, f"{field}.input_audio.data")
    return _to_file(part, field)


def _to_file(part: FilePart, field: str) -> Media:
    file = part.file
    if file.file_data is None:
        raise refuse(f"{field}.file.file_data", "is missing; there is no store of files")
    kind = guess_file_type(file.filename)
    return make_media_from_data(file.file_data, kind, f"{field}.file.file_data", file.filename)
