"""The JSON of a request: written safely, and joined with the fields that a user adds.

Everything but the history is the head; it is the same for each iteration of a run, so a codec
keeps the bytes of the last one. This module must never know the fields of a wire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Message
from holdfast.core.model_request import ModelRequest, ToolSpec
from holdfast.core.transcript import Form, Transcript

_ENCODER = msgspec.json.Encoder()
_HEADS_KEPT = 8
_WORDS = frozenset({"auto", "none", "required"})


class EncodedHead(Struct, frozen=True):
    """The bytes of everything but the history, and what they were made from."""

    request: ModelRequest
    system: tuple[str, ...]
    encoded: bytes

    def fits_request(self, request: ModelRequest, system: tuple[str, ...]) -> bool:
        """Whether these bytes are right for that request too."""
        ours = self.request
        return (
            ours.tools is request.tools
            and ours.settings is request.settings
            and ours.output is request.output
            and ours.stream is request.stream
            and ours.instructions == request.instructions
            and ours.model == request.model
            and self.system == system
        )


class HeadCache:
    """The heads of the last few requests. Replaced as a whole, so that threads may share it."""

    __slots__ = ("_recent",)

    def __init__(self) -> None:
        self._recent: tuple[EncodedHead, ...] = ()

    def get(
        self, request: ModelRequest, system: tuple[str, ...], encode: Callable[[], bytes]
    ) -> bytes:
        """The bytes of this request's head, made by `encode` when they are not at hand."""
        for head in self._recent:
            if head.fits_request(request, system):
                return head.encoded
        # Without its messages: a kept head must not keep a conversation alive.
        made = EncodedHead(replace(request, messages=(), prefill=""), system, encode())
        self._recent = (made, *self._recent[: _HEADS_KEPT - 1])
        return made.encoded


def to_json(argument: str, value: object) -> bytes:
    r"""JSON text; half a surrogate pair, which UTF-8 cannot hold, becomes a question mark.

    Raises:
        ConfigurationError: something in it has no form in JSON; it names `argument`.

    >>> to_json("settings.extra", {"a": "\ud800"})
    b'{"a":"?"}'
    """
    try:
        try:
            return _ENCODER.encode(value)
        except UnicodeEncodeError:
            return _ENCODER.encode(_replace_surrogates(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(argument, f"cannot be written as JSON: {error}") from None


def leading_system_texts(messages: Sequence[Message]) -> tuple[str, ...]:
    """The texts of the system messages before anything else: these are instructions."""
    texts: list[str] = []
    for message in messages:
        if message.role != "system":
            break
        texts.append(message.text)
    return tuple(texts)


def count_encoded(messages: Sequence[Message], key: str) -> int:
    """How many messages, from the first, a transcript keeps encoded under `key`."""
    return messages.encoded_count(key) if isinstance(messages, Transcript) else 0


def encode_history(
    messages: Sequence[Message], form: Form, head: bytes = b"", tail: bytes = b""
) -> bytes:
    """The encoded messages with commas between; a transcript keeps them under `form.key`.

    A history can be large, so `head` and `tail` are joined to it here, in one copy.

    Raises:
        ConfigurationError: a message has no form on the wire; it names the message. Or no message
            is left.
    """
    try:
        history = messages if isinstance(messages, Transcript) else Transcript(messages)
        body = history.encode_messages(form, head, tail)
    except ConfigurationError:
        for at, message in enumerate(messages[form.skip :], form.skip):
            try:
                form.encode(message)
            except ConfigurationError as error:
                argument = f"messages[{at}].{error.argument}"
                raise ConfigurationError(argument, error.problem, fix=error.fix) from None
        raise
    if len(body) == len(head) + len(tail):
        raise ConfigurationError("messages", "holds nothing to answer", fix="add a user message")
    return body


def merge_extra(
    body: dict[str, object], extra: Mapping[str, object] | None, reserved: Iterable[str]
) -> None:
    """Add the user's own fields: lists grow, objects gain fields, any other value replaces ours.

    >>> body = {"tools": [1], "model": "m"}
    >>> merge_extra(body, {"tools": [2], "top_k": 5}, ("model",))
    >>> body
    {'tools': [1, 2], 'model': 'm', 'top_k': 5}
    """
    for name, value in (extra or {}).items():
        if name in reserved:
            raise ConfigurationError(
                "settings.extra", f"must not replace {name!r}", fix="set it on the request itself"
            )
        known = body.get(name)
        if isinstance(known, list) and isinstance(value, list | tuple):
            body[name] = [*known, *value]
        elif isinstance(known, dict) and isinstance(value, Mapping):
            body[name] = {**known, **value}
        else:
            body[name] = value


def check_tools(
    tools: Sequence[ToolSpec], choice: str | None, extra: Mapping[str, object] | None = None
) -> None:
    """Refuse two tools of one name, a schema that is no object, and a choice that names no tool.

    Args:
        tools: the tools of the request.
        choice: the setting `tool_choice`.
        extra: the user's own fields, which may hold more tools, in the form of the wire.

    Raises:
        ConfigurationError: it names the tool or the setting.
    """
    names: set[str] = set()
    for tool in tools:
        if tool.name in names:
            raise ConfigurationError("tools", f"two tools are named {tool.name[:80]!r}")
        names.add(tool.name)
        if tool.schema.get("type", "object") != "object":
            raise ConfigurationError(
                f"tools.{tool.name}.schema", "must describe an object", fix='use "type": "object"'
            )
    if (
        choice is not None
        and choice not in _WORDS
        and choice not in names | _extra_tool_names(extra)
    ):
        raise ConfigurationError(
            "settings.tool_choice",
            f"no tool is named {choice[:80]!r}",
            fix="auto, none, required or the name of a tool",
        )


def _extra_tool_names(extra: Mapping[str, object] | None) -> set[object]:
    more = (extra or {}).get("tools")
    return {
        tool["name"]
        for tool in (more if isinstance(more, list | tuple) else ())
        if isinstance(tool, Mapping) and isinstance(tool.get("name"), str)
    }


def _replace_surrogates(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {
            _replace_surrogates(key): _replace_surrogates(inner) for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_replace_surrogates(inner) for inner in value]
    return value
