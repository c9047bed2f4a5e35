"""Checks arguments against their declared types, and names a wrong one at once.

A type checker finds these mistakes earlier, but there is none for a file, an environment variable or
a notebook. This module must never change a value.
"""

from __future__ import annotations

from functools import cache
from typing import get_type_hints

import msgspec
from msgspec import Struct

from holdfast.core.errors import ConfigurationError


def check_fields(record: Struct, prefix: str, *names: str) -> None:
    """Raise ConfigurationError unless these fields have the types that the record declares.

    Args:
        record: a struct of plain types: numbers, strings, booleans, lists and mappings of them.
        prefix: precedes the field's name in the message.
        names: the names of the fields. A field that has its default value is not checked.
    """
    for name in names:
        value = getattr(record, name)
        if value is not _field_default(type(record), name):
            check_type(f"{prefix}{name}", value, _field_types(type(record))[name])


def check_type(argument: str, value: object, expected: object) -> None:
    """Raise ConfigurationError unless `value` has a type of plain JSON-like values.

    >>> check_type("seed", "x", int | None)
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: seed: is of the wrong type: Expected `int | null`, got `str`
    """
    try:
        msgspec.convert(value, expected)
    except msgspec.ValidationError as error:
        raise ConfigurationError(argument, f"is of the wrong type: {error}") from None


def check_flag(argument: str, value: object) -> None:
    """Raise ConfigurationError unless `value` is True or False."""
    if value is not True and value is not False:
        raise ConfigurationError(argument, f"must be True or False, got {type(value).__name__}")


def check_text(argument: str, value: object) -> None:
    """Raise ConfigurationError unless `value` is a string."""
    if not isinstance(value, str):
        raise ConfigurationError(argument, f"must be a text, got {type(value).__name__}")


def check_instance(argument: str, value: object, *kinds: type, optional: bool = False) -> None:
    """Raise ConfigurationError unless `value` is an instance of `kinds`, or None if it is optional.

    >>> check_instance("answer", 5, str, bytes)
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: answer: must be str or bytes, got int
    """
    if isinstance(value, kinds) or (optional and value is None):
        return
    wanted = " or ".join([kind.__name__ for kind in kinds] + ["None"] * optional)
    raise ConfigurationError(argument, f"must be {wanted}, got {type(value).__name__}")


def check_callable(argument: str, value: object) -> None:
    """Raise ConfigurationError unless `value` can be called."""
    if not callable(value):
        raise ConfigurationError(argument, f"must be a function, got {type(value).__name__}")


def check_optional_callable(argument: str, value: object) -> None:
    """Raise ConfigurationError unless `value` is None or can be called."""
    if value is not None:
        check_callable(argument, value)


def check_port(
    argument: str, value: object, methods: tuple[str, ...], *, optional: bool = True
) -> None:
    """Raise ConfigurationError unless `value` has these methods, or is None if it is optional."""
    if value is None and optional:
        return
    missing = [name for name in methods if not callable(getattr(value, name, None))]
    if isinstance(value, type) or missing:
        got = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
        raise ConfigurationError(
            argument, f"must be an object with {', '.join(methods)}; got {got}"
        )


@cache
def _field_types(kind: type[Struct]) -> dict[str, object]:
    return get_type_hints(kind)


@cache
def _field_default(kind: type[Struct], name: str) -> object:
    for field in msgspec.structs.fields(kind):
        if field.name == name:
            return field.default
    raise AttributeError(name)
