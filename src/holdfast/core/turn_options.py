"""The options of one turn besides those of its agent, as the journal saves them.

Functions, types and model objects cannot be saved. Their fingerprints are, so that a process that
continues the turn learns which of them it lacks. This module must never hold a key or a function.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TypeAlias, cast

import msgspec
from msgspec import Struct

from holdfast.core.argument_checks import check_value
from holdfast.core.client_tools import ClientTool
from holdfast.core.errors import ConfigurationError
from holdfast.core.json_schema import JsonSchema
from holdfast.core.model_request import ModelSettings

Metadata: TypeAlias = Mapping[str, object]
"""JSON values by name, which a caller passes with a turn."""

Fingerprints: TypeAlias = Mapping[str, tuple[str, ...]]
"""The names of the options that cannot be saved, by the keyword that each was passed with."""

LARGEST_METADATA = 16 * 1024
"""The largest size of the metadata of one turn, in bytes of JSON."""

_DEEPEST = 16
_BITS = 64  # of a whole number in the journal, with its sign


class TurnOptions(Struct, frozen=True, omit_defaults=True):
    """The options of one turn besides those of its agent.

    Args:
        model: the name of the model of this turn; "" if it is the agent's or cannot be saved.
        settings: the model settings that the caller passed.
        metadata: the metadata that the caller passed.
        fingerprints: the options of the caller that cannot be saved.
        instructions: the text after the instructions of the agent in this turn.
        client_tools: the tools that the caller runs.
        output: the type of the output, if it is a JSON Schema.
        by: who began the turn.
        trace: the `traceparent` of the caller, or of the first drive if there was none.
        drive: the `traceparent` of the drive that began the turn.
    """

    model: str = ""
    settings: ModelSettings | None = None
    metadata: Metadata = {}
    fingerprints: Fingerprints = {}
    instructions: str = ""
    client_tools: tuple[ClientTool, ...] = ()
    output: JsonSchema | None = None
    by: str = ""
    trace: str = ""
    drive: str = ""


NO_OPTIONS = TurnOptions()


class InterruptedRun(Struct, frozen=True):
    """A run that is about to continue, as a function for `deps=` sees it.

    Args:
        run_id: the id of the run, or the name of the session.
        metadata: the value of `agent.run(metadata=...)` for its last turn.
    """

    run_id: str
    metadata: Metadata = {}


_TRACEPARENT = re.compile("[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


def is_traceparent(text: str) -> bool:
    """Whether a text is a `traceparent` of W3C Trace Context.

    >>> is_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    True
    >>> is_traceparent("00-00000000000000000000000000000000-b7ad6b7169203331-01")
    False
    """
    if _TRACEPARENT.fullmatch(text) is None or text.startswith("ff"):
        return False
    _, trace, span, _ = text.split("-")
    return trace.strip("0") != "" and span.strip("0") != ""


def merge_settings(settings: ModelSettings, given: ModelSettings | None) -> ModelSettings:
    """Return the settings of an agent with those of one turn, field by field.

    >>> merged = merge_settings(ModelSettings(seed=1), ModelSettings(temperature=0))
    >>> merged == ModelSettings(seed=1, temperature=0)
    True
    """
    if given is None:
        return settings
    default = ModelSettings()
    fields = {name: getattr(given, name) for name in ModelSettings.__struct_fields__}
    changed = {name: value for name, value in fields.items() if value != getattr(default, name)}
    return msgspec.structs.replace(settings, **changed)


def copy_metadata(metadata: object) -> Metadata:
    """Check metadata, and return a copy of it as it is read from a journal.

    Raises:
        ConfigurationError: it is not a mapping of names to JSON values, or it is too large.

    >>> copy_metadata({"user": "ann", "tags": ["a"]})
    {'user': 'ann', 'tags': ['a']}
    """
    check_value("metadata", metadata, Mapping)
    given = cast("Mapping[object, object]", metadata)
    copied = {
        _check_key("metadata", key): _copy_value(f"metadata[{key!r}]", value, 1)
        for key, value in given.items()
    }
    try:
        size = len(msgspec.json.encode(copied))
    except UnicodeEncodeError as error:
        raise ConfigurationError("metadata", "has a text that is not valid Unicode") from error
    if size > LARGEST_METADATA:
        raise ConfigurationError(
            "metadata",
            f"takes {size:,} bytes of at most {LARGEST_METADATA:,}",
            fix="Pass an id, and load the rest where it is needed",
        )
    return copied


def _check_key(argument: str, key: object) -> str:
    if not isinstance(key, str):
        raise ConfigurationError(argument, f"has a key that is {type(key).__name__}, not a text")
    return key


def _copy_value(argument: str, value: object, depth: int) -> object:
    if depth > _DEEPEST:
        raise ConfigurationError(argument, f"is nested more than {_DEEPEST} levels deep")
    if isinstance(value, Mapping):
        return {
            _check_key(argument, key): _copy_value(f"{argument}[{key!r}]", one, depth + 1)
            for key, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [_copy_value(f"{argument}[{at}]", one, depth + 1) for at, one in enumerate(value)]
    if _is_plain(value):
        return value
    raise ConfigurationError(
        argument,
        f"JSON cannot express this {type(value).__name__}",
        fix="Pass texts, numbers, booleans, None, lists and mappings; a run has other objects in deps=",
    )


def _is_plain(value: object) -> bool:
    if type(value) is int:
        return value.bit_length() < _BITS
    if type(value) is float:
        return math.isfinite(value)
    return value is None or type(value) in (str, bool)
