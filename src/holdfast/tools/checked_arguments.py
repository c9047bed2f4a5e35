"""Arguments validated once: the values that the tool gets, and the same values as JSON data.

What cannot be shown is refused: a number that JSON cannot hold would be judged as something else
than what runs. A value of a class whose JSON form is not known is shown as the model wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec import Struct
from pydantic import AliasChoices, BaseModel, ValidationError

from holdfast.core.json_strict import NotJson, is_finite, read_strict_json
from holdfast.tools.argument_wording import RefusedCall
from holdfast.tools.arguments import not_showable, parse_arguments
from holdfast.tools.json_data import NotShowableError, UnknownKindError, fields_data, json_data

_encode = msgspec.json.encode


class CheckedArguments(Struct, frozen=True, gc=False):
    """The arguments of one call.

    Args:
        validated: the values that the tool gets.
        text: the same values as JSON text, by the names of the parameters, with defaults.
    """

    validated: BaseModel
    text: str


class Fields(Protocol):
    """What this module needs of a compiled signature."""

    schema: Mapping[str, object]
    required: Sequence[str]
    validate_json: Callable[..., BaseModel]
    fields: tuple[tuple[str, str], ...]
    is_plain: bool


def check_arguments(
    signature: Fields, text: str, *, edited: bool = False
) -> CheckedArguments | RefusedCall:
    """Validate the argument text of one call, and write the validated values as JSON.

    Args:
        signature: of the tool.
        text: as the model wrote it.
        edited: somebody else wrote it, who was shown the names of the parameters.

    Raises:
        Exception: whatever a validator of the user raises.
    """
    validated = parse_arguments(signature, text, by_name=edited)
    if isinstance(validated, RefusedCall):
        return validated
    values, given = validated.__dict__, validated.__pydantic_fields_set__
    if signature.is_plain and (plain := _plain_text(values)):
        return CheckedArguments(validated, plain)
    try:
        data = fields_data((name, values[at], at in given) for name, at in signature.fields)
    except (NotShowableError, UnknownKindError):
        shown = _field_by_field(signature, text, validated)
        if isinstance(shown, RefusedCall):
            return shown
        data = shown
    try:
        return CheckedArguments(validated, _encode(data).decode())
    except (ValueError, OverflowError, RecursionError):
        return not_showable(", ".join(data), "characters or numbers")


def _plain_text(values: dict[str, object]) -> str:
    """Values of plain types as JSON text; empty for what JSON cannot hold."""
    try:
        text = _encode(values)
    except (ValueError, OverflowError, RecursionError):
        return ""
    # The encoder writes null for infinity.
    return "" if b"null" in text and not is_finite(values) else text.decode()


def _field_by_field(
    signature: Fields, text: str, validated: BaseModel
) -> dict[str, object] | RefusedCall:
    """What is shown where some value has no JSON form of its own, or none at all."""
    values, data = validated.__dict__, dict[str, object]()
    for name, field in signature.fields:
        given = field in validated.__pydantic_fields_set__
        try:
            if isinstance(values[field], Iterator):
                # It can be read once only, and what is shown must be what the tool reads.
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
            if given:
                return not_showable(name, str(error))
        except UnknownKindError as error:
            if given:
                try:
                    data[name] = _as_written(validated, field, text)
                except (NotJson, KeyError):
                    return not_showable(name, str(error))
    return data


def _as_written(validated: BaseModel, field: str, text: str) -> object:
    """Raises NotJson for what JSON cannot hold, and KeyError for what has a place of its own."""
    written = read_strict_json(text)
    if not isinstance(written, dict):
        raise KeyError(field)
    known = type(validated).__pydantic_fields__[field]
    alias = known.validation_alias or known.alias
    names = alias.choices if isinstance(alias, AliasChoices) else [alias]
    for name in (*names, field):
        if isinstance(name, str) and name in written:
            return written[name]
    raise KeyError(field)
