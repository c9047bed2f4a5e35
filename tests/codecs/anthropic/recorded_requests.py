"""A recorded request body read as a neutral request, and a form in which two bodies compare."""

import base64
import json
from typing import Any

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
from holdfast.core.model_request import ModelRequest, ModelSettings, OutputSchema, ToolSpec

Json = dict[str, Any]
WIRE = "anthropic"
_CHOICES = {"any": "required", "auto": "auto", "none": "none"}
_PLAIN_TOOL = {"name", "description", "input_schema"}


class CannotSay(Exception):
    """Our types have no word for something in the body."""


def asked(body: Json) -> ModelRequest:
    """The request that means this body; what our types have no field for stands in `extra`."""
    left = dict(body)
    messages = [made for one in left.pop("messages") for made in _read(one)]
    system = left.pop("system", "")
    given = {
        "max_tokens": left.pop("max_tokens"),
        "temperature": left.pop("temperature", None),
        "top_p": left.pop("top_p", None),
        "stop": tuple(left.pop("stop_sequences", None) or ()),
        **_choice(left.pop("tool_choice", None)),
        **_thinking(left),
    }
    tools = left.pop("tools", None) or []
    plain = [tool for tool in tools if set(tool) <= _PLAIN_TOOL]
    if other := [tool for tool in tools if tool not in plain]:
        left["tools"] = other
    output = left.get("output_config", {}).pop("format", None) if "output_config" in left else None
    if not left.get("output_config", True):
        del left["output_config"]
    return ModelRequest(
        model=left.pop("model"),
        messages=messages,
        instructions=system if isinstance(system, str) else joined(system),
        tools=tuple(
            ToolSpec(t["name"], t.get("description") or "", t["input_schema"]) for t in plain
        ),
        output=OutputSchema("output", output["schema"]) if output else None,
        stream=bool(left.pop("stream", False)),
        settings=ModelSettings(**given, extra=left or None),
    )


def joined(blocks: list[Json]) -> str:
    return "\n\n".join(block["text"] for block in blocks)


def _choice(choice: Json | None) -> Json:
    if choice is None:
        return {}
    parallel = choice.get("disable_parallel_tool_use")
    word = choice["name"] if choice["type"] == "tool" else _CHOICES[choice["type"]]
    return {
        "tool_choice": word,
        "parallel_tool_calls": None if parallel is None else not parallel,
    }


def _thinking(left: Json) -> Json:
    thinking = left.get("thinking") or {}
    if set(thinking) == {"type", "budget_tokens"}:
        return {"reasoning_tokens": left.pop("thinking")["budget_tokens"]}
    if thinking == {"type": "disabled"}:
        del left["thinking"]
        return {"reasoning_effort": "none"}
    return {}


def _read(one: Json) -> list[Message]:
    if one["role"] == "system":
        raise CannotSay("a system message inside the history")
    content = one["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    parts = tuple(_part(block, one["role"]) for block in blocks)
    results = tuple(part for part in parts if isinstance(part, ToolResult))
    others = tuple(part for part in parts if not isinstance(part, ToolResult))
    if parts[: len(results)] != results:
        raise CannotSay("results after other blocks")
    made = [Message("tool", results)] if results else []
    return [*made, Message(one["role"], others)] if others or not made else made


def _part(block: Json, role: str) -> Part:
    block = {key: value for key, value in block.items() if key != "cache_control"}
    kind = block.get("type")
    rest = {key: value for key, value in block.items() if key not in ("type", "text", "source")}
    if kind == "text":
        return Text(block["text"], {"wire": WIRE, **rest} if rest else None)
    if kind == "thinking":
        return Reasoning(block["thinking"], block["signature"], WIRE)
    if kind == "redacted_thinking":
        return Reasoning(wire=WIRE, extra=block)
    if kind == "tool_use":
        beside = {k: v for k, v in block.items() if k not in ("type", "id", "name", "input")}
        told = json.dumps(block["input"])
        return ToolCall(block["id"], block["name"], told, WIRE if beside else None, beside or None)
    if kind == "tool_result":
        return _result(block)
    if kind in ("image", "document") and role == "user" and not rest.get("citations"):
        return _media(block)
    return Opaque(WIRE, block)


def _media(block: Json) -> Part:
    source = block["source"]
    name = block.get("title")
    if source["type"] == "base64":
        return Media(source["media_type"], data=base64.b64decode(source["data"]), name=name)
    if source["type"] == "url":
        kind = "image/*" if block["type"] == "image" else "application/pdf"
        return Media(kind, url=source["url"], name=name)
    if source["type"] == "text":
        return Media(source["media_type"], data=source["data"].encode(), name=name)
    return Opaque(WIRE, block)


def _result(block: Json) -> ToolResult:
    content = block.get("content") or []
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    parts = [_part(inner, "user") for inner in blocks]
    kept = tuple(part for part in parts if isinstance(part, Text | Media))
    if len(kept) < len(parts):
        raise CannotSay("a tool result of other blocks than text and media")
    return ToolResult(block["tool_use_id"], "", kept, bool(block.get("is_error")))


def normal(body: Json) -> Json:
    """A body without differences that mean nothing: forms of text, marks of the cache, falsehoods."""
    made = _without_marks(body)
    if isinstance(made.get("system"), list):
        made["system"] = joined(made["system"])
    for name in ("system", "stream", "tools"):
        if not made.get(name):
            made.pop(name, None)
    if "tools" in made:
        for tool in made["tools"]:
            if not tool.get("description", True):
                del tool["description"]
        made["tools"].sort(key=lambda tool: tool.get("name", ""))
    made["messages"] = _messages(made["messages"])
    return made


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_marks(v) for key, v in value.items() if key != "cache_control"}
    return [_without_marks(inner) for inner in value] if isinstance(value, list) else value


def _messages(messages: list[Json]) -> list[Json]:
    made: list[Json] = []
    for one in messages:
        content = _blocks(one["content"])
        for block in content:
            if block.get("type") == "tool_result":
                block["content"] = _blocks(block.get("content") or [])
                if not block.get("is_error", True):
                    del block["is_error"]
        if made and made[-1]["role"] == one["role"]:
            made[-1]["content"] += content
        else:
            made.append({"role": one["role"], "content": content})
    return made


def _blocks(content: Any) -> list[Json]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    kept = [block for block in blocks if block.get("type") != "text" or block["text"].strip()]
    return [{k: v for k, v in b.items() if not (k == "citations" and not v)} for b in kept]
