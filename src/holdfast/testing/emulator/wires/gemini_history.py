"""Reads and checks the contents of a Gemini request, as strictly as the real API does.

Both spellings of each field are accepted, as by the server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from holdfast.core.messages import (
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
from holdfast.testing.emulator.wires.history_parts import (
    is_base64,
    is_intact,
    is_too_deep,
    read_inline,
)

WIRE = "gemini"

_Json: TypeAlias = dict[str, Any]
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}")
_CAPITAL = re.compile(r"[A-Z]")
_DATA = (
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
)
_MISSING = (
    "Function call is missing a thought_signature in functionCall parts. This is required for tools "
    "to work correctly, and missing thought_signature may lead to degraded model performance. "
    "Additional data, function call `default_api:{name}` , position {at}. Please refer to "
    "https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
)
_COUNTS = (
    "Please ensure that the number of function response parts is equal to the number of function "
    "call parts of the function call turn."
)
_AFTER_CALL = (
    "Please ensure that function response turn comes immediately after a function call turn."
)
# Published by songquanpeng/one-api#836, and of 2026 by crewAIInc/crewAI#6973.
_LAST = "Please ensure that multiturn requests ends with a user role or a function response."
_BEFORE_CALL = (
    "Please ensure that function call turn comes immediately after a user turn or after a function "
    "response turn."
)


def get_field(value: Mapping[str, Any], name: str) -> Any:
    """Return a field in either of its spellings.

    >>> get_field({"function_call": 1}, "functionCall")
    1
    """
    found = value.get(name)
    if found is None:
        found = value.get(_CAPITAL.sub(lambda match: "_" + match[0].lower(), name))
    return found


def call_text(call: Mapping[str, Any]) -> str:
    """Return the text that the signature of a call signs."""
    args = msgspec.json.encode(call.get("args") or {}, order="deterministic").decode()
    return f"{call.get('name')}({args})"


def check_contents(body: Mapping[str, Any], *, signed: bool) -> None:
    """Raise MalformedRequest if the real API would respond with status 400.

    Args:
        body: the request.
        signed: whether this model refuses calls of the turn under way that lack their signature.
    """
    contents = body.get("contents")
    if not isinstance(contents, list) or not contents:
        raise MalformedRequest("* GenerateContentRequest.contents: contents is not specified\n")
    open_calls: list[_Json] = []
    asked = False
    for at, content in enumerate(contents):
        _check_content(content, at)
    contents = _join_chunks(contents)
    for content in contents:
        parts = content["parts"]
        calls = _get_values(parts, "functionCall")
        responses = _get_values(parts, "functionResponse")
        if open_calls or responses:
            _match_responses(open_calls, responses)
        if calls and not asked:
            raise MalformedRequest(_BEFORE_CALL)
        open_calls, asked = calls, content.get("role") != "model"
    if open_calls:
        raise MalformedRequest(_COUNTS)
    if not asked:
        raise MalformedRequest(_LAST)
    if signed:
        _check_signed(contents)


def _check_content(content: object, at: int) -> None:
    where = f"GenerateContentRequest.contents[{at}]"
    if not isinstance(content, dict):
        raise MalformedRequest(f"Invalid value at 'contents[{at}]' (type.googleapis.com/Content)")
    role = content.get("role") or "user"
    if role not in ("user", "model", "function"):
        raise MalformedRequest("Please use a valid role: user, model.")
    parts = content.get("parts")
    if isinstance(parts, dict):
        parts = [parts]
    if not isinstance(parts, list) or not parts:
        raise MalformedRequest(f"* {where}.parts: contents.parts must not be empty.\n")
    for number, part in enumerate(parts):
        if not isinstance(part, dict) or all(get_field(part, name) is None for name in _DATA):
            raise MalformedRequest(
                f"* {where}.parts[{number}].data: required oneof field 'data' must have one "
                "initialized field\n"
            )
        _check_part(part, role, f"contents[{at}].parts[{number}]")


def _join_chunks(contents: list[_Json]) -> list[_Json]:
    """Return the contents with those of one model turn as one, since an SDK keeps each chunk of a stream.

    So are those of one turn's responses: contents with one response each were taken, as recorded.
    """
    joined: list[_Json] = []
    for content in contents:
        parts = _parts_of(content)
        both = [joined[-1]["parts"], parts] if joined else []
        role = content.get("role")
        same = joined and role == joined[-1].get("role")
        if same and (role == "model" or all(_get_values(one, "functionResponse") for one in both)):
            joined[-1] = {"role": role, "parts": [*joined[-1]["parts"], *parts]}
        else:
            joined.append({**content, "parts": parts})
    return joined


def _check_part(part: _Json, role: str, where: str) -> None:
    text = part.get("text")
    if text is not None and not isinstance(text, str):
        raise MalformedRequest(f"Invalid value at '{where}.text' (TYPE_STRING)")
    for name in ("functionCall", "functionResponse"):
        value = get_field(part, name)
        if value is None:
            continue
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            raise MalformedRequest(f"* GenerateContentRequest.{where}: {name}.name is required\n")
        check_gemini_name(value["name"], f"{where}.{name}")
        wanted = "model" if name == "functionCall" else "user"
        if (role == "model") != (wanted == "model"):
            raise MalformedRequest(_AFTER_CALL)
        inside = value.get("args" if name == "functionCall" else "response", {})
        if not isinstance(inside, dict) or is_too_deep(inside):
            raise MalformedRequest(f"Invalid value at '{where}.{name}' (google.protobuf.Struct)")
    _check_signature(part, where)


def check_gemini_name(name: str, where: str) -> None:
    """Raise MalformedRequest if the real API refuses the name of a function, of a call or of a declaration."""
    if not _NAME.fullmatch(name):
        raise MalformedRequest(
            f"The GenerateContentRequest proto is invalid:\n  * {where}.name: [FIELD_INVALID] Invalid "
            "function name. Must start with a letter or an underscore. Must be a-z, A-Z, 0-9, or "
            "contain underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of "
            "64."
        )


def _check_signature(part: _Json, where: str) -> None:
    signature = get_field(part, "thoughtSignature")
    if signature is None:
        return
    if not isinstance(signature, str) or not is_base64(signature):
        raise MalformedRequest(
            f"Invalid value at '{where}.thought_signature' (TYPE_BYTES), Base64 decoding failed"
        )
    call = get_field(part, "functionCall")
    if not is_intact(signature, "" if call is None else call_text(call)):
        raise MalformedRequest("Corrupted thought signature.")


def _match_responses(open_calls: list[_Json], responses: list[_Json]) -> None:
    if not open_calls:
        raise MalformedRequest(_AFTER_CALL)
    names = sorted(call["name"] for call in open_calls)
    if names != sorted(response["name"] for response in responses):
        raise MalformedRequest(_COUNTS)
    ids = sorted(str(call.get("id")) for call in open_calls if call.get("id"))
    response_ids = sorted(str(response.get("id")) for response in responses if response.get("id"))
    if ids and response_ids and ids != response_ids:
        raise MalformedRequest(_COUNTS)


def _check_signed(contents: list[_Json]) -> None:
    """Check that the first call of each model content in the current turn has a signature."""
    for at in range(len(contents) - 1, -1, -1):
        parts = _parts_of(contents[at])
        calls = [part for part in parts if get_field(part, "functionCall") is not None]
        if not calls and not _get_values(parts, "functionResponse"):
            if contents[at].get("role") != "model":
                return
        elif calls and not get_field(calls[0], "thoughtSignature"):
            name = get_field(calls[0], "functionCall")["name"]
            raise MalformedRequest(_MISSING.format(name=name, at=at + 1))


def _parts_of(content: _Json) -> list[_Json]:
    parts = content["parts"]
    return [parts] if isinstance(parts, dict) else parts


def _get_values(parts: list[_Json], name: str) -> list[_Json]:
    return [value for part in parts if (value := get_field(part, name)) is not None]


def read_contents(body: Mapping[str, Any]) -> tuple[Message, ...]:
    """Convert the checked contents to neutral form; responses become a separate message."""
    found: list[Message] = []
    system = get_field(body, "systemInstruction")
    if isinstance(system, dict):
        value = system.get("parts")
        values = value if isinstance(value, list) else [value]
        texts = (part.get("text") for part in values if isinstance(part, dict))
        found.append(
            Message("system", tuple(Text(text) for text in texts if isinstance(text, str)))
        )
    calls: list[ToolCall] = []
    for content in _join_chunks(body["contents"]):
        parts = tuple(_read_part(part, calls) for part in content["parts"])
        if content.get("role") == "model":
            calls = [part for part in parts if isinstance(part, ToolCall)]
            found.append(Message("assistant", parts))
            continue
        results = tuple(part for part in parts if isinstance(part, ToolResult))
        rest = tuple(part for part in parts if not isinstance(part, ToolResult))
        found += [Message("tool", results)] if results else []
        found += [Message("user", rest)] if rest else []
    return tuple(found)


def _read_part(part: _Json, calls: list[ToolCall]) -> Part:
    signature = get_field(part, "thoughtSignature")
    call, response = get_field(part, "functionCall"), get_field(part, "functionResponse")
    if call is not None:
        arguments = msgspec.json.encode(call.get("args") or {}).decode()
        extra = {"thoughtSignature": signature} if signature else None
        return ToolCall(str(call.get("id") or ""), call["name"], arguments, WIRE, extra)
    if response is not None:
        return _read_result(response, calls)
    text = part.get("text")
    if isinstance(text, str) and part.get("thought") is True:
        return Reasoning(text, signature, WIRE)
    if isinstance(text, str):
        return Text(text, {"thoughtSignature": signature} if signature else None)
    for name, kind in (("inlineData", "mimeType"), ("fileData", "mimeType")):
        if isinstance(media := get_field(part, name), dict):
            return read_inline(str(get_field(media, kind) or "*/*"), media.get("data"), name)
    return Opaque(WIRE, part)


def _read_result(response: _Json, calls: list[ToolCall]) -> ToolResult:
    """Convert a response; its call is found by id, or by name in order."""
    name, own = response["name"], str(response.get("id") or "")
    same = [call for call in calls if call.name == name and (not own or call.id == own)]
    if same:
        calls.remove(same[0])
    content = response.get("response") or {}
    if set(content) == {"error"}:
        return ToolResult(own, name, (Text(str(content["error"])),), is_error=True)
    only = content.get("output") if set(content) == {"output"} else None
    text = only if isinstance(only, str) else msgspec.json.encode(content).decode()
    return ToolResult(own, name, (Text(text),))


def read_tools(tools: object) -> tuple[ToolSpec, ...]:
    """Convert the functions of the request, without tools that the provider runs itself."""
    if not isinstance(tools, list):
        raise MalformedRequest("Invalid value at 'tools' (type.googleapis.com/Tool)")
    found: list[ToolSpec] = []
    for tool in tools:
        declared = get_field(tool, "functionDeclarations") if isinstance(tool, dict) else None
        for one in declared if isinstance(declared, list) else []:
            if isinstance(one, dict):
                schema = get_field(one, "parametersJsonSchema") or one.get("parameters") or {}
                name, description = str(one.get("name", "")), str(one.get("description") or "")
                found.append(ToolSpec(name, description, schema))
    return tuple(found)
