"""Recorded request bodies as neutral requests: a small parser, apart from the code under test."""

import base64
import json
import re
from typing import Any

from tests.corpus import Row

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

ELIDED = "application/x-elided"
"""Stands for the type of media whose bytes were taken out of the recording."""

_DATA = ("text", "functionCall", "functionResponse", "inlineData", "fileData")


def camel(value: Any, *, inside: bool = False) -> Any:
    """Field names as the wire documents them; the vendor's SDKs also write them with underscores."""
    if isinstance(value, list):
        return [camel(item, inside=inside) for item in value]
    if not isinstance(value, dict):
        return value
    made = {}
    for name, inner in value.items():
        if inner is None and not inside:
            continue
        better = name if inside else re.sub(r"_([a-z])", lambda found: found[1].upper(), name)
        users = better in ("args", "response", "parameters") or better.lower().endswith("schema")
        made[better] = camel(inner, inside=inside or users)
    return made


def normal(body: Json) -> Json:
    """A body in the one form in which two of equal meaning are equal."""
    body = camel(body)
    for content in body.get("contents", []):
        content["role"] = content.get("role") or "user"
        content["parts"] = [_normal_part(part) for part in content.get("parts") or []]
    if isinstance(body.get("systemInstruction"), dict):
        parts = body["systemInstruction"]["parts"]
        parts = parts if isinstance(parts, list) else [parts]
        body["systemInstruction"] = [part["text"] for part in parts if part["text"]]
    for tool in body.get("tools", []):
        for declared in tool.get("functionDeclarations", []):
            declared.setdefault("description", "")
            declared.pop("responseJsonSchema", None)  # a tool has no such field here
            if "parameters" in declared:
                declared["parametersJsonSchema"] = _json_schema(declared.pop("parameters"))
    body.pop("model", None)
    return {name: value for name, value in body.items() if value not in ({}, [], None)}


def _json_schema(schema: Any) -> Any:
    """The older field takes types in capitals, or as numbers."""
    if isinstance(schema, list):
        return [_json_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: _json_schema(inner) for name, inner in schema.items()}
    for name in ("type", "type_"):
        if isinstance(kind := made.get(name), str | int):
            made.pop(name)
            made["type"] = kind.lower() if isinstance(kind, str) else _KINDS[kind]
    return made


_KINDS = ("", "string", "number", "integer", "boolean", "array", "object")


def _normal_part(part: Json) -> Json:
    if part.get("thought") is False:
        del part["thought"]
    if set(part) == {"thoughtSignature"}:
        part["text"] = ""
    for holder in (part, part.get("functionResponse", {})):
        if "inlineData" in holder:
            holder["inlineData"] = {"mimeType": ELIDED, "data": base64.b64encode(b"x").decode()}
    if "functionCall" in part:
        part["functionCall"].setdefault("args", {})
    return part


def asked(row: Row, body: Json) -> ModelRequest:
    """The request that a user of this package would make for a normal body."""
    url = (row.request or {}).get("url") or ""
    named = re.search(r"/models/([^:/?]+):", url)
    config = dict(body.get("generationConfig", {}))
    settings: Json = {}
    for ours, theirs in (
        ("max_tokens", "maxOutputTokens"), ("temperature", "temperature"), ("top_p", "topP"),
        ("seed", "seed"), ("stop", "stopSequences"),
    ):  # fmt: skip
        if theirs in config:
            settings[ours] = config.pop(theirs)
    settings["stop"] = tuple(settings.get("stop", ()))
    output = None
    if set(config) >= {"responseMimeType", "responseJsonSchema"}:
        output = OutputSchema("answer", config.pop("responseJsonSchema"))
        config.pop("responseMimeType")
    known = {"contents", "systemInstruction", "tools", "generationConfig"}
    extra = {name: value for name, value in body.items() if name not in known}
    tools = body.get("tools", [])
    others = [rest for tool in tools if (rest := {k: v for k, v in tool.items() if k != FUNCTIONS})]
    if others:
        extra["tools"] = others
    if config:
        extra["generationConfig"] = config
    return ModelRequest(
        model=named[1] if named else "gemini-2.0-flash",
        messages=[_message(content) for content in body["contents"]],
        instructions="\n".join(body.get("systemInstruction", [])),
        tools=tuple(
            ToolSpec(tool["name"], tool["description"], tool.get("parametersJsonSchema", {}))
            for holder in tools
            for tool in holder.get(FUNCTIONS, [])
        ),
        output=output,
        settings=ModelSettings(**settings, extra=extra),
        stream="streamGenerateContent" in url,
    )


FUNCTIONS = "functionDeclarations"


def _message(content: Json) -> Message:
    parts = tuple(_part(part) for part in content["parts"])
    if any(isinstance(part, ToolResult) for part in parts):
        return Message("tool", parts)
    return Message("assistant" if content["role"] == "model" else "user", parts)


def _part(part: Json) -> Part:
    beside = {
        name: value for name, value in part.items() if name not in (*_DATA, "thought")
    } or None
    if "text" in part and part.get("thought"):
        return Reasoning(part["text"], part.get("thoughtSignature"), "gemini")
    if "text" in part:
        return Text(part["text"], beside)
    if call := part.get("functionCall"):
        return ToolCall(
            call.get("id", ""), call["name"], json.dumps(call["args"]), "gemini", beside
        )
    if result := part.get("functionResponse"):
        said = result["response"]
        failed = set(said) == {"error"} and isinstance(said["error"], str)
        text = said["error"] if failed else json.dumps(said)
        return ToolResult(result.get("id", ""), result["name"], (Text(text),), is_error=failed)
    if inline := part.get("inlineData"):
        return Media(inline["mimeType"], data=base64.b64decode(inline["data"]), extra=beside)
    if file := part.get("fileData"):
        return Media(file.get("mimeType", ""), url=file["fileUri"], extra=beside)
    return Opaque("gemini", part)
