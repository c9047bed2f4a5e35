"""The dialects of JSON Schema: which schemas a provider takes, as data.

A rule comes from the vendor's reference, from its SDK, or from refusals that users published. This module must never
convert a schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

Recursion: TypeAlias = Literal["any", "optional", "none"]
"""Where a part may contain itself: anywhere, only inside of a property that is not required, or nowhere."""

PatternForm: TypeAlias = Literal["any", "plain", "whole", "unescaped", "llama_cpp", "none"]
"""Which patterns are sent. `plain` has no look-around, no back reference and no word boundary. `whole` is also anchored at
both ends, for a provider that matches each pattern with the whole text. `unescaped` moreover matches no text that JSON writes
with escapes. `llama_cpp` is moreover without classes such as `\\d`."""


class DialectLimits(Struct, frozen=True, kw_only=True):
    """How large schemas may be; None where no limit is known.

    The first six are limits of one schema. The last three are limits of a request, over all its schemas together.

    Args:
        levels: objects and arrays inside of each other, with the top.
        properties: properties of all objects.
        enum_values: values of all enums, and constants.
        characters: characters of the names of properties and definitions, and of the values of enums and constants.
        long_enum: an enum with more values than this has limited characters.
        long_enum_characters: the characters of such an enum.
        strict_schemas: schemas that the provider enforces.
        optional: properties that are not required.
        unions: parts with `anyOf` or with a list of types.
    """

    levels: int | None = None
    properties: int | None = None
    enum_values: int | None = None
    characters: int | None = None
    long_enum: int | None = None
    long_enum_characters: int | None = None
    strict_schemas: int | None = None
    optional: int | None = None
    unions: int | None = None


class Dialect(Struct, frozen=True, kw_only=True):
    """The schemas that one feature of one provider takes.

    Args:
        name: the name in `DIALECTS`.
        vendor: who refuses other schemas, for messages.
        keywords: the keywords that are taken and enforced; None if all are taken.
        formats: the values of `format` that are taken; None if all are.
        beside_reference: the keywords that may stand beside `$ref`; None if all may.
        recursion: where a part may contain itself.
        refers_to_root: whether `"#"` may be referred to.
        takes_empty: whether `{}` stands for every value.
        fixed_tuples: whether `prefixItems` must give the number of items, with `minItems` and `maxItems`.
        closes_objects: whether every object must have `additionalProperties: false`.
        closes_by_default: whether an object without `additionalProperties` is read as a closed one.
        requires_all: whether `required` must name every property.
        needs_types: whether each part needs one of `type`, `$ref`, `anyOf`, `enum` and `const`.
        needs_items: whether arrays need `items`.
        needs_object: whether the top must be an object.
        refused_at_top: keywords that the top must not have.
        patterns: the patterns that are sent.
        whole_bounds: whether the bounds of an integer must be whole numbers of 64 bits.
        joins_text_rules: whether the lengths of a text count beside its pattern or format, and both beside each other.
        property_names: the pattern that names of properties must match; None if any name is taken.
        takes_type_lists: whether `type` may be a list.
        types_literals: whether `type` may stand beside `enum` and `const`.
        literal_types: the types that values of `enum` and `const` may have.
        joins_choices: whether `anyOf` may stand beside other constraints.
        most_branches: how many branches `anyOf` may have.
        largest_min_items: the largest `minItems`.
        enforced_up_to: the largest values of keywords that are enforced; larger ones are accepted.
        limits: how large schemas may be.
    """

    name: str
    vendor: str
    keywords: frozenset[str] | None = None
    formats: frozenset[str] | None = None
    beside_reference: frozenset[str] | None = None
    recursion: Recursion = "any"
    refers_to_root: bool = True
    takes_empty: bool = True
    fixed_tuples: bool = False
    closes_objects: bool = False
    closes_by_default: bool = False
    requires_all: bool = False
    needs_types: bool = False
    needs_items: bool = False
    needs_object: bool = False
    refused_at_top: frozenset[str] = frozenset()
    patterns: PatternForm = "any"
    whole_bounds: bool = False
    joins_text_rules: bool = True
    property_names: str | None = None
    takes_type_lists: bool = True
    types_literals: bool = True
    literal_types: frozenset[str] = frozenset(
        {"string", "number", "boolean", "null", "object", "array"}
    )
    joins_choices: bool = True
    most_branches: int | None = None
    largest_min_items: int | None = None
    enforced_up_to: Mapping[str, int] = {}
    limits: DialectLimits = DialectLimits()


ANNOTATIONS: Final = frozenset({"title", "description"})
"""The keywords that every dialect takes and that constrain nothing."""

OF_NO_TYPE: Final = frozenset({"minLength", "maxLength", "minItems", "maxItems", "required"})
"""The keywords that name no type for llama.cpp: it refuses a part with these alone."""

_STRUCTURE = frozenset(
    {
        "$defs",
        "$ref",
        "additionalProperties",
        "anyOf",
        "const",
        "enum",
        "items",
        "properties",
        "required",
        "type",
    }
)
_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_LENGTHS = frozenset({"minLength", "maxLength"})
_COUNTS = frozenset({"minItems", "maxItems"})
_NOTES = frozenset({"default", "examples"})
_NO_SIBLING: frozenset[str] = frozenset()
_SCALARS = frozenset({"string", "number", "boolean", "null"})

_OPENAI_FORMATS = frozenset(
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"]
)

OPENAI_STRICT: Final = Dialect(
    name="openai_strict",
    vendor="OpenAI (strict)",
    # The tables of pydantic-ai and of openai-node list the keywords that are not permitted.
    keywords=_STRUCTURE | _NUMBERS | _LENGTHS | _COUNTS | {"pattern", "format"},
    # "'uri' is not a valid format" (git-mcp-server#47, pydantic-ai#2420).
    formats=_OPENAI_FORMATS,
    # "$ref cannot have keywords {'description'}" (vectorize-io/hindsight#3904, defog#244).
    beside_reference=_NO_SIBLING,
    # The guide to structured outputs: objects are closed and require all their properties, and the top is an object.
    closes_objects=True,
    requires_all=True,
    needs_object=True,
    refused_at_top=frozenset({"anyOf", "enum", "const"}),
    # "Every schema must have a 'type' key", arrays too need `items` (pydantic-ai#4425).
    needs_types=True,
    needs_items=True,
    # Answered by 400, and by 500 in a third of requests (pydantic-ai#5508, #5519).
    patterns="plain",
    # No vendor's text permits values of other types, and none a constraint beside `anyOf`.
    literal_types=_SCALARS,
    joins_choices=False,
    limits=DialectLimits(
        levels=10,
        properties=5000,
        enum_values=1000,
        characters=120_000,
        long_enum=250,
        long_enum_characters=15_000,
    ),
)

OPENAI_TOOL: Final = Dialect(
    name="openai_tool",
    vendor="OpenAI",
    # "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level".
    needs_object=True,
    refused_at_top=frozenset({"anyOf", "oneOf", "allOf", "enum", "not"}),
    # "array schema missing items".
    needs_items=True,
    # "Invalid JSON schema: regex lookaround is not supported. Found at $.properties.email.pattern", also of tools that are
    # not strict, since 2026 (opencode#32073, 9router#1556, pi-interactive-shell#69).
    patterns="plain",
)

_ANTHROPIC_NAMES = "^[a-zA-Z0-9_.-]{1,64}$"

ANTHROPIC_TOOL: Final = Dialect(
    name="anthropic_tool",
    vendor="Anthropic",
    # "input_schema does not support oneOf, allOf, or anyOf at the top level" (claude-code#5973, huly-mcp#66).
    needs_object=True,
    refused_at_top=frozenset({"anyOf", "oneOf", "allOf"}),
    # "Property keys should match pattern" (n8n#30590, composio#3500).
    property_names=_ANTHROPIC_NAMES,
)

ANTHROPIC_STRICT: Final = Dialect(
    name="anthropic_strict",
    vendor="Anthropic (strict)",
    # `anthropic/lib/_parse/_transform.py` moves everything else into descriptions, `pattern` too, which the server takes.
    keywords=_STRUCTURE | {"format", "minItems"},
    formats=_OPENAI_FORMATS | {"uri"},
    # The same file drops everything beside `$ref`, the type beside `enum`, and constraints beside `anyOf`.
    beside_reference=_NO_SIBLING,
    types_literals=False,
    joins_choices=False,
    takes_type_lists=False,
    # The guide to structured outputs: "recursive schemas", "complex types within enums",
    # "additionalProperties set to anything other than false".
    recursion="none",
    closes_objects=True,
    literal_types=_SCALARS,
    largest_min_items=1,
    needs_types=True,
    needs_items=True,
    needs_object=True,
    refused_at_top=frozenset({"anyOf", "oneOf", "allOf"}),
    patterns="none",
    property_names=_ANTHROPIC_NAMES,
    # "Schemas contains too many parameters with union types" (vercel/ai#17268), "too many optional parameters"
    # (inbox-zero#2662), over strict tools and the output together.
    limits=DialectLimits(strict_schemas=20, optional=24, unions=16),
)

GEMINI: Final = Dialect(
    name="gemini",
    vendor="Gemini",
    # The reference of `response_json_schema` in google-genai. Others are ignored, `allOf` and `const` too.
    keywords=(_STRUCTURE - {"const"})
    | _COUNTS
    | {"$id", "$anchor", "format", "prefixItems", "minimum", "maximum", "propertyOrdering"}
    # It is no keyword of the reference, and is taken (gcli2api#374).
    | {"default"},
    # The guide to structured outputs names those of texts; the others were refused in `responseSchema`.
    formats=frozenset({"date-time", "date", "time", "int32", "int64", "float", "double"}),
    # "If $ref is set on a sub-schema, no other properties, except for than those starting as a $, may be set."
    beside_reference=_NO_SIBLING,
    # There, too: cyclic references may only be used within properties that are not required; nullable is not enough.
    recursion="optional",
    refers_to_root=False,
    # "enum (for strings and numbers)".
    literal_types=frozenset({"string", "number"}),
    joins_choices=False,
    needs_items=True,
    patterns="none",
)

LLGUIDANCE: Final = Dialect(
    name="llguidance",
    vendor="llguidance",
    # Tried with llguidance 1.9.1, which vLLM and SGLang can use: it answers "Unimplemented keys" to the others. It takes
    # `patternProperties` and then writes wrong keys (llguidance#265), and sizes of objects only in some cases.
    keywords=_STRUCTURE
    | _NUMBERS
    | _LENGTHS
    | _COUNTS
    | _NOTES
    | {"pattern", "format", "prefixItems"},
    # 1.9.1 takes "uri", and the release that vLLM 0.19 has does not: "Unknown format: uri" (paroquant#31).
    formats=_OPENAI_FORMATS,
    patterns="plain",
)

LLAMA_CPP: Final = Dialect(
    name="llama_cpp",
    vendor="llama.cpp",
    # `json_schema_to_grammar.py`, whose rules Ollama uses too. It ignores the others, bounds of numbers too.
    keywords=_STRUCTURE | _LENGTHS | _COUNTS | _NOTES | {"pattern", "format", "prefixItems"},
    formats=frozenset({"date", "time", "date-time", "uuid"}),
    # It reads nothing beside `$ref` and beside `anyOf`, and "Unsupported ref" is its answer to "#".
    beside_reference=ANNOTATIONS | _NOTES,
    refers_to_root=False,
    # It reads `{}` as an object, and `prefixItems` as exactly these items.
    takes_empty=False,
    fixed_tuples=True,
    joins_choices=False,
    # "Pattern must start with '^' and end with '$'", and no classes (ollama#8325, #8063).
    patterns="llama_cpp",
    # "failed to parse grammar" for a name with this bracket beside free keys (tried, build 11549).
    property_names=r"^[^\]]*$",
)

CEREBRAS: Final = Dialect(
    name="cerebras",
    vendor="Cerebras",
    # inference-docs.cerebras.ai/capabilities/structured-outputs: all properties are required, objects are closed, a list
    # of types is not taken, `anyOf` has at most 5 branches. Bounds and most formats were refused.
    keywords=_STRUCTURE,
    formats=frozenset(),
    beside_reference=_NO_SIBLING,
    recursion="none",
    closes_objects=True,
    requires_all=True,
    needs_types=True,
    needs_items=True,
    needs_object=True,
    refused_at_top=frozenset({"anyOf", "enum", "const"}),
    patterns="none",
    takes_type_lists=False,
    literal_types=_SCALARS,
    joins_choices=False,
    most_branches=5,
    limits=DialectLimits(levels=10, properties=500, enum_values=500, characters=5000),
)

GROQ_STRICT: Final = Dialect(
    name="groq_strict",
    vendor="Groq (strict)",
    # console.groq.com/docs/structured-outputs: objects are closed and require all their properties. It lists the types,
    # `enum`, `anyOf` and references, and no constraints.
    keywords=_STRUCTURE,
    formats=frozenset(),
    beside_reference=_NO_SIBLING,
    closes_objects=True,
    requires_all=True,
    needs_types=True,
    needs_items=True,
    needs_object=True,
    refused_at_top=frozenset({"anyOf", "enum", "const"}),
    patterns="none",
    literal_types=_SCALARS,
    joins_choices=False,
)

XAI: Final = Dialect(
    name="xai",
    vendor="xAI",
    # docs.x.ai/developers/model-capabilities/text/structured-outputs, for outputs and for tools, whose arguments always
    # conform: `oneOf` is read as `anyOf`; `not`, conditions and `allOf` of several are accepted and not enforced;
    # `minContains` and `maxContains` are refused. `multipleOf` and `patternProperties` are not mentioned.
    keywords=_STRUCTURE
    | (_NUMBERS - {"multipleOf"})
    | _LENGTHS
    | _COUNTS
    | {"pattern", "format", "prefixItems", "minProperties", "maxProperties"},
    formats=frozenset({"date", "time", "date-time", "email", "uuid", "ipv4", "ipv6", "uri"}),
    # References must not be circular. Nothing is said of constraints beside `$ref` and `anyOf`.
    beside_reference=ANNOTATIONS,
    recursion="none",
    joins_choices=False,
    # `additionalProperties` defaults to false there.
    closes_by_default=True,
    # A choice with a branch that is no object was refused: "tool parameter root must be an object type" (CLIProxyAPI#4343).
    needs_object=True,
    refused_at_top=frozenset({"anyOf", "oneOf"}),
    # "^ and $ are implicit - the pattern always matches the entire string".
    patterns="whole",
    enforced_up_to={
        **dict.fromkeys(_LENGTHS, 2048),
        **dict.fromkeys(_COUNTS, 256),
        **dict.fromkeys(("minProperties", "maxProperties"), 64),
    },
)

XGRAMMAR: Final = Dialect(
    name="xgrammar",
    vendor="xgrammar",
    # Tried with xgrammar 0.2.9, the default of SGLang and of vLLM. It ignores `not`, conditions, `uniqueItems` and
    # `contains` with a warning, and `multipleOf` of numbers. A text with a length can have no quotation mark, backslash or
    # line break.
    keywords=_STRUCTURE
    | (_NUMBERS - {"multipleOf"})
    | _COUNTS
    | _NOTES
    | {"pattern", "format", "prefixItems"},
    # It takes "uri", too; what vLLM passes on to llguidance must not have it.
    formats=_OPENAI_FORMATS,
    # It reads the first of $ref, const, enum, anyOf and type, and nothing beside it.
    beside_reference=ANNOTATIONS | _NOTES,
    joins_choices=False,
    # `strict_mode`, its default: objects without `additionalProperties` and lists without `items` have no others.
    closes_by_default=True,
    needs_items=True,
    # A pattern is the whole text as it is written in JSON, without its escapes, and look-around is ignored. Of format and
    # pattern only the first counts.
    patterns="unescaped",
    joins_text_rules=False,
    # "Integer constraint must be a whole number", "Integer exceeds maximum limit".
    whole_bounds=True,
)

DIALECTS: Final = {
    one.name: one
    for one in (
        OPENAI_STRICT,
        OPENAI_TOOL,
        ANTHROPIC_TOOL,
        ANTHROPIC_STRICT,
        GEMINI,
        LLGUIDANCE,
        LLAMA_CPP,
        CEREBRAS,
        GROQ_STRICT,
        XAI,
        XGRAMMAR,
    )
}
"""All dialects by their names."""


def takes_keyword(dialect: Dialect, keyword: str, *, is_top: bool = False) -> bool:
    """Whether a dialect takes a keyword, at the top or elsewhere.

    >>> takes_keyword(OPENAI_TOOL, "oneOf"), takes_keyword(OPENAI_TOOL, "oneOf", is_top=True)
    (True, False)
    """
    if is_top and keyword in dialect.refused_at_top:
        return False
    return dialect.keywords is None or keyword in dialect.keywords


def takes_fact(dialect: Dialect, keyword: str, value: Any) -> bool:
    """Whether a dialect takes a keyword about a value alone, such as `format`.

    >>> takes_fact(OPENAI_STRICT, "format", "date"), takes_fact(OPENAI_STRICT, "format", "uri")
    (True, False)
    """
    if not takes_keyword(dialect, keyword):
        return False
    if keyword == "format":
        return dialect.formats is None or value in dialect.formats
    if keyword == "pattern":
        return takes_pattern(dialect, value)
    most = dialect.enforced_up_to.get(keyword)
    if most is not None and value > most:
        return False
    largest = dialect.largest_min_items
    return keyword != "minItems" or largest is None or bool(value <= largest)


def takes_literal(dialect: Dialect, name: str) -> bool:
    """Whether `enum` and `const` may have a value of a type.

    >>> takes_literal(OPENAI_STRICT, "integer"), takes_literal(OPENAI_STRICT, "object")
    (True, False)
    """
    types = dialect.literal_types
    return name in types or (name == "integer" and "number" in types)


def takes_pattern(dialect: Dialect, pattern: str) -> bool:
    """Whether a dialect takes a pattern, and its provider reads it as JSON Schema does.

    >>> takes_pattern(OPENAI_STRICT, "^[a-z]+$"), takes_pattern(OPENAI_STRICT, "^(?!x)")
    (True, False)
    """
    if dialect.patterns in ("any", "none"):
        return dialect.patterns == "any"
    if dialect.patterns == "whole":
        return _is_whole(pattern)
    if dialect.patterns == "unescaped":
        return bool(_UNESCAPED_PATTERN.fullmatch(pattern)) and _is_whole(pattern)
    return _is_for_grammar(pattern) if dialect.patterns == "llama_cpp" else _is_plain(pattern)


_ESCAPE = r"\\(?:[dDwWsSnrtfv]|[^a-zA-Z0-9\s_]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4})"
_REPEAT = r"\{\d+(?:,\d*)?\}"
_PLAIN_PATTERN = re.compile(
    rf"(?:{_ESCAPE}|\[\^?(?:{_ESCAPE}|(?!--)[^\[\]\\&~])+\]"
    rf"|\((?:\?:|(?!\?))|\)|(?:[*+?]|{_REPEAT})\??(?!\+)|[^\\\[\](){{}}*+?])*"
)
_GRAMMAR_PATTERN = re.compile(
    r"\^(?:\\[\^$.\[\]()|{}*+?]"
    r"|\[(?:[a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9]|[A-Za-z0-9_ @.+:/,;=#%!*'])+-?\]"
    rf"|(?:[*+?]|{_REPEAT})(?![*+?{{])|[()|]|[^\\\[\](){{}}*+?.|^$\"])*\$"
)
_UNESCAPED_PATTERN = re.compile(
    r"\^(?:\\[\^$.\[\]()|{}*+?/\-dw]"
    r"|\[(?!\^)(?:[a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9]|[A-Za-z0-9_ @.+:/,;=#%!*'()$^]|\\[dw.\-])+-?\]"
    rf"|(?:[*+?]|{_REPEAT})\??|\(\?:|[()|]|[^\\\[\](){{}}*+?.|^$\"])*\$"
)
_WHOLE_PATTERN = re.compile(r"\^(?:\\.|\[(?:\\.|[^\]\\])*\]|[^\\\[^$])*\$")
_LONGEST_PATTERN: Final = 1_000


def _is_plain(pattern: str) -> bool:
    r"""Whether each engine reads a pattern in the same way.

    >>> [_is_plain(one) for one in (r"^[a-z]{2,3}\.\d+$", "^(?!x)", r"(a)\1", r"\bword", "(", "a++")]
    [True, False, False, False, False, False]
    """
    if len(pattern) > _LONGEST_PATTERN or not _PLAIN_PATTERN.fullmatch(pattern):
        return False
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _is_for_grammar(pattern: str) -> bool:
    r"""Whether llama.cpp makes the grammar of a pattern that matches the same texts.

    >>> [_is_for_grammar(one) for one in ("^[a-z]{2}(-x|_y)?$", "^a|b$", "^.*$", r"^\d$", "[a-z]")]
    [True, False, False, False, False]
    """
    return bool(_GRAMMAR_PATTERN.fullmatch(pattern)) and _is_whole(pattern)


def _is_whole(pattern: str) -> bool:
    r"""Whether a pattern is one that matches only whole texts, and means the same without its anchors.

    >>> [_is_whole(one) for one in (r"^\d{3}$", "^a|b$", "^(a|b)$", "a", r"^a\$", "^$b$")]
    [True, False, True, False, False, False]
    """
    if not _is_plain(pattern) or not _WHOLE_PATTERN.fullmatch(pattern):
        return False
    # Without its anchors, an alternative at the top is another pattern.
    depth = 0
    for character in re.sub(r"\\.|\[[^\]]*\]", "", pattern):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "|" and depth == 0:
            return False
    return True
