"""`--schema FILE`: makes the output type of a run from a JSON Schema file.

The schema goes to the provider as it is written. An answer is checked with `jsonschema`, and its problems go
back to the model like those of any output type. No reference is fetched from anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError, core_schema

from holdfast.core.errors import ConfigurationError
from holdfast.runtime.output.pydantic_output import WrittenSchema

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_OPTION = "--schema"
_MOST_PROBLEMS = 50


def read_schema_type(path: Path) -> type[WrittenSchema]:
    """Return the output type of a JSON Schema file.

    Raises:
        ConfigurationError: `jsonschema` is not installed, or the file is not a JSON Schema that can be used.
    """
    schema = _read_schema(path)
    validator = _make_validator(path, schema)

    class SchemaAnswer(WrittenSchema):
        json_schema = schema

        @classmethod
        def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> Any:
            return core_schema.no_info_after_validator_function(
                lambda value: _check_answer(validator, value), core_schema.any_schema()
            )

    SchemaAnswer.__name__ = str(schema.get("title") or "answer")
    return SchemaAnswer


def _read_schema(path: Path) -> dict[str, Any]:
    try:
        schema = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise _refuse(path, f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise _refuse(path, f"is not JSON: {error}") from error
    if not isinstance(schema, dict):
        raise _refuse(path, "is not a JSON Schema: it must be an object")
    if not schema.keys() & {
        "type",
        "properties",
        "$ref",
        "anyOf",
        "oneOf",
        "allOf",
        "enum",
        "const",
    }:
        problem = "allows any answer"
        raise _refuse(
            path, problem, 'Say what you want, such as "type": "object" with "properties"'
        )
    return schema


def _make_validator(path: Path, schema: dict[str, Any]) -> Validator:
    try:
        from jsonschema import Draft202012Validator, SchemaError
        from jsonschema.validators import validator_for
        from referencing import Registry, Resource, jsonschema
        from referencing.exceptions import Unresolvable
    except ImportError as error:
        fix = "Install it: pip install 'holdfast[cli]'"
        raise ConfigurationError(_OPTION, "needs jsonschema", fix=fix) from error
    draft = str(schema.get("$schema", Draft202012Validator.META_SCHEMA["$schema"]))
    kind = validator_for({"$schema": draft}, default=Draft202012Validator)
    if draft.rstrip("#") != kind.META_SCHEMA["$schema"].rstrip("#"):
        raise _refuse(path, "names a $schema that is not known", "Leave it out")
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        place = "".join(f"[{part!r}]" for part in error.absolute_path)
        raise _refuse(path, f"is not a JSON Schema: {place or 'it'}: {error.message}") from error
    # Without a registry of its own, jsonschema fetches what a reference names from the network.
    registry: Registry[Any] = Registry()
    root = Resource.from_contents(schema, default_specification=jsonschema.DRAFT202012)
    resolver = registry.resolver_with_root(root)
    for reference in _find_references(schema):
        try:
            resolver.lookup(reference)
        except Unresolvable as error:
            problem = f"has a reference to {reference!r}, which is not in it"
            raise _refuse(path, problem, "Put what it names into $defs") from error
    return kind(schema, registry=registry)


def _find_references(schema: object) -> Iterator[str]:
    """Yield every reference of a schema."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            for keyword in ("$ref", "$dynamicRef"):
                if isinstance(part.get(keyword), str):
                    yield part[keyword]
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)


def _check_answer(validator: Validator, value: Any) -> object:
    """Return the value. Raises ValidationError with what does not fit."""
    problems = [
        InitErrorDetails(
            type=PydanticCustomError("json_schema", "{problem}", {"problem": error.message}),
            loc=tuple(error.absolute_path),
            input=error.instance,
        )
        for error in islice(validator.iter_errors(value), _MOST_PROBLEMS)
    ]
    if problems:
        raise ValidationError.from_exception_data("answer", problems)
    return value


def _refuse(path: Path, problem: str, fix: str = "") -> ConfigurationError:
    return ConfigurationError(_OPTION, f"{path} {problem}", fix=fix)
