"""Output types with pydantic: their JSON schemas, and the validation of a JSON text.

This module is loaded only when an agent has an output type. It must never pass on the text of a
validator's exception without redaction, nor coerce text that is not JSON.

Wires require an object at the top of a schema. Any other type is wrapped: it becomes the property
`answer` of an object. With several types, an output may name its type: `{"Trip": {...}}`.
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias, Union, cast, get_args, get_origin

import msgspec
from pydantic import TypeAdapter, ValidationError

from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import ToolCall
from holdfast.core.model_request import OutputSchema, ToolSpec
from holdfast.core.output import Invalid, ParseResult, Valid
from holdfast.core.partial_json import ENVELOPE
from holdfast.core.problem_wording import Checked
from holdfast.core.problems import Problem
from holdfast.core.schema_checks.schema_limits import OUTPUT_LIMITS, StepBudget
from holdfast.core.schema_checks.schema_sense import read_schema
from holdfast.output.output_functions import (
    OUTPUT_CALL_ID,
    arguments_model,
    as_output_function,
    is_arguments_model,
)
from holdfast.tools.arguments import show_time, word_validation_error
from holdfast.tools.tool import Tool
from holdfast.tools.tool_schema import SchemaGenerator
from holdfast.tools.type_constraints import convert_constraints

ANSWER_TOOL: Final = "final_answer"
"""The name of the output tool; with several types, each tool adds the name of its type."""

_WHOLE = "the answer"
_MOST_PROBLEMS = 1000
_FIX = "Use str, a pydantic model, a dataclass, a TypedDict, a function, or a list of these"

_Compiled: TypeAlias = tuple[TypeAdapter[Any], Mapping[str, object]]
"""A type and its JSON Schema."""


class WrittenSchema:
    """The base of a type whose JSON Schema was written by hand.

    Its core schema checks the values, and finds a `StepBudget` in the context of pydantic.
    """

    json_schema: ClassVar[Mapping[str, Any]]


class PydanticOutput:
    """Implements `core.output.OutputType` for every type that pydantic supports."""

    __slots__ = ("_has_written_schema", "_tagged_types", "_whole", "functions", "schema")

    def __init__(
        self,
        adapter: TypeAdapter[Any],
        schema: OutputSchema,
        tagged_types: Mapping[str, _Compiled],
        functions: Mapping[str, Tool],
        *,
        has_written_schema: bool = False,
    ) -> None:
        self._whole: _Compiled = (adapter, schema.schema)
        self._has_written_schema = has_written_schema
        self._tagged_types = tagged_types
        self.functions = functions
        """The output functions, by name."""
        self.schema = schema

    def check(self, json_text: str, steps: StepBudget, now: float | None = None) -> ParseResult:
        """Validate one JSON text against the type; arguments of a function become its call."""
        context = (steps if self._has_written_schema else None, now)
        inner = self._unwrap_tagged(json_text)
        if inner is None:
            return self._validate(self._whole, json_text, context)
        held = self._validate(*inner, context)
        if isinstance(held, Valid):
            return held
        whole = self._validate(self._whole, json_text, context)
        return whole if isinstance(whole, Valid) else held

    def _validate(
        self, kind: _Compiled, text: str | bytes, context: tuple[StepBudget | None, float | None]
    ) -> ParseResult:
        checked = _validate_json(kind, text, *context)
        if not self.functions or not isinstance(checked, Valid):
            return checked
        model = type(checked.value)
        if not is_arguments_model(model):
            return checked
        arguments = text if isinstance(text, str) else text.decode()
        return Valid(ToolCall(OUTPUT_CALL_ID, model.__name__, arguments))

    def _unwrap_tagged(self, json_text: str) -> tuple[_Compiled, bytes] | None:
        """Return the type and the value of an object such as `{"Trip": {...}}`, otherwise None."""
        if not self._tagged_types:
            return None
        try:
            found = msgspec.json.decode(json_text, type=dict[str, msgspec.Raw])
        except (ValueError, RecursionError):
            return None
        if len(found) != 1:
            return None
        name, value = next(iter(found.items()))
        kind = self._tagged_types.get(name)
        return None if kind is None else (kind, bytes(value))


def _validate_json(
    kind: _Compiled, text: str | bytes, budget: StepBudget | None, now: float | None
) -> ParseResult:
    adapter, schema = kind
    try:
        return Valid(adapter.validate_json(text, context=budget))
    except ValidationError as error:
        return Invalid(_word_problems(error, schema, text, now))
    except RecursionError:
        return Invalid((Problem(_WHOLE, "is nested too deeply"),))
    except UnicodeError:
        return Invalid((Problem(_WHOLE, "holds characters that are no Unicode"),))


def _word_problems(
    error: ValidationError, schema: Mapping[str, object], text: str | bytes, now: float | None
) -> tuple[Problem, ...]:
    """Describe the problems of an output, in the words for the arguments of a tool."""
    try:
        written = json.loads(text)
    except (ValueError, RecursionError):
        return (Problem(_WHOLE, "cannot be read as JSON"),)
    checked = Checked(written, schema, show_time(now), _WHOLE)
    problems, more = word_validation_error(error, checked, _MOST_PROBLEMS, len(text))
    return (*problems[:-1], Problem("", f"and {more + 1} more")) if more else problems


def pydantic_output(
    output: object, *, name: str = "", description: str = "", strict: bool = True
) -> PydanticOutput:
    """Compile a type, or a list of types of which the output has one.

    Args:
        output: the type, or the types.
        name: the name of the output in requests; if empty, the name of the type.
        description: the description of the output in requests.
        strict: let the provider enforce the schema where it can.

    Raises:
        ConfigurationError: the type has no JSON schema.
    """
    kinds, functions = _separate_functions(_split_kinds(output))
    adapter, schema = _build_adapter(Union[kinds] if len(kinds) > 1 else kinds[0])  # noqa: UP007  # at run time
    name = _safe_name(name or _name_of(kinds[0] if len(kinds) == 1 else None))
    if description:
        schema = {**schema, "description": description}
    alternatives = _find_alternatives(kinds)
    whole = _is_object(schema)
    if len(kinds) > 1 and alternatives:
        inside = dict(alternatives)
        names = [tag if tag in functions else f"{ANSWER_TOOL}_{tag}"[:64] for tag in alternatives]
        tools = tuple(
            _build_tool(tool, form, description, strict=strict)
            for tool, (_, form) in zip(names, alternatives.values(), strict=True)
        )
    else:
        inside = dict[str, _Compiled]()
        form = schema if whole else _wrap_schema(schema)
        name_of_tool = next(iter(functions), ANSWER_TOOL)
        tools = (_build_tool(name_of_tool, form, description, strict=strict),)
    if not whole:
        inside[ENVELOPE] = (adapter, schema)
    made = OutputSchema(
        name,
        schema,
        strict,
        tools=tools,
        tags=tuple(alternatives) if len(kinds) > 1 else (),
        envelope=None if whole else _wrap_schema(schema),
    )
    is_written = any(isinstance(kind, type) and issubclass(kind, WrittenSchema) for kind in kinds)
    return PydanticOutput(adapter, made, inside, functions, has_written_schema=is_written)


def _separate_functions(given: Iterable[object]) -> tuple[tuple[object, ...], dict[str, Tool]]:
    """Return the types, with the types of the arguments of functions, and the functions by name."""
    kinds: list[object] = []
    functions: dict[str, Tool] = {}
    for kind in given:
        function = as_output_function(kind)
        if function is None:
            kinds.append(convert_constraints(kind, "output"))
            continue
        if function.name in functions:
            problem = f"two functions are named {function.name!r}"
            raise ConfigurationError("output", problem, fix="Rename one with tool(name=...)")
        functions[function.name] = function
        kinds.append(arguments_model(function))
    return tuple(kinds), functions


def _split_kinds(output: object) -> Iterator[object]:
    """Yield the types of a list or of a union, or the one type."""
    listed: Iterable[object] = (output,)
    if get_origin(output) in (Union, types.UnionType):
        listed = get_args(output)
    elif isinstance(output, Sequence) and not isinstance(output, str | bytes):
        listed = output
    empty = True
    for kind in listed:
        if kind is None or isinstance(kind, str | bytes):
            raise ConfigurationError("output", f"{kind!r} is not a type", fix=_FIX)
        empty = False
        yield kind
    if empty:
        raise ConfigurationError("output", "is an empty list", fix=_FIX)


def _build_adapter(kind: object) -> _Compiled:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(cast("Any", kind))
        if isinstance(kind, type) and issubclass(kind, WrittenSchema):
            return adapter, _inline_root(kind.json_schema)
        schema = adapter.json_schema(schema_generator=SchemaGenerator)
    except Exception as error:  # REASON: a type runs code of its own to make a schema
        problem = f"no JSON Schema can be made of {kind!r}: {error}"
        raise ConfigurationError("output", problem, fix=_FIX) from error
    # Constraints such as Field(ge=5, le=3), and json_schema_extra, are in it as they were written.
    read_schema("output", schema, OUTPUT_LIMITS)
    return adapter, _inline_root(schema)


def _inline_root(schema: Mapping[str, Any]) -> Mapping[str, object]:
    """Return the schema without a reference at the top, because no wire accepts one."""
    reference, parts = schema.get("$ref"), schema.get("$defs", {})
    name = str(reference).removeprefix("#/$defs/")
    return schema if name not in parts else {**parts[name], "$defs": parts}


def _is_object(schema: Mapping[str, object]) -> bool:
    return schema.get("type") == "object"


def _wrap_schema(schema: Mapping[str, object]) -> Mapping[str, object]:
    """Wrap a schema in an object; `$defs` stays at the top, where references point to."""
    inner = {name: value for name, value in schema.items() if name != "$defs"}
    outer: dict[str, object] = {
        "type": "object",
        "properties": {ENVELOPE: inner},
        "required": [ENVELOPE],
        "additionalProperties": False,
    }
    return {**outer, "$defs": schema["$defs"]} if "$defs" in schema else outer


def _find_alternatives(
    kinds: tuple[object, ...],
) -> dict[str, _Compiled]:
    """Return the types by name; empty if one is not an object, which a tool's schema must be."""
    found: dict[str, _Compiled] = {}
    for kind in kinds:
        adapter, schema = _build_adapter(kind)
        if not _is_object(schema):
            return {}
        tag = base = _safe_name(_name_of(kind))
        while tag in found:
            tag = f"{base}_{len(found) + 1}"
        found[tag] = (adapter, schema)
    return found


def _build_tool(
    name: str, schema: Mapping[str, object], description: str, *, strict: bool
) -> ToolSpec:
    said = description or str(schema.get("description", ""))
    words = f"Gives the final answer, which ends the task. {said}".rstrip()
    return ToolSpec(name, words, schema, None if strict else False)


def _name_of(kind: object) -> str:
    return str(getattr(kind, "__name__", "")) or "answer"


def _safe_name(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:48] or "answer"
