"""Reads and checks the history of a Messages request, as strictly as the real API does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from holdfast.core.messages import (
    Media,
    Message,
    Opaque,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from holdfast.core.model_request import ToolSpec
from holdfast.testing.emulator.emulated_request import MalformedRequest
from holdfast.testing.emulator.wires.history_parts import is_intact, read_inline

WIRE = "anthropic"

_Block: TypeAlias = dict[str, Any]
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")
_NO_BEGINNING_SINCE = (4, 6)


def check_history(body: Mapping[str, Any]) -> None:
    """Raise MalformedRequest if the real API would respond with status 400."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise MalformedRequest("messages: Input should be a valid list")
    if not messages:
        raise MalformedRequest("messages: at least one message is required")
    ids: set[str] = set()
    open_calls: list[str] = []
    hosted: dict[str, str] = {}
    before = 0
    for index, message in enumerate(messages):
        where = f"messages.{index}"
        role, blocks = _check_message(message, where, last=index == len(messages) - 1)
        if role == "user":
            _match_results(blocks, open_calls, where)
        _expect_closed(open_calls, f"messages.{before}")
        _match_hosted(blocks, role, hosted, where)
        if role == "assistant":
            open_calls, before = _collect_calls(blocks, ids, where), index
    _expect_closed(open_calls, f"messages.{before}")
    _check_thinking(body, messages)
    _check_beginning(body, messages[-1])


def _check_message(message: object, where: str, *, last: bool) -> tuple[str, list[_Block]]:
    if not isinstance(message, dict):
        raise MalformedRequest(f"{where}: Input should be a valid dictionary")
    role, content = message.get("role"), message.get("content")
    if role == "system":
        raise MalformedRequest(
            'messages: Unexpected role "system". The Messages API accepts a top-level `system` '
            'parameter, not "system" as an input message role.'
        )
    if role not in ("user", "assistant"):
        raise MalformedRequest(f"{where}.role: Input should be 'user' or 'assistant'")
    blocks = _to_blocks(content)
    if blocks is None:
        raise MalformedRequest(f"{where}.content: Input should be a valid list")
    if not blocks and not (last and role == "assistant"):
        raise MalformedRequest(
            f"{where}: all messages must have non-empty content except for the optional final "
            "assistant message"
        )
    for at, block in enumerate(blocks):
        _check_block(block, role, f"{where}.content.{at}")
    return role, blocks


def _to_blocks(content: object) -> list[_Block] | None:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        return None
    return content


def _check_block(block: _Block, role: str, where: str) -> None:
    kind = block.get("type")
    match kind:
        case "text":
            text = block.get("text")
            if not isinstance(text, str):
                raise MalformedRequest(f"{where}.text.text: Field required")
            if not text.strip():
                rule = "contain non-whitespace text" if text else "be non-empty"
                raise MalformedRequest(f"messages: text content blocks must {rule}")
        case "thinking":
            _check_signature(block, where)
        case "tool_use":
            _check_call(block, where)
        case "tool_result":
            _check_result(block, role, where)
        case _ if not isinstance(kind, str):
            raise MalformedRequest(f"{where}.type: Field required")
    if kind in ("thinking", "redacted_thinking", "tool_use") and role != "assistant":
        raise MalformedRequest(f"{where}: `{kind}` blocks can only be in `assistant` messages")


def _check_result(block: _Block, role: str, where: str) -> None:
    if not isinstance(block.get("tool_use_id"), str):
        raise MalformedRequest(f"{where}.tool_result.tool_use_id: Field required")
    if block.get("is_error") is True and not block.get("content"):
        # Published in jlevy/markform#153.
        raise MalformedRequest(
            f"{where}.tool_result: content cannot be empty if `is_error` is true"
        )
    if role != "user":
        raise MalformedRequest(f"{where}: `tool_result` blocks can only be in `user` messages")


def _check_signature(block: _Block, where: str) -> None:
    signature, text = block.get("signature"), block.get("thinking")
    if not isinstance(signature, str):
        raise MalformedRequest(f"{where}.thinking.signature: Field required")
    if not isinstance(text, str):
        raise MalformedRequest(f"{where}.thinking.thinking: Field required")
    if not signature or not is_intact(signature, text):
        raise MalformedRequest(f"{where}: Invalid `signature` in `thinking` block")


def _check_call(block: _Block, where: str) -> None:
    for name in ("id", "name"):
        if not isinstance(block.get(name), str):
            raise MalformedRequest(f"{where}.tool_use.{name}: Field required")
    if not _ID.fullmatch(block["id"]):
        raise MalformedRequest(
            f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        )
    _check_name(block["name"], f"{where}.tool_use.name")
    if not isinstance(block.get("input"), dict):
        raise MalformedRequest(f"{where}.tool_use.input: Input should be a valid dictionary")


def _check_name(name: object, where: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise MalformedRequest(f"{where}: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")


def _collect_calls(blocks: list[_Block], ids: set[str], where: str) -> list[str]:
    """Return the ids of the calls in one message; an id must be unique in the history."""
    ids_of_calls: list[str] = []
    for at, block in enumerate(blocks):
        if block["type"] == "tool_use":
            if block["id"] in ids:
                raise MalformedRequest(f"{where}.content.{at}: `tool_use` ids must be unique")
            ids.add(block["id"])
            ids_of_calls.append(block["id"])
    return ids_of_calls


def _match_results(blocks: list[_Block], open_calls: list[str], where: str) -> None:
    """Check the results of a message, which must come before its other blocks."""
    leading = True
    for at, block in enumerate(blocks):
        leading = leading and block["type"] == "tool_result"
        if block["type"] != "tool_result":
            continue
        if not leading or block["tool_use_id"] not in open_calls:
            raise MalformedRequest(
                f"{where}.content.{at}: unexpected `tool_use_id` found in `tool_result` blocks: "
                f"{block['tool_use_id']}. Each `tool_result` block must have a corresponding "
                "`tool_use` block in the previous message."
            )
        open_calls.remove(block["tool_use_id"])


def _match_hosted(blocks: list[_Block], role: str, hosted: dict[str, str], where: str) -> None:
    """Check that the calls of the provider's own tools have results before the user speaks again.

    A paused reply ends with a call without a result, which begins the next reply.
    """
    kinds = {block["type"] for block in blocks}
    if role == "user" and hosted and kinds <= {"text", "image", "document"}:
        call_id, name = next(iter(hosted.items()))
        raise MalformedRequest(
            f"{where}: `{name}` tool use with id `{call_id}` was found without a corresponding "
            f"`{name}_tool_result` block"
        )
    for at, block in enumerate(blocks):
        if block["type"] == "server_tool_use":
            hosted[str(block.get("id"))] = str(block.get("name"))
        elif block["type"].endswith("_tool_result") and block["type"] != "mcp_tool_result":
            call_id = str(block.get("tool_use_id"))
            if hosted.pop(call_id, None) is None:
                raise MalformedRequest(
                    f"{where}.content.{at}: unexpected `tool_use_id` found in "
                    f"`{block['type']}` blocks: {call_id}"
                )


def _expect_closed(open_calls: list[str], where: str) -> None:
    if open_calls:
        raise MalformedRequest(
            f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(open_calls)}. Each `tool_use` block must have a corresponding "
            "`tool_result` block in the next message."
        )


def _check_thinking(body: Mapping[str, Any], messages: list[_Block]) -> None:
    """Check that, with thinking enabled, the message of the calls begins with a thinking block."""
    thinking = body.get("thinking")
    enabled = isinstance(thinking, dict) and thinking.get("type") == "enabled"
    if not enabled:
        return
    for index in range(len(messages) - 1, -1, -1):
        if messages[index]["role"] != "assistant":
            continue
        blocks = _to_blocks(messages[index]["content"]) or []
        kinds = [block["type"] for block in blocks]
        if "tool_use" in kinds and kinds[0] not in ("thinking", "redacted_thinking"):
            raise MalformedRequest(
                f"messages.{index}.content.0.type: Expected `thinking` or `redacted_thinking`, but "
                f"found `{kinds[0]}`. When `thinking` is enabled, a final `assistant` message must "
                "start with a thinking block (preceeding the lastmost set of `tool_use` and "
                "`tool_result` blocks)."
            )
        return


def _check_beginning(body: Mapping[str, Any], last: _Block) -> None:
    """Check a last message of the assistant, the prefill of the reply; newer models refuse it."""
    blocks = _to_blocks(last["content"]) or []
    if last["role"] != "assistant" or any(block["type"] != "text" for block in blocks):
        return
    if blocks and blocks[-1]["text"] != blocks[-1]["text"].rstrip():
        raise MalformedRequest(
            "messages: final assistant content cannot end with trailing whitespace"
        )
    version = _VERSION.search(str(body.get("model")))
    if version and (int(version[1]), int(version[2] or 0)) >= _NO_BEGINNING_SINCE:
        raise MalformedRequest(
            "This model does not support assistant message prefill. The conversation must end "
            "with a user message."
        )


def read_history(body: Mapping[str, Any]) -> tuple[Message, ...]:
    """Convert the checked messages to neutral form; results become a separate message."""
    found: list[Message] = []
    if system := tuple(part for part in _read_parts(_to_blocks(body.get("system")) or [], {})):
        found.append(Message("system", system))
    names: dict[str, str] = {}
    for message in body["messages"]:
        parts = tuple(_read_parts(_to_blocks(message["content"]) or [], names))
        names.update((part.id, part.name) for part in parts if isinstance(part, ToolCall))
        if message["role"] == "assistant":
            found.append(Message("assistant", parts))
            continue
        results = tuple(part for part in parts if isinstance(part, ToolResult))
        rest = tuple(part for part in parts if not isinstance(part, ToolResult))
        found += [Message("tool", results)] if results else []
        found += [Message("user", rest)] if rest else []
    return tuple(found)


def read_tools(tools: object) -> tuple[ToolSpec, ...]:
    """Convert the tools of the request, without those that the provider runs itself."""
    if not isinstance(tools, list):
        raise MalformedRequest("tools: Input should be a valid list")
    found: list[ToolSpec] = []
    for tool in tools:
        if isinstance(tool, dict) and tool.get("type", "custom") == "custom":
            schema = tool.get("input_schema") or {}
            name, description = str(tool.get("name", "")), str(tool.get("description") or "")
            found.append(ToolSpec(name, description, schema))
    return tuple(found)


def _read_parts(blocks: list[_Block], names: Mapping[str, str]) -> Iterator[Part]:
    for block in blocks:
        match block.get("type"):
            case "text":
                yield Text(str(block.get("text", "")))
            case "thinking":
                yield Reasoning(block["thinking"], block["signature"], WIRE)
            case "redacted_thinking":
                yield Reasoning(wire=WIRE, extra=block)
            case "tool_use":
                arguments = msgspec.json.encode(block["input"]).decode()
                yield ToolCall(block["id"], block["name"], arguments)
            case "tool_result":
                yield _read_result(block, names)
            case "image" | "document" as kind:
                yield _read_media(kind, block.get("source"))
            case _:
                yield Opaque(WIRE, block)


def _read_media(kind: str, source: object) -> Media:
    told = source if isinstance(source, dict) else {}
    named = told.get("media_type") or ("image/*" if kind == "image" else "application/*")
    if told.get("type") == "text" and isinstance(told.get("data"), str):
        return Media(str(named), data=told["data"].encode("utf-8", "replace"))
    return read_inline(str(named), told.get("data"), kind)


def _read_result(block: _Block, names: Mapping[str, str]) -> ToolResult:
    call_id = block["tool_use_id"]
    parts = _read_parts(_to_blocks(block.get("content")) or [], names)
    content = tuple(part for part in parts if isinstance(part, Text | Media))
    return ToolResult(call_id, names.get(call_id, ""), content, block.get("is_error") is True)
