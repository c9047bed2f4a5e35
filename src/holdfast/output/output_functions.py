"""Output functions: a function in place of a type, which is called with the output as its arguments.

The call is an effect like the call of a tool: a marker is saved before the function starts, and its
return value is saved after it. So the function is never called twice for one output. This module
makes the type of the arguments and reads saved return values; it must never call a function.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError

from holdfast.core.errors import ConfigurationError, OutputError
from holdfast.core.messages import ToolResult
from holdfast.tools.annotations import unwrap_function
from holdfast.tools.tool import Tool, as_tool, copy_as_output_function

OUTPUT_CALL_ID: Final = "output"
"""The id of the call of an output function, which no provider gave."""

_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, partial, Tool)


def as_output_function(kind: object) -> Tool | None:
    """Return a member of `output=` as a function; None for a type.

    Raises:
        ConfigurationError: the function cannot be called by a model.
    """
    if not isinstance(kind, _FUNCTIONS):
        return None
    try:
        function = copy_as_output_function(as_tool(cast("Callable[..., object]", kind)))
        _ = function.signature
    except ConfigurationError as error:
        problem = f"{error.argument}: {error.problem}"
        raise ConfigurationError("output", problem, fix=error.fix) from error
    if function.binds != "no":
        problem = f"{function.name!r} is a method without its object"
        raise ConfigurationError("output", problem, fix="Pass the method of an object")
    inner = unwrap_function(function.function)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        problem = f"{function.name!r} is a generator, and has no return value"
        raise ConfigurationError("output", problem, fix="Return one value")
    return function


def arguments_model(function: Tool) -> type[BaseModel]:
    """Return the arguments of a function as a type with its name and its description."""
    body = {"__doc__": function.description or None, "__module__": __name__}
    return cast("type[BaseModel]", type(function.name, (function.signature.model,), body))


def is_arguments_model(kind: type) -> bool:
    """Whether a type is made of the arguments of a function."""
    return issubclass(kind, BaseModel) and kind.__module__ == __name__


def read_return_value(function: Tool, result: ToolResult) -> object:
    """Return the value of a function that another process called, from the result in the journal.

    Raises:
        OutputError: the value has no JSON form, or does not have the type that the function returns.
    """
    if not result.content:
        raise OutputError(
            f"Function '{function.name}' returned a value without a JSON form: only the process that "
            "called it had the value"
        )
    try:
        return TypeAdapter(_return_type(function)).validate_json(result.text)
    except ValidationError as error:
        raise OutputError(
            f"The saved value of function '{function.name}' does not have the type that the function "
            "returns: the type was changed since, or a hook replaced the value",
            raw=result.text,
        ) from error


def _return_type(function: Tool) -> Any:
    """Return the annotation of the return value; Any when there is none that can be read."""
    try:
        found = get_type_hints(unwrap_function(function.function), include_extras=True)
    except Exception:  # noqa: BLE001  # REASON: annotations are the user's code
        return Any
    return found.get("return", Any)
