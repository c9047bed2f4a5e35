"""Validates arguments once, and writes the validated values as JSON for hooks, rules and people.

A value that JSON cannot express is rejected, because rules would check another value than the tool
gets. A value of a class without a known JSON form is shown as the model wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec import Struct
from pydantic import AliasChoices, BaseModel, ValidationError

from holdfast.core.json_strict import NotJson, read_strict_json
from holdfast.tools.argument_wording import RefusedCall
from holdfast.tools.arguments import not_showable, parse_arguments
from holdfast.tools.json_data import NotShowableError, UnknownKindError, fields_data, json_data

_encode = msgspec.json.encode
_PLAIN = frozenset({str, int, bool, type(None)})
"""Types of values that are JSON data as they are."""


class CheckedArguments(Struct, frozen=True, gc=False):
    """The arguments of one call.

    Args:
        validated: the values for the tool.
        text: the same values as JSON text, by the names of the parameters, with defaults.
    """

    validated: BaseModel
    text: str


class Fields(Protocol):
    """The part of a compiled signature that this module uses."""

    schema: Mapping[str, object]
    required: Sequence[str]
    validate_json: Callable[..., BaseModel]
    fields: tuple[tuple[str, str], ...]
    has_shown_names: bool


def check_arguments(
    signature: Fields, text: str, *, edited: bool = False
) -> CheckedArguments | RefusedCall:
    """Validate the argument text of one call, and write the validated values as JSON.

    Args:
        signature: the tool's signature.
        text: the argument text.
        edited: a person or a hook wrote the text, by the names of the parameters.

    Raises:
        Exception: a user's validator raised it.
    """
    validated = parse_arguments(signature, text, by_name=edited)
    if isinstance(validated, RefusedCall):
        return validated
    values, set_fields = validated.__dict__, validated.__pydantic_fields_set__
    try:
        if signature.has_shown_names and _PLAIN.issuperset(map(type, values.values())):
            data = values
        else:
            data = fields_data(
                [(name, values[at], at in set_fields) for name, at in signature.fields]
            )
    except (NotShowableError, UnknownKindError):
        fallback = _field_by_field(signature, text, validated)
        if isinstance(fallback, RefusedCall):
            return fallback
        data = fallback
    try:
        return CheckedArguments(validated, _encode(data).decode())
    except (ValueError, OverflowError, RecursionError):
        return not_showable(", ".join(data), "characters or numbers")


def _field_by_field(
    signature: Fields, text: str, validated: BaseModel
) -> dict[str, object] | RefusedCall:
    """Convert the fields one by one if some value has no JSON form of its own."""
    values, data = validated.__dict__, dict[str, object]()
    for name, field in signature.fields:
        is_set = field in validated.__pydantic_fields_set__
        try:
            if isinstance(values[field], Iterator):
                # An iterator can be read only once, so the tool gets a new one over the same items.
                items = list(values[field])
                values[field] = iter(items)
                data[name] = json_data(items)
            else:
                data[name] = json_data(values[field])
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]["msg"]
            return RefusedCall(
                f"its arguments are invalid:\n- {name}: {problem}\nCorrect them and call it again.",
                "invalid_arguments",
            )
        except NotShowableError as error:
            if is_set:
                return not_showable(name, str(error))
        except UnknownKindError as error:
            if is_set:
                try:
                    data[name] = _as_written(validated, field, text)
                except (NotJson, KeyError):
                    return not_showable(name, str(error))
    return data


def _as_written(validated: BaseModel, field: str, text: str) -> object:
    """Return a field as the model wrote it. Raises NotJson if JSON cannot express it, KeyError if it is not found."""
    written = read_strict_json(text)
    if not isinstance(written, dict):
        raise KeyError(field)
    definition = type(validated).__pydantic_fields__[field]
    alias = definition.validation_alias or definition.alias
    names = alias.choices if isinstance(alias, AliasChoices) else [alias]
    for name in (*names, field):
        if isinstance(name, str) and name in written:
            return written[name]
    raise KeyError(field)
