"""Writes the structure of values in a dialect: the properties of objects, and the items of lists.

The parts inside are written by whoever calls this. This module must never drop a property or the number of items in
silence, nor write an object that can only be empty.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.codecs.schemas.dialects import Dialect, takes_keyword
from holdfast.codecs.schemas.joined_parts import (
    Choice,
    JoinedPart,
    PartReader,
    UnusableSchemaError,
)
from holdfast.codecs.schemas.part_choices import (
    NullFinder,
    as_part,
    excludes_each_other,
    find_ambiguous_null,
    find_keys,
    find_presence_rule,
)
from holdfast.codecs.schemas.part_keywords import Part, Parts, allows_type
from holdfast.codecs.schemas.sent_parts import (
    SaidConstraints,
    SentObject,
    SentPart,
    SentParts,
    drop_repeated,
    drop_type,
)


class StructureWriter:
    """Writes the objects and the lists of one schema.

    Args:
        reader: the schema.
        dialect: the dialect.
        sent: the parts that were written so far.
        emit: returns the part to send for parts that a value must fit together.
        emit_any: returns the part to send for every value, for a place in the original.
        refuse: returns the error of a place, for a problem and the way out.
    """

    def __init__(
        self,
        reader: PartReader,
        dialect: Dialect,
        sent: SentParts,
        *,
        emit: Callable[[Parts], SentPart],
        emit_any: Callable[[str], Part],
        refuse: Callable[[str, str, str], UnusableSchemaError],
    ) -> None:
        self._reader = reader
        self._dialect = dialect
        self._sent = sent
        self._emit = emit
        self._emit_any = emit_any
        self._refuse = refuse
        self._nulls = NullFinder(reader)

    def write_structure(self, joined: JoinedPart, sent: Part, said: SaidConstraints) -> bool:
        """Write properties and items. Return whether a value fits."""
        types = joined.types
        if types is None and self._dialect.needs_types:
            return True
        if allows_type(types, "object") and not self._write_object(joined, sent, said):
            drop_type(sent, "object")
        if allows_type(types, "array") and not self._write_list(joined, sent, said):
            drop_type(sent, "array")
        return sent.get("type") != []

    def _write_list(self, joined: JoinedPart, sent: Part, said: SaidConstraints) -> bool:
        """Write the items of a list. Return whether a value fits."""
        facts = joined.facts
        prefix: list[Part] = []
        rest = None if joined.items is None else self._emit(joined.items)
        for parts in joined.prefix:
            inner = self._emit(parts)
            if inner is False:
                rest = False
                break
            prefix.append(inner)
        if rest is False:
            facts["maxItems"] = min(facts.get("maxItems", len(prefix)), len(prefix))
            joined.places.setdefault("maxItems", joined.place_of("items"))
        most = facts.get("maxItems")
        if most is not None and most < facts.get("minItems", 0):
            return False
        is_list = joined.types is not None and "array" in joined.types
        if most is not None and most <= len(prefix):
            # Only an empty list has no first item.
            prefix = prefix[:most] or [{"type": "null"}]
            self._write_prefix(joined, sent, said, prefix, None)
        elif prefix:
            rest = rest or self._emit_any(joined.place)
            self._write_prefix(joined, sent, said, prefix, rest)
        elif rest:
            sent["items"] = rest
        elif is_list and self._dialect.needs_items:
            sent["items"] = self._emit_any(joined.place)
        return True

    def _write_prefix(
        self,
        joined: JoinedPart,
        sent: Part,
        said: SaidConstraints,
        prefix: list[Part],
        rest: Part | None,
    ) -> None:
        """Write the first items of a list, or allow each of them at every place.

        Args:
            joined: the list.
            sent: the part to write.
            said: the constraints that are said.
            prefix: the first items.
            rest: the other items; None if there are none.
        """
        facts, dialect = joined.facts, self._dialect
        is_fixed = facts.get("minItems") == facts.get("maxItems") == len(prefix)
        if takes_keyword(self._dialect, "prefixItems") and (is_fixed or not dialect.fixed_tuples):
            sent["prefixItems"] = prefix
            if rest is not None:
                sent["items"] = rest
            elif dialect.needs_items:
                sent["items"] = {}
            return
        found = drop_repeated([*prefix, *([] if rest is None else [rest])])
        if len(found) > 1:
            wanted = [as_part(parts) for parts in joined.prefix]
            said.add("prefixItems", wanted, joined.place_of("prefixItems"))
        sent["items"] = (
            found[0] if len(found) == 1 else self._sent.keep({"anyOf": found}, joined.place)
        )

    def _write_object(self, joined: JoinedPart, sent: Part, said: SaidConstraints) -> bool:
        """Write the properties of an object. Return whether a value fits."""
        note = SentObject(self._sent.keys.find_renamed(find_keys(joined)))
        required = set(joined.required)
        properties: dict[str, Part] = {}
        for key, parts in self._find_properties(joined).items():
            inner = self._emit(parts)
            if inner is False:
                if key in required:
                    return False
                continue
            name = self._sent.keys.rename(key)
            if self._dialect.requires_all and self._means_null(joined, key, parts):
                note.nullable.add(name)
            elif self._dialect.requires_all and key not in required:
                note.absent.add(name)
                inner = self._sent.make_nullable(inner, self._dialect)
            properties[name] = inner
        self._finish_object(joined, properties, sent, said)
        if note.names or note.absent or note.nullable:
            self._sent.objects[id(sent)] = note
        return True

    def _finish_object(
        self, joined: JoinedPart, properties: dict[str, Part], sent: Part, said: SaidConstraints
    ) -> None:
        """Write everything of an object but what its properties are."""
        names = [self._sent.keys.rename(key) for key in joined.required]
        if self._dialect.closes_objects:
            self._close_object(joined, properties)
            sent["properties"] = properties
            names = list(properties) if self._dialect.requires_all else names
            sent["additionalProperties"] = False
        else:
            if properties:
                sent["properties"] = properties
            self._write_others(joined, sent, said)
        if names or self._dialect.requires_all:
            sent["required"] = names
        if joined.ordering and takes_keyword(self._dialect, "propertyOrdering"):
            ordering = map(self._sent.keys.rename, joined.ordering)
            sent["propertyOrdering"] = [name for name in ordering if name in properties]
        elif joined.ordering:
            place = joined.place_of("propertyOrdering")
            said.add("propertyOrdering", joined.ordering, place, is_constraint=False)

    def _find_properties(self, joined: JoinedPart) -> dict[str, Parts]:
        """Return the properties of an object; in a closed one also those that are required alone."""
        if not self._dialect.closes_objects:
            return joined.properties
        missing = [key for key in joined.required if key not in joined.properties]
        others = joined.others or (True,)
        return {**joined.properties, **dict.fromkeys(missing, others)}

    def _means_null(self, joined: JoinedPart, key: str, parts: Parts) -> bool:
        """Whether a null of a property is its value, and not a property that is absent."""
        infers = self._dialect.needs_types
        # A part without a type allows null in the original, and with it, `oneOf` may refuse null.
        if not (
            self._nulls.allows_null(parts, infers_types=infers) and self._nulls.allows_null(parts)
        ):
            return False
        if key not in joined.required and (rule := find_presence_rule(self._reader, joined, key)):
            place = self._reader.find_place(parts[0]) or joined.place
            problem = f'may be absent or null, and "{rule}" tells these apart'
            raise self._refuse(place, problem, "Require it, or do not let it be null")
        return True

    def check_alternatives(self, joined: JoinedPart, choice: Choice) -> None:
        """Refuse a `oneOf` of which a second branch may fit when a null stands for an absent property."""
        if not self._dialect.requires_all or excludes_each_other(self._reader, choice):
            return
        part = find_ambiguous_null(self._reader, self._nulls, joined, choice)
        if part is not None:
            problem = 'may be absent or null, and "oneOf" tells these apart'
            place = self._reader.find_place(part)
            raise self._refuse(place, problem, "Require it, or do not let it be null")

    def _close_object(self, joined: JoinedPart, properties: dict[str, Part]) -> None:
        """Check that a closed object can have everything that the original has."""
        others = joined.others
        is_closed = others is not None and self._reader.find_atoms(others) is None
        # What is false for some properties may be said, as other properties cannot be there.
        is_open = (
            joined.conditions.get("unevaluatedProperties", False) is not False and not is_closed
        )
        if joined.patterns or is_open or (others is not None and not is_closed):
            keyword = "patternProperties" if joined.patterns else "additionalProperties"
            keyword = "unevaluatedProperties" if is_open else keyword
            place = joined.place_of(keyword)
            raise self._refuse(
                place, "has free keys", "Use a list of objects with a key and a value"
            )
        if not is_closed:
            if not properties:
                fix = "Declare its properties, or set additionalProperties to false"
                raise self._refuse(joined.place, "has free keys", fix)
            self._sent.narrowed[joined.place] = None

    def _write_others(self, joined: JoinedPart, sent: Part, said: SaidConstraints) -> None:
        """Write the properties without a name."""
        others, patterns = joined.others, joined.patterns
        # Patterns of names mean others where names are others.
        renames = bool(patterns) and bool(self._sent.keys.find_renamed(find_keys(joined)))
        if not patterns or (takes_keyword(self._dialect, "patternProperties") and not renames):
            if patterns:
                sent["patternProperties"] = {
                    pattern: self._emit(parts) for pattern, parts in patterns.items()
                }
            if others is not None:
                sent["additionalProperties"] = True if others == (True,) else self._emit(others)
            elif self._dialect.closes_by_default:
                self._close_by_default(joined, sent)
            return
        place = joined.place_of("patternProperties")
        wanted = {key: as_part(parts) for key, parts in patterns.items()}
        said.add("patternProperties", wanted, place)
        if others is None:
            if self._dialect.closes_by_default:
                sent["additionalProperties"] = True
            return
        branches = [self._emit(parts) for parts in (*patterns.values(), others)]
        free = drop_repeated(branches)
        inner = free[0] if len(free) == 1 else {"anyOf": free}
        sent["additionalProperties"] = self._sent.keep(inner, place) if free else False

    def _close_by_default(self, joined: JoinedPart, sent: Part) -> None:
        """Let an object have free keys that would only be empty, or note that it is closed."""
        # A tool without arguments names no properties, too.
        is_top = not joined.place and any("properties" in part for part in joined.parts)
        if is_top or joined.properties:
            self._sent.narrowed[joined.place] = None
        elif joined.types is not None:
            sent["additionalProperties"] = True
