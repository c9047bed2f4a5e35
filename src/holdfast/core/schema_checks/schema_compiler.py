"""Compiles a JSON Schema to nodes, and checks values by them.

The drafts are 4, 6, 7, 2019-09 and 2020-12. `format` is not checked, and no reference leads out of the schema. The
engine for patterns is passed in, and must take time that grows with the text alone. This module must never decide
what happens with a problem.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from msgspec import Struct

from holdfast.core.schema_checks.schema_limits import (
    StepBudget,
    StepsExceededError,
    Trail,
    write_place,
)
from holdfast.core.schema_checks.schema_nodes import (
    Branch,
    CheckState,
    CompiledSchema,
    Fits,
    Keyword,
    NestedTooDeeplyError,
    SchemaNode,
    shorten,
)
from holdfast.core.schema_checks.schema_places import (
    Part,
    SchemaError,
    SchemaPlaces,
    find_draft,
)
from holdfast.core.schema_checks.value_keywords import (
    compile_bound,
    compile_const,
    compile_dependent_names,
    compile_enum,
    compile_multiple,
    compile_required,
    compile_size,
    compile_type,
    compile_unique,
    make_branches,
    make_condition,
    make_contains,
    make_dependent_schemas,
    make_items,
    make_not,
    make_other_properties,
    make_patterns,
    make_properties,
    make_property_names,
    make_reference,
    make_unevaluated_items,
    make_unevaluated_properties,
    read_count,
)
from holdfast.core.value_wording import shorten_text

MakePattern: TypeAlias = Callable[[str], Callable[[str], bool]]
"""Returns whether a text has a match of a pattern. Raises ValueError if the pattern cannot be used."""

_LARGEST_PATTERN = 22_000  # the engine spends a tenth of a second before it refuses a larger one
_DEEPEST_BRANCHES = 100
_LONGEST_PATTERN = 200

_SINCE: Final = {
    "const": 6, "contains": 6, "propertyNames": 6, "if": 7, "dependentRequired": 2019, "dependentSchemas": 2019,
    "unevaluatedItems": 2019, "unevaluatedProperties": 2019, "$recursiveRef": 2019, "prefixItems": 2020,
    "$dynamicRef": 2020,
}  # fmt: skip
"""The first drafts of keywords that not all drafts have."""

_UNTIL: Final = {"additionalItems": 2019, "$recursiveRef": 2019, "dependencies": 7}
"""The last drafts of keywords that newer drafts do not have."""

_FACTS: Final[dict[str, Callable[[Any], Keyword]]] = {
    "type": compile_type,
    "multipleOf": compile_multiple,
    "required": compile_required,
    "uniqueItems": compile_unique,
    "dependentRequired": compile_dependent_names,
}
_CHOICES: Final = {"enum": compile_enum, "const": compile_const}
_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_SIZES: Final = (
    "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
)  # fmt: skip
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_NAMED_PARTS: Final = ("$defs", "definitions")
_TURNING: Final = frozenset({"not", "if"})
"""The keywords because of which a value that fits more is refused."""
_REFERENCE_ALONE: Final = frozenset(
    {"$ref", "title", "description", "$comment", "default", "examples"}
)
"""A part with no other keywords is the part that it refers to."""


def compile_schema(
    schema: Part, make_pattern: MakePattern, budget: StepBudget, *, skip_patterns: bool = False
) -> CompiledSchema:
    """Compile a schema of plain JSON data.

    Args:
        schema: the schema, a tree.
        make_pattern: the engine for patterns.
        budget: the steps that it may take.
        skip_patterns: leave out patterns that the engine cannot match, unless a value would be refused because of that.

    Raises:
        SchemaError: the schema is wrong, or takes too many steps.

    >>> wanted = compile_schema({"type": "integer"}, lambda pattern: pattern.__eq__, StepBudget(100))
    >>> [problem.text for problem in wanted.find_problems("a", StepBudget(100))]
    ['must be an integer']
    """
    number = find_draft(schema)
    if number is None:
        raise SchemaError("names a $schema that is not known", "Leave it out")
    try:
        compiler = _Compiler(schema, number, make_pattern, budget)
        compiler.skips_patterns = skip_patterns
        root = compiler.compile(schema)
    except StepsExceededError as error:
        problem = f"is too large: it cannot be compiled in {error.limit:,} steps"
        raise SchemaError(problem, "Leave parts of it out") from None
    except NestedTooDeeplyError:
        raise SchemaError("is nested too deeply", "Use $defs") from None
    return CompiledSchema(root, budget.used, compiler.pattern_size)


class _Compiler:
    def __init__(
        self, schema: Part, draft: int, make_pattern: MakePattern, budget: StepBudget
    ) -> None:
        self._draft = draft
        self._make_pattern = make_pattern
        self._budget = budget
        self._state = CheckState(budget)
        self._places = SchemaPlaces(schema, draft, budget)
        self._never, self._always = SchemaNode(), SchemaNode()
        self._never.keywords = (Keyword(lambda _value, _: False, "must not be there"),)
        self._nodes: dict[int, SchemaNode] = {}
        self._followed: dict[int, Part | bool] = {}
        self._matches: dict[str, Fits] = {}
        self._waiting: deque[tuple[Part, SchemaNode, Trail]] = deque()
        self._part = schema
        self.skips_patterns = False
        self.pattern_size = 0

    def compile(self, schema: Part) -> SchemaNode:
        root = self._node(schema, ())
        while self._waiting:
            part, node, trail = self._waiting.popleft()
            if trail and isinstance(part.get("$schema"), str):
                raise SchemaError("names a $schema in a part of it", "Name it at the top alone")
            self._part = part
            node.keywords = [keyword for _, keyword in self._keywords(part, node, trail)]
        self._refuse_endless()
        return root

    def _node(self, part: object, trail: Trail) -> SchemaNode:
        """Return the node of a part, which is compiled later."""
        self._budget.take()
        if isinstance(part, dict):
            part = self._follow(part)
        if part is True:
            return self._always
        if part is False:
            return self._never
        if not isinstance(part, dict):
            raise _wrong(trail, f"{shorten(part)} is not of type 'object', 'boolean'")
        known = self._nodes.get(id(part))
        if known is None:
            known = self._nodes[id(part)] = SchemaNode()
            self._waiting.append((part, known, trail))
        return known

    def _follow(self, part: Part) -> Part | bool:
        """Return the part that a part with nothing but a reference refers to, through other parts."""
        passed: set[int] = set()
        found: Part | bool = part
        while isinstance(found, dict) and id(found) not in passed:
            reference = found.get("$ref")
            if id(found) in self._followed:
                found = self._followed[id(found)]
                break
            if not isinstance(reference, str) or not found.keys() <= _REFERENCE_ALONE:
                break
            self._budget.take(1 + len(reference) // 16)
            passed.add(id(found))
            found = self._places.look_up(reference, found)
        self._followed.update(dict.fromkeys(passed, found))
        return found

    def _named_nodes(self, given: object, trail: Trail) -> dict[str, SchemaNode]:
        if not isinstance(given, dict):
            raise _wrong(trail, f"{shorten(given)} is not of type 'object'")
        return {name: self._node(part, (trail, name)) for name, part in given.items()}

    def _listed_nodes(self, given: object, trail: Trail) -> list[SchemaNode]:
        if not isinstance(given, list):
            raise _wrong(trail, f"{shorten(given)} is not of type 'array'")
        if not given:
            raise _wrong(trail, "[] should be non-empty")
        return [self._node(part, (trail, at)) for at, part in enumerate(given)]

    def _has(self, keyword: str) -> bool:
        """Whether the draft has a keyword."""
        return _SINCE.get(keyword, 0) <= self._draft <= _UNTIL.get(keyword, 9999)

    def _keywords(
        self, part: Part, node: SchemaNode, trail: Trail
    ) -> Iterator[tuple[str, Keyword]]:
        """Yield the keywords of a part in an order in which cheap ones come first."""
        if self._draft <= 7 and "$ref" in part:
            part = {name: part[name] for name in ("$ref", *_NAMED_PARTS) if name in part}
        known = {name: value for name, value in part.items() if self._has(name)}
        for name in _NAMED_PARTS:
            if name in known:  # first, so that errors name these places
                self._named_nodes(known[name], (trail, name))
        for name, given in known.items():
            here = (trail, name)
            self._budget.take()
            try:
                keyword = self._compile_fact(name, given, known)
            except ValueError as error:
                if name == "pattern" and self._may_skip(given, trail):
                    continue
                raise _wrong(here, str(error)) from error
            if keyword is not None:
                yield name, keyword
        for name, keyword in (
            *self._compile_branches(known, node, trail),
            *self._compile_object(known, node, trail),
            *self._compile_list(known, node, trail),
        ):
            node.has_parts = True
            yield name, keyword

    def _compile_fact(self, name: str, given: object, part: Part) -> Keyword | None:
        """Compile a keyword that looks at the value alone."""
        if isinstance(given, list | dict):
            self._budget.take(1 + len(given))
        if name in _FACTS:
            return _FACTS[name](given)
        if name in _CHOICES:
            return _CHOICES[name](given, self._state)
        if name in _SIZES:
            return compile_size(name, given)
        if name in _BOUNDS:
            return self._compile_bound(name, given, part)
        if name == "pattern":
            matches = self._pattern(given)
            return Keyword(
                lambda value, state: not isinstance(value, str) or matches(value, state),
                f"must match the pattern {shorten_text(str(given), _LONGEST_PATTERN)}",
            )
        return None

    def _compile_bound(self, name: str, given: object, part: Part) -> Keyword | None:
        # Draft 4 has a boolean beside the bound, and so has OpenAPI 3.0, which names no draft.
        if name.startswith("exclusive"):
            if isinstance(given, bool):
                return None
            if self._draft <= 4:
                raise ValueError(f"{shorten(given)} is not of type 'boolean'")
            return compile_bound(name, given)
        exclusive = f"exclusive{name[0].upper()}{name[1:]}"
        return compile_bound(exclusive if part.get(exclusive) is True else name, given)

    def _pattern(self, pattern: object) -> Fits:
        """Compile a pattern, once. Raises ValueError."""
        if not isinstance(pattern, str):
            raise ValueError(f"{shorten(pattern)} is not of type 'string'")  # noqa: TRY004  # REASON: a wrong schema
        if pattern in self._matches:
            return self._matches[pattern]
        weight = weigh_pattern(pattern)
        self._budget.take(1 + len(pattern) // 16)
        if weight.size > _LARGEST_PATTERN:
            raise ValueError(
                f"{shorten(pattern)} is too large: repeat less in it, or use maxLength"
            )
        self._budget.take(weight.size)
        self.pattern_size += weight.size
        search = self._make_pattern(pattern)

        def matches(value: object, state: CheckState) -> bool:
            text = str(value)
            state.budget.take(1 + len(text) * weight.positions // 256)
            return search(text)

        self._matches[pattern] = matches
        return matches

    def _may_skip(self, pattern: object, trail: Trail) -> bool:
        """Whether a pattern that cannot be matched may be left out of a part."""
        if not (self.skips_patterns and isinstance(pattern, str)):
            return False
        while trail:
            trail, step = trail
            if step in _TURNING:
                return False
        return True

    def _compile_name_pattern(
        self, pattern: str, inner: SchemaNode, trail: Trail
    ) -> tuple[Fits, SchemaNode]:
        """Return the search for names with a pattern, and the node of their values."""
        try:
            return self._pattern(pattern), inner
        except ValueError as error:
            if not self._may_skip(pattern, trail):
                raise _wrong(trail, str(error)) from error
        return (lambda _name, _state: True), self._always  # any name may be one of them

    def _compile_branches(
        self, part: Part, node: SchemaNode, trail: Trail
    ) -> Iterator[tuple[str, Keyword]]:
        for name in _REFERENCES:
            if name in part:
                target = self._target(part, name, trail)
                node.branches.append(Branch(target))
                yield name, make_reference(target)
        for name in ("allOf", "anyOf", "oneOf"):
            if name in part:
                nodes = self._listed_nodes(part[name], (trail, name))
                node.branches.extend(map(Branch, nodes))
                yield name, make_branches(name, nodes)
        if "not" in part:
            inner = self._node(part["not"], (trail, "not"))
            node.branches.append(Branch(inner, inner, wanted=False))
            yield "not", make_not(inner)
        if self._has("if"):
            yield from self._compile_condition(part, node, trail)
        if "dependentSchemas" in part:
            named = self._named_nodes(part["dependentSchemas"], (trail, "dependentSchemas"))
            yield self._add_dependent(node, named)
        if "dependencies" in part:
            yield from self._compile_dependencies(part["dependencies"], node, trail)

    def _target(self, part: Part, keyword: str, trail: Trail) -> SchemaNode:
        reference = part[keyword]
        if not isinstance(reference, str):
            raise _wrong((trail, keyword), f"{shorten(reference)} is not of type 'string'")
        if keyword != "$ref" and self._places.has_inner_roots:
            raise SchemaError(f"has {keyword} beside parts with an $id", "Use $ref")
        self._budget.take(1 + len(reference) // 16)
        return self._node(self._places.look_up(reference, self._part), (trail, keyword))

    def _compile_condition(
        self, part: Part, node: SchemaNode, trail: Trail
    ) -> Iterator[tuple[str, Keyword]]:
        nodes = {
            name: self._node(part[name], (trail, name))
            for name in ("if", "then", "else")
            if name in part
        }
        condition = nodes.get("if")
        if condition is None:
            return
        node.branches.append(Branch(condition))
        for name, wanted in (("then", True), ("else", False)):
            if name in nodes:
                node.branches.append(Branch(nodes[name], condition, wanted=wanted))
        yield "if", make_condition(condition, nodes.get("then"), nodes.get("else"))

    def _add_dependent(self, node: SchemaNode, named: dict[str, SchemaNode]) -> tuple[str, Keyword]:
        node.branches.extend(Branch(inner, name=name) for name, inner in named.items())
        return "dependentSchemas", make_dependent_schemas(named)

    def _compile_dependencies(
        self, given: object, node: SchemaNode, trail: Trail
    ) -> Iterator[tuple[str, Keyword]]:
        here = (trail, "dependencies")
        if not isinstance(given, dict):
            raise _wrong(here, f"{shorten(given)} is not of type 'object'")
        names = {name: value for name, value in given.items() if isinstance(value, list)}
        try:
            yield "dependencies", compile_dependent_names(names)
        except ValueError as error:
            raise _wrong(here, str(error)) from error
        parts = {name: value for name, value in given.items() if name not in names}
        yield self._add_dependent(node, self._named_nodes(parts, here))

    def _compile_object(
        self, part: Part, node: SchemaNode, trail: Trail
    ) -> Iterator[tuple[str, Keyword]]:
        if "properties" in part:
            node.properties = self._named_nodes(part["properties"], (trail, "properties"))
            yield "properties", make_properties(node.properties)
        if "patternProperties" in part:
            here = (trail, "patternProperties")
            named = self._named_nodes(part["patternProperties"], here)
            node.patterns = [
                self._compile_name_pattern(name, inner, here) for name, inner in named.items()
            ]
            yield "patternProperties", make_patterns(node.patterns)
        if "additionalProperties" in part:
            inner = self._node(part["additionalProperties"], (trail, "additionalProperties"))
            node.other_names = True
            yield "additionalProperties", make_other_properties(node, inner, self._never)
        if "propertyNames" in part:
            names = self._node(part["propertyNames"], (trail, "propertyNames"))
            yield "propertyNames", make_property_names(names)
        if "unevaluatedProperties" in part:
            inner = self._node(part["unevaluatedProperties"], (trail, "unevaluatedProperties"))
            node.unevaluated_names = True
            yield "unevaluatedProperties", make_unevaluated_properties(node, inner, self._never)

    def _compile_list(
        self, part: Part, node: SchemaNode, trail: Trail
    ) -> Iterator[tuple[str, Keyword]]:
        first, others = "prefixItems", "items"
        if self._draft < 2020:
            is_list = isinstance(part.get("items"), list)
            first, others = ("items", "additionalItems") if is_list else ("", "items")
            if not is_list and "additionalItems" in part:
                self._node(part["additionalItems"], (trail, "additionalItems"))
        prefix: list[SchemaNode] = []
        if part.get(first):
            prefix = self._listed_nodes(part[first], (trail, first))
        rest = self._node(part[others], (trail, others)) if others in part else None
        node.prefix, node.other_items = len(prefix), rest is not None
        if prefix or rest is not None:
            yield "items", make_items(prefix, rest, self._never)
        if "contains" in part:
            inner = self._node(part["contains"], (trail, "contains"))
            node.contains = inner if self._draft >= 2020 else None
            yield "contains", make_contains(inner, *self._read_counts(part, trail))
        if "unevaluatedItems" in part:
            inner = self._node(part["unevaluatedItems"], (trail, "unevaluatedItems"))
            node.unevaluated_items = True
            yield "unevaluatedItems", make_unevaluated_items(node, inner, self._never)

    def _read_counts(self, part: Part, trail: Trail) -> tuple[int, int | None]:
        if self._draft < 2019:
            return 1, None
        counts = {}
        for name in ("minContains", "maxContains"):
            try:
                counts[name] = read_count(part[name]) if name in part else None
            except ValueError as error:
                raise _wrong((trail, name), str(error)) from error
        least = counts["minContains"]
        return 1 if least is None else least, counts["maxContains"]

    def _refuse_endless(self) -> None:
        """Raise SchemaError if a node leads to itself for the same value, or through too many others."""
        depths: dict[int, int] = {}
        for start in self._nodes.values():
            path: list[tuple[SchemaNode, Iterator[SchemaNode]]] = []
            if id(start) not in depths:
                path.append((start, _same_value_nodes(start)))
                depths[id(start)] = 0
            while path:
                node, rest = path[-1]
                self._budget.take()
                inner = next(rest, None)
                if inner is None:
                    path.pop()
                    depths[id(node)] = 1 + max(
                        (depths[id(other)] for other in _same_value_nodes(node)), default=0
                    )
                    if depths[id(node)] > _DEEPEST_BRANCHES:
                        problem = "is nested too deeply: a value is checked by too many parts inside of each other"
                        raise SchemaError(problem, "Refer to the last part directly")
                elif id(inner) not in depths:
                    depths[id(inner)] = 0
                    path.append((inner, _same_value_nodes(inner)))
                elif depths[id(inner)] == 0:
                    problem = "refers to itself without an end"
                    raise SchemaError(problem, "Refer to it only from a property or an item")


def _same_value_nodes(node: SchemaNode) -> Iterator[SchemaNode]:
    """Yield the nodes that check the value that a node checks, and not a part of it."""
    return (branch.node for branch in node.branches)


def _wrong(trail: Trail, problem: str) -> SchemaError:
    return SchemaError(f"is not a JSON Schema at {write_place(trail)}: {problem}")


_COUNT = re.compile(r"\{([0-9]{1,9})(?:,([0-9]{0,9}))?\}")
_ESCAPE = re.compile(r"[pP]\{[^}]*\}|[pP].|[xuU]\{[^}]*\}|x.{2}|u.{4}|U.{8}|.", re.DOTALL)
_IGNORES_BLANKS = re.compile(r"\(\?[a-zA-Z]*x")
_MOST = 10**12
_STATES = {**dict.fromkeys("wWdDsSbB", 100), "p": 700, "P": 700}
"""The states of a class such as `\\w` or `\\p{L}`, which lists the letters of many scripts."""


class PatternWeight(Struct, frozen=True):
    """The cost of a pattern.

    A counted repetition is compiled as that many copies, so `(((a{30}){30}){30})` of 19 characters has 27,000 states.

    Args:
        size: an upper bound of its states when it is compiled.
        positions: an upper bound of the places of the pattern at which a match can be at once.
    """

    size: int
    positions: int


class _GroupWeight:
    """The sums of a group that is being read, and the weight of its last item."""

    __slots__ = ("last", "size", "total")

    def __init__(self) -> None:
        self.size = self.total = 0
        self.last = (0, 0)

    def add(self, size: int, positions: int) -> None:
        self.size += size
        self.total += positions
        self.last = (size, positions)

    def repeat(self, times: int) -> None:
        size, positions = self.last
        extra = max(times, 1) - 1
        self.size = min(self.size + size * extra, _MOST)
        self.total = min(self.total + positions * extra, _MOST)
        self.last = (size * (extra + 1), positions * (extra + 1))


def weigh_pattern(pattern: str) -> PatternWeight:
    r"""Return the cost of a pattern. A text that is not a pattern gets some weight, too.

    >>> weigh_pattern("(ab){3}c")
    PatternWeight(size=10, positions=10)
    >>> weigh_pattern(r"\w{1,20}")
    PatternWeight(size=2000, positions=20)
    """
    if _IGNORES_BLANKS.search(pattern):
        return PatternWeight(_MOST, _MOST)  # the repeated part is not the text before the count
    groups, at = [_GroupWeight()], 0
    while at < len(pattern):
        mark = pattern[at]
        at += 1
        if mark == "(":
            groups.append(_GroupWeight())
        elif mark == ")" and len(groups) > 1:
            inner = groups.pop()
            groups[-1].add(inner.size + 1, inner.total + 1)
        elif mark == "\\":
            groups[-1].add(_STATES.get(pattern[at : at + 1], 1), 1)
            escape = _ESCAPE.match(pattern, at)
            at = escape.end() if escape else at + 1
        elif mark == "[":
            end = _find_class_end(pattern, at)
            wide = sum(pattern.count("\\" + one, at, end) * many for one, many in _STATES.items())
            groups[-1].add(end - at + wide, 1)
            at = end + 1
        elif mark == "{" and (count := _COUNT.match(pattern, at - 1)):
            groups[-1].repeat(int(count[2] or count[1]))
            at = count.end()
        elif mark not in "*+?":
            groups[-1].add(1, 1)
    size = sum(group.size for group in groups)
    return PatternWeight(min(size, _MOST), min(sum(group.total for group in groups), _MOST))


def _find_class_end(pattern: str, at: int) -> int:
    """Return where the class that begins before `at` ends; classes may hold classes."""
    depth, first = 1, at + (pattern[at : at + 1] == "^")
    while at < len(pattern):
        if pattern[at] == "\\":
            at += 1
        elif pattern[at] == "[":
            depth += 1
        elif pattern[at] == "]" and at > first:
            depth -= 1
            if not depth:
                return at
        at += 1
    return at
