"""The compiled form of a schema: a node for each part of it, and the state of one check.

The state remembers the decision of a node about a value, so that parts that are reached in many ways are checked once.
This module must never read a schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from reprlib import Repr
from typing import Final, Literal, TypeAlias, TypeVar

from msgspec import Struct

from holdfast.core.schema_checks.schema_limits import StepBudget, StepsExceededError

T = TypeVar("T", str, int)

MOST_PROBLEMS: Final = 50
"""How many problems of a value are named."""

DEEPEST: Final = 250
"""How many nodes may be checked inside of each other. Python has about 1,000 nested calls, and one takes two."""


class _ShortRepr(Repr):
    """Writes the first properties of an object. The standard one sorts all of them before it leaves some out."""

    def repr_dict(self, value: dict[object, object], level: int) -> str:
        """Write an object."""
        return super().repr_dict(dict(islice(value.items(), self.maxdict + 1)), level)


_short = _ShortRepr()
_short.maxstring = _short.maxother = _short.maxlong = 80
_short.maxdict = _short.maxlist = 4
_short.maxlevel = 3

Path: TypeAlias = tuple[str | int, ...]
"""Where a value is in the whole value that is checked."""


class NestedTooDeeplyError(Exception):
    """A value or a schema is nested more deeply than it can be checked."""


KEY_STEP: Final = "[key]"
"""The last step of the path of a key itself, after the key; pydantic writes it so."""

ProblemKind: TypeAlias = Literal["fixed", "choice", "missing", "extra"]
"""Whether the text of a problem says it all, or the words of the schema should replace or complete it: about a value
that has another type or fits no alternative, about a name that is missing, and about a name that is not known."""


class ValueProblem(Struct, frozen=True):
    """One problem of a value.

    Args:
        path: where the value is, or should be.
        text: the requirement that is not met, in words; its length is bounded.
        value: the value, or the object that lacks it.
        kind: how the text is used.
    """

    path: Path
    text: str
    value: object
    kind: ProblemKind = "fixed"


class CheckState:
    """The state of the check of one value. The value must stay alive until its end.

    Args:
        budget: the steps that the check may take.
    """

    __slots__ = (
        "budget",
        "depth",
        "item_marks",
        "keys",
        "listed",
        "name_marks",
        "problems",
        "reported",
        "verdicts",
    )

    def __init__(self, budget: StepBudget) -> None:
        self.budget = budget
        self.depth = 0
        self.problems: list[ValueProblem] = []
        self.verdicts: dict[tuple[int, int], bool] = {}
        """Whether a value fits a node, by the identities of both."""
        self.reported: set[tuple[int, Path]] = set()
        self.listed: dict[tuple[int, Path], list[ValueProblem]] = {}
        """The problems of a value with one node alone, by the identity of the node and the path of the value."""
        self.name_marks: dict[tuple[int, int, bool], frozenset[str] | None] = {}
        """The evaluated properties of an object by the node that evaluated them; None for all."""
        self.item_marks: dict[tuple[int, int, bool], frozenset[int] | None] = {}
        """The evaluated items of a list by the node that evaluated them; None for all."""
        self.keys: dict[int, str] = {}
        """The texts by which objects and lists are compared, by their identities."""

    def make_inner(self) -> CheckState:
        """Return a state with the same budget and decisions, for problems that are perhaps not noted here."""
        inner = CheckState(self.budget)
        inner.depth = self.depth
        for name in ("item_marks", "keys", "listed", "name_marks", "verdicts"):
            setattr(inner, name, getattr(self, name))
        return inner

    def add_problem(
        self, path: Path, text: str, value: object, kind: ProblemKind = "fixed"
    ) -> None:
        """Note a problem, unless there are enough."""
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(ValueProblem(path, text, value, kind))


Fits: TypeAlias = Callable[[object, CheckState], bool]
"""Whether a value fits a keyword."""

Explain: TypeAlias = Callable[[object, Path, CheckState], None]
"""Notes each problem of a value with a keyword that checks parts of it."""


class Keyword(Struct, frozen=True):
    """A keyword of a schema with its value, compiled.

    Args:
        fits: whether a value fits.
        words: the requirement, such as "must be an integer"; the schema alone decides about it.
        explain: notes the problems inside of it, in place of the one sentence of `words`.
        kind: how the words are used.
    """

    fits: Fits
    words: str = ""
    explain: Explain | None = None
    kind: ProblemKind = "fixed"


class Branch(Struct, frozen=True):
    """Another node for the same value.

    Args:
        node: the node.
        condition: the branch is used only where this node decides as `wanted`.
        wanted: the decision that the condition must make.
        name: the branch is used only for objects with this property.
    """

    node: SchemaNode
    condition: SchemaNode | None = None
    wanted: bool = True
    name: str | None = None


class SchemaNode:
    """One part of a schema. The fields are set by the compiler."""

    __slots__ = (
        "branches",
        "contains",
        "has_parts",
        "keywords",
        "other_items",
        "other_names",
        "patterns",
        "prefix",
        "properties",
        "unevaluated_items",
        "unevaluated_names",
    )

    def __init__(self) -> None:
        self.keywords: Sequence[Keyword] = ()
        self.has_parts = False
        """Whether other nodes are checked from here."""
        self.branches: list[Branch] = []
        self.properties: dict[str, SchemaNode] = {}
        self.patterns: list[tuple[Fits, SchemaNode]] = []
        self.other_names = False
        """Whether `additionalProperties` is there."""
        self.unevaluated_names = False
        self.prefix = 0
        """How many first items have a schema each."""
        self.other_items = False
        """Whether all other items have a schema."""
        self.unevaluated_items = False
        self.contains: SchemaNode | None = None

    def fits(self, value: object, state: CheckState) -> bool:
        """Whether a value fits this node.

        Raises:
            StepsExceededError: the check takes too many steps.
            NestedTooDeeplyError: the value is nested too deeply.
        """
        state.budget.take()
        if not self.has_parts:
            return all(keyword.fits(value, state) for keyword in self.keywords)
        key = (id(self), id(value))
        known = state.verdicts.get(key)
        if known is not None:
            return known
        if state.depth >= DEEPEST:
            raise NestedTooDeeplyError
        state.depth += 1
        verdict = True
        for keyword in self.keywords:
            if not keyword.fits(value, state):
                verdict = False
                break
        state.depth -= 1
        state.verdicts[key] = verdict
        return verdict

    def explain(self, value: object, path: Path, state: CheckState) -> None:
        """Note the problems of a value that does not fit; raises as `fits`."""
        key = (id(self), path)
        if key in state.reported or len(state.problems) >= MOST_PROBLEMS:
            return
        if state.depth >= DEEPEST:
            raise NestedTooDeeplyError
        state.reported.add(key)
        state.budget.take()
        state.depth += 1
        for keyword in self.keywords:
            if keyword.fits(value, state):
                continue
            if keyword.explain is None:
                state.add_problem(path, keyword.words, value, keyword.kind)
            else:
                keyword.explain(value, path, state)
        state.depth -= 1

    def list_problems(self, value: object, path: Path, state: CheckState) -> list[ValueProblem]:
        """Return the problems of a value with this node, which are not noted; raises as `fits`."""
        key = (id(self), path)
        known = state.listed.get(key)
        if known is None:
            inner = state.make_inner()
            self.explain(value, path, inner)
            known = state.listed[key] = inner.problems
        return known


class CompiledSchema:
    """A schema that values can be checked by; it may be shared.

    Args:
        root: the node of the whole schema.
        steps: the steps that it took to compile it.
        pattern_size: the size of its patterns.
    """

    __slots__ = ("pattern_size", "root", "steps")

    def __init__(self, root: SchemaNode, steps: int, pattern_size: int) -> None:
        self.root = root
        self.steps = steps
        self.pattern_size = pattern_size

    def find_problems(self, value: object, budget: StepBudget) -> list[ValueProblem]:
        """Return why a value does not fit, at most 50 problems; none if it fits.

        Args:
            value: plain JSON data.
            budget: the steps that the check may take.
        """
        state = CheckState(budget)
        try:
            if self.root.fits(value, state):
                return []
            self.root.explain(value, (), state)
        except StepsExceededError as error:
            text = f"cannot be checked against its schema in {error.limit:,} steps; make it smaller"
            return [ValueProblem((), text, value)]
        except (NestedTooDeeplyError, RecursionError):
            return [ValueProblem((), "is nested too deeply", value)]
        return state.problems or [ValueProblem((), "does not fit its schema", value)]


def shorten(value: object) -> str:
    """Return a value for a message, at most about 80 characters of each text in it.

    >>> len(shorten("a" * 200))
    80
    """
    try:
        return _short.repr(value)
    except ValueError:
        return "a number with too many digits"


def find_names(
    node: SchemaNode, value: dict[str, object], state: CheckState, *, own: bool
) -> frozenset[str] | None:
    """Return the properties that a node evaluates, if the object fits it; None for all.

    Args:
        node: the node.
        value: the object.
        state: the check.
        own: leave out the fields that `unevaluatedProperties` of this node itself evaluates.
    """
    if node.other_names or (node.unevaluated_names and not own):
        return None
    key = (id(node), id(value), own)
    if key in state.name_marks:
        return state.name_marks[key]
    state.budget.take(1 + min(len(value), len(node.properties)) // 16)
    found = set(value.keys() & node.properties.keys())
    for matches, _ in node.patterns:
        found.update(name for name in value if matches(name, state))
    parts = (
        find_names(branch, value, state, own=False) for branch in _find_branches(node, value, state)
    )
    state.name_marks[key] = _join(found, parts, state)
    return state.name_marks[key]


def find_items(
    node: SchemaNode, value: list[object], state: CheckState, *, own: bool
) -> frozenset[int] | None:
    """Return the items that a node evaluates, if the list fits it; None for all. The arguments are those of `find_names`."""
    if node.other_items or (node.unevaluated_items and not own):
        return None
    key = (id(node), id(value), own)
    if key in state.item_marks:
        return state.item_marks[key]
    found = set(range(min(node.prefix, len(value))))
    state.budget.take(1 + len(found) // 16)
    if node.contains is not None:
        found.update(at for at, item in enumerate(value) if node.contains.fits(item, state))
    parts = (
        find_items(branch, value, state, own=False) for branch in _find_branches(node, value, state)
    )
    state.item_marks[key] = _join(found, parts, state)
    return state.item_marks[key]


def _join(
    found: set[T], parts: Iterable[frozenset[T] | None], state: CheckState
) -> frozenset[T] | None:
    """Return all of several sets; None if one of them is None, which stands for everything."""
    for part in parts:
        if part is None:
            return None
        state.budget.take(1 + len(part) // 16)
        found |= part
    return frozenset(found)


def _find_branches(node: SchemaNode, value: object, state: CheckState) -> list[SchemaNode]:
    """Return the nodes for the same value that it fits and that are in use."""
    found = []
    for branch in node.branches:
        state.budget.take()
        if branch.name is not None and not (isinstance(value, dict) and branch.name in value):
            continue
        if (
            branch.condition is not None
            and branch.condition.fits(value, state) is not branch.wanted
        ):
            continue
        if branch.node.fits(value, state):
            found.append(branch.node)
    return found
