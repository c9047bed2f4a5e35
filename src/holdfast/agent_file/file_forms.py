"""How a file writes each setting, found from the declared types.

This module must not read a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

from holdfast.runtime.compile import AgentKeywords
from holdfast.runtime.output.structured_output import OutputKind, StructuredOutput

_NOT_IN_FILES = frozenset({"api_key", "transport", "clock", "rng", "metrics"})


@dataclass(frozen=True)
class FileForm:
    """How a file writes a setting; `plain` is the type of a value, and `record` that of a table."""

    written_as: Literal["value", "table", "name", "list of names"]
    plain: object = None
    record: type[Struct] | None = None


def find_keyword_forms() -> dict[str, FileForm]:
    """Return how a file writes each keyword of `Agent` that it may have."""
    names = {"OutputKind": OutputKind, "StructuredOutput": StructuredOutput}
    return find_forms(get_type_hints(AgentKeywords, localns=names))


def find_forms(declared: Mapping[str, object]) -> dict[str, FileForm]:
    """Return how a file writes settings, by their names and declared types."""
    return {
        name: find_file_form(kind) for name, kind in declared.items() if name not in _NOT_IN_FILES
    }


def find_file_form(declared: object) -> FileForm:
    """Return how a file writes a setting that has this declared type.

    A type that TOML can express is written as it is, a record of settings as a table, and any other
    object as "module:name".

    >>> find_file_form(Sequence[str]).plain
    list[str]
    """
    plain, record = _find_plain_type(declared), _find_record(declared)
    if plain not in (None, NoneType):
        return FileForm("value", plain=plain)
    if record is not None:
        return FileForm("table", record=record)
    return FileForm("name" if _find_item_type(declared) is None else "list of names")


def _find_plain_type(kind: object) -> object | None:
    """Return the part of a declared type that TOML can express, or None."""
    if get_origin(kind) in (Union, UnionType):
        parts = [_find_plain_type(part) for part in get_args(kind)]
        known = tuple(part for part in parts if part is not None)
        return Union[known] if known else None  # noqa: UP007  # REASON: the parts are in a tuple
    if get_origin(kind) is Literal:
        return str  # the record or `Agent` checks the text, and its error names the choices
    item = _find_item_type(kind)
    if item is not None:
        plain = _find_plain_type(item)
        return None if plain is None else list[plain]  # type: ignore[valid-type]  # made at run time
    is_plain = kind in (str, int, float, bool, NoneType) or get_origin(kind) in (Mapping, tuple)
    return kind if is_plain else None


def _find_item_type(kind: object) -> object | None:
    """Return the type of the items of a list type, or None for another type."""
    is_list = get_origin(kind) in (Iterable, Sequence)
    return get_args(kind)[0] if is_list else None


def _find_record(kind: object) -> type[Struct] | None:
    """Return the record of settings in a declared type, or None."""
    for part in (kind, *get_args(kind)):
        if isinstance(part, type) and issubclass(part, Struct):
            return part
    return None
