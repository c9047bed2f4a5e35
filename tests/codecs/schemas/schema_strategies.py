"""Hypothesis strategies of JSON Schemas, each with a value that fits it.

`schema_cases()` draws schemas of objects in all the forms that people and libraries write: references of every kind, also
recursive ones, joined and chosen parts, tuples, free keys, odd names, constraints, and values without a type. The value of
an object without `additionalProperties` has no other keys, as everybody reads such a schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import assume, reject
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for

from holdfast.core.errors import ConfigurationError
from holdfast.core.schema_checks.schema_sense import check_schema_sense

Json = Any
Draw = Callable[[st.SearchStrategy[Any]], Any]

NAMES = (
    "a", "b", "note", "kind", "next", "top", "filter_id", "default", "type", "$ref",
    "$top", "filter[id]", "größe", "a b", "x" * 70, "a~b/c%", "properties", "required", "note_2",
)  # fmt: skip
DEFINITIONS = ("Node", "Pet", "Response[int]", "a/b~c", "größe")
PATTERNS = (
    ("^[a-z]{2,4}$", "abc"),
    ("^(?!x)", "yes"),
    (r"^\d{3}$", "123"),
    (r"\bword\b", "a word"),
    ("^[A-Z]+(-[0-9]+)?$", "AB-12"),
    (r"^(a)\1$", "aa"),
    ("b+", "abba"),
    ("^a|b$", "ax"),
)
FORMATS = (
    ("date", "2026-11-29"),
    ("date-time", "2026-11-29T10:00:00Z"),
    ("email", "a@b.example"),
    ("uri", "https://a.example/b"),
    ("uuid", "12345678-1234-5678-1234-567812345678"),
    ("binary", "x"),
    ("iri-reference", "x"),
)
CONDITIONS: tuple[dict[str, Any], ...] = (
    {"not": {"required": ["zzz"]}},
    {"if": {"required": ["a"]}, "then": {"minProperties": 1}},
    {"if": {"required": ["zzz"]}, "then": False, "else": {"minProperties": 0}},
    {"then": False},
    {"anyOf": [{"required": ["a"]}, {"not": {"required": ["a"]}}]},
    {"if": {"required": ["zzz"]}, "then": {"properties": {"yyy": {"type": "null"}}}},
    {"dependentSchemas": {"zzz": {"properties": {"yyy": {"type": "null"}}}}},
    {"unevaluatedProperties": False},
)
DEEPEST = 4


class Made(NamedTuple):
    """A schema, and a function that draws a value that fits it.

    Args:
        schema: the schema.
        draw_value: draws a value; the number is how deeply it may still be nested.
    """

    schema: Json
    draw_value: Callable[[Draw, int], Json]


class SchemaCase(NamedTuple):
    """A schema with a value that fits it."""

    schema: dict[str, Any]
    value: Json


class _Maker:
    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.definitions: dict[str, Made | None] = {}
        """The parts that references name; None while one is made."""
        self.keyword = draw(st.sampled_from(("$defs", "$defs", "definitions")))
        self.is_old = self.chance(0.1)
        """Whether the schema is one of draft 7."""
        self.uses_anchors = not self.is_old and draw(st.booleans())
        self.is_closable = self.chance(0.6)
        """Whether objects have no free keys, and each part has a type."""

    def chance(self, share: float) -> bool:
        return self.draw(st.integers(0, 99)) < share * 100

    def make(self, depth: int) -> Made:
        """Return any part."""
        leaves = (self.text, self.number, self.literal, self.literal, self.plain)
        nodes = (
            self.object, self.object, self.object, self.list, self.tuple, self.choice, self.choice,
            self.reference, self.reference, self.join, self.nullable, self.condition, self.anything,
            self.unevaluated, self.containing,
        )  # fmt: skip
        makers = leaves if depth <= 0 else (*leaves, *nodes)
        made = self.draw(st.sampled_from(makers))(depth)
        return self.annotate(made)

    def annotate(self, made: Made) -> Made:
        if not isinstance(made.schema, dict) or not self.chance(0.2):
            return made
        keyword, value = self.draw(
            st.sampled_from(
                (
                    ("description", "Some words."), ("title", "A title"), ("default", None), ("default", "x"),
                    ("examples", [1]), ("readOnly", True), ("$comment", "no"), ("x-order", 3),
                    ("deprecated", True),
                )
            )
        )  # fmt: skip
        return Made({keyword: value, **made.schema}, made.draw_value)

    def plain(self, depth: int) -> Made:
        del depth
        name, value = self.draw(
            st.sampled_from(
                (("boolean", True), ("boolean", False), ("null", None), ("string", "a"))
            )
        )
        return Made({"type": name}, lambda draw, left: value)

    def text(self, depth: int) -> Made:
        del depth
        kind = self.draw(st.sampled_from(("pattern", "format", "length", "length")))
        if kind == "length":
            least, more = self.draw(st.integers(0, 3)), self.draw(st.integers(0, 4))
            schema: dict[str, Any] = {"type": "string", "minLength": least}
            if self.chance(0.5):
                schema["maxLength"] = least + more
            text = st.text('ab"\\é', min_size=least, max_size=least + more)
            return Made(schema, lambda draw, left: draw(text))
        table = PATTERNS if kind == "pattern" else FORMATS
        given, value = self.draw(st.sampled_from(table))
        return Made({"type": "string", kind: given}, lambda draw, left: value)

    def number(self, depth: int) -> Made:
        del depth
        low = self.draw(st.integers(-5, 5))
        schema: dict[str, Any] = {"type": self.draw(st.sampled_from(("integer", "number")))}
        if self.chance(0.5):
            schema["minimum"] = low
        if self.chance(0.3):
            schema["exclusiveMaximum"] = low + 9
        if self.chance(0.3):
            schema["multipleOf"] = 2
        return Made(schema, lambda draw, left: low + low % 2 + draw(st.sampled_from((0, 2, 4))))

    def literal(self, depth: int) -> Made:
        del depth
        scalars = ("a", "b", 1, 2, 1.5, True, False, None)
        pool = scalars if self.chance(0.8) else (*scalars, {"a": 1}, {}, [1, "a"], [])
        values = self.draw(st.lists(st.sampled_from(pool), min_size=1, max_size=4))
        values = list({json.dumps(one): one for one in values}.values())
        if self.chance(0.3):
            return Made({"const": values[0]}, lambda draw, left: values[0])
        schema: dict[str, Any] = {"enum": values}
        if all(isinstance(one, str) for one in values) and self.chance(0.7):
            schema["type"] = "string"
        return Made(schema, lambda draw, left: draw(st.sampled_from(values)))

    def anything(self, depth: int) -> Made:
        if self.is_closable:
            return self.text(depth)
        schema = self.draw(st.sampled_from((True, {}, {"description": "Any value."})))
        values: tuple[Json, ...] = (None, 1, "a", [], {"a": {"b": [1]}})
        return Made(schema, lambda draw, left: draw(st.sampled_from(values)))

    def list(self, depth: int) -> Made:
        inner = self.make(depth - 1)
        schema: dict[str, Any] = {"type": "array", "items": inner.schema}
        least = self.draw(st.sampled_from((0, 0, 0, 1, 2)))
        if least or self.chance(0.1):
            schema["minItems"] = least
        if self.chance(0.3):
            schema["maxItems"] = least + 2
        if least < 2 and self.chance(0.1):
            schema["uniqueItems"] = True

        def draw_value(draw: Draw, left: int) -> Json:
            count = (
                least if left <= 0 or "uniqueItems" in schema else least + draw(st.integers(0, 2))
            )
            return [inner.draw_value(draw, left - 1) for _ in range(count)]

        return Made(schema, draw_value)

    def tuple(self, depth: int) -> Made:
        parts = [self.make(depth - 1) for _ in range(self.draw(st.integers(1, 3)))]
        first = "items" if self.is_old else "prefixItems"
        others = "additionalItems" if self.is_old else "items"
        schema: dict[str, Any] = {"type": "array", first: [one.schema for one in parts]}
        kinds = (
            ("fixed", "closed", "rest") if self.is_closable else ("fixed", "closed", "rest", "open")
        )
        kind = self.draw(st.sampled_from(kinds))
        rest = self.make(depth - 1) if kind == "rest" else None
        if kind == "fixed":
            schema["minItems"] = schema["maxItems"] = len(parts)
        elif kind == "closed":
            schema[others] = False
        elif rest is not None:
            schema[others] = rest.schema

        def draw_value(draw: Draw, left: int) -> Json:
            count = len(parts) if kind == "fixed" else draw(st.integers(0, len(parts)))
            value = [one.draw_value(draw, left - 1) for one in parts[:count]]
            if rest is not None and count == len(parts) and left > 0:
                value += [rest.draw_value(draw, left - 1) for _ in range(draw(st.integers(0, 2)))]
            return value

        return Made(schema, draw_value)

    def object(self, depth: int) -> Made:
        least = int(self.is_closable)
        names = self.draw(st.lists(st.sampled_from(NAMES), min_size=least, max_size=4, unique=True))
        parts = {name: self.make(depth - 1) for name in names}
        required = [name for name in names if self.chance(0.5)]
        schema: dict[str, Any] = {"type": "object"}
        if parts or self.chance(0.7):
            schema["properties"] = {name: one.schema for name, one in parts.items()}
        if required:
            schema["required"] = required
        if parts and self.chance(0.05):
            del schema["type"]
        free = self.free_keys(schema, depth)
        if required and len(names) > 1 and self.chance(0.1):
            keyword = "dependencies" if self.is_old else "dependentRequired"
            schema[keyword] = {names[-1]: required[:1]}
        if required and self.chance(0.05):
            schema["minProperties"] = 1

        def draw_value(draw: Draw, left: int) -> Json:
            return {
                name: one.draw_value(draw, left - 1)
                for name, one in parts.items()
                if name in required or (left > 0 and draw(st.booleans()))
            } | (free(draw, left) if left > 0 else {})

        return Made(schema, draw_value)

    def free_keys(
        self, schema: dict[str, Any], depth: int
    ) -> Callable[[Draw, int], dict[str, Json]]:
        """Add other keys to an object; returns a function that draws some."""
        kinds = ("none", "closed", "none", "closed", "any", "values", "pattern", "names")
        kind = self.draw(st.sampled_from(kinds[:2] if self.is_closable else kinds))
        if kind == "closed":
            schema["additionalProperties"] = False
        elif kind == "any":
            schema["additionalProperties"] = self.draw(st.sampled_from((True, {})))
            return lambda draw, left: {"free": 1} if draw(st.booleans()) else {}
        elif kind == "values":
            inner = self.make(depth - 1)
            schema["additionalProperties"] = inner.schema
            return lambda draw, left: (
                {"free": inner.draw_value(draw, left - 1)} if draw(st.booleans()) else {}
            )
        elif kind == "pattern":
            inner = self.make(depth - 1)
            schema["patternProperties"] = {"^[0-9]{2}$": inner.schema}
            if self.chance(0.7):
                schema["additionalProperties"] = False
            return lambda draw, left: (
                {"12": inner.draw_value(draw, left - 1)} if draw(st.booleans()) else {}
            )
        elif kind == "names" and "properties" not in schema:
            inner = self.make(depth - 1)
            schema["propertyNames"] = {"enum": ["red", "blue"]}
            schema["additionalProperties"] = inner.schema
            return lambda draw, left: {
                name: inner.draw_value(draw, left - 1)
                for name in ("red", "blue")
                if draw(st.booleans())
            }
        return lambda draw, left: {}

    def choice(self, depth: int) -> Made:
        parts = [self.make(depth - 1) for _ in range(self.draw(st.integers(1, 4)))]
        if self.chance(0.4):
            parts = [self.tag(one, f"k{at}") for at, one in enumerate(parts)]
        keyword = "oneOf" if self.chance(0.3) else "anyOf"
        schema: dict[str, Any] = {keyword: [one.schema for one in parts]}
        if self.chance(0.1):
            schema["type"] = ["object", "string", "number", "null", "boolean", "array"]
        return Made(
            schema,
            lambda draw, left: draw(st.sampled_from(parts)).draw_value(draw, left - 1),
        )

    def tag(self, made: Made, tag: str) -> Made:
        """Return an object with a property that names it, and others of an object."""
        if not isinstance(made.schema, dict) or made.schema.get("type") != "object":
            return made
        if "kind" in made.schema.get("properties", {}) or "propertyNames" in made.schema:
            return made
        properties = {"kind": {"const": tag}, **made.schema.get("properties", {})}
        required = ["kind", *made.schema.get("required", ())]
        return Made(
            {**made.schema, "properties": properties, "required": required},
            lambda draw, left: {"kind": tag, **made.draw_value(draw, left)},
        )

    def nullable(self, depth: int) -> Made:
        inner = self.make(depth - 1)
        names = inner.schema.get("type") if isinstance(inner.schema, dict) else None
        if isinstance(names, str) and "enum" not in inner.schema and self.chance(0.5):
            schema = {**inner.schema, "type": [names, "null"]}
        else:
            schema = {"anyOf": [inner.schema, {"type": "null"}]}
        return Made(
            schema,
            lambda draw, left: (
                None if left <= 0 or draw(st.booleans()) else inner.draw_value(draw, left)
            ),
        )

    def join(self, depth: int) -> Made:
        one, other = self.object(depth - 1), self.object(depth - 1)
        kind = self.draw(st.sampled_from(("objects", "objects", "one", "beside", "facts")))
        if kind == "one":
            return Made({"allOf": [one.schema]}, one.draw_value)
        if kind == "facts":
            text = self.text(0)
            return Made({"allOf": [text.schema, {"minLength": 0}, True]}, text.draw_value)
        for made in (one, other):
            for keyword in ("additionalProperties", "patternProperties", "propertyNames"):
                made.schema.pop(keyword, None)
        shared = one.schema.get("properties", {}).keys() & other.schema.get("properties", {}).keys()
        for name in shared:
            del other.schema["properties"][name]
        for keyword in ("required", "dependentRequired", "dependencies", "minProperties"):
            if shared:
                other.schema.pop(keyword, None)
        for made in (one, other):
            made.schema.update(self.draw(st.sampled_from(({}, {}, {}, *CONDITIONS))))
        parts = [one.schema, other.schema]
        schema = {"allOf": parts} if kind == "objects" else {**one.schema, "allOf": [other.schema]}

        def draw_value(draw: Draw, left: int) -> Json:
            value = other.draw_value(draw, left)
            kept = {name: inner for name, inner in value.items() if name not in shared}
            first = one.draw_value(draw, left)
            names = {**one.schema.get("properties", {}), **other.schema.get("properties", {})}
            return {name: inner for name, inner in {**kept, **first}.items() if name in names}

        return Made(schema, draw_value)

    def condition(self, depth: int) -> Made:
        made = self.object(depth - 1)
        return Made({**made.schema, **self.draw(st.sampled_from(CONDITIONS))}, made.draw_value)

    def unevaluated(self, depth: int) -> Made:
        """Return a choice of objects that is closed around it."""
        parts = [self.object(depth - 1) for _ in range(2)]
        for made in parts:
            for keyword in ("additionalProperties", "patternProperties", "propertyNames"):
                made.schema.pop(keyword, None)
        schema = {"anyOf": [one.schema for one in parts], "unevaluatedProperties": False}

        def draw_value(draw: Draw, left: int) -> Json:
            made = draw(st.sampled_from(parts))
            names = made.schema.get("properties", {})
            value = made.draw_value(draw, left).items()
            return {name: inner for name, inner in value if name in names}

        return Made(schema, draw_value)

    def containing(self, depth: int) -> Made:
        """Return two lists that a value must fit together."""
        inner = self.text(depth)
        one = {"type": "array", "items": inner.schema, "contains": {"type": "string"}}
        other = {"contains": {"minLength": 0}, "minContains": 0, "maxItems": 3}
        return Made({"allOf": [one, other]}, lambda draw, left: [inner.draw_value(draw, left - 1)])

    def reference(self, depth: int) -> Made:
        name = self.draw(st.sampled_from(DEFINITIONS))
        if name not in self.definitions:
            self.definitions[name] = None
            made = self.object(depth - 1) if self.chance(0.7) else self.make(depth - 1)
            self.definitions[name] = made
        pointer = name.replace("~", "~0").replace("/", "~1").replace("%", "%25")
        by_anchor = self.uses_anchors and name == "Node"
        schema: dict[str, Any] = {"$ref": "#node" if by_anchor else f"#/{self.keyword}/{pointer}"}
        if self.chance(0.3):
            schema |= self.draw(
                st.sampled_from(({"description": "Beside."}, {"default": None}, {"readOnly": True}))
            )

        def draw_value(draw: Draw, left: int) -> Json:
            # A recursive value that does not end is no value.
            assume(left > -DEEPEST)
            target = self.definitions[name]
            assert target is not None
            return target.draw_value(draw, left - 1)

        return Made(schema, draw_value)

    def root(self) -> Made:
        kinds = (
            self.object,
            self.object,
            self.object,
            self.join,
            self.condition,
            self.alternatives,
        )
        made = self.draw(st.sampled_from(kinds))(DEEPEST - 1)
        if self.chance(0.1) and "Root" not in self.definitions:
            self.definitions["Root"] = made
            made = Made({"$ref": f"#/{self.keyword}/Root"}, made.draw_value)
        elif self.chance(0.8):
            made.schema.setdefault("type", "object")
        self.finish(made.schema)
        if self.is_old:
            made.schema["$schema"] = "http://json-schema.org/draft-07/schema#"
        return made

    def alternatives(self, depth: int) -> Made:
        """Return a choice of objects."""
        parts = [
            self.tag(self.object(depth - 1), f"k{at}") for at in range(self.draw(st.integers(1, 3)))
        ]
        keyword = self.draw(st.sampled_from(("anyOf", "oneOf")))
        return Made(
            {keyword: [one.schema for one in parts]},
            lambda draw, left: draw(st.sampled_from(parts)).draw_value(draw, left),
        )

    def finish(self, schema: dict[str, Any]) -> None:
        """Add the definitions, and sometimes a reference to the root or to a property."""
        parts = schema.get("properties", {})
        if parts and self.chance(0.2):
            first = next(iter(parts)).replace("~", "~0").replace("/", "~1").replace("%", "%25")
            target = self.draw(st.sampled_from(("#", f"#/properties/{first}")))
            parts["again"] = {"$ref": target}
        if self.definitions:
            schema[self.keyword] = {
                name: made.schema for name, made in self.definitions.items() if made is not None
            }
            node = schema[self.keyword].get("Node")
            if self.uses_anchors and isinstance(node, dict):
                node["$anchor"] = "node"
            elif self.uses_anchors and "Node" in self.definitions:
                schema[self.keyword]["Node"] = {"$anchor": "node", "allOf": [node]}


_OTHERS = (None, "zzzz", 99, -99, 1.5, True, [], {}, {"zzz": 1}, ["zzzz", 99, None])


def change_value(draw: Draw, value: Json) -> Json:
    """Return a value that differs in one place: another value, or a missing property or item."""
    if isinstance(value, dict) and value and draw(st.integers(0, 3)):
        name = draw(st.sampled_from(sorted(value)))
        rest = {key: inner for key, inner in value.items() if key != name}
        return rest if draw(st.booleans()) else {**value, name: change_value(draw, value[name])}
    if isinstance(value, list) and value and draw(st.integers(0, 3)):
        at = draw(st.integers(0, len(value) - 1))
        inner = [change_value(draw, value[at])] if draw(st.booleans()) else []
        return [*value[:at], *inner, *value[at + 1 :]]
    return draw(st.sampled_from(_OTHERS))


def validator_of(schema: dict[str, Any]) -> Validator:
    """Return a validator of a schema by its draft."""
    return validator_for(schema, default=Draft202012Validator)(schema)


@st.composite
def schema_cases(draw: Draw) -> SchemaCase:
    """Draw a schema of an object, with a value that fits it."""
    maker = _Maker(draw)
    made = maker.root()
    try:
        check_schema_sense("schema", made.schema)
    except ConfigurationError:
        reject()  # a part that refers to itself without end
    validator = validator_of(made.schema)
    value = made.draw_value(draw, DEEPEST)
    assume(isinstance(value, dict))
    assume(validator.is_valid(value))
    return SchemaCase(made.schema, value)
