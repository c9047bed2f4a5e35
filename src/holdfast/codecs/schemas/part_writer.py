"""Writes the parts of a JSON Schema in a dialect, each once: joined, closed, renamed, and with its notes.

A part allows every value that the original allows, in the form that is sent; False stands for a part that no value
fits. A constraint that the dialect lacks is said in the description. This module must never drop one in silence, nor
write an object that can only be empty.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from holdfast.codecs.schemas.dialects import (
    OF_NO_TYPE,
    Dialect,
    takes_fact,
    takes_keyword,
    takes_literal,
    takes_pattern,
)
from holdfast.codecs.schemas.joined_parts import (
    Atom,
    Choice,
    JoinedPart,
    PartReader,
    UnusableSchemaError,
)
from holdfast.codecs.schemas.part_choices import (
    MOST_COMBINATIONS,
    choose_type,
    count_combinations,
    excludes_each_other,
    find_keys,
    implies,
    is_assertion,
    leave_out_choice,
    list_parts,
    open_conditions,
)
from holdfast.codecs.schemas.part_keywords import (
    ANNOTATIONS,
    CONDITIONS,
    FACTS,
    Part,
    Parts,
    RawPart,
    allows_type,
    find_reference,
    is_annotation,
    name_type,
)
from holdfast.codecs.schemas.sent_parts import (
    ALL_TYPES,
    KeyNames,
    SaidConstraints,
    SentPart,
    SentParts,
    drop_repeated,
    free_reference,
    join_texts,
)
from holdfast.codecs.schemas.structure_writer import StructureWriter

USE_ANOTHER: Final = "Use another output mode, or no strict mode"

_ONE_FITS: Final = "Exactly one of the alternatives fits."
_FIRST_APPLIES: Final = "If two alternatives could apply, the first one does."

_DEEPEST: Final = 60
"""How many parts are written inside of each other; deeper ones become definitions."""

_LARGEST_COPY: Final = 12
"""How many steps a part may take that is written a second time; larger ones become definitions."""

_UNEVALUATED: Final = frozenset(["unevaluatedProperties", "unevaluatedItems"])
_STRUCTURE: Final = (
    *("properties", "patternProperties", "additionalProperties", "required"),
    *("prefixItems", "items", "additionalItems"),
)
"""Keywords about the properties and the items of a value."""

_TEXT_FORMS: Final = ("format", "pattern")
_LENGTHS: Final = ("minLength", "maxLength")

_ROUND_BOUND: Final[dict[str, Callable[[float], int]]] = {
    "minimum": math.ceil,
    "exclusiveMaximum": math.ceil,
    "maximum": math.floor,
    "exclusiveMinimum": math.floor,
}
"""How a bound is rounded so that the same integers keep it."""

_LARGEST_WHOLE: Final = 2**63

_TRIVIAL: Final = frozenset(
    ["minLength", "minItems", "minProperties", "minContains", "uniqueItems"]
)
"""Keywords that say nothing with 0 or false."""

_UNSAFE = re.compile(r"[^a-zA-Z0-9_.-]+")
_LONGEST_NAME: Final = 56


class PartWriter:
    """Writes the parts of one schema.

    Args:
        reader: the schema.
        dialect: the dialect.
    """

    def __init__(self, reader: PartReader, dialect: Dialect) -> None:
        self.reader = reader
        self.sent = SentParts(KeyNames(reader.names, dialect.property_names, reader.open_names))
        self._dialect = dialect
        self._structure = StructureWriter(
            reader,
            dialect,
            self.sent,
            emit=self.emit,
            emit_any=lambda place: self._write_any([], place),
            refuse=self.refuse,
        )
        self._opens_all = not takes_keyword(self._dialect, "allOf")
        self._names: dict[tuple[int, ...], str] = {}
        self._waiting: list[tuple[str, list[Atom]]] = []
        self._written: dict[tuple[int, ...], tuple[Part, int] | None] = {}
        self._unchanged: dict[int, bool] = {}
        self._depth = 0

    def write_top(self, atoms: list[Atom]) -> SentPart:
        """Return the part at the top, with its definitions."""
        if self._dialect.refers_to_root:
            self._names[_key_of(atoms)] = ""
        sent = self._write(atoms, is_top=True)
        while self._waiting:
            name, waiting = self._waiting.pop()
            self._define(name, self._write(waiting), waiting)
        if sent is not False and self.sent.definitions:
            sent["$defs"] = self.sent.definitions
        return sent

    def refuse(self, place: str, problem: str, fix: str = USE_ANOTHER) -> UnusableSchemaError:
        """Return the error of a part that the dialect does not take."""
        problem = f"{problem}, which {self._dialect.vendor} does not take"
        return UnusableSchemaError(place, problem, fix)

    def emit(self, parts: Parts) -> SentPart:
        """Return the part to send for parts that a value must fit together."""
        self.reader.budget.take()
        if (beside := self._emit_beside(parts)) is not None:
            return beside
        atoms = self.reader.find_atoms(parts, opens_all=self._opens_all or len(parts) > 1)
        if atoms is None:
            return False
        core = [atom for atom in atoms if not is_annotation(atom.part)]
        if not core:
            return self._write_any(atoms, self.reader.find_place(parts[0]))
        if len(core) == 1 and core[0].is_named:
            notes = self._write_annotations([atom for atom in atoms if atom is not core[0]])
            allowed = self._dialect.beside_reference
            if allowed is None or notes.keys() <= allowed:
                sent = {**self._refer(core), **notes}
                return self.sent.keep(sent, self.reader.find_place(parts[0]))
        return self._emit_once(atoms)

    def _emit_beside(self, parts: Parts) -> SentPart | None:
        """Return a part with a reference and other constraints, if the dialect takes both; None if not."""
        part = parts[0]
        if self._dialect.beside_reference is not None or len(parts) > 1 or isinstance(part, bool):
            return None
        rest_part = self.reader.rest_beside_reference(part) if find_reference(part) else {}
        if is_annotation(rest_part) or _UNEVALUATED.intersection(rest_part):
            return None
        target = self.emit((self.reader.leave_out(part, part.keys() - {find_reference(part)}),))
        if target is False or target.keys() != {"$ref"}:
            return None
        rest = self.emit((rest_part,))
        return False if rest is False else self.sent.copy(rest, target)

    def _emit_once(self, atoms: list[Atom]) -> SentPart:
        """Return the part to send for joined parts. A large one that is used again becomes a definition."""
        key = _key_of(atoms)
        if key in self._names or (key in self._written and self._written[key] is None):
            return self._refer(atoms)
        known = self._written.get(key)
        if known[1] > _LARGEST_COPY if known else self._depth >= _DEEPEST:
            return self._refer(atoms)
        self._written[key] = None
        before = self.reader.budget.left
        self._depth += 1
        written = self._write(atoms)
        self._depth -= 1
        if key in self._names:
            self._define(self._names[key], written, atoms)
            return self._refer(atoms)
        if written is False:
            del self._written[key]
            return False
        self._written[key] = (written, before - self.reader.budget.left)
        return written

    def _refer(self, atoms: list[Atom]) -> Part:
        """Return a reference to the definition of joined parts, which is written later if it is not yet."""
        key = _key_of(atoms)
        if key not in self._names:
            name = self._names[key] = self._make_definition_name(atoms)
            if key not in self._written:
                self._waiting.append((name, atoms))
            elif (known := self._written[key]) is not None:
                self.sent.move_to_definitions(name, known[0])
        name = self._names[key]
        sent = {"$ref": f"#/$defs/{name}" if name else "#"}
        return self.sent.keep(sent, self.reader.find_place(atoms[-1].part))

    def _make_definition_name(self, atoms: list[Atom]) -> str:
        plain = _UNSAFE.sub("_", self.reader.find_name(atoms[-1].part))[:_LONGEST_NAME] or "Part"
        taken = set(self._names.values())
        if len(atoms) == 1 and plain not in taken:
            return plain
        return next(
            name for at in range(2, len(taken) + 4) if (name := f"{plain}_{at}") not in taken
        )

    def _define(self, name: str, sent: SentPart, atoms: list[Atom]) -> None:
        if sent is False:
            place = self.reader.find_place(atoms[-1].part)
            raise UnusableSchemaError(place, "fits no value", "Remove one of its constraints")
        self.sent.definitions[name] = sent

    def _write_any(self, atoms: list[Atom], place: str) -> Part:
        """Return a part that every value fits."""
        if self._dialect.needs_types:
            raise self.refuse(place, "allows any value", "Give it a type")
        sent: Part = {} if self._dialect.takes_empty else {"type": list(ALL_TYPES)}
        sent.update(self._write_annotations(atoms))
        return self.sent.keep(sent, place)

    def _write_annotations(self, atoms: list[Atom]) -> Part:
        """Return the annotations of parts that say nothing else, as the dialect takes them."""
        sent: Part = {}
        joined = self.reader.join(atoms)
        if atoms and joined is not None:
            said = SaidConstraints(self.sent, self.reader.write_words)
            self._add_annotations(joined, sent, said)
            said.finish(sent)
        return sent

    def _write(self, atoms: list[Atom], *, is_top: bool = False) -> SentPart:
        """Return the part to send for joined parts."""
        joined = self.reader.join(atoms)
        if joined is None:
            return False
        said = SaidConstraints(self.sent, self.reader.write_words)
        self._infer_type(joined)
        if self._dialect.closes_objects:
            for place in open_conditions(joined, self.reader):
                said.add_sentence(_FIRST_APPLIES, place)
        choices = self._find_choices(joined, said, is_top)
        has_types = len(joined.types or ()) > 1 and joined.literals is None
        if is_top and choices and "anyOf" in self._dialect.refused_at_top:
            raise self.refuse("", "is a choice at the top", "Make it the property of an object")
        if choices and not self._takes_choices(choices, joined):
            fits, sent = True, self._distribute(atoms, choices[0], said)
        elif has_types and not self._dialect.takes_type_lists:
            types = choose_type(self.reader, joined, atoms)
            fits, sent = True, self._distribute(atoms, types, said)
        else:
            sent = {}
            fits = self._write_keywords(joined, sent, said, is_top)
            fits = fits and self._add_choices(choices, joined, sent, said)
        if not fits or sent.get("anyOf") == []:
            return False
        if not self._dialect.takes_empty and not sent.keys() - OF_NO_TYPE:
            sent["type"] = list(ALL_TYPES)
        self._add_annotations(joined, sent, said)
        said.finish(sent)
        return self.sent.keep(free_reference(sent, self._dialect.beside_reference), joined.place)

    def _find_choices(
        self, joined: JoinedPart, said: SaidConstraints, is_top: bool
    ) -> list[Choice]:
        """Return the choices that are sent; the others are said."""
        choices = [
            one for one in joined.choices if not self._says_choice(one, joined, said, is_top)
        ]
        for one in choices:
            if one.keyword == "oneOf":
                self._structure.check_alternatives(joined, one)
        return choices

    def _write_keywords(
        self, joined: JoinedPart, sent: Part, said: SaidConstraints, is_top: bool
    ) -> bool:
        """Write everything but choices. Return whether a value fits."""
        lists_values = joined.literals is not None and takes_keyword(
            self._dialect, "enum", is_top=is_top
        )
        if lists_values:
            if not self._write_literals(joined, sent, said):
                return False
        else:
            self._write_type(joined, sent)
            if joined.literals is not None:
                said.add("enum", joined.literals, joined.place_of("enum"))
            if not self._structure.write_structure(joined, sent, said):
                return False
        self._write_facts(
            joined, sent, said, is_beside=not lists_values or self._joins_values(sent)
        )
        self._write_conditions(joined, sent, said, is_top)
        for one in joined.left_over:
            is_known = one.keyword in {*FACTS, *CONDITIONS, *sent, "dependencies"}
            if takes_keyword(self._dialect, one.keyword) and not is_known:
                sent[one.keyword] = one.value
            elif not one.keyword.startswith("x-"):
                said.add(one.keyword, one.value, one.place)
        return True

    def _infer_type(self, joined: JoinedPart) -> None:
        """Give a part without a type the one that its keywords are for, where each part needs a type."""
        if joined.types is not None or joined.literals is not None or not self._dialect.needs_types:
            return
        names = {FACTS[keyword] for keyword in joined.facts}
        if joined.properties or joined.patterns or joined.required or joined.others is not None:
            names.add("object")
        if joined.prefix or joined.items is not None:
            names.add("array")
        if not all(map(is_assertion, joined.choices)):
            return
        if len(names) == 1:
            joined.types = tuple(names)
            self.sent.narrowed[joined.place] = None
        else:
            raise self.refuse(joined.place, "allows any value", "Give it a type")

    def _add_annotations(self, joined: JoinedPart, sent: Part, said: SaidConstraints) -> None:
        is_alone = "anyOf" in sent and not self._dialect.joins_choices
        for keyword, value in joined.annotations.items():
            is_taken = takes_keyword(self._dialect, keyword) and not is_alone
            if keyword in ("title", "description") or is_taken:
                sent[keyword] = join_texts(value, sent.get(keyword), keyword)
            elif keyword != "default" or value is not None:
                said.add(keyword, value, joined.place_of(keyword), is_constraint=False)

    def _write_type(self, joined: JoinedPart, sent: Part) -> None:
        types = joined.types
        if types is None:
            return
        if "number" in types:
            types = tuple(name for name in types if name != "integer")
        sent["type"] = types[0] if len(types) == 1 else list(types)

    def _joins_values(self, sent: Part) -> bool:
        """Whether constraints may stand beside listed values as they were written."""
        if "anyOf" in sent:
            return self._dialect.joins_choices
        # A value that is written as an object or a list has the constraints that make it this value.
        return bool({"enum", "const"} & sent.keys()) and self._dialect.types_literals

    def _find_bound(self, joined: JoinedPart, keyword: str, value: Any) -> Any:
        """Return a constraint; a bound of an integer as a whole number of 64 bits, or None, if the dialect asks for that."""
        types = joined.types or ()
        is_bound = keyword in _ROUND_BOUND and "integer" in types and "number" not in types
        if not is_bound or not self._dialect.whole_bounds:
            return value
        whole = _ROUND_BOUND[keyword](value)
        return whole if abs(whole) < _LARGEST_WHOLE else None

    def _write_facts(
        self, joined: JoinedPart, sent: Part, said: SaidConstraints, *, is_beside: bool
    ) -> None:
        for keyword, value in joined.facts.items():
            if joined.types is not None and not self._concerns(keyword, joined.types):
                continue
            is_taken = is_beside and takes_fact(self._dialect, keyword, value)
            bound = self._find_bound(joined, keyword, value)
            if is_taken and bound is not None and not self._is_ignored(keyword, sent):
                needs = keyword == "dependentRequired"
                sent[keyword] = self.sent.keys.rename_all(value) if needs else bound
            elif value or keyword not in _TRIVIAL:
                said.add(keyword, value, joined.place_of(keyword))

    def _is_ignored(self, keyword: str, sent: Part) -> bool:
        """Whether the dialect ignores one of the rules of a text that would be sent together."""
        if self._dialect.joins_text_rules or keyword not in {*_TEXT_FORMS, *_LENGTHS}:
            return False
        others = _TEXT_FORMS if keyword in _LENGTHS else (*_TEXT_FORMS, *_LENGTHS)
        return any(other in sent for other in others)

    def _concerns(self, keyword: str, types: tuple[str, ...]) -> bool:
        """Whether a keyword constrains values of some types."""
        name = {**FACTS, **CONDITIONS}[keyword]
        return not name or any(allows_type((name,), one) for one in types)

    def _write_conditions(
        self, joined: JoinedPart, sent: Part, said: SaidConstraints, is_top: bool
    ) -> None:
        for keyword, value in joined.conditions.items():
            if joined.types is not None and not self._concerns(keyword, joined.types):
                continue
            if not (
                takes_keyword(self._dialect, keyword, is_top=is_top)
                and self._keeps_condition(keyword, joined)
            ):
                said.add(keyword, value, joined.place_of(keyword))
            elif keyword == "allOf":
                sent[keyword] = [self._emit_plain(inner) for inner in value]
            elif keyword == "dependentSchemas":
                sent[keyword] = {
                    self.sent.keys.rename(key): self._emit_plain(inner)
                    for key, inner in value.items()
                }
            else:
                sent[keyword] = self._emit_plain(value)

    def _keeps_condition(self, keyword: str, joined: JoinedPart) -> bool:
        """Whether a condition still means the same: a part that allows more makes its negation allow less."""
        conditions = joined.conditions
        if keyword in ("if", "then", "else"):
            return self._is_kept(conditions.get("if", True))
        if keyword == "propertyNames" and self.sent.keys.find_renamed(find_keys(joined)):
            return False
        is_limit = keyword == "not" or (keyword == "contains" and "maxContains" in joined.facts)
        return not is_limit or self._is_kept(conditions[keyword])

    def _is_kept(self, part: RawPart) -> bool:
        """Whether everything in a part is sent as it is, in a dialect that takes all keywords."""
        if id(part) not in self._unchanged:
            self._unchanged[id(part)] = (
                part is not self.reader.root and self._is_kept(self.reader.root)
            ) or all(
                takes_pattern(self._dialect, inner["pattern"])
                for inner in list_parts(self.reader, part)
                if isinstance(inner.get("pattern"), str)
            )
        return self._unchanged[id(part)]

    def _emit_plain(self, part: RawPart) -> RawPart:
        return part if isinstance(part, bool) else self.emit((part,))

    def _says_choice(
        self, choice: Choice, joined: JoinedPart, said: SaidConstraints, is_top: bool
    ) -> bool:
        """Say a choice whose branches name no parts, or which is one of too many; return whether it was said."""
        dialect = self._dialect
        is_plain = is_assertion(choice) and joined.has_constraints
        if not is_plain and (
            dialect.closes_objects
            or dialect.keywords is None
            or count_combinations(joined) <= MOST_COMBINATIONS
        ):
            return False
        takes = takes_keyword(dialect, choice.keyword, is_top=is_top)
        if is_plain and takes and dialect.joins_choices:
            return False
        place = f"{self.reader.find_place(choice.holder)}/{choice.keyword}"
        said.add(choice.keyword, list(choice.branches), place)
        return True

    def _takes_choices(self, choices: list[Choice], joined: JoinedPart) -> bool:
        """Whether the choices may stand where they are."""
        if self._dialect.keywords is None:
            return len({choice.keyword for choice in choices}) == len(choices)
        return len(choices) == 1 and (self._dialect.joins_choices or not joined.has_constraints)

    def _add_choices(
        self, choices: list[Choice], joined: JoinedPart, sent: Part, said: SaidConstraints
    ) -> bool:
        for choice in choices:
            branches = [self.emit((inner,)) for inner in choice.branches]
            is_kept = choice.keyword == "oneOf" and takes_keyword(self._dialect, "oneOf")
            if is_kept and all(map(self._is_kept, choice.branches)):
                sent["oneOf"] = branches
            elif "anyOf" in sent:
                inner: Part = {}
                if not self._set_branches(choice, branches, inner, said):
                    return False
                sent["allOf"] = [*sent.get("allOf", ()), self.sent.keep(inner, joined.place)]
            elif not self._set_branches(choice, branches, sent, said):
                return False
        return True

    def _set_branches(
        self, choice: Choice, branches: list[SentPart], sent: Part, said: SaidConstraints
    ) -> bool:
        """Write the branches of a choice as `anyOf`, each once. Return whether there is one."""
        found = drop_repeated(branches)
        if (
            choice.keyword == "oneOf"
            and len(found) > 1
            and not excludes_each_other(self.reader, choice)
        ):
            place = f"{self.reader.find_place(choice.holder)}/oneOf"
            said.add_sentence(_ONE_FITS, place)
        most = self._dialect.most_branches
        while most is not None and len(found) > most:
            rest = self.sent.keep({"anyOf": found[-most:]}, self.reader.find_place(choice.holder))
            found = [*found[:-most], rest]
        if len(found) == 1 and not sent and "$ref" not in found[0]:
            self.sent.take_over(found[0], sent)
        else:
            sent["anyOf"] = found
        return bool(found)

    def _distribute(self, atoms: list[Atom], choice: Choice, said: SaidConstraints) -> Part:
        """Return a choice whose branches hold everything that stands beside it."""
        base = tuple(
            self.reader.leave_out(leave_out_choice(self.reader, atom.part, choice), ANNOTATIONS)
            for atom in atoms
        )
        base_atoms = self.reader.find_atoms(base)
        whole = self.reader.join(base_atoms) if base_atoms else None
        if whole is not None and count_combinations(whole) > MOST_COMBINATIONS:
            place = f"{self.reader.find_place(choice.holder)}/{choice.keyword}"
            raise self.refuse(place, "makes too many combinations with others")
        branches = [
            self.emit((inner,) if implies(self.reader, inner, whole) else (*base, inner))
            for inner in choice.branches
        ]
        sent: Part = {}
        if not self._set_branches(choice, branches, sent, said):
            sent["anyOf"] = []
        return sent

    def _write_literals(self, joined: JoinedPart, sent: Part, said: SaidConstraints) -> bool:
        """Write `enum` or `const`. Return whether a value is left."""
        values = [one for one in joined.literals or () if allows_type(joined.types, name_type(one))]
        plain = [one for one in values if self._takes_literal(one)]
        if joined.has_structure:
            for part in joined.parts:
                for keyword in (name for name in _STRUCTURE if name in part):
                    place = f"{self.reader.find_place(part)}/{keyword}"
                    said.add(keyword, part[keyword], place)
        if not plain or len(plain) < len(values):
            branches: list[SentPart] = [{"enum": plain}] if plain else []
            others = (one for one in values if not self._takes_literal(one))
            branches += [self._write_constant(one, joined, said) for one in others]
            found = drop_repeated(branches)
            if len(found) == 1 and "$ref" not in found[0]:
                self.sent.take_over(found[0], sent)
            else:
                sent["anyOf"] = found
            return bool(found)
        self._write_literal_type(joined, sent, plain)
        if joined.is_const and len(plain) == 1 and takes_keyword(self._dialect, "const"):
            sent["const"] = plain[0]
        else:
            sent["enum"] = plain
        return True

    def _takes_literal(self, value: object) -> bool:
        return takes_literal(self._dialect, name_type(value))

    def _write_literal_type(self, joined: JoinedPart, sent: Part, values: list[Any]) -> None:
        """Write the types of values beside them, if the original has types."""
        found = [name_type(value) for value in values]
        names = [
            name for name in joined.types or () if any(allows_type((name,), one) for one in found)
        ]
        is_plain = self._dialect.types_literals and not {"object", "array"}.intersection(names)
        if is_plain and (len(names) == 1 or (names and self._dialect.takes_type_lists)):
            sent["type"] = names[0] if len(names) == 1 else names

    def _write_constant(self, value: Any, joined: JoinedPart, said: SaidConstraints) -> SentPart:
        """Return a part for a value that `enum` may not hold."""
        origin = self.reader.make_part({"const": value}, self.reader.root)
        self.reader.derive(origin, origin)
        part: Part = {"type": name_type(value)}
        if isinstance(value, dict):
            part["properties"] = {key: {"const": one} for key, one in value.items()}
            part["required"] = list(value)
            part["additionalProperties"] = False
        elif isinstance(value, list):
            part["prefixItems"] = [{"const": one} for one in value]
            part["items"] = False
            part["minItems"] = len(value)
        elif value is not None:
            said.add("enum", joined.literals, joined.place_of("enum"))
        return self.emit((self.reader.make_part(part, origin),))


def _key_of(atoms: Iterable[Atom]) -> tuple[int, ...]:
    return tuple(id(atom.part) for atom in atoms)
