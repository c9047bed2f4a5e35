"""Validates the arguments that a model wrote, or explains the mistakes in them.

Malformed or incomplete arguments are never repaired and never executed. The text must be one JSON
object without duplicate names, NaN or Infinity. An empty text counts as `{}` for a tool without
required arguments, because some providers send it. Values are converted as in pydantic's lax mode
("3" is accepted for 3).

A value that JSON cannot express is rejected, because rules would check another value than the tool
gets. A value of a class without a known JSON form is shown as the model wrote it.

The explanation names each invalid argument, the expected value and the value that the model wrote. The
message of a user's validator is redacted and shortened; the text of any other exception is not shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol, cast

import msgspec
from msgspec import Struct
from pydantic import AliasChoices, BaseModel, ValidationError

from holdfast.core.json_strict import SUBSTITUTE, NotJson, read_strict_json
from holdfast.core.problem_wording import Checked, RawError, word_errors
from holdfast.core.problems import Problem
from holdfast.core.value_wording import Path, list_names, quote_value
from holdfast.tools.json_data import NotShowableError, UnknownKindError, fields_data, json_data
from holdfast.tools.tool_failures import SEND_AGAIN, RefusedCall, refuse_arguments

_CONSTANT = re.compile("NaN|Infinity")
_MOST_PROBLEMS = 10
_MOST_COPIED = 1_000_000


_encode = msgspec.json.encode
_PLAIN = frozenset({str, int, bool, type(None)})
"""Types of values that are JSON data as they are."""


class ArgumentSchema(Protocol):
    """The part of a compiled signature by which arguments are checked."""

    schema: Mapping[str, object]
    required: Sequence[str]
    validate_json: Callable[..., BaseModel]
    fields: tuple[tuple[str, str], ...]
    has_shown_names: bool


class CheckedArguments(Struct, frozen=True, gc=False):
    """The arguments of one call.

    Args:
        validated: the values for the tool.
        text: the same values as JSON text, by the names of the parameters, with defaults.
    """

    validated: BaseModel
    text: str


def check_arguments(
    signature: ArgumentSchema, text: str, *, edited: bool = False, now: float | None = None
) -> CheckedArguments | RefusedCall:
    """Validate the argument text of one call, and write the validated values as JSON.

    Args:
        signature: the tool's signature.
        text: the argument text.
        edited: a person or a hook wrote the text, by the names of the parameters.
        now: the time in seconds since 1970, for messages about dates.

    Raises:
        Exception: a user's validator raised it.
    """
    validated = parse_arguments(signature, text, by_name=edited, now=now)
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
        fallback = _field_by_field(signature, text, validated, now)
        if isinstance(fallback, RefusedCall):
            return fallback
        data = fallback
    try:
        return CheckedArguments(validated, _encode(data).decode())
    except (ValueError, OverflowError, RecursionError):
        return not_showable(", ".join(data), "characters or numbers")


def _field_by_field(
    signature: ArgumentSchema, text: str, validated: BaseModel, now: float | None
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
            written = _find_name(validated, field, json.loads(text))
            return _refuse_item(signature, error, (text, written), now)
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


def _refuse_item(
    signature: ArgumentSchema, error: ValidationError, written: tuple[str, str], now: float | None
) -> RefusedCall:
    """Refuse an argument with an item that is validated when it is read.

    Args:
        signature: the tool's signature.
        error: the error of the item.
        written: the argument text, and the name of the argument in it.
        now: the time, for messages about dates.
    """
    text, name = written
    value = Checked(json.loads(text), signature.schema, show_time(now), "the arguments")
    return refuse_arguments(*word_validation_error(error, value, 1, len(text), inside=name))


def _as_written(validated: BaseModel, field: str, text: str) -> object:
    """Return a field as the model wrote it. Raises NotJson if JSON cannot express it, KeyError if it is not found."""
    written = read_strict_json(text)
    name = _find_name(validated, field, written)
    if not isinstance(written, dict) or name not in written:
        raise KeyError(field)
    return written[name]


def _find_name(validated: BaseModel, field: str, written: object) -> str:
    """Return the name of a field in the arguments of a model: one of its aliases, or its own."""
    definition = type(validated).__pydantic_fields__[field]
    alias = definition.validation_alias or definition.alias
    names = alias.choices if isinstance(alias, AliasChoices) else [alias]
    given = written if isinstance(written, dict) else {}
    return next((name for name in names if isinstance(name, str) and name in given), field)


def parse_arguments(
    signature: ArgumentSchema, text: str, *, by_name: bool = False, now: float | None = None
) -> BaseModel | RefusedCall:
    """Validate the argument text of one call.

    Args:
        signature: the tool's signature.
        text: the argument text of the model.
        by_name: arguments may have the names of their parameters as well as their aliases.
        now: the time in seconds since 1970, for messages about dates.

    Raises:
        Exception: a user's validator raised it; a ValueError or AssertionError rejects the value
            and is not raised here.
    """
    if not text.strip():
        if signature.required:
            return _refuse_malformed("its arguments are empty", signature)
        text = "{}"
    try:
        if by_name:
            validated = signature.validate_json(text, by_alias=True, by_name=True)
        else:
            validated = signature.validate_json(text)
    except ValidationError as error:
        # The error may also come from a validation inside the user's validator.
        return _refuse_invalid(signature, text, error, now)
    # Each name has at least one colon, so equal counts prove cheaply that no name is duplicated.
    if text.count(":") != len(validated.__pydantic_fields_set__) or _CONSTANT.search(text):
        return _check_strictness(text) or validated
    return validated


def _refuse_malformed(problem: str, signature: ArgumentSchema | None = None) -> RefusedCall:
    names = list_names(signature.required) if signature is not None else ""
    needed = f" It needs: {names}." if names else ""
    return RefusedCall(f"{problem}.{needed} {SEND_AGAIN}", "malformed_arguments")


def not_showable(name: str, problem: str) -> RefusedCall:
    """Return the refusal of an argument that JSON cannot express.

    Args:
        name: the argument.
        problem: the mistake in it.
    """
    return _refuse_malformed(
        f"its argument {quote_value(name)} holds {problem}, which JSON cannot express"
    )


class _DuplicateName(ValueError):
    """A name that occurs twice in one object."""


def _check_strictness(text: str) -> RefusedCall | None:
    """Reject text that pydantic's parser accepts and JSON does not: duplicate names, NaN, Infinity."""
    try:
        json.loads(text, object_pairs_hook=_build_object, parse_constant=_reject_constant)
    except _DuplicateName as error:
        return _refuse_malformed(
            f"its arguments have the name {quote_value(str(error))} twice in one object"
        )
    except ArithmeticError as error:
        return _refuse_malformed(f"its arguments hold {error}, which is not a JSON number")
    except (ValueError, RecursionError):
        # pydantic's parser accepts more nesting and longer numbers than Python's.
        return _refuse_malformed("its arguments are nested too deeply or hold too long a number")
    return None


def _build_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        names: set[str] = set()
        for name, _ in pairs:
            if name in names:
                raise _DuplicateName(name)
            names.add(name)
    return fields


def _reject_constant(constant: str) -> object:
    raise ArithmeticError(constant)


def _refuse_invalid(
    signature: ArgumentSchema, text: str, error: ValidationError, now: float | None
) -> RefusedCall:
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    if problems[0]["type"] == "json_invalid" and not problems[0]["loc"]:
        return _refuse_bad_json(text, problems[0]["msg"].removeprefix("Invalid JSON: "))
    if problems[0]["type"] == "string_unicode" and not problems[0]["loc"]:
        return _refuse_malformed("its arguments are not valid Unicode")
    try:
        written = json.loads(text)
    except (ValueError, RecursionError):
        return _refuse_malformed("its arguments cannot be read as JSON")
    if not isinstance(written, dict):
        return _refuse_non_object(written)
    checked = Checked(written, signature.schema, show_time(now), "the arguments")
    return refuse_arguments(*word_validation_error(error, checked, _MOST_PROBLEMS, len(text)))


def word_validation_error(
    error: ValidationError, checked: Checked, most: int, size: int, *, inside: str | None = None
) -> tuple[tuple[Problem, ...], int]:
    """Describe the problems of a value, and return how many more it has.

    Args:
        error: the error of pydantic.
        checked: the value.
        most: how many problems are described.
        size: the number of characters of the value as JSON.
        inside: the name of the field that the error is about, if it is not about the whole value.
    """
    # Each error copies its input, so many errors about large values would take seconds.
    with_input = error.error_count() * size <= _MOST_COPIED
    raw_errors = error.errors(include_url=False, include_input=with_input)
    entries = cast("list[RawError]", raw_errors)
    if inside is not None:
        entries = [{**entry, "loc": (inside, *cast("Path", entry["loc"]))} for entry in entries]
    return word_errors(entries, checked, most)


def show_time(now: float | None) -> str:
    """Return a time in seconds since 1970 in the local time zone; "" for None.

    >>> len(show_time(1_700_000_000.0))
    25
    """
    if now is None:
        return ""
    try:
        return datetime.fromtimestamp(now).astimezone().isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return ""  # the clock of a test may show any number


def _refuse_bad_json(text: str, problem: str) -> RefusedCall:
    """Quote the parser's message, and the text around the position that it names."""
    if SUBSTITUTE in text:
        return _refuse_malformed("its arguments are not valid Unicode")
    message, _, position = problem.rpartition(" at line ")
    line, _, column = position.partition(" column ")
    if not (message and line.isdigit() and column.isdigit()):
        return _refuse_malformed("its arguments are not valid JSON")
    lines = text.encode("utf-8", "replace").split(b"\n")
    row = min(int(line), len(lines)) - 1
    before = b"\n".join([*lines[:row], lines[row][: int(column)]]).decode("utf-8", "ignore")
    # The parser counts bytes, but the message counts characters.
    column_shown = len(before) - before.rfind("\n") - 1
    rest = text[len(before) : len(before) + 20]
    near = f"`{before[-50:]}{rest}`"
    return _refuse_malformed(
        f"its arguments are not valid JSON: {message} at line {line} column {column_shown}, near {near}"
    )


def _refuse_non_object(written: object) -> RefusedCall:
    kinds = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    kind_name = kinds.get(type(written), "a number")
    hint = " Do not quote the object." if isinstance(written, str) else ""
    return _refuse_malformed(
        f"its arguments must be one JSON object, and are {kind_name}.{hint}".rstrip(".")
    )
