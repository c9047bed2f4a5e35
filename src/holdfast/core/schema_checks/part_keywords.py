"""The keywords of a schema that check parts of a value, or the same value by other schemas.

Each function compiles a keyword from nodes. This module must never read a schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from holdfast.core.schema_checks.schema_nodes import (
    CheckState,
    Fits,
    Keyword,
    Path,
    SchemaNode,
    find_items,
    find_names,
    shorten,
)

Patterns: TypeAlias = Sequence[tuple[Fits, SchemaNode]]
FindOthers: TypeAlias = Callable[[dict[str, object], CheckState], list[str]]


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
            lambda value: f"{shorten(value)} is not valid under any of the given schemas",
        )

    def fits_one(value: object, state: CheckState) -> bool:
        count = 0
        for node in nodes:
            count += node.fits(value, state)
            if count > 1:
                return False
        return count == 1

    def describe(value: object) -> str:
        return f"{shorten(value)} is valid under none or more than one of the given schemas"

    return Keyword(fits_one, describe)


def make_not(node: SchemaNode) -> Keyword:
    """Compile `not`."""
    return Keyword(
        lambda value, state: not node.fits(value, state),
        lambda value: f"{shorten(value)} should not be valid under the schema of 'not'",
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

    return _make_rest(find_others, node, never, "Additional properties are not allowed")


def make_unevaluated_properties(owner: SchemaNode, node: SchemaNode, never: SchemaNode) -> Keyword:
    """Compile `unevaluatedProperties`; the arguments are those of `make_other_properties`."""

    def find_others(value: dict[str, object], state: CheckState) -> list[str]:
        state.budget.take(1 + len(value) // 16)
        known = find_names(owner, value, state, own=True)
        return [] if known is None else [name for name in value if name not in known]

    return _make_rest(find_others, node, never, "Unevaluated properties are not allowed")


def _make_rest(find_others: FindOthers, node: SchemaNode, never: SchemaNode, words: str) -> Keyword:
    def fits(value: object, state: CheckState) -> bool:
        if not isinstance(value, dict):
            return True
        return all(node.fits(value[name], state) for name in find_others(value, state))

    def explain(value: object, path: Path, state: CheckState) -> None:
        if not isinstance(value, dict):
            return
        others = find_others(value, state)
        if node is never:
            state.add_problem(path, f"{words} ({_list_unexpected(others)} unexpected)", value)
            return
        for name in others:
            if not node.fits(value[name], state):
                node.explain(value[name], (*path, name), state)

    return Keyword(fits, explain=explain)


def _list_unexpected(names: Sequence[object]) -> str:
    """Return the first few names of a message, and the verb.

    >>> _list_unexpected(["a", "b"])
    "'a', 'b' were"
    """
    listed = ", ".join(shorten(name) for name in names[:4])
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f"{listed}{more} {'was' if len(names) == 1 else 'were'}"


def make_property_names(node: SchemaNode) -> Keyword:
    """Compile `propertyNames`."""

    def fits(value: object, state: CheckState) -> bool:
        return not isinstance(value, dict) or all(node.fits(name, state) for name in value)

    def explain(value: object, path: Path, state: CheckState) -> None:
        for name in value if isinstance(value, dict) else ():
            if not node.fits(name, state):
                node.explain(name, path, state)

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
            extra = [item for _, item in pairs[most:]]
            found = f"{len(extra)} extra: {shorten(extra)}"
            state.add_problem(path, f"expected at most {most} items and found {found}", value)
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
            listed = _list_unexpected([value[at] for at in others[:5]])  # type: ignore[index]  # REASON: a list
            state.add_problem(
                path, f"Unevaluated items are not allowed ({listed} unexpected)", value
            )
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

    def describe(value: object) -> str:
        return f"{shorten(value)} has too few or too many items that match the schema of 'contains'"

    return Keyword(fits, describe)
