"""From a callable to the types of its parameters, also when they are written as strings.

A name in a string is looked up in the function's module, then in the frames of that module that are
on the stack, so that types local to a function are found. This module must never import pydantic.
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
    """An annotation names a type that cannot be found, or not yet."""


def unwrap_function(function: Callable[..., object]) -> Callable[..., object]:
    """The plain function below partials, methods, callable objects and `functools.wraps`."""
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
    """The parameters that a caller fills, without `self` and without what a partial has bound."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"tool {name!r}", "does not tell its parameters", fix="Wrap it in a function of yours"
        ) from error
    bound: set[str] = set()
    inner = function
    while isinstance(inner, functools.partial):
        bound |= inner.keywords.keys()
        inner = inner.func
    found = list(signature.parameters.values())[1 if skip_first else 0 :]
    return tuple(parameter for parameter in found if parameter.name not in bound)


def annotation_of(function: Callable[..., object], parameter: Parameter, where: str) -> object:
    """The type of one parameter; `where` names it in errors.

    Raises:
        UndefinedNameError: a name in it cannot be found (yet).
        ConfigurationError: there is none, or it is no type.
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
    """Strings in it become types, at any depth."""
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    hints = typing.get_type_hints(
        holder,
        globalns=dict(names) if not isinstance(names, dict) else names,
        localns=typing.cast("dict[str, typing.Any]", nearby),
        include_extras=True,
    )
    found: object = hints["it"]
    return found


class _StackNames(Mapping[str, object]):
    """The local variables of the frames of one module that are on the stack, nearest first."""

    def __init__(self, module_names: Mapping[str, object]) -> None:
        self._scopes = [
            dict(frame.f_locals) for frame in _stack_frames() if frame.f_globals is module_names
        ]
        # A linter moves this import below TYPE_CHECKING when a module uses it in annotations only.
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
        f"its annotation {_format_annotation(annotation)} is no type",
        fix="Use a type such as str, int, list[str], Literal[...] or a pydantic model",
    )


def _format_annotation(annotation: object) -> str:
    return f"`{annotation}`" if isinstance(annotation, str) else f"`{annotation!r}`"[:120]


def is_context(annotation: object) -> bool:
    """Whether a parameter of this type is given the `ToolContext`: also optional or annotated."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return is_context(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        members = [member for member in typing.get_args(annotation) if member is not type(None)]
        return len(members) == 1 and is_context(members[0])
    return annotation is ToolContext or origin is ToolContext
