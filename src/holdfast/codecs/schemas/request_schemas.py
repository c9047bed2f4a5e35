"""The schemas of one request in the dialects of its endpoint: of its tools, and of its output.

A conversion is made once for each tool and output of an agent, and not for each request. Most schemas of
tools need none: one look at each part shows that the dialect takes them as they are, in a fiftieth of the
time. This module must never choose how an output is requested, and must never write a field of a wire.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterable, Mapping
from functools import cache, partial
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from holdfast.codecs.schemas.conversion import (
    ConvertedSchema,
    RefusedSchema,
    check_request_sizes,
    convert_schema,
)
from holdfast.codecs.schemas.dialects import DIALECTS, Dialect, DialectLimits
from holdfast.codecs.schemas.rewriting import Rewritings
from holdfast.codecs.schemas.sent_parts import (
    SchemaSize,
    SentGraph,
    find_excess,
    find_request_excess,
)
from holdfast.core.errors import ConfigurationError
from holdfast.core.model_request import ModelRequest, OutputSchema, ToolSpec

Schema: TypeAlias = Mapping[str, object]
Conversion: TypeAlias = ConvertedSchema | RefusedSchema

_NO_ARGUMENTS: Final[dict[str, object]] = {"type": "object", "properties": {}}


class EndpointDialects(Struct, frozen=True):
    """The dialects of one endpoint.

    Args:
        outputs: of outputs whose schema the provider enforces.
        tools: of tools whose schema it may not enforce.
        strict_tools: of tools whose schema it enforces.
        loose_outputs: of outputs whose schema it reads and does not enforce; None if it enforces all.
        strict_models: the models whose provider enforces the schema of an output, as a regular
            expression; only where there are `loose_outputs` for the others.
        strict_by_default: a tool is strict if `strict_tools` takes its schema unchanged.
    """

    outputs: Dialect
    tools: Dialect
    strict_tools: Dialect
    loose_outputs: Dialect | None = None
    strict_models: str = ""
    strict_by_default: bool = False

    def enforces_outputs(self, model: str) -> bool:
        """Whether the provider enforces the schema of an output of this model."""
        return self.loose_outputs is None or re.search(self.strict_models, model) is not None


_OF_WIRES: Final = {
    "openai_chat": ("openai_strict", "openai_tool", "openai_strict"),
    "openai_responses": ("openai_strict", "openai_tool", "openai_strict"),
    "anthropic": ("anthropic_strict", "anthropic_tool", "anthropic_strict"),
    "gemini": ("gemini", "gemini", "gemini"),
}
_HAVE_LOOSE_FORM: Final = frozenset({"openai_strict", "groq_strict", "cerebras"})
"""The dialects of endpoints that also read an output's schema with `strict: false`."""


@cache
def find_dialects(
    wire: str,
    outputs: str = "",
    tools: str = "",
    *,
    strict_models: str = "",
    strict_by_default: bool = False,
) -> EndpointDialects:
    """Return the dialects of an endpoint.

    Args:
        wire: the codec's name.
        outputs: the name of the dialect of outputs; "" for that of the wire.
        tools: the name of the dialect of tools, strict or not; "" for those of the wire.
        strict_models: the models whose provider enforces the schema of an output, as a regular
            expression.
        strict_by_default: a tool is strict if the dialect takes its schema unchanged.

    >>> find_dialects("openai_chat", outputs="llguidance").outputs.name
    'llguidance'
    """
    defaults = _OF_WIRES.get(wire, _OF_WIRES["openai_chat"])
    of_outputs = outputs or defaults[0]
    return EndpointDialects(
        outputs=DIALECTS[of_outputs],
        tools=DIALECTS[tools or defaults[1]],
        strict_tools=DIALECTS[tools or defaults[2]],
        loose_outputs=DIALECTS["openai_tool"] if of_outputs in _HAVE_LOOSE_FORM else None,
        strict_models=strict_models,
        strict_by_default=strict_by_default or wire == "gemini",
    )


class _Conversions:
    """The conversions of one schema, by the names of the dialects."""

    __slots__ = ("by_dialect", "owner", "schema", "unchanged")

    def __init__(self, owner: ToolSpec | OutputSchema, schema: Schema) -> None:
        self.owner = weakref.ref(owner, partial(_forget, id(schema)))
        self.schema = _as_arguments(schema) if isinstance(owner, ToolSpec) else schema
        self.by_dialect: dict[str, Conversion] = {}
        self.unchanged: dict[str, ConvertedSchema | None] = {}


_known: dict[int, tuple[Schema, _Conversions]] = {}
"""Each schema by its `id`, with its conversions, as long as the tool or the output lives that has it."""


def _forget(number: int, owner: weakref.ref[ToolSpec | OutputSchema]) -> None:
    known = _known.get(number)
    if known is not None and known[1].owner is owner:
        del _known[number]


def _find_conversions(owner: ToolSpec | OutputSchema, schema: Schema) -> _Conversions:
    known = _known.get(id(schema))
    if known is None or known[0] is not schema:
        _check_json(owner, schema)
        known = _known[id(schema)] = (schema, _Conversions(owner, schema))
    return known[1]


def keep_unchanged(
    owner: ToolSpec | OutputSchema, schema: Schema, dialect: Dialect
) -> ConvertedSchema | None:
    """Return the schema as it is if a quick look shows that the dialect takes and enforces all of it."""
    conversions = _find_conversions(owner, schema)
    unchanged = conversions.unchanged
    if dialect.name not in unchanged:
        unchanged[dialect.name] = find_unchanged(conversions.schema, dialect)
    return unchanged[dialect.name]


def convert_once(owner: ToolSpec | OutputSchema, schema: Schema, dialect: Dialect) -> Conversion:
    """Return the conversion of a schema of a tool or an output, made now or before.

    Args:
        owner: the tool or the output. The conversion is forgotten with it.
        schema: its schema, which nobody changes from now on.
        dialect: the dialect.

    Raises:
        ConfigurationError: JSON cannot express the schema.
    """
    if (unchanged := keep_unchanged(owner, schema, dialect)) is not None:
        return unchanged
    conversions = _find_conversions(owner, schema)
    made = conversions.by_dialect.get(dialect.name)
    if made is None:
        made = conversions.by_dialect[dialect.name] = convert_schema(conversions.schema, dialect)
    return made


def _check_json(owner: ToolSpec | OutputSchema, schema: Schema) -> None:
    try:
        msgspec.json.encode(schema)
    except UnicodeEncodeError:
        pass  # an unpaired surrogate is replaced when the request is written
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"cannot be written as JSON: {error}"
        raise ConfigurationError(_name_place(owner), problem) from None


def _name_place(owner: ToolSpec | OutputSchema) -> str:
    return f"tools.{owner.name}.schema" if isinstance(owner, ToolSpec) else "output.schema"


def _as_arguments(schema: Schema) -> Schema:
    """Return the schema of arguments with its type, which may be left out."""
    if not schema:
        return _NO_ARGUMENTS
    return schema if "type" in schema else {"type": "object", **schema}


class SentSchema(Struct, frozen=True):
    """A schema as it is sent, and whether the provider is to enforce it."""

    converted: ConvertedSchema
    strict: bool

    @property
    def schema(self) -> dict[str, object]:
        """The schema in the dialect."""
        return self.converted.schema


class RequestSchemas(Struct, frozen=True):
    """The schemas of a request as they are sent.

    Args:
        tools: the schemas of its tools, in their order.
        output: the schema of its output, if that is sent in the field of the wire.
        rewritings: the changes in the reply that undo those of the schemas.
    """

    tools: tuple[SentSchema, ...]
    output: SentSchema | None
    rewritings: Rewritings | None


def convert_request(
    request: ModelRequest, dialects: EndpointDialects, *, is_native: bool
) -> RequestSchemas:
    """Convert the schemas of a request.

    Args:
        request: the request.
        dialects: the dialects of its endpoint.
        is_native: whether the schema of the output is sent in the field of the wire.

    Raises:
        ConfigurationError: a dialect refuses a schema, or all together are too large; the error names
            the place.
    """
    tools = tuple([convert_tool(tool, dialects) for tool in request.tools])
    output: SentSchema | None = None
    if is_native and request.output is not None:
        made = convert_native_output(request.output, request.model, dialects)
        if isinstance(made, RefusedSchema):
            raise _refuse(request.output, made)
        output = made
    if problem := _find_excess(dialects, tools, output):
        argument = "tools" if output is None else "output.schema"
        raise ConfigurationError(argument, problem, fix="leave strict=True out of some tools")
    changes = {
        tool.name: sent.converted.rewriting
        for tool, sent in zip(request.tools, tools, strict=True)
        if sent.converted.rewriting is not None
    }
    of_output = None if output is None else output.converted.rewriting
    rewritings = Rewritings(changes, of_output) if changes or of_output is not None else None
    return RequestSchemas(tools, output, rewritings)


def convert_tool(tool: ToolSpec, dialects: EndpointDialects) -> SentSchema:
    """Convert the schema of a tool: strict if the tool wants it, or if that changes nothing.

    Raises:
        ConfigurationError: the dialect refuses the schema; the error names the place.
    """
    if tool.strict:
        made = convert_once(tool, tool.schema, dialects.strict_tools)
        if isinstance(made, RefusedSchema):
            raise _refuse(tool, made)
        return SentSchema(made, strict=True)
    if tool.strict is None and dialects.strict_by_default:
        unchanged = keep_unchanged(tool, tool.schema, dialects.strict_tools)
        if unchanged is not None:
            return SentSchema(unchanged, strict=True)
    made = convert_once(tool, tool.schema, dialects.tools)
    if isinstance(made, RefusedSchema):
        raise _refuse(tool, made)
    return SentSchema(made, strict=False)


def convert_native_output(
    output: OutputSchema, model: str, dialects: EndpointDialects
) -> SentSchema | RefusedSchema:
    """Convert the schema of an output for the field of the wire: enforced if possible."""
    loose = dialects.loose_outputs
    schema = output.envelope or output.schema
    if loose is None or (output.strict and dialects.enforces_outputs(model)):
        made = convert_once(output, schema, dialects.outputs)
        if isinstance(made, ConvertedSchema):
            return SentSchema(made, strict=True)
        if loose is None:
            return made
    made = convert_once(output, schema, loose)
    return made if isinstance(made, RefusedSchema) else SentSchema(made, strict=False)


def is_object_schema(schema: Schema) -> bool:
    """Whether the top level of the schema is an object, as most wires require.

    >>> is_object_schema({"type": "object"}), is_object_schema({"anyOf": []}), is_object_schema({"$ref": "#/$defs/A"})
    (True, False, False)
    """
    return schema.get("type") == "object"


def sends_natively(request: ModelRequest, dialects: EndpointDialects) -> bool:
    """Whether the output is requested by the field of the wire: if it must be, or if the dialect takes it."""
    mode = "prompt" if request.output is None else request.output.mode
    return mode == "native" or (mode != "prompt" and not find_native_problem(request, dialects))


def find_native_problem(request: ModelRequest, dialects: EndpointDialects) -> str:
    """Return why the schema of the output cannot be sent in the field of the wire; "" if it can."""
    output = request.output
    if output is None:
        return ""
    made = convert_native_output(output, request.model, dialects)
    if isinstance(made, RefusedSchema):
        return describe_refusal(made)
    if dialects.outputs.limits.strict_schemas is None:
        return ""
    tools = [tool for tool in request.tools if tool.strict]
    conversions = [convert_once(tool, tool.schema, dialects.strict_tools) for tool in tools]
    # A tool that is refused is no problem of the output: its error names it when the request is encoded.
    sent = [SentSchema(one, strict=True) for one in conversions if isinstance(one, ConvertedSchema)]
    return _find_excess(dialects, sent, made)


def describe_native(output: OutputSchema, model: str, dialects: EndpointDialects) -> str:
    """Return how far the provider enforces the schema of an output that it takes, in words."""
    made = convert_native_output(output, model, dialects)
    if isinstance(made, RefusedSchema):
        return describe_refusal(made)
    if made.strict:
        count = len(made.converted.unenforced)
        rest = "1 constraint" if count == 1 else f"{count} constraints"
        vendor = dialects.outputs.vendor
        return f"{vendor} enforces the schema" + (f", except for {rest}" if count else "")
    if not output.strict:
        return "strict=False"
    if not dialects.enforces_outputs(model):
        return "the provider does not enforce schemas for this model"
    strict = convert_once(output, output.envelope or output.schema, dialects.outputs)
    why = describe_refusal(strict) if isinstance(strict, RefusedSchema) else ""
    return f"the provider does not enforce the schema: {why}"


def find_tool_problem(tools: Iterable[ToolSpec], dialects: EndpointDialects) -> str:
    """Return why tools cannot be offered; "" if they can."""
    for tool in tools:
        made = convert_once(tool, tool.schema, dialects.tools)
        if isinstance(made, RefusedSchema):
            return describe_refusal(made)
    return ""


def describe_refusal(refused: RefusedSchema) -> str:
    """Return the place and the problem in one line.

    >>> describe_refusal(RefusedSchema("/properties/a", "OpenAI (strict) takes no free keys"))
    '/properties/a: OpenAI (strict) takes no free keys'
    """
    return f"{refused.place}: {refused.problem}" if refused.place else refused.problem


def _find_excess(
    dialects: EndpointDialects, tools: Iterable[SentSchema], output: SentSchema | None
) -> str:
    """Return the limit of a request that the enforced schemas exceed together; "" if they keep all."""
    enforced = [sent.converted.size for sent in tools if sent.strict]
    if output is not None and output.strict:
        enforced.append(output.converted.size)
    return check_request_sizes(dialects.strict_tools, enforced) if enforced else ""


def _refuse(owner: ToolSpec | OutputSchema, refused: RefusedSchema) -> ConfigurationError:
    return ConfigurationError(
        f"{_name_place(owner)}{refused.place}", refused.problem, fix=refused.fix
    )


_PLAIN: Final = frozenset(
    [
        "$ref", "additionalProperties", "anyOf", "const", "description", "enum", "exclusiveMaximum",
        "exclusiveMinimum", "format", "items", "maxItems", "maxLength", "maximum", "minItems", "minLength",
        "minimum", "multipleOf", "pattern", "properties", "required", "title", "type",
    ]
)  # fmt: skip
"""The keywords whose rules are known here."""

_NOTES: Final = frozenset(["title", "description"])
_SAID: Final = frozenset(["default", "examples"])
"""Keywords that constrain nothing, and that only a dialect without a list of keywords takes."""

_TYPES: Final = frozenset(["string", "number", "integer", "boolean", "null", "object", "array"])
_DEFINITIONS: Final = "#/$defs/"
_MOST_PARTS: Final = 2000
_NO_LIMITS: Final = DialectLimits()


def find_unchanged(schema: Mapping[str, object], dialect: Dialect) -> ConvertedSchema | None:
    """Return a schema as it is, but for `$schema`, if the dialect takes and enforces all of it; None if that is not certain.

    >>> from holdfast.codecs.schemas.dialects import OPENAI_STRICT, OPENAI_TOOL
    >>> city = {"type": "object", "properties": {"city": {"type": "string"}}}
    >>> find_unchanged(city, OPENAI_TOOL).schema == city, find_unchanged(city, OPENAI_STRICT)
    (True, None)
    """
    sent = {key: value for key, value in schema.items() if key != "$schema"}
    if not _Look(dialect).accepts(sent):
        return None
    if dialect.needs_object:
        sent.setdefault("properties", {})
    size, limits = SchemaSize(), dialect.limits
    if limits != _NO_LIMITS:
        size = SentGraph(sent, {}).measure()
        if find_excess(size, limits) or find_request_excess([size], limits):
            return None
    return ConvertedSchema(sent, size=size)


class _Look:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        known = _PLAIN | _SAID if dialect.keywords is None else _PLAIN & dialect.keywords | _NOTES
        self._known = known
        self._names = None if dialect.property_names is None else re.compile(dialect.property_names)
        self._waiting: list[object] = []
        self._references: set[str] = set()

    def accepts(self, schema: dict[str, Any]) -> bool:
        """Whether the dialect takes and enforces a schema."""
        dialect = self._dialect
        definitions = schema.get("$defs", {})
        if not isinstance(definitions, dict) or not dialect.refused_at_top.isdisjoint(schema):
            return False
        if dialect.needs_object and schema.get("type") != "object":
            return False
        graph: dict[str, set[str]] = {}
        for name, part in definitions.items():
            if not self._accepts_all(part):
                return False
            graph[name], self._references = self._references, set()
        top = {key: value for key, value in schema.items() if key != "$defs"}
        if "$ref" in top or not self._accepts_all(top):
            return False
        return self._accepts_references(graph)

    def _accepts_references(self, graph: dict[str, set[str]]) -> bool:
        """Whether all references lead somewhere, and only as often as the dialect allows."""
        named = self._references.union(*graph.values())
        if not named <= graph.keys():
            return False
        if self._dialect.recursion == "any":
            return True
        try:
            TopologicalSorter(graph).prepare()
        except CycleError:
            return False
        return True

    def _accepts_all(self, part: object) -> bool:
        self._waiting.append(part)
        left = _MOST_PARTS
        while self._waiting:
            left -= 1
            if not left or not self._accepts_part(self._waiting.pop()):
                self._waiting.clear()
                return False
        return True

    def _accepts_part(self, part: object) -> bool:
        if not isinstance(part, dict) or not self._known.issuperset(part):
            return False
        kind = part.get("type")
        if kind is not None and not self._accepts_type(kind, part):
            return False
        if "$ref" in part:
            return self._accepts_reference(part)
        if "enum" in part or "const" in part:
            return self._accepts_literals(part)
        if "anyOf" in part:
            return self._accepts_choice(part)
        if kind is None:
            is_taken = self._dialect.takes_empty and not self._dialect.needs_types
            return is_taken and not part.keys() - _NOTES - _SAID
        if kind == "object" or "properties" in part:
            return kind == "object" and self._accepts_object(part)
        if kind == "array" or "items" in part:
            return kind == "array" and self._accepts_list(part)
        return self._accepts_text(part)

    def _accepts_type(self, kind: object, part: dict[str, Any]) -> bool:
        if isinstance(kind, str):
            return kind in _TYPES
        # Of several types, only those without other keywords are looked at.
        return (
            self._dialect.takes_type_lists
            and isinstance(kind, list)
            and len(kind) > 0
            and all(isinstance(one, str) and one in _TYPES - {"object", "array"} for one in kind)
            and not part.keys() - {"type"} - _NOTES
        )

    def _accepts_reference(self, part: dict[str, Any]) -> bool:
        reference = part["$ref"]
        if not isinstance(reference, str) or not reference.startswith(_DEFINITIONS):
            return False
        self._references.add(reference.removeprefix(_DEFINITIONS))
        beside = part.keys() - {"$ref"}
        allowed = self._dialect.beside_reference
        return beside <= _NOTES and (allowed is None or beside <= allowed)

    def _accepts_literals(self, part: dict[str, Any]) -> bool:
        if (
            part.keys() - {"enum", "const", "type"} - _NOTES - _SAID
            or len(part.keys() & {"enum", "const"}) > 1
        ):
            return False
        values = part["enum"] if "enum" in part else [part["const"]]
        if not isinstance(values, list) or not values:
            return False
        kinds = set(map(_name_type, values))
        if "type" not in part:
            return kinds <= self._dialect.literal_types
        kind = "number" if part["type"] == "integer" else part["type"]
        integers = part["type"] != "integer" or all(isinstance(one, int) for one in values)
        return (
            self._dialect.types_literals
            and integers
            and kinds == {kind}
            and kinds <= self._dialect.literal_types
        )

    def _accepts_choice(self, part: dict[str, Any]) -> bool:
        branches, most = part["anyOf"], self._dialect.most_branches
        if (
            part.keys() - {"anyOf"} - _NOTES - _SAID
            or not isinstance(branches, list)
            or not branches
        ):
            return False
        if any(isinstance(branch, dict) and "anyOf" in branch for branch in branches):
            return False
        self._waiting += branches
        return most is None or len(branches) <= most

    def _accepts_object(self, part: dict[str, Any]) -> bool:
        if (
            part.keys()
            - {"type", "properties", "required", "additionalProperties"}
            - _NOTES
            - _SAID
        ):
            return False
        properties, required = part.get("properties", {}), part.get("required", [])
        if not isinstance(properties, dict) or not _is_list_of_names(required):
            return False
        if self._names is not None and not all(map(self._names.search, properties)):
            return False
        others = part.get("additionalProperties")
        if self._dialect.closes_objects and others is not False:
            return False
        if self._dialect.closes_by_default and others is None:
            return False
        if isinstance(others, dict):
            self._waiting.append(others)
        elif others is not None and not isinstance(others, bool):
            return False
        self._waiting += properties.values()
        names = properties.keys()
        return names == set(required) if self._dialect.requires_all else names >= set(required)

    def _accepts_list(self, part: dict[str, Any]) -> bool:
        if part.keys() - {"type", "items", "minItems", "maxItems"} - _NOTES - _SAID:
            return False
        if "items" in part:
            self._waiting.append(part["items"])
        elif self._dialect.needs_items:
            return False
        if self._exceeds(part):
            return False
        largest, least = self._dialect.largest_min_items, part.get("minItems", 0)
        return largest is None or (isinstance(least, int) and least <= largest)

    def _accepts_text(self, part: dict[str, Any]) -> bool:
        if part.keys() & {
            "items",
            "properties",
            "required",
            "additionalProperties",
            "minItems",
            "maxItems",
        }:
            return False
        if bool in map(type, (part.get("exclusiveMinimum"), part.get("exclusiveMaximum"))):
            return False  # OpenAPI 3.0
        if self._exceeds(part) or (not self._dialect.joins_text_rules and "format" in part):
            return False
        formats, form = self._dialect.formats, part.get("format")
        if form is not None and not isinstance(form, str):
            return False
        if form is not None and formats is not None and form not in formats:
            return False
        return "pattern" not in part or self._dialect.patterns == "any"

    def _exceeds(self, part: dict[str, Any]) -> bool:
        """Whether a bound is larger than what the provider enforces."""
        bounds = self._dialect.enforced_up_to.items()
        return any(part.get(keyword, 0) > most for keyword, most in bounds)


def _is_list_of_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _name_type(value: object) -> str:
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "null" if value is None else "object"
