"""Makes sure that an event can be read again before it is saved.

A user's code can put a value of the wrong type into an event: an `ErrorInfo` where a text belongs, a
list that contains itself, a subclass of `str`. Such a record would be written, and its session could
never be opened again. So each event is encoded and decoded once, and a value that does not come back is
replaced by its text, without secrets. This module must never change an event that can be read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from math import isfinite
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Struct

from holdfast.core.cost import Cost
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import (
    Event,
    LimitExtended,
    ModelReplied,
    Status,
    ToolFinished,
    ToolsBegun,
    TurnClosed,
    TurnOpened,
    TurnResumed,
)
from holdfast.core.limits import Limits
from holdfast.core.messages import (
    NO_USAGE,
    FinishReason,
    Message,
    Reply,
    ReplyKind,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from holdfast.core.redaction import redact
from holdfast.core.turn_options import NO_OPTIONS
from holdfast.journal.encoding import (
    decode,
    encode,
    from_json,
    parse_json,
    record_of,
    to_json,
    to_line,
)
from holdfast.journal.port import Record

_log = logging.getLogger("holdfast")
_DEEPEST: Final = 40
_MOST_TEXT: Final = 4_000
_MOST_ITEMS: Final = 1_000
_MOST_TOKENS: Final = 2**53  # a power of two
_ROLES: Final = frozenset(get_args(Role))


def make_readable(event: Event) -> Event:
    """Return an event that can be read again after it was saved: the same one, nearly always.

    Raises:
        ConfigurationError: nothing of it can be saved.

    >>> event = ToolsBegun("t1.i0.begun", 1.0)
    >>> make_readable(event) is event
    True
    """
    check = _PLAIN.get(type(event))
    is_plain = check is not None and type(event.at) is float and isfinite(event.at) and check(event)
    return event if is_plain or _survives(event) else _replace_wrong(event)


# Nearly every event holds texts, and encoding it twice would cost a few percent of a turn. So these
# functions look at the types of its values. Other values are encoded and decoded.


def _is_count(value: Any) -> bool:
    # JSON has larger numbers, but a decoder does not take them for an int of 64 bits.
    return type(value) is int and abs(value) < _MOST_TOKENS


def _is_plain_opening(event: Any) -> bool:
    message = event.message
    return (
        (type(message), type(event.limits)) == (Message, Limits)  # limits check their fields
        and type(message.role) is str
        and message.role in _ROLES
        and _is_count(event.flags)
        and (event.hooks_called is None or _is_count(event.hooks_called))
        and _are_plain_parts(message.parts)
        and type(event.agent) is type(event.request) is str
        and (event.instructions is None or type(event.instructions) is str)
        and event.history == ()
        and (event.options is None or _is_only_traced(event.options))
    )


def _is_only_traced(options: Any) -> bool:
    """Whether the options of a turn are nothing but its place in a trace, as each turn with a tracer has them."""
    plain = msgspec.structs.replace(options, trace="", drive="")
    return plain == NO_OPTIONS and type(options.trace) is type(options.drive) is str


def _is_plain_reply(event: Any) -> bool:
    reply = event.reply
    return (
        type(reply) is Reply
        and _are_plain_parts(reply.parts)
        and type(reply.kind) is ReplyKind
        and type(reply.finish) is FinishReason
        and type(reply.model) is type(reply.id) is type(reply.raw_finish) is str
        and type(reply.tier) is type(event.by) is type(event.drive) is str
        and (event.cost is None or type(event.cost) is Cost)  # it checks its fields
        and _is_plain_usage(reply.usage)
        and _is_count(event.attempts)
        and _is_count(reply.continued)
        and type(event.downtime) is float
        and isfinite(event.downtime)
        and event.tried == ()
        and event.lost is None
        and event.offered is None
    )


def _is_plain_result(event: Any) -> bool:
    result = event.result
    return (
        (type(result), event.error) == (ToolResult, None)
        and type(result.call_id) is type(result.name) is str
        and _are_plain_parts(result.content)
        and type(result.is_error) is type(result.in_doubt) is bool
        and _is_count(event.attempts)
        and (event.usage is NO_USAGE or _is_plain_usage(event.usage))
        and type(event.same_as) is type(event.drive) is str
        and (event.cost is None or type(event.cost) is Cost)
        and type(event.downtime) is float
        and isfinite(event.downtime)
    )


def _are_plain_parts(parts: Any) -> bool:
    if type(parts) is not tuple:
        return False
    for part in parts:
        kind = type(part)
        if kind is ToolCall:
            if not type(part.id) is type(part.name) is type(part.arguments) is str:
                return False
            if part.wire is not None and type(part.wire) is not str:
                return False
        elif kind is not Text or type(part.text) is not str:
            return False
        # On some wires, every part has fields that are sent back.
        if part.extra is not None and not _is_plain_json(part.extra):
            return False
    return True


def _is_plain_json(value: Any) -> bool:
    """Whether a value is equal to what a decoder makes of its JSON."""
    try:
        return bool(parse_json(to_json(value)) == value)
    except Exception:  # noqa: BLE001  # REASON: the values are of any type
        return False


def _is_plain_usage(usage: Any) -> bool:
    """Whether this is a usage whose numbers can be read again."""
    return (
        type(usage) is Usage
        and type(usage.input) is type(usage.output) is type(usage.cached_input) is int
        and type(usage.cache_write) is type(usage.reasoning) is type(usage.hosted_calls) is int
        and type(usage.cache_write_1h) is type(usage.audio_input) is type(usage.audio_output) is int
        # One comparison for all: the bits of each number are in the result, and so is its sign.
        and 0
        <= (
            usage.input
            | usage.output
            | usage.cached_input
            | usage.cache_write
            | usage.reasoning
            | usage.hosted_calls
            | usage.cache_write_1h
            | usage.audio_input
            | usage.audio_output
        )
        < _MOST_TOKENS
    )


_PLAIN: Final[dict[type[Event], Callable[..., bool]]] = {
    TurnOpened: _is_plain_opening,
    ModelReplied: _is_plain_reply,
    ToolFinished: _is_plain_result,
    # Events without a value of anybody else.
    ToolsBegun: lambda _: True,
    TurnResumed: lambda _: True,
    LimitExtended: lambda _: True,
    TurnClosed: lambda event: event.error is None and type(event.status) is Status,
}


def _survives(event: Event) -> bool:
    """Whether an event is the same after it was encoded and decoded, as a reader decodes it."""
    try:
        found = record_of(decode(encode(to_line("", 0, Record(event))))).event
        return found == event or _is_same(event, found)
    except Exception:  # noqa: BLE001  # REASON: the values are of any type
        return False


def _is_same(value: object, found: object) -> bool:
    """Whether JSON has changed no value into another: bytes into a text, or NaN into null."""
    if isinstance(value, bytes | bytearray | memoryview):
        return not isinstance(found, str)
    if isinstance(value, float):
        return found is not None
    if isinstance(value, Struct) and isinstance(found, Struct):
        names = found.__struct_fields__
        return all(_is_same(getattr(value, name), getattr(found, name)) for name in names)
    if isinstance(value, list | tuple) and isinstance(found, list | tuple):
        return all(map(_is_same, value, found))
    if isinstance(value, Mapping) and isinstance(found, Mapping):
        return all(map(_is_same, value.values(), found.values()))
    return True


def _replace_wrong(event: Event) -> Event:
    fields: dict[str, Any] = {
        field.name: _repair(getattr(event, field.name), field.type, field.default, 0)
        for field in msgspec.structs.fields(type(event))
    }
    wrong = [name for name, value in fields.items() if value is not getattr(event, name)]
    try:
        repaired = type(event)(**fields)
    except Exception as error:
        raise _unwritable(event) from error
    if not _survives(repaired):
        raise _unwritable(event)
    _log.warning(
        "event %s held values that cannot be saved, and their texts were saved instead: %s",
        event.key,
        ", ".join(wrong),
    )
    return repaired


def _unwritable(event: Event) -> ConfigurationError:
    return ConfigurationError("event", f"{event.key} holds values that cannot be saved")


def _repair(value: object, wanted: object, default: object, depth: int) -> object:
    """Return the value if it can be read again as `wanted`, or its replacement."""
    if _is_readable(value, wanted):
        return value
    if depth < _DEEPEST:
        rebuilt = _rebuild(value, wanted, depth + 1)
        if rebuilt is not None and _is_readable(rebuilt, wanted):
            return rebuilt
    for candidate in _list_replacements(value, wanted, default):
        if _is_readable(candidate, wanted):
            return candidate
    return default


def _is_readable(value: object, wanted: object) -> bool:
    try:
        plain = from_json(to_json({"value": value}), "event")["value"]
        return _is_same(value, msgspec.convert(plain, wanted))
    except Exception:  # noqa: BLE001  # REASON: the values are of any type
        return False


def _rebuild(value: object, wanted: object, depth: int) -> object:
    """Return a structure with its wrong parts replaced; None if it is no structure."""
    if isinstance(value, Struct):
        kind = next(kind for kind in type(value).__mro__ if kind.__module__.startswith("holdfast."))
        try:
            return kind(
                **{
                    field.name: _repair(
                        getattr(value, field.name), field.type, field.default, depth
                    )
                    for field in msgspec.structs.fields(kind)
                }
            )
        except Exception:  # noqa: BLE001  # REASON: a check of the struct refuses it
            return None
    if isinstance(value, Mapping):
        inner = next((args[1] for args in _find_arguments(wanted, Mapping, dict)), object)
        return {
            _to_text(key): _repair(one, inner, None, depth)
            for key, one in list(value.items())[:_MOST_ITEMS]
        }
    if isinstance(value, list | tuple | set | frozenset):
        inner = next((args[0] for args in _find_arguments(wanted, tuple, list)), object)
        return tuple(_repair(one, inner, None, depth) for one in list(value)[:_MOST_ITEMS])
    return None


def _find_arguments(wanted: object, *origins: type) -> Iterator[tuple[Any, ...]]:
    """Yield the arguments of those members of a type that are containers of one of these kinds."""
    for member in _find_members(wanted):
        origin = get_origin(member)
        if isinstance(origin, type) and issubclass(origin, origins):
            yield get_args(member)


def _find_members(wanted: object) -> tuple[Any, ...]:
    return get_args(wanted) if get_origin(wanted) in (Union, UnionType) else (wanted,)


def _list_replacements(value: object, wanted: object, default: object) -> Iterator[object]:
    """Yield the values that may stand for a wrong one, the best first."""
    text = _to_text(value)
    yield text
    yield Text(text)
    yield (Text(text),)
    if not isinstance(default, msgspec.UnsetType) and default is not msgspec.NODEFAULT:
        yield default
    yield None
    if get_origin(wanted) is Literal:  # a message of nobody in particular is the user's
        yield from sorted(get_args(wanted), key=lambda member: member != "user")
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        yield next(iter(wanted))  # the first one says that nothing is known
    yield from (0, False, (), {})
    for kind in _find_members(wanted):
        if isinstance(kind, type) and issubclass(kind, Struct):
            yield _make_struct(kind, text)


def _make_struct(kind: type[Struct], text: str) -> object:
    """Return a structure that has a text where it needs a value; None if it does not accept it."""
    needed = [field for field in msgspec.structs.fields(kind) if field.required]
    try:
        return kind(**{one.name: _repair(text, one.type, one.default, _DEEPEST) for one in needed})
    except Exception:  # noqa: BLE001  # REASON: a check of the struct refuses it
        return None


def _to_text(value: object) -> str:
    """Return the text of any value, without secrets."""
    if isinstance(value, str):
        text = str.__str__(value)
    elif isinstance(value, bytes | bytearray):
        text = bytes(value[:_MOST_TEXT]).decode(errors="replace")
    else:
        try:
            text = str.__str__(str(value))
        except Exception:  # noqa: BLE001  # REASON: `__str__` is the user's code
            text = f"({type(value).__name__}: its text cannot be read)"
    return redact(text)[:_MOST_TEXT]
