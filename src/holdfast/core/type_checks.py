"""Turns a declared type into a check of values, with the words for its error message.

`core.argument_checks` is how the rest of the package uses it. This module must never change a value,
nor read an iterator, and its messages must never show a text that may be a secret.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from typing import (
    Annotated,
    Any,
    Literal,
    TypeAlias,
    TypeGuard,
    Union,
    get_args,
    get_origin,
    is_typeddict,
)

import msgspec
from msgspec import Struct

from holdfast.core.constraints import Constraint, Wording
from holdfast.core.errors import ConfigurationError
from holdfast.core.redaction import quote_setting

CheckContent: TypeAlias = Callable[[str, Any], None]
"""Raises ConfigurationError for a value of the right type with a wrong content."""

_MOST_BITS = 63
"""The journal saves whole numbers of 64 bits, one of which is the sign."""


class TypeCheck(Struct, frozen=True):
    """The check of one declared type.

    Args:
        expected: completes the sentence "must be ...".
        accepts: whether a value has the type.
        check_content: checks the items or the limits of a value that has the type.
        item: the check of each item of a list.
        kinds: the classes, if the type is a class or a union of classes.
        shows_text: whether the message shows a wrong text. Only a type that lists its texts does
            so, because the value of another type may be a secret.
    """

    expected: str
    accepts: Callable[[Any], bool]
    check_content: CheckContent | None = None
    item: TypeCheck | None = None
    kinds: tuple[type, ...] = ()
    shows_text: bool = False

    def accepts_whole(self, value: object) -> bool:
        """Whether a value has the type, and there is no content to check."""
        return self.check_content is None and self.accepts(value)

    def check(self, argument: str, value: object) -> None:
        """Raise ConfigurationError unless `value` has the type, and its content is right."""
        if not self.accepts(value):
            raise self._type_error(argument, value)
        if self.check_content is not None:
            self.check_content(argument, value)

    def _type_error(self, argument: str, value: object) -> ConfigurationError:
        got = _show(value) if self.shows_text and isinstance(value, str) else _kind_of(value)
        comma = ";" if "," in self.expected else ","
        fix = ""
        if isinstance(value, type):
            fix = f"Write {value.__name__}(...)"
        elif self.item is not None and self.item.accepts(value):
            fix = f"Write {argument.rpartition('.')[2]}=[...]"
        return ConfigurationError(argument, f"must be {self.expected}{comma} got {got}", fix=fix)


def compile_check(expected: object) -> TypeCheck:
    """Return the check of a type. A type that has no check accepts every value.

    >>> compile_check(int | Literal["all"]).check("limit", "some")
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: limit: must be a whole number or "all", got 'some'
    """
    kind, inner = get_origin(expected) or expected, get_args(expected)
    if kind is Annotated:
        return _annotated_check(compile_check(inner[0]), inner[1:])
    if kind in (Union, types.UnionType):
        return _union_check([compile_check(one) for one in inner])
    if kind is Literal:
        return _literal_check(inner)
    if kind in _PLAIN_CHECKS:
        return _PLAIN_CHECKS[kind]
    if kind is type and inner:
        return _subclass_check(get_origin(inner[0]) or inner[0])
    if isinstance(kind, type):
        return _class_check(dict if is_typeddict(kind) else kind, inner)
    return _ANYTHING


def _class_check(kind: type, inner: tuple[object, ...]) -> TypeCheck:
    if getattr(kind, "_is_protocol", False):
        return _protocol_check(kind)
    if issubclass(kind, Mapping):
        return _mapping_check(kind, inner)
    if issubclass(kind, Iterable) and inner:
        of_any_length = kind is not tuple or inner[-1] is Ellipsis
        return _list_check(kind, compile_check(inner[0]) if of_any_length else _ANYTHING)
    return _instance_check(kind.__name__, kind)


def _instance_check(expected: str, *kinds: type) -> TypeCheck:
    return TypeCheck(expected, lambda value: isinstance(value, kinds), kinds=kinds)


def _annotated_check(check: TypeCheck, notes: Iterable[object]) -> TypeCheck:
    for note in notes:
        if isinstance(note, Wording):
            check = msgspec.structs.replace(check, expected=note.text)
        elif isinstance(note, Constraint):
            check = _limited_check(check, note)
    return check


def _limited_check(check: TypeCheck, limit: Constraint) -> TypeCheck:
    def check_limit(argument: str, value: object) -> None:
        if not limit.is_met(value):
            raise ConfigurationError(argument, f"must be {limit.wording}, got {_show(value)}")
        if check.check_content is not None:
            check.check_content(argument, value)

    return TypeCheck(check.expected, check.accepts, check_limit)


def _union_check(choices: list[TypeCheck]) -> TypeCheck:
    expected = _join_words([choice.expected for choice in choices])
    if all(choice.kinds for choice in choices):
        return _instance_check(expected, *(kind for choice in choices for kind in choice.kinds))

    def check_choice(argument: str, value: object) -> None:
        next(choice for choice in choices if choice.accepts(value)).check(argument, value)

    return TypeCheck(
        expected,
        lambda value: any(choice.accepts(value) for choice in choices),
        check_choice if any(choice.check_content is not None for choice in choices) else None,
        shows_text=any(choice.shows_text for choice in choices),
    )


def _literal_check(texts: tuple[object, ...]) -> TypeCheck:
    return TypeCheck(
        _join_words([f'"{text}"' for text in texts]),
        lambda value: isinstance(value, str) and value in texts,
        shows_text=True,
    )


def _subclass_check(base: object) -> TypeCheck:
    if not isinstance(base, type):
        return _instance_check("a class", type)
    return TypeCheck(
        f"a subclass of {base.__name__}",
        lambda value: isinstance(value, type) and issubclass(value, base),
    )


def _protocol_check(kind: type) -> TypeCheck:
    members = {
        name: member
        for base in kind.__mro__
        if getattr(base, "_is_protocol", False)
        for name, member in vars(base).items()
        if not name.startswith("_")
    }
    methods = [name for name, member in members.items() if callable(member)]
    values = members.keys() - methods

    def has_members(value: object) -> bool:
        return (
            not isinstance(value, type)
            and all(hasattr(value, name) for name in values)
            and all(callable(getattr(value, name, None)) for name in methods)
        )

    return TypeCheck(f"an object with {', '.join(members)}", has_members)


def _mapping_check(kind: type, inner: tuple[object, ...]) -> TypeCheck:
    if not inner:
        return _instance_check("a mapping", kind)
    key_check, item_check = map(compile_check, inner)

    def check_items(argument: str, value: Mapping[object, object]) -> None:
        for key, item in value.items():
            # The names for errors are made only for an error: to make them takes most of the time.
            if not key_check.accepts_whole(key):
                key_check.check(f"a key of {argument}", key)
            if not item_check.accepts_whole(item):
                item_check.check(f"{argument}[{_show_key(key)}]", item)

    return TypeCheck("a mapping", lambda value: isinstance(value, kind), check_items)


def _list_check(kind: type, item_check: TypeCheck) -> TypeCheck:
    def is_list(value: object) -> bool:
        listed = isinstance(value, kind) or (kind is tuple and isinstance(value, list))
        return listed and not isinstance(value, str | bytes)

    def check_items(argument: str, value: Iterable[object]) -> None:
        if not isinstance(value, Collection):
            return  # an iterator can be read only once
        if all(issubclass(kind, item_check.kinds) for kind in set(map(type, value))):
            return  # much faster than one by one, and histories are long
        for index, item in enumerate(value):
            item_check.check(f"{argument}[{index}]", item)

    return TypeCheck("a list", is_list, check_items, item=item_check)


def _is_whole_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _fits_float(number: float) -> bool:
    """Whether a number is finite as a float, which a very large int is not."""
    return abs(number) <= sys.float_info.max


def is_seconds(value: object) -> bool:
    """Whether `value` is a finite number from 0; a bool is not a number.

    >>> [is_seconds(value) for value in (0, 1.5, -1, float("nan"), True, "2")]
    [True, True, False, False, False, False]
    """
    return _is_number(value) and value >= 0 and _fits_float(value)


def _check_finite(argument: str, value: float) -> None:
    if not _fits_float(value):
        raise ConfigurationError(argument, f"must be a finite number, got {_show(value)}")


def _check_size(argument: str, value: int) -> None:
    if value.bit_length() > _MOST_BITS:
        raise ConfigurationError(argument, f"must be below 2**{_MOST_BITS}, got {_show(value)}")


def _show(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"a number of {value.bit_length()} bits"  # Python does not print very long ones
    return quote_setting(value) if isinstance(value, str) else f"{value!r:.80}"


def _show_key(key: object) -> str:
    """Return a key for a message. A text that is not a plain name may be a secret."""
    if isinstance(key, Enum):
        return str(key.value)
    is_name = isinstance(key, str) and key.replace("-", "_").isidentifier()
    return _show(key) if is_name else "..."


def _kind_of(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def _join_words(words: list[str]) -> str:
    """Join words by commas and "or".

    >>> _join_words(["a", "b", "c"]), _join_words(["an object with a, b", "None"])
    ('a, b or c', 'an object with a, b, or None')
    """
    if len(words) == 1:
        return words[0]
    last = ", or " if any("," in word for word in words) else " or "
    return last.join([", ".join(words[:-1]), words[-1]])


_ANYTHING = _instance_check("a value", object)
_PLAIN_CHECKS: dict[object, TypeCheck] = {
    Any: _ANYTHING,
    object: _ANYTHING,
    types.NoneType: _instance_check("None", types.NoneType),
    bool: _instance_check("True or False", bool),
    int: TypeCheck("a whole number", _is_whole_number, _check_size),
    float: TypeCheck("a number", _is_number, _check_finite),
    str: _instance_check("a text", str),
    Callable: TypeCheck("a function", callable),
}
