"""Makes an output type from a JSON Schema. The schema goes to the provider as it is written.

An output is checked with `jsonschema`, and its problems go back to the model like those of any output
type. A schema may come from a caller of a service, so its patterns are checked in time that grows only
with the text. This module must never fetch a reference from anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from pydantic_core import (
    InitErrorDetails,
    PydanticCustomError,
    SchemaError,
    SchemaValidator,
    ValidationError,
    core_schema,
)

from holdfast.core.errors import ConfigurationError
from holdfast.core.import_part import install_command
from holdfast.core.json_schema import JsonSchema
from holdfast.runtime.output.pydantic_output import WrittenSchema

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

Refuse: TypeAlias = Callable[[str, str], ConfigurationError]
"""Makes the error for a problem and a fix."""

_MOST_PROBLEMS = 50


def make_schema_type(wanted: JsonSchema, refuse: Refuse) -> type[WrittenSchema]:
    """Return the output type of a JSON Schema.

    Args:
        wanted: the schema.
        refuse: makes the error if the schema cannot be used.

    Raises:
        ConfigurationError: `jsonschema` is not installed, or the schema cannot be used.
    """
    validator = _make_validator(wanted.schema, refuse)

    class SchemaAnswer(WrittenSchema):
        json_schema = wanted.schema

        @classmethod
        def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> Any:
            return core_schema.no_info_after_validator_function(
                lambda value: _check_answer(validator, value), core_schema.any_schema()
            )

    SchemaAnswer.__name__ = wanted.name or "answer"
    return SchemaAnswer


def refuse_schema(problem: str, fix: str) -> ConfigurationError:
    """Return the error for a schema that was passed as `output=`."""
    return ConfigurationError("JsonSchema.schema", problem, fix=fix)


def _make_validator(schema: Mapping[str, object], refuse: Refuse) -> Validator:
    try:
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError as WrongSchema
        from jsonschema.validators import extend, validator_for
        from referencing import Registry, Resource, jsonschema
        from referencing.exceptions import Unresolvable
    except ImportError as error:
        raise refuse("needs jsonschema", install_command("cli")) from error
    plain = cast("dict[str, Any]", schema)
    draft = str(schema.get("$schema", Draft202012Validator.META_SCHEMA["$schema"]))
    kind = validator_for({"$schema": draft}, default=Draft202012Validator)
    if draft.rstrip("#") != kind.META_SCHEMA["$schema"].rstrip("#"):
        raise refuse("names a $schema that is not known", "Leave it out")
    try:
        kind.check_schema(plain)
    except WrongSchema as error:
        place = "".join(f"[{part!r}]" for part in error.absolute_path)
        raise refuse(f"is not a JSON Schema: {place or 'it'}: {error.message}", "") from error
    # Without a registry of its own, jsonschema fetches what a reference names from the network.
    registry: Registry[Any] = Registry()
    root = Resource.from_contents(plain, default_specification=jsonschema.DRAFT202012)
    resolver = registry.resolver_with_root(root)
    for reference in _find_references(schema):
        try:
            resolver.lookup(reference)
        except Unresolvable as error:
            problem = f"has a reference to {reference!r}, which is not in it"
            raise refuse(problem, "Put what it names into $defs") from error
    if _is_endless(schema, lambda reference: resolver.lookup(reference).contents):
        problem = "refers to itself without an end"
        raise refuse(problem, "Refer to it only from a property or an item")
    _check_patterns(schema, refuse)
    extended: type[Validator] = extend(  # type: ignore[no-untyped-call]
        kind, {"pattern": _match_pattern}
    )
    # A part with a $schema of its own would be checked by the class of jsonschema, not by ours.
    return extended(
        {name: part for name, part in plain.items() if name != "$schema"}, registry=registry
    )


def _check_patterns(schema: object, refuse: Refuse) -> None:
    """Refuse patterns whose check could take for ever. Raises ConfigurationError."""
    for part in _find_parts(schema):
        if part is not schema and isinstance(part.get("$schema"), str):
            raise refuse("names a $schema in a part of it", "Name it at the top alone")
        pattern, names = part.get("pattern"), part.get("patternProperties")
        if isinstance(pattern, str):
            try:
                _compile_pattern(pattern)
            except SchemaError as error:
                problem = f"has the pattern {pattern!r}, which cannot be checked in bounded time"
                raise refuse(problem, "Leave out look-around and back-references") from error
        for name in names if isinstance(names, dict) else ():
            # `jsonschema` matches these itself, with an engine that goes back.
            if sum(map(str(name).count, "*+?{")) > 1 or any(mark in str(name) for mark in "(|"):
                problem = f"has the pattern {name!r} in patternProperties, which may take too long"
                raise refuse(problem, "Use no groups, no |, and at most one of *, +, ? and {}")


@lru_cache(maxsize=256)
def _compile_pattern(pattern: str) -> SchemaValidator:
    """Return a check for a pattern by an engine that never backtracks. Raises SchemaError."""
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))


def _match_pattern(
    _validator: Validator, pattern: str, instance: object, _schema: object
) -> Iterator[Exception]:
    """Check the keyword `pattern`, as jsonschema calls it."""
    from jsonschema.exceptions import ValidationError as Mismatch

    if not isinstance(instance, str):
        return
    try:
        _compile_pattern(pattern).validate_python(instance)
    except ValidationError:
        yield Mismatch(f"{instance!r} does not match {pattern!r}")


def _is_endless(schema: object, lookup: Callable[[str], object]) -> bool:
    """Whether a check never ends: a part leads to itself for the same value, as in `{"$ref": "#"}`."""
    graph = {
        id(part): {id(other) for other in _list_parts_for_same_value(part, lookup)}
        for part in _find_parts(schema)
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError:
        return True
    return False


def _list_parts_for_same_value(
    part: dict[str, Any], lookup: Callable[[str], object]
) -> Iterator[object]:
    """Yield the parts that check the value that this part checks, and not a value inside of it."""
    yield from (lookup(reference) for reference in _find_references_of(part))
    for keyword in ("allOf", "anyOf", "oneOf"):
        parts = part.get(keyword)
        yield from parts if isinstance(parts, list) else ()
    for keyword in ("not", "if", "then", "else"):
        yield part.get(keyword)
    parts = part.get("dependentSchemas")
    yield from parts.values() if isinstance(parts, dict) else ()


def _find_references(schema: object) -> Iterator[str]:
    """Yield every reference of a schema."""
    for part in _find_parts(schema):
        yield from _find_references_of(part)


def _find_references_of(part: dict[str, Any]) -> Iterator[str]:
    for keyword in ("$ref", "$dynamicRef"):
        if isinstance(part.get(keyword), str):
            yield part[keyword]


def _find_parts(schema: object) -> Iterator[dict[str, Any]]:
    """Yield every object of a schema, itself included."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
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
