"""The keywords of a schema: those that look at one value, and those that check its parts by other schemas.

Values are equal as JSON is: 1 equals 1.0, and `true` equals no number. Each function compiles a keyword
from nodes. This module must never read a schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, TypeAlias

from holdfast.core.schema_checks.schema_nodes import (
    DEEPEST,
    KEY_STEP,
    MOST_PROBLEMS,
    CheckState,
    Fits,
    Keyword,
    NestedTooDeeplyError,
    Path,
    SchemaNode,
    ValueProblem,
    find_items,
    find_names,
    shorten,
)
from holdfast.core.value_wording import describe_limit, list_choices, name_types

Compile: TypeAlias = Callable[[Any], Keyword]
"""Compiles the value of a keyword. Raises ValueError that names its fault."""

IS_REQUIRED: Final = "is required"

_NUMBERS = (int, float)
Patterns: TypeAlias = Sequence[tuple[Fits, SchemaNode]]
FindOthers: TypeAlias = Callable[[dict[str, object], CheckState], list[str]]


def make_key(value: object, state: CheckState) -> str:
    """Return a text that is equal for equal values only.

    A text and not a hash of Python: somebody can choose integers whose hashes are all the same.
    """
    if isinstance(value, str):
        state.budget.take(1 + len(value) // 256)
        return f'"{value}'
    if isinstance(value, dict | list):
        known = state.keys.get(id(value))
        if known is None:
            known = state.keys[id(value)] = _make_key_of_parts(value, state)
        state.budget.take(1 + len(known) // 256)
        return known
    state.budget.take()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or value is None or isinstance(value, float):
        return repr(value)
    return f"{value:x}"


def _make_key_of_parts(value: dict[str, object] | list[object], state: CheckState) -> str:
    if state.depth >= DEEPEST:
        raise NestedTooDeeplyError
    state.depth += 1
    parts: list[str] = []
    if isinstance(value, list):
        for item in value:
            parts.append(make_key(item, state))  # noqa: PERF401  # REASON: a comprehension would be one nested call more
    else:
        for name in sorted(value):
            parts += (name, make_key(value[name], state))
    state.depth -= 1
    lengths = ",".join([str(len(part)) for part in parts])
    return f"{'[' if isinstance(value, list) else '{'}{lengths}:{''.join(parts)}"


def is_number(value: object) -> bool:
    """Whether a value is a number of JSON."""
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


def is_integer(value: object) -> bool:
    """Whether a value is a number without a fraction."""
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


TYPES: Final[Mapping[str, Callable[[object], bool]]] = {
    "array": lambda value: isinstance(value, list),
    "boolean": lambda value: isinstance(value, bool),
    "integer": is_integer,
    "null": lambda value: value is None,
    "number": is_number,
    "object": lambda value: isinstance(value, dict),
    "string": lambda value: isinstance(value, str),
}
"""The types by their names."""


def compile_type(given: object) -> Keyword:
    """Compile `type`."""
    names = given if isinstance(given, list) else [given]
    for name in names:
        if not isinstance(name, str) or name not in TYPES:
            raise ValueError(f"{shorten(given)} is not valid: a type is one of {', '.join(TYPES)}")
    if not names:
        raise ValueError("[] should be non-empty")
    words = f"must be {name_types(dict.fromkeys(map(str, names)))}"
    tests = [TYPES[name] for name in dict.fromkeys(names)]
    if len(tests) == 1:
        (only,) = tests
        return Keyword(lambda value, _: only(value), words, kind="choice")
    return Keyword(lambda value, _: any(test(value) for test in tests), words, kind="choice")


def compile_enum(given: object, budget: CheckState) -> Keyword:
    """Compile `enum`."""
    if not isinstance(given, list):
        raise ValueError(f"{shorten(given)} is not of type 'array'")  # noqa: TRY004  # REASON: a wrong schema
    return _compile_choices(given, budget)


def compile_const(given: object, budget: CheckState) -> Keyword:
    """Compile `const`."""
    return _compile_choices([given], budget)


def _compile_choices(choices: list[object], state: CheckState) -> Keyword:
    texts = frozenset(choice for choice in choices if isinstance(choice, str))
    others = frozenset(make_key(choice, state) for choice in choices if not isinstance(choice, str))
    has_parts = any(isinstance(choice, dict | list) for choice in choices)

    def fits(value: object, state: CheckState) -> bool:
        if isinstance(value, str):
            return value in texts
        if isinstance(value, dict | list) and not has_parts:
            return False
        return make_key(value, state) in others

    words = f"must be {list_choices(choices)}" if choices else "must not be there"
    return Keyword(fits, words, kind="choice")


def compile_multiple(given: object) -> Keyword:
    """Compile `multipleOf`. Numbers are read as their decimal digits, so 0.3 is a multiple of 0.1."""
    if not is_number(given) or given <= 0:  # type: ignore[operator]  # REASON: it is a number
        raise ValueError(f"{shorten(given)} is not a number above 0")
    step = Fraction(repr(given))

    def fits(value: object, state: CheckState) -> bool:
        if not is_number(value):
            return True
        if isinstance(value, int) and isinstance(given, int):
            return value % given == 0
        state.budget.take(4)
        exact = Fraction(value) if isinstance(value, int) else Fraction(repr(value))
        return (exact / step).denominator == 1

    return Keyword(fits, f"must be {describe_limit('multipleOf', given)}")


_BOUNDS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "minimum": lambda value, bound: value >= bound,
    "maximum": lambda value, bound: value <= bound,
    "exclusiveMinimum": lambda value, bound: value > bound,
    "exclusiveMaximum": lambda value, bound: value < bound,
}


def compile_bound(keyword: str, given: object) -> Keyword:
    """Compile `minimum`, `maximum`, `exclusiveMinimum` and `exclusiveMaximum`."""
    if not is_number(given):
        raise ValueError(f"{shorten(given)} is not of type 'number'")
    holds = _BOUNDS[keyword]
    return Keyword(
        lambda value, _: not is_number(value) or holds(value, given),
        f"must be {describe_limit(keyword, given)}",
    )


_SIZES: Final[Mapping[str, tuple[type, bool]]] = {
    "minLength": (str, True),
    "maxLength": (str, False),
    "minItems": (list, True),
    "maxItems": (list, False),
    "minProperties": (dict, True),
    "maxProperties": (dict, False),
}


def read_count(given: object) -> int:
    """Return a whole number from 0. Raises ValueError."""
    if not is_integer(given) or given < 0:  # type: ignore[operator]  # REASON: it is a number
        raise ValueError(f"{shorten(given)} is not a whole number from 0")
    return int(given)  # type: ignore[call-overload,no-any-return]  # REASON: as above


def compile_size(keyword: str, given: object) -> Keyword:
    """Compile the keywords for the length of texts, lists and objects."""
    count = read_count(given)
    kind, is_least = _SIZES[keyword]

    def fits(value: object, _: CheckState) -> bool:
        if not isinstance(value, kind):
            return True
        size = len(value)  # type: ignore[arg-type]  # REASON: the kinds have lengths
        return size >= count if is_least else size <= count

    return Keyword(fits, f"must have {describe_limit(keyword, count)}")


def compile_unique(given: object) -> Keyword:
    """Compile `uniqueItems`."""
    if not isinstance(given, bool):
        raise ValueError(f"{shorten(given)} is not of type 'boolean'")  # noqa: TRY004  # REASON: a wrong schema

    def fits(value: object, state: CheckState) -> bool:
        if not given or not isinstance(value, list):
            return True
        seen: set[str] = set()
        for item in value:
            key = make_key(item, state)
            if key in seen:
                return False
            seen.add(key)
        return True

    return Keyword(fits, "must have no item twice")


def compile_required(given: object) -> Keyword:
    """Compile `required`."""
    names = read_names(given)

    def fits(value: object, state: CheckState) -> bool:
        if not isinstance(value, dict):
            return True
        state.budget.take(1 + len(names) // 16)
        return all(name in value for name in names)

    def explain(value: object, path: Path, state: CheckState) -> None:
        for name in names:
            if isinstance(value, dict) and name not in value:
                state.add_problem((*path, name), IS_REQUIRED, value, kind="missing")

    return Keyword(fits, explain=explain)


def read_names(given: object) -> list[str]:
    """Return a list of names. Raises ValueError."""
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise ValueError(f"{shorten(given)} is not a list of names")
    return given


def compile_dependent_names(given: object) -> Keyword:
    """Compile `dependentRequired`."""
    if not isinstance(given, dict):
        raise ValueError(f"{shorten(given)} is not of type 'object'")  # noqa: TRY004  # REASON: a wrong schema
    needed = {name: read_names(names) for name, names in given.items()}

    def find_missing(value: object, state: CheckState) -> Iterator[tuple[str, str]]:
        state.budget.take(1 + len(needed) // 16)
        for name, names in needed.items():
            if isinstance(value, dict) and name in value:
                state.budget.take(1 + len(names) // 16)
                yield from ((name, other) for other in names if other not in value)

    def explain(value: object, path: Path, state: CheckState) -> None:
        for name, other in find_missing(value, state):
            text = f"{IS_REQUIRED} beside {shorten(name)}"
            state.add_problem((*path, other), text, value, kind="missing")

    return Keyword(lambda value, state: not any(find_missing(value, state)), explain=explain)


def make_branches(keyword: str, nodes: Sequence[SchemaNode]) -> Keyword:
    """Compile `allOf`, `anyOf` or `oneOf`."""
    if keyword == "allOf":
        return Keyword(
            lambda value, state: all(node.fits(value, state) for node in nodes),
            explain=lambda value, path, state: _explain_each(nodes, value, path, state),
        )
    if keyword == "anyOf":
        return Keyword(
            lambda value, state: any(node.fits(value, state) for node in nodes),
            explain=lambda value, path, state: _explain_choice(nodes, value, path, state),
        )

    def fits_one(value: object, state: CheckState) -> bool:
        count = 0
        for node in nodes:
            count += node.fits(value, state)
            if count > 1:
                return False
        return count == 1

    def explain_one(value: object, path: Path, state: CheckState) -> None:
        if any(node.fits(value, state) for node in nodes):
            state.add_problem(path, "must fit only one of the schemas of 'oneOf'", value)
        else:
            _explain_choice(nodes, value, path, state)

    return Keyword(fits_one, explain=explain_one)


def _explain_choice(
    nodes: Sequence[SchemaNode], value: object, path: Path, state: CheckState
) -> None:
    """Note the problems of a value that fits no alternative.

    These are the problems inside of the value with the alternative that it is nearest to, by the fixed values that
    are not there, and then by the number of problems. Without such an alternative it is one problem of the value.
    """
    found = [node.list_problems(value, path, state) for node in nodes]
    inside = [group for group in found if all(len(one.path) > len(path) for one in group)]

    def count_misses(group: list[ValueProblem]) -> tuple[int, int]:
        misses = sum(one.kind == "choice" and len(one.path) == len(path) + 1 for one in group)
        return misses, len(group)

    nearest = min(inside, key=count_misses, default=[])
    equal = [group for group in inside if count_misses(group) == count_misses(nearest)]
    is_undecided = len(equal) > 1 and all(one.kind == "missing" for group in equal for one in group)
    if not nearest or is_undecided:
        state.add_problem(path, "must fit one of the alternatives", value, kind="choice")
        return
    for problem in nearest:
        state.add_problem(problem.path, problem.text, problem.value, problem.kind)


def make_not(node: SchemaNode) -> Keyword:
    """Compile `not`."""
    return Keyword(
        lambda value, state: not node.fits(value, state),
        "must not fit the schema of 'not'",
    )


def make_condition(
    condition: SchemaNode, then: SchemaNode | None, otherwise: SchemaNode | None
) -> Keyword:
    """Compile `if` with `then` and `else`."""

    def choose(value: object, state: CheckState) -> Sequence[SchemaNode]:
        chosen = then if condition.fits(value, state) else otherwise
        return () if chosen is None else (chosen,)

    return Keyword(
        lambda value, state: all(node.fits(value, state) for node in choose(value, state)),
        explain=lambda value, path, state: _explain_each(choose(value, state), value, path, state),
    )


def make_reference(node: SchemaNode) -> Keyword:
    """Compile a reference."""
    return Keyword(node.fits, explain=node.explain)


def make_dependent_schemas(nodes: Mapping[str, SchemaNode]) -> Keyword:
    """Compile `dependentSchemas`."""

    def choose(value: object, state: CheckState) -> list[SchemaNode]:
        if not isinstance(value, dict):
            return []
        state.budget.take(1 + len(nodes) // 16)
        return [node for name, node in nodes.items() if name in value]

    return Keyword(
        lambda value, state: all(node.fits(value, state) for node in choose(value, state)),
        explain=lambda value, path, state: _explain_each(choose(value, state), value, path, state),
    )


def _explain_each(
    nodes: Iterable[SchemaNode], value: object, path: Path, state: CheckState
) -> None:
    for node in nodes:
        if not node.fits(value, state):
            node.explain(value, path, state)


def make_properties(nodes: Mapping[str, SchemaNode]) -> Keyword:
    """Compile `properties`."""

    def choose(value: dict[str, object], state: CheckState) -> list[str]:
        state.budget.take(1 + min(len(nodes), len(value)) // 16)
        if len(value) < len(nodes):
            return [name for name in value if name in nodes]
        return [name for name in nodes if name in value]

    def fits(value: object, state: CheckState) -> bool:
        if not isinstance(value, dict):
            return True
        for name in choose(value, state):  # noqa: SIM110  # REASON: a generator would be one nested call more
            if not nodes[name].fits(value[name], state):
                return False
        return True

    def explain(value: object, path: Path, state: CheckState) -> None:
        for name in choose(value, state) if isinstance(value, dict) else ():
            inner = value[name]  # type: ignore[index]  # REASON: it is an object
            if not nodes[name].fits(inner, state):
                nodes[name].explain(inner, (*path, name), state)

    return Keyword(fits, explain=explain)


def make_patterns(patterns: Patterns) -> Keyword:
    """Compile `patternProperties`."""

    def fits(value: object, state: CheckState) -> bool:
        if not isinstance(value, dict):
            return True
        for matches, node in patterns:
            for name, inner in value.items():
                if matches(name, state) and not node.fits(inner, state):
                    return False
        return True

    def explain(value: object, path: Path, state: CheckState) -> None:
        for matches, node in patterns:
            for name, inner in value.items() if isinstance(value, dict) else ():
                if matches(name, state) and not node.fits(inner, state):
                    node.explain(inner, (*path, name), state)

    return Keyword(fits, explain=explain)


def make_other_properties(owner: SchemaNode, node: SchemaNode, never: SchemaNode) -> Keyword:
    """Compile `additionalProperties`.

    Args:
        owner: the node with the keyword, and with the properties and patterns beside it.
        node: the schema of the other properties.
        never: the node that nothing fits.
    """

    def find_others(value: dict[str, object], state: CheckState) -> list[str]:
        state.budget.take(1 + len(value) // 16)
        others = [name for name in value if name not in owner.properties]
        if owner.patterns:
            others = [
                name
                for name in others
                if not any(matches(name, state) for matches, _ in owner.patterns)
            ]
        return others

    return _make_rest(find_others, node, never)


def make_unevaluated_properties(owner: SchemaNode, node: SchemaNode, never: SchemaNode) -> Keyword:
    """Compile `unevaluatedProperties`; the arguments are those of `make_other_properties`."""

    def find_others(value: dict[str, object], state: CheckState) -> list[str]:
        state.budget.take(1 + len(value) // 16)
        known = find_names(owner, value, state, own=True)
        return [] if known is None else [name for name in value if name not in known]

    return _make_rest(find_others, node, never)


def _make_rest(find_others: FindOthers, node: SchemaNode, never: SchemaNode) -> Keyword:
    def fits(value: object, state: CheckState) -> bool:
        if not isinstance(value, dict):
            return True
        return all(node.fits(value[name], state) for name in find_others(value, state))

    def explain(value: object, path: Path, state: CheckState) -> None:
        if not isinstance(value, dict):
            return
        others = find_others(value, state)
        if node is never:
            for name in others[:MOST_PROBLEMS]:
                state.add_problem((*path, name), "is not a known name", value[name], kind="extra")
            return
        for name in others:
            if not node.fits(value[name], state):
                node.explain(value[name], (*path, name), state)

    return Keyword(fits, explain=explain)


def make_property_names(node: SchemaNode) -> Keyword:
    """Compile `propertyNames`."""

    def fits(value: object, state: CheckState) -> bool:
        return not isinstance(value, dict) or all(node.fits(name, state) for name in value)

    def explain(value: object, path: Path, state: CheckState) -> None:
        for name in value if isinstance(value, dict) else ():
            if not node.fits(name, state):
                node.explain(name, (*path, name, KEY_STEP), state)

    return Keyword(fits, explain=explain)


def make_items(prefix: Sequence[SchemaNode], rest: SchemaNode | None, never: SchemaNode) -> Keyword:
    """Compile the schemas of the items of a list.

    Args:
        prefix: a schema for each of the first items.
        rest: the schema of the other items; None if they may be anything.
        never: the node that nothing fits.
    """
    most = len(prefix)

    def fits(value: object, state: CheckState) -> bool:
        for node, item in _pair_items(prefix, rest, value):  # noqa: SIM110  # REASON: a generator would be one nested call more
            if not node.fits(item, state):
                return False
        return True

    def explain(value: object, path: Path, state: CheckState) -> None:
        pairs = _pair_items(prefix, rest, value)
        if rest is never and len(pairs) > most:
            state.add_problem(path, f"must have {describe_limit('maxItems', most)}", value)
            del pairs[most:]
        for at, (node, item) in enumerate(pairs):
            if not node.fits(item, state):
                node.explain(item, (*path, at), state)

    return Keyword(fits, explain=explain)


def _pair_items(
    prefix: Sequence[SchemaNode], rest: SchemaNode | None, value: object
) -> list[tuple[SchemaNode, object]]:
    """Return the items of a list, each with its schema."""
    if not isinstance(value, list):
        return []
    pairs: list[tuple[SchemaNode, object]] = list(zip(prefix, value, strict=False))
    if rest is not None:
        pairs.extend((rest, item) for item in value[len(prefix) :])
    return pairs


def make_unevaluated_items(owner: SchemaNode, node: SchemaNode, never: SchemaNode) -> Keyword:
    """Compile `unevaluatedItems`; the arguments are those of `make_other_properties`."""

    def find_others(value: list[object], state: CheckState) -> list[int]:
        state.budget.take(1 + len(value) // 16)
        known = find_items(owner, value, state, own=True)
        return [] if known is None else [at for at in range(len(value)) if at not in known]

    def fits(value: object, state: CheckState) -> bool:
        if not isinstance(value, list):
            return True
        return all(node.fits(value[at], state) for at in find_others(value, state))

    def explain(value: object, path: Path, state: CheckState) -> None:
        others = find_others(value, state) if isinstance(value, list) else []
        if node is never:
            for at in others[:MOST_PROBLEMS]:
                state.add_problem((*path, at), "is one item too many", value[at])  # type: ignore[index]  # REASON: a list
            return
        for at in others:
            item = value[at]  # type: ignore[index]  # REASON: it is a list
            if not node.fits(item, state):
                node.explain(item, (*path, at), state)

    return Keyword(fits, explain=explain)


def make_contains(node: SchemaNode, least: int, most: int | None) -> Keyword:
    """Compile `contains`.

    Args:
        node: the schema of the items that count.
        least: how many items must fit it.
        most: how many items may fit it.
    """

    def fits(value: object, state: CheckState) -> bool:
        if not isinstance(value, list):
            return True
        count = 0
        for item in value if least or most is not None else ():
            count += node.fits(item, state)
            if most is not None and count > most:
                return False
            if most is None and count >= least:
                return True
        return count >= least

    counts = f"at least {least}" if most is None else f"from {least} to {most}"
    return Keyword(fits, f"must have {counts} of the items in the schema of 'contains'")
