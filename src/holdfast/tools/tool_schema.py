"""Compiles a signature to a JSON Schema and a validator, both created by pydantic from one model.

The first tool imports this module, because pydantic is slow to import. It never guesses a type: a
type that JSON cannot express raises an error with the argument's name when the tool is created. The descriptions
come from the docstring, in the styles of Google, numpy, reST and Epydoc; a docstring in another style is the
description as a whole, and none raises an error.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, NotRequired, Required, get_args, get_origin

import typing_extensions
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, create_model
from pydantic.errors import PydanticUndefinedAnnotation
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import PydanticSerializationError, PydanticUndefined
from typing_extensions import ReadOnly, get_type_hints, is_typeddict

from holdfast.core.argument_checks import unwrap_partial
from holdfast.core.errors import ConfigurationError
from holdfast.core.schema_checks.schema_limits import OUTPUT_LIMITS, check_schema_size
from holdfast.core.schema_checks.schema_sense import read_schema
from holdfast.tools.annotations import (
    Parameter,
    UndefinedNameError,
    annotation_of,
    is_context,
    parameters_of,
)
from holdfast.tools.arguments import CheckedArguments, check_arguments, parse_arguments
from holdfast.tools.context import ToolContext
from holdfast.tools.tool_failures import RefusedCall
from holdfast.tools.type_constraints import convert_constraints

_UNUSABLE = (
    PydanticUserError,
    PydanticUndefinedAnnotation,
    AttributeError,
    KeyError,
    NameError,
    RecursionError,
    TypeError,
    ValueError,
)
"""The exceptions of pydantic for annotations that it cannot use."""

_CONFIG = ConfigDict(extra="forbid", protected_namespaces=(), allow_inf_nan=False)
_UNPACK: tuple[object, ...] = (
    typing.Unpack,
    typing_extensions.Unpack,
)  # two objects before Python 3.12
_MARKS: tuple[object, ...] = (Required, NotRequired, ReadOnly)
_RESERVED = frozenset(dir(BaseModel))


class _LeftOut:
    """The value of an optional key of a TypedDict that a call does not have."""

    __slots__ = ()


_LEFT_OUT = _LeftOut()


class Slot(NamedTuple):
    """One parameter: the field that fills it, or None for the context."""

    parameter: str
    field: str | None


class Signature:
    """The compiled arguments of one tool.

    Args:
        schema: the JSON Schema of the arguments, a closed object.
        description: the tool's description in its docstring.
        model: the pydantic model of the arguments.
        slots: the parameters in order, and how many of them are positional-only.
    """

    __slots__ = (
        "_is_keywords_only",
        "_keywords",
        "_positional",
        "description",
        "fields",
        "has_shown_names",
        "model",
        "required",
        "schema",
        "validate_json",
    )

    def __init__(
        self,
        schema: Mapping[str, object],
        description: str,
        model: type[BaseModel],
        slots: tuple[Sequence[Slot], int],
    ) -> None:
        self.schema = schema
        self.description = description
        self.model = model
        self.required: Sequence[str] = schema.get("required", ())  # type: ignore[assignment]  # REASON: JSON
        self.validate_json: Callable[..., BaseModel] = model.__pydantic_validator__.validate_json
        order, positional = slots
        self.fields = tuple((_shown_name(slot, model), slot.field) for slot in order if slot.field)
        """The name and the field of each argument."""
        self.has_shown_names = all(name == field for name, field in self.fields)
        """Whether each field of the validated arguments has the name that is shown for it."""
        self._positional = tuple(order[:positional])
        self._keywords = tuple(order[positional:])
        self._is_keywords_only = not positional and all(
            slot.parameter == slot.field
            and model.__pydantic_fields__[slot.field].default is not _LEFT_OUT
            for slot in order
        )

    def parse_arguments(self, text: str) -> BaseModel | RefusedCall:
        """Validate the arguments of one call; see `arguments`."""
        return parse_arguments(self, text)

    def check(
        self, text: str, *, edited: bool = False, now: float | None = None
    ) -> CheckedArguments | RefusedCall:
        """Validate the arguments of one call, and write them as JSON.

        Args:
            text: the argument text.
            edited: a person or a hook wrote the text, by the names of the parameters.
            now: the time in seconds since 1970, for messages about dates.
        """
        return check_arguments(self, text, edited=edited, now=now)

    def call_with(
        self, validated: BaseModel, context: ToolContext
    ) -> tuple[Sequence[object], dict[str, object]]:
        """Return positional and keyword arguments for the function."""
        fields = validated.__dict__
        if self._is_keywords_only:
            return (), fields
        return (
            [fields[slot.field] if slot.field else context for slot in self._positional],
            {
                slot.parameter: fields[slot.field] if slot.field else context
                for slot in self._keywords
                if not slot.field or fields[slot.field] is not _LEFT_OUT
            },
        )


def compile_signature(
    function: Callable[..., object], name: str, *, skip_first: bool = False
) -> Signature:
    """Compile the arguments of `function` to a schema and a validator.

    Args:
        function: the function.
        name: the tool's name, for errors.
        skip_first: the first parameter is the `self` of a method that is not bound yet.

    Raises:
        ConfigurationError: an argument has a type that JSON cannot express.
    """
    docs = parse_docstring(function)
    fields: dict[str, Any] = {}
    slots: list[Slot] = []
    positional = 0
    for parameter, annotation in _list_arguments(function, name, skip_first=skip_first):
        where = f"tool {name!r}, argument {parameter.name!r}"
        positional += parameter.kind is Parameter.POSITIONAL_ONLY
        if is_context(annotation):
            slots.append(Slot(parameter.name, None))
            continue
        kind = convert_constraints(annotation, where)
        field = _field_name(parameter.name)
        slots.append(Slot(parameter.name, field))
        fields[field] = _field_definition(parameter, kind, docs, renamed=field != parameter.name)
    model = _create_model(name, fields, slots)
    return Signature(
        _create_schema(model, name, fields, slots), docs.description, model, (slots, positional)
    )


def _list_arguments(
    function: Callable[..., object], name: str, *, skip_first: bool
) -> Iterator[tuple[Parameter, object]]:
    """Yield the parameters of a function and their types; `**options: Unpack[Options]` has one for each key."""
    seen: set[str] = set()
    for parameter in parameters_of(function, name, skip_first=skip_first):
        where = f"tool {name!r}, argument {parameter.name!r}"
        is_variadic = parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        if not is_variadic:
            seen.add(parameter.name)
            yield parameter, annotation_of(function, parameter, where)
            continue
        annotation: object = None
        if parameter.kind is Parameter.VAR_KEYWORD and parameter.annotation is not Parameter.empty:
            annotation = annotation_of(function, parameter, where)
        keys = get_args(annotation)[0] if get_origin(annotation) in _UNPACK else None
        if not is_typeddict(keys):
            raise ConfigurationError(
                where,
                "takes any number of values, which a tool's schema cannot express",
                fix="Take one list or dict instead, or Unpack[...] of a TypedDict; a decorator in "
                "between needs functools.wraps",
            )
        for key, kind in _list_keys(keys, where):
            if key.name in seen:
                raise ConfigurationError(where, f"has {key.name!r} twice", fix="Rename one")
            yield key, kind


def _list_keys(keys: Any, where: str) -> Iterator[tuple[Parameter, object]]:
    """Yield the keys of a TypedDict as parameters, and their types."""
    try:
        hints = get_type_hints(keys, include_extras=True)
    except NameError as error:
        raise UndefinedNameError(
            where,
            f"has a key whose type names {error.name!r}, which cannot be found",
            fix="Define or import that type before the tool",
        ) from error
    for key, kind in hints.items():
        while get_origin(kind) in _MARKS:
            (kind,) = get_args(kind)  # noqa: PLW2901  # REASON: the same type without its mark
        default = Parameter.empty if key in keys.__required_keys__ else _LEFT_OUT
        yield Parameter(key, Parameter.KEYWORD_ONLY, default=default), kind


def _field_name(parameter: str) -> str:
    """Return a field name that pydantic allows: no leading underscore, no name of its own methods."""
    if parameter.startswith("_") or parameter in _RESERVED:
        return f"field_{parameter}"
    return parameter


def _shown_name(slot: Slot, model: type[BaseModel]) -> str:
    """Return the parameter's name; its alias if pydantic does not allow a field of that name."""
    if slot.field is None or slot.field == slot.parameter:
        return slot.parameter
    return model.__pydantic_fields__[slot.field].alias or slot.parameter


def _field_definition(
    parameter: Parameter, annotation: object, docs: ToolDocs, *, renamed: bool
) -> tuple[object, object]:
    """Return type and default for `create_model`, with the description and alias that the user left out."""
    default = ... if parameter.default is Parameter.empty else parameter.default
    declared = _user_field(annotation, default)
    added: dict[str, Any] = {}
    if declared.description is None:
        added["description"] = _annotated_description(annotation) or docs.arguments.get(
            parameter.name
        )
    if renamed and declared.alias is None and declared.validation_alias is None:
        added["alias"] = parameter.name
    if not any(added.values()):
        return annotation, default
    return Annotated[annotation, Field(**added)], default


def _user_field(annotation: object, default: object) -> FieldInfo:
    try:
        if default is ...:
            return FieldInfo.from_annotation(annotation)  # type: ignore[arg-type]  # REASON: any annotation
        return FieldInfo.from_annotated_attribute(annotation, default)  # type: ignore[arg-type]  # REASON: as above
    except _UNUSABLE:
        # Creating the model raises an error with the argument's name.
        return FieldInfo(default=PydanticUndefined)


def _annotated_description(annotation: object) -> str | None:
    """Return the text in `Annotated[str, "text"]` or `Annotated[str, Doc("text")]`."""
    if get_origin(annotation) is not Annotated:
        return None
    for metadata in get_args(annotation)[1:]:
        text = getattr(metadata, "documentation", metadata)
        if isinstance(text, str):
            return text
    return None


def _create_model(name: str, fields: Mapping[str, Any], slots: Sequence[Slot]) -> type[BaseModel]:
    try:
        return _build_model(fields)
    except _UNUSABLE as error:
        raise _find_culprit(name, fields, slots, error) from error


def _build_model(fields: Mapping[str, Any]) -> type[BaseModel]:
    model: type[BaseModel] = create_model("Arguments", __config__=_CONFIG, **fields)
    if not model.__pydantic_complete__:
        model.model_rebuild(raise_errors=True)
    if len(model.model_fields) != len(fields):
        raise TypeError("ClassVar is for classes")
    return model


def _create_schema(
    model: type[BaseModel], name: str, fields: Mapping[str, Any], slots: Sequence[Slot]
) -> Mapping[str, object]:
    try:
        schema = _generate_schema(model)
    except _UNUSABLE as error:
        raise _find_culprit(name, fields, slots, error) from error
    # Constraints such as Field(ge=5, le=3), and json_schema_extra, are in it as they were written.
    read_schema(f"tool {name!r}", schema, OUTPUT_LIMITS)
    return schema


def _generate_schema(model: type[BaseModel]) -> dict[str, object]:
    schema: dict[str, Any] = model.model_json_schema(schema_generator=_QuietSchema)
    schema.pop("title", None)
    schema.setdefault("properties", {})
    for key, definition in schema.get("$defs", {}).items():
        if definition.get("title") == key:
            del definition["title"]
    return schema


class SchemaGenerator(GenerateJsonSchema):
    """Creates schemas without the defaults that JSON cannot express; they still apply."""

    def is_subclass_schema(self, schema: Any) -> Any:
        """Refuse a class: JSON has none, and pydantic would let any value be offered to the model."""
        return self.handle_invalid_for_json_schema(schema, "a class")

    def custom_error_schema(self, schema: Any) -> Any:
        """Refuse `Hashable`, which pydantic describes as any value."""
        if schema["custom_error_type"] == "is_hashable":
            return self.handle_invalid_for_json_schema(schema, "a hashable value")
        return super().custom_error_schema(schema)

    def encode_default(self, dft: Any) -> Any:
        """Return a default as plain data. Raises PydanticSerializationError if JSON cannot hold it, as infinity."""
        encoded = super().encode_default(dft)
        try:
            check_schema_size("default", {"default": encoded}, OUTPUT_LIMITS)
        except ConfigurationError as error:
            raise PydanticSerializationError(str(error)) from None
        return encoded

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Do nothing: there is nothing wrong with a default that is left out."""


class _QuietSchema(SchemaGenerator):
    """Creates schemas without titles that repeat a name, since they cost tokens."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  # REASON: pydantic's signature
        return False


def _find_culprit(
    name: str, fields: Mapping[str, Any], slots: Sequence[Slot], error: Exception
) -> ConfigurationError:
    """Compile the arguments one by one, to name the invalid one."""
    for slot in slots:
        if slot.field is None:
            continue
        try:
            _generate_schema(_build_model({slot.field: fields[slot.field]}))
        except _UNUSABLE as alone:
            where = f"tool {name!r}, argument {slot.parameter!r}"
            return _schema_error(where, fields[slot.field][0], alone)
    return _schema_error(f"tool {name!r}", "its arguments", error)


def _schema_error(where: str, annotation: object, error: Exception) -> ConfigurationError:
    """Describe the problem; pydantic's messages refer to settings that a tool does not have."""
    code = getattr(error, "code", None)
    if code == "class-not-fully-defined" or isinstance(
        error, (NameError, PydanticUndefinedAnnotation)
    ):
        return UndefinedNameError(
            where,
            "holds a class with a field whose type cannot be found",
            fix="Define or import that type before the tool",
        )
    if code == "typed-dict-version":
        problem = "holds a typing.TypedDict, which cannot be read before Python 3.12"
        fix = "Import TypedDict from typing_extensions"
    elif code in ("schema-for-unknown-type", "invalid-for-json-schema"):
        problem = f"is of a type that JSON cannot express: {_type_name(annotation)}"
        fix = "Use a type that JSON can express, and get objects from ToolContext.deps"
    else:
        problem = f"cannot be used: {str(error).partition(chr(10))[0]}"
        fix = "Use a type that pydantic can validate"
    return ConfigurationError(where, problem, fix=fix)


def _type_name(annotation: object) -> str:
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


class ToolDocs(Struct, frozen=True):
    """The description of a tool, and those of its arguments."""

    description: str
    arguments: dict[str, str]


def parse_docstring(function: Callable[..., object]) -> ToolDocs:
    """Read the docstring of `function`, or of the class if it is a callable object."""
    text = _find_docstring(function)
    if not text:
        return ToolDocs("", {})
    # Imported at the first use, so that importing a module with tools stays cheap.
    from docstring_parser import ParseError, parse

    try:
        parsed = parse(text)
    except ParseError:
        return ToolDocs(text, {})
    paragraphs = [part for part in (parsed.short_description, parsed.long_description) if part]
    between = "\n\n" if parsed.blank_after_short_description else "\n"
    arguments = {
        # The numpy style may describe several arguments at once: `x, y : int`.
        name.strip().lstrip("*"): param.description.strip()
        for param in parsed.params
        if param.description
        for name in param.arg_name.split(",")
    }
    return ToolDocs(between.join(paragraphs), arguments)


def _find_docstring(function: Callable[..., object]) -> str:
    inner = unwrap_partial(function)
    if inspect.isroutine(inner):
        return inspect.getdoc(inner) or ""
    kind = type(inner)
    # inspect.getdoc would return the docstring of `type.__call__`.
    text = inspect.cleandoc(kind.__call__.__doc__ or kind.__doc__ or "")
    # The docstring that a dataclass generates.
    return "" if text.startswith(f"{kind.__name__}(") else text
