"""Reads what the emulator does from a file and from words of the command line.

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

import re
import runpy
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import Struct

from holdfast.agent_file.toml_source import AgentFile, read_agent_file
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Part
from holdfast.testing.emulator import faults as known_faults
from holdfast.testing.emulator.faults import ErrorKind, ErrorResponse, Fault, FaultScript
from holdfast.testing.emulator.fitting_replies import reply_to_fit
from holdfast.testing.emulator.hosted_parts import Hosted, cited, hosted_call
from holdfast.testing.emulator.script import Replies, ReplyLike, Rule, call, thinking

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
