"""Reads and checks the history of a Chat Completions request, as strictly as the real API does.

So a framework that sends an invalid history fails in a test and not in production.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from holdfast.core.messages import (
    Media,
    Message,
    Part,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from holdfast.core.model_request import ToolSpec
from holdfast.testing.emulator.emulated_request import MalformedRequest
from holdfast.testing.emulator.wires.dresses import Dress
from holdfast.testing.emulator.wires.history_parts import (
    check_openai_name,
    is_json_object,
    read_url,
)

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


def check_history(messages: object) -> None:
    """Raise MalformedRequest if the real API would respond with status 400."""
    if not isinstance(messages, list) or not messages:
        raise MalformedRequest(
            "Invalid 'messages': empty array. Expected an array with minimum length 1."
        )
    open_calls: list[str] = []
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(role, str) or role not in _ROLES:
            raise MalformedRequest(f"Invalid value for '{where}.role': {role!r}.")
        if role == "tool":
            _match_result(message.get("tool_call_id"), open_calls, where)
            continue
        _expect_closed(open_calls)
        open_calls = _collect_calls(message, where) if role == "assistant" else []
    _expect_closed(open_calls)


def _match_result(call_id: object, open_calls: list[str], where: str) -> None:
    if not isinstance(call_id, str):
        raise MalformedRequest(f"Missing parameter '{where}.tool_call_id'.")
    if call_id not in open_calls:
        raise MalformedRequest(
            f"Invalid parameter: messages with role 'tool' must be a response to a preceeding "
            f"message with 'tool_calls'. ({where})"
        )
    open_calls.remove(call_id)


def _expect_closed(open_calls: list[str]) -> None:
    if open_calls:
        raise MalformedRequest(
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(open_calls)
        )


def _collect_calls(message: dict[str, Any], where: str) -> list[str]:
    found: list[str] = []
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise MalformedRequest(f"Invalid type for '{where}.tool_calls': expected an array.")
    for index, call in enumerate(calls):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(call.get("id"), str):
            raise MalformedRequest(f"Missing required parameter: '{where}.tool_calls[{index}]'.")
        field = f"{where}.tool_calls[{index}].function"
        if not isinstance(function.get("arguments"), str):
            raise MalformedRequest(f"Invalid type for '{field}.arguments': expected a string.")
        check_openai_name(function.get("name"), f"{field}.name")
        if not is_json_object(function["arguments"]):
            # OpenAI's own server accepts it. This is the text of a compatible one.
            raise MalformedRequest(
                '<400> InternalError.Algo.InvalidParameter: The "function.arguments" parameter of '
                "the code model must be in JSON format."
            )
        found.append(call["id"])
    said = any(message.get(name) for name in ("refusal", "audio"))
    if not found and message.get("content") is None and not said:
        raise MalformedRequest(f"Invalid value for '{where}.content': expected a string, got null.")
    return found


def check_order(body: Mapping[str, Any], dress: Dress) -> None:
    """Raise MalformedRequest if an endpoint refuses the order of the messages, an id, or a reply without reasoning."""
    messages = body["messages"]
    is_alternating = dress.answers_results and re.search(dress.answers_results, body["model"])
    before = ""
    for at, message in enumerate(messages):
        role = message["role"]
        if is_alternating and role == "user" and before == "tool":
            raise _refuse_order("Unexpected role 'user' after role 'tool'", "3230")
        for call in message.get("tool_calls") or []:
            if dress.call_id and not re.fullmatch(dress.call_id, call["id"]):
                raise _refuse_order(
                    f"Tool call id was {call['id']} but must be a-z, A-Z, 0-9, with a length of 9.",
                    "3280",
                )
        if _lacks_reasoning(body, message, dress):
            raise MalformedRequest(
                f"Missing `reasoning_content` field in the assistant message at message index {at}. "
                "For more information, please refer to "
                "https://api-docs.deepseek.com/guides/thinking_mode#tool-calls"
            )
        before = role
    if dress.marked_end and before == "assistant" and not messages[-1].get("prefix"):
        raise _refuse_order(
            "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant",
            "3230",
        )


def _lacks_reasoning(body: Mapping[str, Any], message: Mapping[str, Any], dress: Dress) -> bool:
    """Whether a model that thinks gets a message of the assistant without reasoning; an empty one suffices."""
    if not dress.needs_reasoning or message["role"] != "assistant":
        return False
    thinking = body.get("thinking") or {}
    thinks = "reasoner" in body["model"] or thinking.get("type") == "enabled"
    return thinks and not isinstance(message.get("reasoning_content"), str)


def _refuse_order(text: str, code: str) -> MalformedRequest:
    """Return the refusal of Mistral's server, as users published it."""
    body = {
        "object": "error",
        "message": text,
        "type": "invalid_request_message_order",
        "param": None,
        "code": code,
    }
    return MalformedRequest(text, body=body)


def read_history(messages: list[dict[str, Any]]) -> tuple[Message, ...]:
    """Convert the checked messages to neutral form; adjacent tool messages become one."""
    found: list[Message] = []
    names: dict[str, str] = {}
    for message in messages:
        role = _ROLES[message["role"]]
        if role == "tool":
            result = _read_result(message, names)
            if found and found[-1].role == "tool":
                found[-1] = Message("tool", (*found[-1].parts, result))
            else:
                found.append(Message("tool", (result,)))
            continue
        own = _own_parts(message) if role == "assistant" else ()
        parts = (*_read_content(message.get("content")), *own)
        names.update((part.id, part.name) for part in parts if isinstance(part, ToolCall))
        found.append(Message(role, parts))
    return tuple(found)


def read_tools(tools: object) -> tuple[ToolSpec, ...]:
    """Convert the functions of the request; other tools are ignored."""
    if not isinstance(tools, list):
        raise MalformedRequest("Invalid type for 'tools': expected an array of objects.")
    functions = [tool.get("function") for tool in tools if isinstance(tool, dict)]
    return tuple(
        ToolSpec(
            str(function.get("name", "")),
            str(function.get("description") or ""),
            function.get("parameters") or {},
        )
        for function in functions
        if isinstance(function, dict)
    )


def _read_result(message: dict[str, Any], names: dict[str, str]) -> ToolResult:
    call_id = str(message.get("tool_call_id") or "")
    content = tuple(
        part for part in _read_content(message.get("content")) if isinstance(part, Text | Media)
    )
    return ToolResult(call_id, names.get(call_id, str(message.get("name") or "")), content)


def _own_parts(message: dict[str, Any]) -> Iterator[Part]:
    if reasoning := message.get("reasoning_content"):
        yield Reasoning(str(reasoning))
    if refusal := message.get("refusal"):
        yield Refusal(str(refusal))
    for call in message.get("tool_calls") or []:
        function = call["function"]
        yield ToolCall(call["id"], str(function.get("name", "")), function["arguments"])


def _read_content(content: object) -> Iterator[Text | Media | Refusal]:
    if isinstance(content, str):
        yield Text(content)
    for block in content if isinstance(content, list) else []:
        part = cast("dict[str, Any]", block if isinstance(block, dict) else {})
        match part.get("type"):
            case "text":
                yield Text(str(part.get("text", "")))
            case "refusal":
                yield Refusal(str(part.get("refusal", "")))
            case "image_url":
                image = part.get("image_url")
                url = image.get("url") if isinstance(image, dict) else image
                yield read_url("image/*", url, "image_url")
            case kind:
                yield Media(f"application/x-{kind}", url=f"inline:{kind}")
