"""Encodes the JSON body of a request, and merges the fields that a user adds.

The head is everything but the history. It is the same in each iteration of a run, so a codec caches
its bytes. This module knows only fields that several wires share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import fields, replace

from holdfast.codecs.schemas.rewriting import Rewritings
from holdfast.core.errors import ConfigurationError
from holdfast.core.hosted_tools import UserLocation, missing_hosted_tool
from holdfast.core.messages import Extra, Message, user
from holdfast.core.model_request import ModelRequest, ModelSettings, ToolSpec
from holdfast.core.transcript import Form, Transcript

HeadParts: TypeAlias = tuple[bytes, Rewritings | None]
"""The bytes of a head, and the changes in the reply that its schemas need."""

EMPTY_MESSAGE = "(The message is empty.)"
"""The text of a user message without content, on a wire that refuses one."""

GO_ON = user("(Go on.)")
"""The message after a reply that the model is to continue, on a wire that does not end with a reply."""

_ENCODER = msgspec.json.Encoder()
_CACHED_HEADS = 8
_LONGEST_CACHE_KEY = 64
_TOOL_CHOICES = frozenset({"auto", "none", "required"})


class EncodedHead(Struct, frozen=True):
    """The encoded head, and the request that it was made from.

    `rewritings` are the changes in the reply that undo those of the schemas in the head, if there are any.
    """

    request: ModelRequest
    system: tuple[str, ...]
    encoded: bytes
    rewritings: Rewritings | None = None

    def fits_request(self, request: ModelRequest, system: tuple[str, ...]) -> bool:
        """Whether the head of that request has the same bytes."""
        cached = self.request
        return (
            cached.tools is request.tools
            and cached.hosted_tools is request.hosted_tools
            and cached.settings is request.settings
            and cached.output is request.output
            and cached.stream is request.stream
            and cached.instructions == request.instructions
            and cached.model == request.model
            and self.system == system
        )


class HeadCache:
    """The heads of the last few requests. The tuple is replaced as a whole, so that threads can share it.

    Args:
        wire: the codec's name, for errors.
        settings: the fields of `ModelSettings` that the codec knows; a request that sets another one is
            refused before its head is encoded. None knows all.
    """

    __slots__ = ("_recent", "_settings", "_wire")

    def __init__(self, wire: str = "", settings: frozenset[str] | None = None) -> None:
        self._recent: tuple[EncodedHead, ...] = ()
        self._wire = wire
        self._settings = settings

    def get(
        self, request: ModelRequest, system: tuple[str, ...], encode: Callable[[], HeadParts]
    ) -> EncodedHead:
        """Return this request's head, from the cache or from `encode`.

        Raises:
            ConfigurationError: the codec does not know a setting, or `encode` refuses the request.
        """
        for head in self._recent:
            if head.fits_request(request, system):
                return head
        if self._settings is not None:
            refuse_unknown_settings(request.settings, self._settings, self._wire)
        # The messages are removed, so that the cache does not keep a history in memory.
        fresh = EncodedHead(replace(request, messages=(), prefill=""), system, *encode())
        self._recent = (fresh, *self._recent[: _CACHED_HEADS - 1])
        return fresh


def refuse_unknown_settings(settings: ModelSettings, known: frozenset[str], wire: str) -> None:
    """Raise ConfigurationError for a setting that a codec does not know and that is not at its default.

    Args:
        settings: the settings of a request.
        known: the names of the fields that the codec declares.
        wire: the codec's name.

    >>> refuse_unknown_settings(ModelSettings(seed=1), frozenset({"max_tokens"}), "morse")
    Traceback (most recent call last):
    holdfast.core.errors.ConfigurationError: settings.seed: has no field on the wire morse. leave it unset
    """
    if known.issuperset(settings.__struct_fields__):
        return
    for field in fields(settings):
        if field.name not in known and getattr(settings, field.name) != field.default:
            problem = f"has no field on the wire {wire}"
            raise ConfigurationError(f"settings.{field.name}", problem, fix="leave it unset")


def to_json(argument: str, value: object) -> bytes:
    r"""Encode a value as JSON; an unpaired surrogate becomes a question mark, since UTF-8 has no form for it.

    Raises:
        ConfigurationError: JSON cannot express the value; the error names `argument`.

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
    """Return the texts of the system messages at the beginning, which are instructions."""
    texts: list[str] = []
    for message in messages:
        if message.role != "system":
            break
        texts.append(message.text)
    return tuple(texts)


def count_encoded(messages: Sequence[Message], key: str) -> int:
    """Return how many messages, from the first, a transcript has encoded under `key`."""
    return messages.encoded_count(key) if isinstance(messages, Transcript) else 0


def encode_history(
    messages: Sequence[Message],
    form: Form,
    head: bytes = b"",
    tail: bytes = b"",
    *,
    given: Sequence[Message] | None = None,
) -> bytes:
    """Return the encoded messages, separated by commas; a transcript caches them under `form.key`.

    A history can be large, so `head` and `tail` are joined to it here, in one copy. `given` is the history
    before messages of it were joined or added: an error names a message by its place there.

    Raises:
        ConfigurationError: the wire cannot express a message (the error names it), or there is no
            message.
    """
    try:
        history = messages if isinstance(messages, Transcript) else Transcript(messages)
        body = history.encode_messages(form, head, tail)
    except ConfigurationError:
        for at, message in enumerate((given or messages)[form.skip :], form.skip):
            try:
                form.encode(message)
            except ConfigurationError as error:
                argument = f"messages[{at}].{error.argument}"
                raise ConfigurationError(argument, error.problem, fix=error.fix) from None
        raise
    if len(body) == len(head) + len(tail):
        raise ConfigurationError(
            "messages", "holds no message to reply to", fix="add a user message"
        )
    return body


def merge_extra(
    body: dict[str, object], extra: Mapping[str, object] | None, reserved: Iterable[str]
) -> None:
    """Merge the user's fields into a body: lists are extended, objects updated, other values replaced.

    Raises:
        ConfigurationError: a field is reserved.

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
        current = body.get(name)
        if isinstance(current, list) and isinstance(value, list | tuple):
            body[name] = [*current, *value]
        elif isinstance(current, dict) and isinstance(value, Mapping):
            body[name] = {**current, **value}
        else:
            body[name] = value


def cache_fields(settings: ModelSettings) -> dict[str, object]:
    """Return the fields that make OpenAI's servers cache a prefix: how long and where.

    Raises:
        ConfigurationError: the key is longer than the servers take.

    >>> cache_fields(ModelSettings(cache="1h", cache_key="trips"))
    {'prompt_cache_retention': '24h', 'prompt_cache_key': 'trips'}
    """
    retention = {"5m": "in_memory", "1h": "24h", "24h": "24h"}
    fields: dict[str, object] = {}
    if isinstance(settings.cache, str):
        fields["prompt_cache_retention"] = retention[settings.cache]
    if settings.cache_key is not None:
        if len(settings.cache_key) > _LONGEST_CACHE_KEY:
            raise ConfigurationError(
                "settings.cache_key",
                f"must have at most {_LONGEST_CACHE_KEY} characters on OpenAI's wires",
                fix="use a digest of it",
            )
        fields["prompt_cache_key"] = settings.cache_key
    return fields


def encode_location(location: UserLocation | None) -> dict[str, object] | None:
    """Return the location in the form that several wires share; None without a location.

    >>> encode_location(UserLocation(city="Porto"))
    {'type': 'approximate', 'city': 'Porto'}
    """
    if location is None:
        return None
    fields = {name: getattr(location, name) for name in location.__struct_fields__}
    given = {name: value for name, value in fields.items() if value is not None}
    return {"type": "approximate", **given}


def own_extra(extra: Extra | None, wire: str) -> dict[str, object]:
    """Return the fields that `wire` stored on a part; the fields of another wire are not sent."""
    if not extra or extra.get("wire") != wire:
        return {}
    return {key: value for key, value in extra.items() if key != "wire"}


def check_no_hosted_tools(request: ModelRequest, wire: str) -> None:
    """Raise ConfigurationError if a request has tools of the provider, for a wire without them."""
    if request.hosted_tools:
        raise missing_hosted_tool(request.hosted_tools[0], wire)


def find_deferred(tools: Sequence[ToolSpec]) -> frozenset[str]:
    """Return the names of the tools that a search of the provider finds; in a list they come last.

    >>> find_deferred([ToolSpec("a", "", {}), ToolSpec("b", "", {}, deferred_group="files")])
    frozenset({'b'})
    """
    if not tools or tools[-1].deferred_group is None:
        return frozenset()
    return frozenset([tool.name for tool in tools if tool.deferred_group is not None])


def digest_names(names: Iterable[str]) -> str:
    """Return a text that is the same for the same names, for the key of an encoded history."""
    return blake2b("\n".join(sorted(names)).encode(), digest_size=8).hexdigest()


def check_no_deferred_tools(tools: Sequence[ToolSpec], wire: str) -> None:
    """Raise ConfigurationError if a tool waits for a search of the provider, for a wire or model without one."""
    if any(tool.deferred_group is not None for tool in tools):
        raise ConfigurationError(
            "tools",
            f"{wire} has no search for tools of the provider's own",
            fix='Write ToolSearch(..., native="never"), which searches here',
        )


def check_tools(
    tools: Sequence[ToolSpec], choice: str | None, extra: Mapping[str, object] | None = None
) -> None:
    """Check the names and schemas of the tools and the choice between them.

    Args:
        tools: the tools of the request.
        choice: the setting `tool_choice`.
        extra: the user's fields, which may hold more tools in the form of the wire.

    Raises:
        ConfigurationError: two tools have one name, a schema is not of an object, or the choice
            names an unknown tool.
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
        and choice not in _TOOL_CHOICES
        and choice not in names | _extra_tool_names(extra)
    ):
        raise ConfigurationError(
            "settings.tool_choice",
            f"no tool is named {choice[:80]!r}",
            fix="auto, none, required or the name of a tool",
        )


def _extra_tool_names(extra: Mapping[str, object] | None) -> set[object]:
    tools = (extra or {}).get("tools")
    return {
        tool["name"]
        for tool in (tools if isinstance(tools, list | tuple) else ())
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
