"""The replies of `holdfast emulate`: read from a file, or made to fit a request that offers tools or asks for an object.

A value of a JSON Schema is the same one each time. A `pattern` is not read. Faults are words of the command line.

A TOML file has the replies in order. A fault comes before its reply, which is then asked for again:

    [[reply]]
    call = { name = "weather", arguments = { city = "Porto" } }

    [[reply]]
    fault = "rate-limit"
    text = "It is sunny."

    [[reply]]
    hosted = [{ name = "web_search", arguments = { query = "Porto" }, pages = ["https://porto.pt"] }]
    text = "It has six bridges."
    source = { url = "https://porto.pt", title = "Porto" }

A Python file defines `replies`, and may define `faults`: the arguments of `Emulator`.
"""

from __future__ import annotations

import math
import re
import runpy
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import Struct

from holdfast.agent_file.toml_source import AgentFile, read_agent_file
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import FinishReason, Part, Reply, Text, ToolCall
from holdfast.testing.emulator import faults as known_faults
from holdfast.testing.emulator.emulated_request import EmulatedRequest
from holdfast.testing.emulator.faults import ErrorKind, ErrorResponse, Fault, FaultScript
from holdfast.testing.emulator.script import (
    Hosted,
    Replies,
    ReplyLike,
    Rule,
    call,
    cited,
    echo,
    hosted_call,
    thinking,
)

_NUMBERED: dict[str, tuple[type[Fault], str]] = {
    "status": (known_faults.HttpStatus, "status"),
    "delay": (known_faults.Delay, "seconds"),
    "pace": (known_faults.Pace, "seconds"),
    "drop-after": (known_faults.DropAfter, "chunks"),
    "stall": (known_faults.Stall, "seconds"),
    "error-event": (known_faults.ErrorEvent, "after"),
}
"""The faults that take a number, as in `drop-after=3`, and the field that it sets."""


class _Call(Struct, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, object] = {}


class _HostedCall(Struct, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, object] = {}
    result: str = ""
    pages: list[str] = []
    error: str = ""


class _Source(Struct, forbid_unknown_fields=True):
    url: str
    title: str = ""


class _ReplyRow(Struct, forbid_unknown_fields=True):
    """One `[[reply]]` of a TOML file."""

    text: str | None = None
    thinking: str | None = None
    json: object = None
    call: _Call | None = None
    calls: list[_Call] = []
    hosted: list[_HostedCall] = []
    source: _Source | None = None
    fault: str | list[str] = []


class _ScriptRows(Struct, forbid_unknown_fields=True):
    reply: list[_ReplyRow]


def list_fault_words(kind: type[Fault]) -> list[str]:
    """List what `parse_fault` reads as a fault of this kind.

    >>> list_fault_words(known_faults.DropAfter)
    ['drop-after', 'drop-after=CHUNKS']
    """
    words = [_fault_name(kind)] if _has_defaults(kind) else []
    if kind is ErrorResponse:
        words += [error.replace("_", "-") for error in get_args(ErrorKind)]
    numbered = (
        f"{name}={field.upper()}"
        for name, (numbered, field) in _NUMBERED.items()
        if numbered is kind
    )
    return [*words, *numbered]


def parse_fault(word: str) -> Fault | None:
    """Return the fault of a name such as `rate-limit`, `html200` or `drop-after=3`; None for "none".

    Raises:
        ConfigurationError: the name is unknown, or its number is missing or wrong.

    >>> parse_fault("drop-after=3")
    DropAfter(chunks=3, reset=True)
    """
    name, equals, number = word.strip().lower().replace("_", "-").partition("=")
    if name == "none":
        return None
    if name in _NUMBERED and re.fullmatch(r"\d+(\.\d+)?", number):
        numbered, field = _NUMBERED[name]
        with suppress(msgspec.ValidationError):
            return msgspec.convert({field: number}, numbered, strict=False)
    if not equals:
        if name.replace("-", "_") in get_args(ErrorKind):
            return ErrorResponse(msgspec.convert(name.replace("-", "_"), ErrorKind))
        for kind in get_args(Fault):
            if _fault_name(kind) == name and _has_defaults(kind):
                fault: Fault = kind()
                return fault
    known = ", ".join(sorted(word for kind in get_args(Fault) for word in list_fault_words(kind)))
    raise ConfigurationError("fault", f"{word!r} is not a fault", fix=f"Known are {known}")


def read_script(path: Path) -> tuple[Replies, FaultScript]:
    """Read the replies and faults of a TOML or Python file.

    Raises:
        ConfigurationError: the file cannot be read, or does not define what it must.
    """
    return _read_python(path) if path.suffix == ".py" else _read_toml(read_agent_file(path))


def _read_toml(file: AgentFile) -> tuple[Replies, FaultScript]:
    try:
        rows = msgspec.convert(file.content, _ScriptRows).reply
    except msgspec.ValidationError as error:
        raise ConfigurationError(file.path.name, str(error).replace("`", "")) from error
    faults: list[list[Fault]] = []
    for number, row in enumerate(rows, 1):
        try:
            faults += _list_faults(row)
        except ConfigurationError as error:
            place = f"{file.path.name}, reply {number}, fault"
            raise ConfigurationError(place, error.problem, fix=error.fix) from error
    return [_make_reply(row) for row in rows], faults


def _list_faults(row: _ReplyRow) -> list[list[Fault]]:
    """Return the faults of the requests that a reply takes: after a fault it is asked for again."""
    words = [row.fault] if isinstance(row.fault, str) else row.fault
    faults = [fault for word in words if (fault := parse_fault(word)) is not None]
    is_repeated = any(isinstance(fault, known_faults.DESTROYS) for fault in faults)
    return [faults, []] if is_repeated else [faults]


def _make_reply(row: _ReplyRow) -> ReplyLike | Rule:
    """Return the parts of a reply; a row without any gives one that fits the request."""
    parts: list[Part | Hosted | str] = [thinking(row.thinking)] if row.thinking is not None else []
    parts += [
        hosted_call(one.name, one.arguments, result=one.result, pages=one.pages, error=one.error)
        for one in row.hosted
    ]
    if row.text is not None:
        source = row.source
        parts.append(row.text if source is None else cited(row.text, source.url, source.title))
    elif row.source is not None:
        raise ConfigurationError("reply.source", "needs a text that cites it", fix="Write text")
    if row.json is not None:
        parts.append(msgspec.json.encode(row.json).decode())
    called = [row.call, *row.calls] if row.call is not None else row.calls
    parts += [call(one.name, one.arguments) for one in called]
    return parts or reply_to_fit


def _read_python(path: Path) -> tuple[Replies, FaultScript]:
    try:
        names: dict[str, Any] = runpy.run_path(str(path))
    except OSError as error:
        raise ConfigurationError(str(path), f"cannot be read: {error.strerror}") from error
    except Exception as error:
        problem = f"cannot be run: {type(error).__name__}: {error}"
        raise ConfigurationError(path.name, problem) from error
    if "replies" not in names:
        fix = 'Write replies = ["Hello"], or def replies(request): ...'
        raise ConfigurationError(path.name, "defines no replies", fix=fix)
    return names["replies"], names.get("faults", ())


def _fault_name(kind: type[Fault]) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind.__name__).lower()


def _has_defaults(kind: type[Fault]) -> bool:
    return len(kind.__struct_defaults__) == len(kind.__struct_fields__)


_SCHEMA_PATHS = (
    ("response_format", "json_schema", "schema"),
    ("text", "format", "schema"),
    ("output_config", "format", "schema"),
    ("output_format", "schema"),
    ("generationConfig", "responseJsonSchema"),
    ("generationConfig", "responseSchema"),
)
"""Where the wires have the schema of the answer."""


def reply_to_fit(request: EmulatedRequest) -> ReplyLike:
    """Reply with what a program can use: a call of a tool, an object of its schema, or the text.

    The first request of a turn calls the tool that the user's text names, or else the first one, with
    valid arguments. After the results, or without tools, the answer has the requested schema; if
    none is requested, it is the results or the user's text. A text keeps to the limit of the request, of
    four characters a token; a user who asks for the numbers from 1 to 200 gets them.

    >>> reply_to_fit(EmulatedRequest())
    'You said: '
    """
    if request.tools and not request.tool_results:
        return _call_tool(request)
    schema = find_schema(request.body)
    if schema is not None:
        return msgspec.json.encode(make_value(schema)).decode()
    if request.tool_results:
        text = "The results: " + " / ".join(result.text for result in request.tool_results)
    elif "numbers from 1 to 200" in request.text:
        text = " ".join(map(str, range(1, 201)))
    else:
        text = echo(request)
    return _keep_limit(text, request.max_tokens)


def _keep_limit(text: str, limit: int | None) -> ReplyLike:
    """Return a text, or its beginning with the finish reason of a reply that reached the limit."""
    if limit is None or len(text) <= 4 * limit:
        return text
    return Reply((Text(text[: 4 * limit]),), finish=FinishReason.LENGTH)


def _call_tool(request: EmulatedRequest) -> ToolCall:
    named = [tool for tool in request.tools if tool.name in request.text]
    tool = (named or list(request.tools))[0]
    arguments = make_value(tool.schema)
    return call(tool.name, arguments if isinstance(arguments, dict) else {})


def find_schema(body: Mapping[str, object]) -> Mapping[str, object] | None:
    """Return the JSON Schema that a request asks the answer to have, on any wire."""
    for path in _SCHEMA_PATHS:
        found: object = body
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        if isinstance(found, Mapping):
            return found
    return None


Schema = Mapping[str, object]

_DEEPEST = 16
_FORMATS = {
    "date": "2025-01-31",
    "date-time": "2025-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "email": "ada@example.org",
    "hostname": "example.org",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.org/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def make_value(schema: Schema) -> object:
    """Make a value that a JSON Schema allows.

    Args:
        schema: the schema; references lead to its own `$defs`.

    Raises:
        ValueError: the schema is recursive without an end, or a reference leads nowhere.

    >>> make_value({"type": "object", "properties": {"city": {"type": "string"}}})
    {'city': 'city'}
    """
    return _make(schema, "text", schema, 0)


def _make(schema: Schema, name: str, root: Schema, depth: int) -> object:
    """Make a value; a text of no format is the name of its property."""
    if depth > _DEEPEST:
        raise ValueError("the schema is nested too deeply, or requires itself")
    if "$ref" in schema:
        return _make(_resolve(str(schema["$ref"]), root), name, root, depth + 1)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    options = schema.get("enum")
    if isinstance(options, list) and options:
        return options[0]
    for key in ("anyOf", "oneOf", "allOf"):
        parts = schema.get(key)
        if isinstance(parts, list) and parts:
            return _make_one_of(parts, name, root, depth)
    return _make_of_type(schema, name, root, depth)


def _make_one_of(parts: list[Schema], name: str, root: Schema, depth: int) -> object:
    """Make a value of the first part that ends; null is the last choice."""
    ordered = sorted(parts, key=lambda part: part.get("type") == "null")
    for part in ordered[:-1]:
        with suppress(ValueError):
            return _make(part, name, root, depth + 1)
    return _make(ordered[-1], name, root, depth + 1)


def _make_of_type(schema: Schema, name: str, root: Schema, depth: int) -> object:
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    kind = str(kind).lower()  # Gemini's own schemas spell types in capitals
    if kind == "object":
        return _make_object(schema, root, depth)
    if kind == "array":
        return _make_array(schema, name, root, depth)
    if kind in ("integer", "number"):
        return _make_number(schema, whole=kind == "integer")
    if kind == "string":
        return _make_text(schema, name)
    return True if kind == "boolean" else None


def _make_object(schema: Schema, root: Schema, depth: int) -> dict[str, object]:
    """Make an object with all its properties; an optional one that does not end is left out."""
    properties, required = schema.get("properties"), schema.get("required")
    made: dict[str, object] = {}
    if not isinstance(properties, Mapping):
        return made
    for name, inner in properties.items():
        try:
            made[name] = _make(inner, name, root, depth + 1)
        except ValueError:
            if isinstance(required, list) and name in required:
                raise
    return made


def _make_array(schema: Schema, name: str, root: Schema, depth: int) -> list[object]:
    first = schema.get("prefixItems")
    made = (
        [_make(inner, name, root, depth + 1) for inner in first] if isinstance(first, list) else []
    )
    items = schema.get("items")
    fewest = max(int(_number(schema, "minItems") or 0), 0)
    wanted = max(fewest, 0 if made or schema.get("maxItems") == 0 else 1)
    if isinstance(items, Mapping):
        try:
            made += [_make(items, name, root, depth + 1) for _ in range(wanted - len(made))]
        except ValueError:
            if fewest:
                raise
    return made


def _make_number(schema: Schema, *, whole: bool) -> float:
    """Make the smallest number that is allowed, from 1 if that is allowed."""
    least, above = _number(schema, "minimum"), _number(schema, "exclusiveMinimum")
    most, below = _number(schema, "maximum"), _number(schema, "exclusiveMaximum")
    step = _number(schema, "multipleOf") or (1.0 if whole else 0.5)
    lowest = max((bound for bound in (least, above) if bound is not None), default=-math.inf)
    highest = min((bound for bound in (most, below) if bound is not None), default=math.inf)
    value = min(max(1.0, lowest), highest)
    value = math.ceil(value / step) * step
    if above is not None and value <= above:
        value += step
    if value > highest or (below is not None and value >= below):
        value = math.floor(highest / step) * step
        value -= step if below is not None and value >= below else 0
    return int(value) if whole else value


def _make_text(schema: Schema, name: str) -> str:
    value = _FORMATS.get(str(schema.get("format")), name)
    fewest, most = _number(schema, "minLength"), _number(schema, "maxLength")
    if fewest is not None:
        value = value.ljust(int(fewest), "x")
    return value if most is None else value[: int(most)]


def _number(schema: Schema, key: str) -> float | None:
    value = schema.get(key)
    return float(value) if isinstance(value, int | float | str) and value != "" else None


def _resolve(reference: str, root: Schema) -> Schema:
    """Find the schema that a reference such as `#/$defs/City` leads to."""
    found: object = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        if part:
            name = part.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping):
        raise ValueError(f"{reference} leads nowhere")  # noqa: TRY004  # REASON: the schema is wrong
    return found
