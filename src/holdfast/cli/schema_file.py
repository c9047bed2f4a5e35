"""`--schema FILE`: makes the output type of a run from a JSON Schema file."""

from __future__ import annotations

from pathlib import Path

import msgspec

from holdfast.core.errors import ConfigurationError
from holdfast.core.json_schema import JsonSchema
from holdfast.runtime.output.pydantic_output import WrittenSchema
from holdfast.runtime.output.schema_output import make_schema_type

_OPTION = "--schema"


def read_schema_type(path: Path) -> type[WrittenSchema]:
    """Return the output type of a JSON Schema file.

    Raises:
        ConfigurationError: the file is not a JSON Schema that can be used.
    """
    return make_schema_type(_read_schema(path), lambda problem, fix: _refuse(path, problem, fix))


def _read_schema(path: Path) -> JsonSchema:
    try:
        schema = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise _refuse(path, f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        problem = str(error).removeprefix("JSON is malformed: ")
        raise _refuse(path, f"is not JSON: {problem}") from error
    if not isinstance(schema, dict):
        raise _refuse(path, "is not a JSON Schema: it must be an object")
    try:
        return JsonSchema(schema)
    except ConfigurationError as error:
        raise _refuse(path, error.problem, error.fix) from error


def _refuse(path: Path, problem: str, fix: str = "") -> ConfigurationError:
    return ConfigurationError(_OPTION, f"{path} {problem}", fix=fix)
