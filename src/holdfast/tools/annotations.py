"""Finds the types of a callable's parameters, even if the annotations are strings.

A name in a string is looked up in the function's module, then in the frames of that module on the
stack, so that types local to a function are found. This module does not import pydantic.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping

from holdfast.core.errors import ConfigurationError
from holdfast.tools.context import ToolContext

Parameter = inspect.Parameter


class UndefinedNameError(ConfigurationError):
    """An annotation names a type that is not defined (yet)."""


def unwrap_function(function: Callable[..., object]) -> Callable[..., object]:
    """Return the plain function inside partials, methods, callable objects and `functools.wraps`."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, types.MethodType):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif inspect.isroutine(function) or isinstance(function, type):
            return function
        else:
            function = type(function).__call__


def parameters_of(
    function: Callable[..., object], name: str, *, skip_first: bool
) -> tuple[Parameter, ...]:
    """Return the parameters that a caller passes, without `self` and those that a partial has bound."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"tool {name!r}", "has no readable signature", fix="Wrap it in your own function"
        ) from error
    bound: set[str] = set()
    inner = function
    while isinstance(inner, functools.partial):
        bound |= inner.keywords.keys()
        inner = inner.func
    parameters = list(signature.parameters.values())[1 if skip_first else 0 :]
    return tuple(parameter for parameter in parameters if parameter.name not in bound)


def annotation_of(function: Callable[..., object], parameter: Parameter, where: str) -> object:
    """Return the type of one parameter; `where` names it in errors.

    Raises:
        UndefinedNameError: a name in it is not defined (yet).
        ConfigurationError: there is no annotation, or it is not a type.
    """
    annotation = parameter.annotation
    if annotation is Parameter.empty:
        raise ConfigurationError(
            where, "has no annotation", fix=f"Write its type, for example `{parameter.name}: str`"
        )
    names = getattr(unwrap_function(function), "__globals__", {})
    try:
        return _evaluate_annotation(annotation, names, {})
    except NameError:
        pass
    except (TypeError, SyntaxError, AttributeError, ValueError) as error:
        raise _not_a_type(where, annotation) from error
    try:
        return _evaluate_annotation(annotation, names, _StackNames(names))
    except NameError as error:
        raise UndefinedNameError(
            where,
            f"its annotation {_format_annotation(annotation)} names {error.name!r}, which cannot be found",
            fix="Import it outside `if TYPE_CHECKING:`, or define it before the tool",
        ) from error
    except (TypeError, SyntaxError, AttributeError, ValueError) as error:
        raise _not_a_type(where, annotation) from error


def _evaluate_annotation(
    annotation: object, names: Mapping[str, object], nearby: Mapping[str, object]
) -> object:
    """Replace strings in an annotation by types, at any depth."""
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    hints = typing.get_type_hints(
        holder,
        globalns=dict(names) if not isinstance(names, dict) else names,
        localns=typing.cast("dict[str, typing.Any]", nearby),
        include_extras=True,
    )
    evaluated: object = hints["it"]
    return evaluated


class _StackNames(Mapping[str, object]):
    """The local variables of the frames of one module that are on the stack, nearest first."""

    def __init__(self, module_names: Mapping[str, object]) -> None:
        self._scopes = [
            dict(frame.f_locals) for frame in _stack_frames() if frame.f_globals is module_names
        ]
        # Linters move this import below TYPE_CHECKING if a module uses it only in annotations.
        self._scopes.append({"ToolContext": ToolContext})

    def __getitem__(self, name: str) -> object:
        for scope in self._scopes:
            if name in scope:
                return scope[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter({name for scope in self._scopes for name in scope})

    def __len__(self) -> int:
        return len(list(iter(self)))


def _stack_frames() -> Iterator[types.FrameType]:
    frame: types.FrameType | None = sys._getframe(1)  # noqa: SLF001  # REASON: the only way to see types local to a function
    while frame is not None:
        yield frame
        frame = frame.f_back


def _not_a_type(where: str, annotation: object) -> ConfigurationError:
    return ConfigurationError(
        where,
        f"its annotation {_format_annotation(annotation)} is not a type",
        fix="Use a type such as str, int, list[str], Literal[...] or a pydantic model",
    )


def _format_annotation(annotation: object) -> str:
    return f"`{annotation}`" if isinstance(annotation, str) else f"`{annotation!r}`"[:120]


def is_context(annotation: object) -> bool:
    """Whether a parameter of this type receives the `ToolContext`; the type may be optional or annotated."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return is_context(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        members = [member for member in typing.get_args(annotation) if member is not type(None)]
        return len(members) == 1 and is_context(members[0])
    return annotation is ToolContext or origin is ToolContext
