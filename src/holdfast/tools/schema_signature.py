"""The signature of a tool whose arguments are described by a JSON Schema, and not by the parameters of a function.

The arguments are checked by the original schema, in counted steps, whatever form of it a provider was sent. They are
not converted: a "3" is not a 3 here. A tool that the caller of a turn runs is such a tool, and nobody is asked
for a call whose arguments do not fit. This module must never run a tool, and must never import an HTTP library.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from holdfast.core.argument_checks import check_value
from holdfast.core.client_tools import ClientTool
from holdfast.core.errors import ConfigurationError
from holdfast.core.json_strict import dump_json, is_finite
from holdfast.core.problem_wording import Checked, RawError, word_errors
from holdfast.core.schema_checks.schema_limits import (
    CHECK_STEPS,
    OUTPUT_LIMITS,
    StepBudget,
    write_place,
)
from holdfast.core.schema_checks.schema_nodes import CompiledSchema, shorten
from holdfast.core.schema_checks.schema_places import SchemaError
from holdfast.core.schema_checks.schema_sense import read_schema
from holdfast.tools.annotations import Parameter, annotation_of, is_context, parameters_of
from holdfast.tools.arguments import CheckedArguments, not_showable, parse_arguments, show_time
from holdfast.tools.compiled_schemas import ERROR_TYPES, SCHEMAS
from holdfast.tools.context import ToolContext
from holdfast.tools.tool_failures import RefusedCall, refuse_arguments
from holdfast.tools.tool_schema import Signature

Taken: TypeAlias = Literal["arguments", "context"]

_MOST_PROBLEMS: Final = 10


class _AnyArguments(BaseModel):
    """Any arguments by name."""

    model_config = ConfigDict(extra="allow")


class JsonArguments(BaseModel):
    """The arguments of one call as JSON data, by name."""

    values: dict[str, Any]


class SchemaSignature(Signature):
    """The arguments of a tool with a schema: its function takes them as one dictionary.

    Args:
        schema: the JSON Schema of an object, of plain data.
        where: names the schema in errors.
        takes: what the function takes, in order.
        defaults: values of arguments that a call leaves out.
        skip_patterns: leave out patterns that cannot be matched in bounded time, since whoever runs the
            tool checks them.

    Raises:
        ConfigurationError: the schema cannot be compiled; the error names the place.
    """

    __slots__ = ("_compiled", "_defaults", "_takes")

    def __init__(
        self,
        schema: Mapping[str, object],
        where: str,
        takes: Sequence[Taken] = ("arguments",),
        *,
        defaults: Mapping[str, object] = MappingProxyType({}),
        skip_patterns: bool = False,
    ) -> None:
        super().__init__(schema, "", _AnyArguments, ((), 0))
        self._takes = takes
        self._defaults = dict(defaults)
        try:
            self._compiled: CompiledSchema = SCHEMAS.compile(schema, skip_patterns=skip_patterns)
        except SchemaError as error:
            raise ConfigurationError(where, error.problem, fix=error.fix) from error

    def check(
        self,
        text: str,
        *,
        edited: bool = False,  # noqa: ARG002  # REASON: there are no other names here
        now: float | None = None,
    ) -> CheckedArguments | RefusedCall:
        """Validate the arguments of one call by the schema; see `Signature.check`."""
        parsed = parse_arguments(self, text, now=now)
        if isinstance(parsed, RefusedCall):
            return parsed
        given: dict[str, object] = json.loads(text) if text.strip() else {}
        for name, value in given.items():
            if not is_finite(value):
                return not_showable(name, "a number that is too large")
        budget = StepBudget(CHECK_STEPS)
        problems = self._compiled.find_problems(given, budget)
        if problems:
            errors: list[RawError] = [
                {
                    "type": ERROR_TYPES[problem.kind],
                    "loc": problem.path,
                    "ctx": {"problem": problem.text},
                    "input": problem.value,
                }
                for problem in problems
            ]
            checked = Checked(given, self.schema, show_time(now), "the arguments")
            return refuse_arguments(*word_errors(errors, checked, _MOST_PROBLEMS))
        given = self._fill_in(given, budget)
        return CheckedArguments(JsonArguments.model_construct(values=given), dump_json(given))

    def _fill_in(self, given: dict[str, object], budget: StepBudget) -> dict[str, object]:
        """Return valid arguments with the defaults of those that are left out, unless they do not fit together."""
        if self._defaults.keys() <= given.keys():
            return given
        missing = {name: one for name, one in self._defaults.items() if name not in given}
        filled = {**given, **deepcopy(missing)}
        return given if self._compiled.find_problems(filled, budget) else filled

    def check_defaults(self, where: str) -> None:
        """Raise ConfigurationError if a default does not fit its argument."""
        for name, value in self._defaults.items():
            problems = self._compiled.find_problems({name: value}, StepBudget(CHECK_STEPS))
            wrong = next(
                (one for one in problems if one.path[:1] == (name,) and one.kind != "missing"), None
            )
            if wrong is not None:
                place = write_place(((((), "properties"), name), "default"))
                problem = f"is not a JSON Schema at {place}: {shorten(value)} {wrong.text}"
                raise ConfigurationError(where, problem, fix="Correct the default, or leave it out")

    def call_with(
        self, validated: BaseModel, context: ToolContext
    ) -> tuple[Sequence[object], dict[str, object]]:
        """Return the positional arguments for the function."""
        values = validated.__dict__["values"]
        return [values if one == "arguments" else context for one in self._takes], {}


def compile_schema_signature(
    name: str, schema: Mapping[str, object], call: Callable[..., object]
) -> SchemaSignature:
    """Return the signature of a tool that a program makes from a schema and a function.

    Args:
        name: the name of the tool, for errors.
        schema: the schema.
        call: the function: it takes the arguments as a dictionary, and perhaps a `ToolContext`.

    Raises:
        ConfigurationError: the schema is none, or not that of an object, or the function takes something
            else; the error names the place.
    """
    where = f"tool {name!r}, schema"
    check_value(where, schema, Mapping)
    plain = read_schema(where, schema, OUTPUT_LIMITS)
    types = plain.get("type", "object")
    if types != "object" and not (isinstance(types, list) and "object" in types):
        problem = f"is not the schema of an object at /type: it is {shorten(types)}"
        raise ConfigurationError(
            where, problem, fix='Write {"type": "object", "properties": {...}}'
        )
    plain["type"] = "object"  # arguments are one, whatever else the schema says
    properties = plain.get("properties")
    parts = properties.items() if isinstance(properties, dict) else ()
    defaults = {
        key: part["default"] for key, part in parts if isinstance(part, dict) and "default" in part
    }
    signature = SchemaSignature(plain, where, _find_taken(name, call), defaults=defaults)
    signature.check_defaults(where)
    return signature


def _find_taken(name: str, call: Callable[..., object]) -> tuple[Taken, ...]:
    """Return what a function takes by position. Raises ConfigurationError unless that is the arguments."""
    taken: list[Taken] = []
    for parameter in parameters_of(call, name, skip_first=False):
        is_named = parameter.annotation is not Parameter.empty
        where = f"tool {name!r}, argument {parameter.name!r}"
        if is_named and is_context(annotation_of(call, parameter, where)):
            taken.append("context")
        elif parameter.default is not Parameter.empty or "arguments" in taken:
            if parameter.default is Parameter.empty and parameter.kind not in _VARIADIC:
                raise _wrong_function(name)
            break
        elif parameter.kind in _VARIADIC or parameter.kind is Parameter.KEYWORD_ONLY:
            break
        else:
            taken.append("arguments")
    if "arguments" not in taken:
        raise _wrong_function(name)
    return tuple(taken)


_VARIADIC: Final = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def _wrong_function(name: str) -> ConfigurationError:
    return ConfigurationError(
        f"tool {name!r}, call",
        "must take the arguments as one dictionary, and perhaps a ToolContext",
        fix="Write def call(arguments: dict[str, object]) or def call(arguments, context: ToolContext)",
    )


class ClientSignature(SchemaSignature):
    """The arguments of a tool that the caller runs.

    Args:
        tool: the tool.

    Raises:
        ConfigurationError: its schema cannot be compiled; the error names the place.
    """

    __slots__ = ()

    def __init__(self, tool: ClientTool) -> None:
        where = f"tools.{tool.name}.parameters"
        super().__init__(tool.parameters, where, ("context",), skip_patterns=True)
