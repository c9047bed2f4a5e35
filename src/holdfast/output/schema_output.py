"""Makes an output type from a JSON Schema. The schema goes to the provider as it is written.

The problems of an output go back to the model like those of any output type. This module must never decide by itself
whether a value fits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError, core_schema

from holdfast.core.errors import ConfigurationError
from holdfast.core.json_schema import JsonSchema
from holdfast.core.schema_checks.schema_limits import CHECK_STEPS, StepBudget
from holdfast.core.schema_checks.schema_nodes import CompiledSchema
from holdfast.core.schema_checks.schema_places import SchemaError
from holdfast.output.pydantic_output import WrittenSchema
from holdfast.tools.compiled_schemas import ERROR_TYPES, SCHEMAS

Refuse: TypeAlias = Callable[[str, str], ConfigurationError]
"""Makes the error for a problem and a fix."""


def make_schema_type(wanted: JsonSchema, refuse: Refuse) -> type[WrittenSchema]:
    """Return the output type of a JSON Schema.

    Args:
        wanted: the schema.
        refuse: makes the error if the schema cannot be used.

    Raises:
        ConfigurationError: the schema cannot be used.
    """
    try:
        compiled = SCHEMAS.compile(wanted.schema)
    except SchemaError as error:
        raise refuse(error.problem, error.fix) from error

    class SchemaAnswer(WrittenSchema):
        json_schema = wanted.schema

        @classmethod
        def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> Any:
            return core_schema.with_info_after_validator_function(
                lambda value, info: _check_answer(compiled, value, info.context),
                core_schema.any_schema(),
            )

    SchemaAnswer.__name__ = wanted.name or "answer"
    return SchemaAnswer


def refuse_schema(problem: str, fix: str) -> ConfigurationError:
    """Return the error for a schema that was passed as `output=`."""
    return ConfigurationError("JsonSchema.schema", problem, fix=fix)


def _check_answer(schema: CompiledSchema, value: Any, budget: StepBudget | None) -> object:
    """Return the value. Raises ValidationError with the parts that do not fit."""
    problems = [
        InitErrorDetails(
            type=PydanticCustomError(
                ERROR_TYPES[problem.kind], "{problem}", {"problem": problem.text}
            ),
            loc=problem.path,
            input=problem.value,
        )
        for problem in schema.find_problems(value, budget or StepBudget(CHECK_STEPS))
    ]
    if problems:
        raise ValidationError.from_exception_data("answer", problems)
    return value
