"""A recorded request body read as a neutral request, and a form in which two bodies compare."""

import base64
import json
from typing import Any

from tests.codecs.schemas.plain_schemas import without_marks

from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.core.messages import (
    Media,
    Message,
    Opaque,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)
from holdfast.core.model_request import ModelRequest, ModelSettings, OutputSchema, ToolSpec

Json = dict[str, Any]
WIRE = "openai_responses"
_PLAIN_TOOL = {"type", "name", "description", "parameters", "strict"}
_RESULTS = {"function_call_output", "custom_tool_call_output"}


class CannotSay(Exception):
    """Our types have no word for something in the body."""


def profile(body: Json) -> EndpointProfile:
    """The server's word for the role of instructions."""
    given = body["input"] if isinstance(body["input"], list) else []
    roles = {item.get("role") for item in given} & {"system", "developer"}
    if len(roles) > 1:
        raise CannotSay("two roles of instructions in one history")
    return EndpointProfile(system_role=roles.pop() if roles else "system")


def asked(body: Json) -> ModelRequest:
    """The request that means this body; what our types have no field for stands in `extra`."""
    left = dict(body)
    given = left.pop("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    tools = left.pop("tools", None) or []
    plain = [tool for tool in tools if _is_plain(tool)]
    if other := [tool for tool in tools if tool not in plain]:
        left["tools"] = other
    output = _output(left)
    settings = {
        "max_tokens": left.pop("max_output_tokens", None),
        "temperature": left.pop("temperature", None),
        "top_p": left.pop("top_p", None),
        "parallel_tool_calls": left.pop("parallel_tool_calls", None),
        "tool_choice": _choice(left),
        "reasoning_effort": _effort(left),
    }
    # Without the word the server keeps the response.
    left.setdefault("store", True)
    return ModelRequest(
        model=left.pop("model"),
        messages=_messages(items),
        instructions=left.pop("instructions", None) or "",
        tools=tuple(
            ToolSpec(t["name"], t.get("description") or "", t["parameters"] or {}) for t in plain
        ),
        output=output,
        stream=bool(left.pop("stream", False)),
        settings=ModelSettings(**settings, extra=left),
    )


def _is_plain(tool: Json) -> bool:
    return tool["type"] == "function" and set(tool) <= _PLAIN_TOOL and not tool.get("strict")


def _output(left: Json) -> OutputSchema | None:
    form = (left.get("text") or {}).get("format") or {}
    if form.get("type") != "json_schema" or "description" in form:
        return None
    del left["text"]["format"]
    if not left["text"]:
        del left["text"]
    return OutputSchema(form["name"], form["schema"], bool(form.get("strict")))


def _choice(left: Json) -> str | None:
    choice = left.pop("tool_choice", None)
    if choice is None or isinstance(choice, str):
        return choice
    if set(choice) == {"type", "name"} and choice["type"] == "function":
        name: str = choice["name"]
        return name
    left["tool_choice"] = choice
    return None


def _effort(left: Json) -> Any:
    reasoning = left.get("reasoning") or {}
    if set(reasoning) == {"effort"} and reasoning["effort"]:
        return left.pop("reasoning")["effort"]
    return None


def _messages(items: list[Json]) -> list[Message]:
    made: list[Message] = []
    for item in items:
        role, parts = _item(item)
        if made and role == made[-1].role and role in ("assistant", "tool"):
            made[-1] = Message(role, made[-1].parts + parts)
        else:
            made.append(Message(role, parts))
    return made


def _item(item: Json) -> tuple[Any, tuple[Part, ...]]:
    kind = item.get("type", "message")
    if kind == "message":
        return _said(item)
    if kind in _RESULTS:
        if item.get("status"):
            raise CannotSay("the status of a tool result")
        output = item["output"]
        blocks = [{"type": "input_text", "text": output}] if isinstance(output, str) else output
        content = tuple(_part(block) for block in blocks)
        if not all(isinstance(part, Text | Media) for part in content):
            raise CannotSay("a tool result of other parts than text and media")
        return "tool", (ToolResult(item["call_id"], "", content),)  # type: ignore[arg-type]
    if kind == "reasoning":
        return "assistant", (Reasoning(wire=WIRE, extra=item),)
    if kind in ("function_call", "custom_tool_call"):
        known = ("type", "call_id", "name", "arguments", "input")
        beside = {key: value for key, value in item.items() if key not in known}
        told = item.get("arguments")
        if kind == "custom_tool_call":
            beside["type"], told = kind, json.dumps({"input": item["input"]})
        return "assistant", (
            ToolCall(item["call_id"], item["name"], str(told), WIRE, beside or None),
        )
    return "assistant", (Opaque(WIRE, item),)


def _said(item: Json) -> tuple[Any, tuple[Part, ...]]:
    content = item.get("content") or ""
    blocks = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
    if item["role"] != "assistant":
        role = "system" if item["role"] == "developer" else item["role"]
        return role, tuple(_part(block) for block in blocks)
    own = {k: v for k, v in item.items() if k not in ("type", "role", "content")}
    parts: list[Part] = []
    for block in blocks:
        if block["type"] == "refusal":
            parts.append(Refusal(block["refusal"]))
            continue
        beside = {k: v for k, v in block.items() if k not in ("type", "text") and v}
        extra = {"wire": WIRE, "item": own, "part": beside} if own or beside else None
        parts.append(Text(block["text"], extra))
    return "assistant", tuple(parts)


def _part(block: Json) -> Part:
    rest = {key: value for key, value in block.items() if key not in ("type", "text")}
    if block["type"] == "input_text":
        return Text(block["text"], {"wire": WIRE, **rest} if rest else None)
    if set(block) == {"type", "image_url"}:
        return _media("image/*", block["image_url"], None)
    if block["type"] == "input_file" and set(block) <= {"type", "file_data", "filename"}:
        return _media("", block["file_data"], block.get("filename"))
    return Opaque(WIRE, block)


def _media(kind: str, url: str, name: str | None) -> Part:
    if not url.startswith("data:"):
        return Media(kind, url=url, name=name)
    head, _, payload = url[5:].partition(",")
    return Media(head.partition(";")[0], data=base64.b64decode(payload), name=name)


def normal(body: Json) -> Json:
    """A body without differences that mean nothing."""
    made: Json = json.loads(json.dumps(body))
    given = made["input"]
    made["input"] = [
        _normal_item(item)
        for item in ([{"role": "user", "content": given}] if isinstance(given, str) else given)
    ]
    made["input"] = _joined(made["input"])
    for tool in made.get("tools") or []:
        if tool["type"] == "function":
            tool["strict"] = bool(tool.get("strict"))
            parameters = without_marks(tool["parameters"] or {})
            tool["parameters"] = {"type": "object", "properties": {}, **parameters}
        if not tool.get("description", True):
            del tool["description"]
    made["tools"] = sorted(
        made.get("tools") or [], key=lambda tool: json.dumps(tool, sort_keys=True)
    )
    form = (made.get("text") or {}).get("format") or {}
    form["strict"] = bool(form.get("strict"))
    if "schema" in form:
        form["schema"] = without_marks(form["schema"])
    if not made.get("instructions", True):
        del made["instructions"]
    made["stream"], made["store"] = bool(made.get("stream")), made.get("store", True)
    made.pop("include", None)
    return {key: value for key, value in made.items() if value is not None}


def _joined(items: list[Json]) -> list[Json]:
    """Neighbouring messages of the assistant that have no id are one."""
    made: list[Json] = []
    for item in items:
        plain = item["type"] == "message" and item["role"] == "assistant" and len(item) == 3
        if plain and not any(block.get("text") for block in item["content"]):
            continue
        if plain:
            item["content"] = _one_text(item["content"])
        if plain and made and made[-1].keys() == item.keys() and made[-1]["role"] == "assistant":
            made[-1]["content"] = _one_text(made[-1]["content"] + item["content"])
        else:
            made.append(item)
    return made


def _one_text(content: list[Json]) -> list[Json]:
    if any(set(block) != {"type", "text"} for block in content):
        return content
    return [{"type": "output_text", "text": "".join(block["text"] for block in content)}]


def _normal_item(item: Json) -> Json:
    made = {"type": "message", **item}
    if made["type"] == "message":
        assistant = made["role"] == "assistant"
        kind = "output_text" if assistant else "input_text"
        content = made.get("content") or []
        blocks = [{"type": kind, "text": content}] if isinstance(content, str) else content
        # An empty list and the detail "auto" are what a server takes for an absent field.
        kept = [{k: v for k, v in block.items() if v not in ([], "auto")} for block in blocks]
        made["content"] = [
            {**b, "type": kind} if b["type"].endswith("_text") else b
            for b in kept
            if b.get("text") != "" or assistant
        ]
    if made["type"] in _RESULTS and isinstance(made["output"], str):
        made["output"] = [{"type": "input_text", "text": made["output"]}]
    return made
