"""Reads and checks the input of a Responses request, as strictly as the real API does.

The emulator stores no responses, as with `store: false`, so each item must be complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from holdfast.core.messages import (
    Media,
    Message,
    Opaque,
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
from holdfast.testing.emulator.wires.history_parts import (
    check_openai_name,
    is_intact,
    is_json_object,
    read_url,
)

WIRE = "openai_responses"

_Item: TypeAlias = dict[str, Any]
_CALLS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
}
_ROLES: dict[object, Role] = {"system": "system", "developer": "system", "user": "user"}
_SAID = ("output_text", "refusal")
_ASKED = ("input_text", "input_image", "input_file", "input_audio")


def items_of(body: Mapping[str, Any]) -> list[_Item]:
    """Return the input as a list of items, each with its type.

    Raises:
        MalformedRequest: it is neither a text nor such a list, or it names a stored response.
    """
    if body.get("previous_response_id"):
        raise MalformedRequest(
            f"Previous response with id '{body['previous_response_id']}' not found."
        )
    value = body.get("input")
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    if not isinstance(value, list) or not value:
        raise MalformedRequest(
            "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation' must be "
            "provided."
        )
    items: list[_Item] = []
    for at, item in enumerate(value):
        if not isinstance(item, dict):
            raise MalformedRequest(f"Invalid type for 'input[{at}]': expected an object.")
        items.append(item if "type" in item else {"type": "message", **item})
    return items


def check_items(items: list[_Item], *, stored: bool) -> None:
    """Raise MalformedRequest if the real API would respond with status 400."""
    ids: set[str] = set()
    open_calls: dict[str, str] = {}
    called: dict[str, str] = {}
    for at, item in enumerate(items):
        where, kind = f"input[{at}]", item["type"]
        if not isinstance(kind, str):
            raise MalformedRequest(f"Invalid type for '{where}.type': expected a string.")
        _check_id(item, ids)
        if kind == "message":
            _check_message(item, where)
        elif kind == "reasoning":
            _check_reasoning(item, items[at + 1 :], stored=stored)
        elif kind in _CALLS:
            call_id = _check_call(item, where)
            called[call_id] = open_calls[call_id] = _CALLS[kind]
        elif kind in _CALLS.values():
            _check_output(item, called, where)
            open_calls.pop(item["call_id"], None)
        elif kind == "item_reference":
            raise MalformedRequest(f"Item with id '{item.get('id')}' not found.")
    for call_id, kind in open_calls.items():
        kind_name = "function call" if kind == "function_call_output" else "custom tool call"
        raise MalformedRequest(f"No tool output found for {kind_name} {call_id}.")


def _check_id(item: _Item, ids: set[str]) -> None:
    own = item.get("id")
    if not isinstance(own, str) or not own:
        return
    if own in ids:
        raise MalformedRequest(
            f"Duplicate item found with id {own}. Remove duplicate items from your input and try "
            "again."
        )
    ids.add(own)


def _check_message(item: _Item, where: str) -> None:
    role, content = item.get("role"), item.get("content")
    if role not in ("assistant", *_ROLES):
        raise MalformedRequest(
            f"Invalid value: '{role}'. Supported values are: 'assistant', 'system', 'developer', "
            f"and 'user'. ({where}.role)"
        )
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        raise MalformedRequest(f"Missing required parameter: '{where}.content'.")
    known = _SAID if role == "assistant" else _ASKED
    for at, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in known:
            raise MalformedRequest(
                f"Invalid value: '{kind}'. Supported values are: {', '.join(map(repr, known))}. "
                f"({where}.content[{at}])"
            )
        field = {"refusal": "refusal", "output_text": "text", "input_text": "text"}.get(str(kind))
        if field is not None and not isinstance(part.get(field), str):
            raise MalformedRequest(f"Missing required parameter: '{where}.content[{at}].{field}'.")


def _check_reasoning(item: _Item, after: list[_Item], *, stored: bool) -> None:
    sealed = item.get("encrypted_content")
    if not sealed and not item.get("content") and not stored:
        raise MalformedRequest(
            f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is "
            "set to false. Try again with `store` set to true, or remove this item from your "
            "input."
        )
    if sealed and (not isinstance(sealed, str) or not is_intact(sealed, thought_of(item))):
        raise MalformedRequest("The encrypted content could not be verified.")
    follows = after[0] if after else {}
    if follows.get("type") == "message" and follows.get("role") != "assistant":
        follows = {}
    if not follows or follows["type"] in _CALLS.values():
        raise MalformedRequest(
            f"Item '{item.get('id')}' of type 'reasoning' was provided without its required "
            "following item."
        )


def thought_of(item: Mapping[str, Any]) -> str:
    """Return the text that the encrypted content of a reasoning item signs: its id and summary."""
    summary = item.get("summary")
    texts = [
        str(part.get("text"))
        for part in (summary if isinstance(summary, list) else [])
        if isinstance(part, dict)
    ]
    return f"{item.get('id')}:{''.join(texts)}"


def _check_call(item: _Item, where: str) -> str:
    text = "arguments" if item["type"] == "function_call" else "input"
    for name in ("call_id", "name", text):
        if not isinstance(item.get(name), str):
            raise MalformedRequest(f"Missing required parameter: '{where}.{name}'.")
    check_openai_name(item["name"], f"{where}.name")
    if text == "arguments" and not is_json_object(item[text]):
        raise MalformedRequest(f"Invalid '{where}.arguments': the arguments are not a JSON object.")
    call_id: str = item["call_id"]
    if not 0 < len(call_id) <= 64:
        raise MalformedRequest(
            f"Invalid '{where}.call_id': string of length {len(call_id)}. Expected a string with "
            "maximum length 64."
        )
    return call_id


def _check_output(item: _Item, called: Mapping[str, str], where: str) -> None:
    call_id, output = item.get("call_id"), item.get("output")
    if not isinstance(call_id, str):
        raise MalformedRequest(f"Missing required parameter: '{where}.call_id'.")
    if called.get(call_id) != item["type"]:
        raise MalformedRequest(
            f"No tool call found for function call output with call_id {call_id}."
        )
    if not isinstance(output, str | list):
        raise MalformedRequest(f"Missing required parameter: '{where}.output'.")


def read_items(body: Mapping[str, Any], items: list[_Item]) -> tuple[Message, ...]:
    """Convert the checked items to neutral form; the model's items between two inputs are one message."""
    found: list[Message] = []
    if isinstance(instructions := body.get("instructions"), str) and instructions:
        found.append(Message("system", (Text(instructions),)))
    names: dict[str, str] = {}
    for item in items:
        role: Role = "assistant"
        if item["type"] == "message":
            role = _ROLES.get(item["role"], "assistant")
        elif item["type"] in _CALLS.values():
            role = "tool"
        parts = tuple(_read_parts(item, names))
        if found and found[-1].role == role and role in ("assistant", "tool"):
            found[-1] = Message(role, (*found[-1].parts, *parts))
        else:
            found.append(Message(role, parts))
    return tuple(found)


def _read_parts(item: _Item, names: dict[str, str]) -> Iterator[Part]:
    kind = item["type"]
    if kind == "message":
        yield from _read_content(item["content"])
    elif kind == "reasoning":
        sealed = item.get("encrypted_content")
        text = thought_of(item).partition(":")[2]
        yield Reasoning(text, sealed if isinstance(sealed, str) else None, WIRE, item)
    elif kind in _CALLS:
        names[item["call_id"]] = item["name"]
        arguments = item.get("arguments")
        if not isinstance(arguments, str):
            arguments = msgspec.json.encode({"input": item["input"]}).decode()
        yield ToolCall(item["call_id"], item["name"], arguments, WIRE, item)
    elif kind in _CALLS.values():
        content = tuple(
            part for part in _read_content(item["output"]) if isinstance(part, Text | Media)
        )
        yield ToolResult(item["call_id"], names[item["call_id"]], content)
    else:
        yield Opaque(WIRE, item)


def _read_content(content: object) -> Iterator[Text | Media | Refusal]:
    if isinstance(content, str):
        yield Text(content)
        return
    for part in content if isinstance(content, list) else []:
        match part.get("type"):
            case "input_text" | "output_text":
                yield Text(part["text"])
            case "refusal":
                yield Refusal(part["refusal"])
            case "input_image":
                yield read_url("image/*", part.get("image_url"), "input_image")
            case kind:
                yield Media("*/*", url=f"inline:{kind}")


def read_tools(tools: object) -> tuple[ToolSpec, ...]:
    """Convert the functions of the request, also those in namespaces; other tools are ignored."""
    if not isinstance(tools, list):
        raise MalformedRequest("Invalid type for 'tools': expected an array of objects.")
    found: list[ToolSpec] = []
    for tool in [*tools, *(inner for _, inner in list_namespaced(tools))]:
        if isinstance(tool, dict) and tool.get("type") == "function":
            schema = tool.get("parameters") or {}
            name, description = str(tool.get("name", "")), str(tool.get("description") or "")
            found.append(ToolSpec(name, description, schema))
    return tuple(found)


def list_namespaced(tools: object) -> list[tuple[str, _Item]]:
    """Return the tools in the namespaces of a request, each with the name of its namespace."""
    return [
        (str(space.get("name")), tool)
        for space in (tools if isinstance(tools, list) else ())
        if isinstance(space, dict) and space.get("type") == "namespace"
        for tool in space.get("tools") or ()
        if isinstance(tool, dict)
    ]


def find_namespaces(tools: object) -> dict[str, str]:
    """Return the namespace of each tool that is in one, by its name."""
    return {str(tool.get("name")): space for space, tool in list_namespaced(tools)}
