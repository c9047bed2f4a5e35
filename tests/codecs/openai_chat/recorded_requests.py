"""A recorded request body as our types, or why it has no form there."""

import json
from typing import Any

from tests.codecs.schemas.plain_schemas import without_marks

from holdfast.codecs.call_arguments import sendable_arguments
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.media import inline_bytes
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Media, Message, Part, Reasoning, Text, ToolCall, ToolResult
from holdfast.core.model_request import ModelRequest, ModelSettings, OutputSchema, ToolSpec

Json = dict[str, Any]

SETTINGS = {"temperature", "top_p", "seed", "parallel_tool_calls", "reasoning_effort"}
EFFORTS = {"none", "minimal", "low", "medium", "high"}
STATE = ("reasoning_details", "extra_content")


class NotOurs(Exception):
    """The request says something that our types have no word for."""


def refuse_unless(condition: object, why: str) -> None:
    if not condition:
        raise NotOurs(why)


def question(body: Json) -> tuple[ModelRequest, EndpointProfile]:
    """The request, and the profile of the provider that it was recorded with."""
    messages, instructions = body.get("messages"), ""
    refuse_unless(messages and isinstance(body.get("model"), str), "no messages or no model")
    roles = {one.get("role") for one in messages}
    system_role = "developer" if "developer" in roles else "system"
    refuse_unless(not {"developer", "system"} <= roles, "two words for system")
    profile = EndpointProfile(
        max_tokens_field="max_completion_tokens"
        if "max_completion_tokens" in body
        else "max_tokens",
        system_role=system_role,
        stream_usage="stream_options" in body,
        reasoning_field=reasoning_field(messages),
        state_fields=STATE,
        media_in_results=True,
    )
    request = ModelRequest(
        model=body["model"],
        messages=history(messages),
        instructions=instructions,
        tools=tuple(map(tool, body.get("tools") or ())),
        output=output(body.get("response_format")),
        settings=settings(body, profile),
        stream=bool(body.get("stream")),
    )
    return request, profile


def reasoning_field(messages: list[Json]) -> str:
    found = {
        name for one in messages for name in ("reasoning", "reasoning_content") if one.get(name)
    }
    if any(block.get("type") == "thinking" for one in messages for block in blocks(one)):
        found.add("content")
    refuse_unless(len(found) < 2, "two fields of reasoning")
    return found.pop() if found else ""


def blocks(message: Json) -> list[Json]:
    content = message.get("content")
    return (
        [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    )


def settings(body: Json, profile: EndpointProfile) -> ModelSettings:
    stop = body.get("stop")
    effort = body.get("reasoning_effort")
    refuse_unless(effort is None or effort in EFFORTS, "an effort of its own")
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        choice = (choice.get("function") or {}).get("name")
        refuse_unless(choice, "a tool choice of its own")
    refuse_unless(choice in (None, "auto", "none", "required") or body.get("tools"), "choice alone")
    ours = SETTINGS | {
        profile.max_tokens_field,
        "stop",
        "tool_choice",
        "tools",
        "model",
        "messages",
    }
    ours |= {"stream", "response_format"}
    extra = {name: value for name, value in body.items() if name not in ours}
    return ModelSettings(
        max_tokens=body.get(profile.max_tokens_field),
        stop=(stop,) if isinstance(stop, str) else tuple(stop or ()),
        tool_choice=choice,
        extra=extra or None,
        **{name: body.get(name) for name in SETTINGS},
    )


def tool(entry: Json) -> ToolSpec:
    refuse_unless(entry.get("type") == "function" and set(entry) <= {"type", "function"}, "a tool")
    function = entry["function"]
    refuse_unless(set(function) <= {"name", "description", "parameters"}, "fields of a function")
    return ToolSpec(
        function["name"], function.get("description") or "", function.get("parameters") or {}
    )


def output(wanted: Json | None) -> OutputSchema | None:
    if wanted is None or wanted.get("type") == "text":
        return None
    refuse_unless(wanted.get("type") == "json_schema", "another response format")
    described = wanted["json_schema"]
    known = {"name", "schema"} <= set(described) <= {"name", "schema", "strict"}
    refuse_unless(known, "fields of a shape")
    refuse_unless(described["schema"].get("type") == "object", "a shape that is no object")
    return OutputSchema(described["name"], described["schema"], described.get("strict") or False)


def history(messages: list[Json]) -> list[Message]:
    made: list[Message] = []
    for one in messages:
        role = "system" if one.get("role") == "developer" else one.get("role")
        refuse_unless(role in ("system", "user", "assistant", "tool"), f"role {role}")
        if role == "tool":
            refuse_unless(set(one) <= {"role", "content", "tool_call_id"}, "fields of a result")
            result = ToolResult(one["tool_call_id"], "", content(one))  # type: ignore[arg-type]
            if made and made[-1].role == "tool":
                made[-1] = Message("tool", (*made[-1].parts, result))
            else:
                made.append(Message("tool", (result,)))
        elif role == "assistant":
            made.append(Message("assistant", assistant(one)))
        else:
            refuse_unless(set(one) == {"role", "content"}, f"fields of a {role} message")
            made.append(Message(role, content(one)))
    return made


def assistant(one: Json) -> tuple[Part, ...]:
    known = {"role", "content", "tool_calls", "refusal", "reasoning", "reasoning_content", *STATE}
    refuse_unless(set(one) <= known and not one.get("refusal"), "fields of an assistant message")
    told = one.get("reasoning") or one.get("reasoning_content") or ""
    state = {name: one[name] for name in STATE if one.get(name)}
    parts: list[Part] = (
        [Reasoning(told, None, "openai_chat", state or None)] if told or state else []
    )
    parts += content(one)
    for entry in one.get("tool_calls") or ():
        function = entry["function"]
        kept = {name: entry[name] for name in STATE if name in entry}
        refuse_unless(isinstance(function["arguments"], str), "arguments as an object")
        refuse_unless(set(entry) <= {"id", "type", "function", "index", *STATE}, "fields of a call")
        wire = "openai_chat" if kept else None
        parts.append(
            ToolCall(entry["id"], function["name"], function["arguments"], wire, kept or None)
        )
    return tuple(parts)


def content(one: Json) -> tuple[Part, ...]:
    value = one.get("content")
    if isinstance(value, str):
        return (Text(value),)
    if value is None:
        return ()
    return tuple(map(block, value))


def block(one: Json) -> Part:
    match one.get("type"):
        case "text":
            refuse_unless(set(one) <= {"type", "text", "cache_control"}, "fields of a text")
            cached = {"cache_control": one["cache_control"]} if "cache_control" in one else None
            return Text(one["text"], cached)
        case "thinking":
            return Reasoning("".join(part["text"] for part in one["thinking"]))
        case "image_url" | "video_url" as kind:
            inner = one[kind]
            inner = {"url": inner} if isinstance(inner, str) else inner
            return media(f"{kind[:5]}/*", inner["url"], inner.get("detail"))
        case kind:
            raise NotOurs(f"a block {kind}")


def media(kind: str, url: str, detail: object) -> Media:
    extra = {"detail": detail} if detail else None
    if not url.startswith("data:"):
        return Media(kind, url=url, extra=extra)
    found = Media(url[5:].partition(";")[0], url=url, extra=extra)
    try:
        inline_bytes(found)
    except ConfigurationError as error:
        raise NotOurs("a picture that the recorder cut") from error
    return found


def sent_arguments(message: Json) -> Json:
    """A message with the arguments of its calls as we send them; some servers write `null` for none."""
    calls = [
        {**call, "function": {**function, "arguments": sendable_arguments(function["arguments"])}}
        for call in message["tool_calls"]
        for function in (call["function"],)
    ]
    return {**message, "tool_calls": calls}


def meaning(body: Json) -> Json:
    """A body without the differences that mean nothing."""
    plain = {name: value for name, value in body.items() if value not in (None, [], {})}
    plain["messages"] = [
        sent_arguments(one) if one.get("tool_calls") else one for one in plain["messages"]
    ]
    if plain.get("stream") is False:
        del plain["stream"]
    if isinstance(plain.get("stop"), str):
        plain["stop"] = [plain["stop"]]
    if (plain.get("response_format") or {}).get("type") == "text":
        del plain["response_format"]
    elif shape := (plain.get("response_format") or {}).get("json_schema"):
        shape.setdefault("strict", False)
        shape["schema"] = without_marks(shape.get("schema"))
    if isinstance(plain.get("tool_choice"), dict):
        plain["tool_choice"] = {"type": "function", **plain["tool_choice"]}
    if not plain.get("tools"):
        plain = {k: v for k, v in plain.items() if k not in ("tool_choice", "parallel_tool_calls")}
    plain["tools"] = [_tool_meaning(entry) for entry in plain.get("tools") or ()]
    plain["messages"] = [_message_meaning(one) for one in plain["messages"]]
    return json.loads(json.dumps(plain))  # type: ignore[no-any-return]  # an object, as it was


def _tool_meaning(entry: Json) -> Json:
    function = {name: value for name, value in entry["function"].items() if value}
    function.setdefault("parameters", {"type": "object", "properties": {}})
    function["parameters"] = without_marks(function["parameters"])
    return {"type": "function", "function": function}


def _message_meaning(one: Json) -> Json:
    plain = {name: value for name, value in one.items() if value not in (None, "", [])}
    found = plain.get("content")
    if isinstance(found, list):
        found = [_block_meaning(item) for item in found]
        texts = all(set(item) == {"type", "text"} for item in found)
        only_text = one["role"] == "assistant" or len(found) == 1
        plain["content"] = "".join(b["text"] for b in found) if texts and only_text else found
    calls = plain.get("tool_calls") or ()
    if calls:
        plain["tool_calls"] = [{k: v for k, v in entry.items() if k != "index"} for entry in calls]
        plain["tool_calls"] = [{"type": "function", **entry} for entry in plain["tool_calls"]]
    return plain


def _block_meaning(item: Json) -> Json:
    for kind in ("image_url", "video_url"):
        if isinstance(item.get(kind), str):
            return {**item, kind: {"url": item[kind]}}
    return item
