"""A schema as it is sent: its parts, what was changed in them, its size and cycles, and the way back for its values.

The parts are plain data. Notes about the objects in them say which properties were renamed, and which are required
and null where the original has none. This module must never read the original schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from holdfast.codecs.schemas.dialects import Dialect, DialectLimits
from holdfast.codecs.schemas.part_keywords import ANNOTATIONS
from holdfast.codecs.schemas.rewriting import RewriteNode

Part: TypeAlias = dict[str, Any]
SentPart: TypeAlias = Part | Literal[False]
"""A part to send; False if no value fits."""

_UNSAFE = re.compile(r"[^a-zA-Z0-9_.-]+")
_LONGEST_NAME: Final = 56
ALL_TYPES: Final = ("string", "number", "boolean", "null", "object", "array")

_KINDS: Final = {
    **dict.fromkeys(("anyOf", "oneOf", "allOf", "not", "if", "then", "else"), "same"),
    **dict.fromkeys(("items", "prefixItems", "contains", "unevaluatedItems"), "item"),
    **dict.fromkeys(("additionalProperties", "unevaluatedProperties"), "other"),
    "dependentSchemas": "same",
    "patternProperties": "other",
}
"""Keywords with parts in them, but for `properties`, and the kinds of their edges."""

_MAPS: Final = frozenset({"dependentSchemas", "patternProperties"})


class SchemaSize(Struct, frozen=True):
    """The size of a schema as providers count it; see `DialectLimits`.

    Args:
        levels: objects and arrays inside of each other.
        properties: properties of all objects.
        optional: properties that are not required.
        unions: parts with `anyOf` or with a list of types.
        enum_values: values of all enums, and constants.
        characters: characters of names and of values of enums.
        long_enums: characters of the values of each enum, with their number.
    """

    levels: int = 0
    properties: int = 0
    optional: int = 0
    unions: int = 0
    enum_values: int = 0
    characters: int = 0
    long_enums: tuple[tuple[int, int], ...] = ()


class SentObject(Struct, eq=False):
    """What was changed about the properties of an object.

    Args:
        names: the original name of each property that has another one.
        absent: the properties whose null means that they are absent.
        nullable: the properties that the original allows to be null.
    """

    names: dict[str, str] = {}
    absent: set[str] = set()
    nullable: set[str] = set()


class Edge(NamedTuple):
    """A part inside of a part.

    Args:
        kind: `same` for the same value, `property`, `item`, or `other` for properties without a name.
        key: the name of the property.
        part: the part inside.
    """

    kind: str
    key: str
    part: Part


class KeyNames:
    """The names under which properties are sent: the same for the same key in the whole schema.

    Args:
        keys: the names of all properties.
        pattern: the names that are taken; None for all.
        open_keys: the names beside which there may be free keys. They get names that are no likely keys: for `$type`, a
            model would write `type` and mean a free key.
    """

    def __init__(self, keys: Iterable[str], pattern: str | None, open_keys: set[str]) -> None:
        self._taken = set(keys)
        self._open_keys = open_keys
        self._pattern = None if pattern is None else re.compile(pattern)
        self._renamed: dict[str, str] = {}

    def rename(self, key: str) -> str:
        """Return the name under which a key is sent."""
        if self._pattern is None or self._pattern.fullmatch(key):
            return key
        if key not in self._renamed:
            plain = _UNSAFE.sub("_", key).strip("_.-")[:_LONGEST_NAME] or "key"
            is_free = plain not in self._taken and key not in self._open_keys
            self._renamed[key] = plain if is_free else self.make_name(plain)
            self._taken.add(self._renamed[key])
        return self._renamed[key]

    def rename_all(self, needed: dict[str, list[str]]) -> dict[str, list[str]]:
        """Return a value of `dependentRequired` as it is sent."""
        return {self.rename(key): [*map(self.rename, names)] for key, names in needed.items()}

    def find_renamed(self, keys: Iterable[str]) -> dict[str, str]:
        """Return the original keys of those that have another name, by that name."""
        return {name: key for key in keys if (name := self.rename(key)) != key}

    def make_name(self, key: str) -> str:
        """Return a name that no property has yet."""
        numbers = range(2, len(self._taken) + 3)
        name = next(name for at in numbers if (name := f"{key}_{at}") not in self._taken)
        self._taken.add(name)
        return name


class SentParts:
    """The parts that were written so far, and what was changed in them.

    Args:
        keys: the names under which properties are sent.
    """

    def __init__(self, keys: KeyNames) -> None:
        self.keys = keys
        self.definitions: dict[str, Part] = {}
        self.objects: dict[int, SentObject] = {}
        """The notes about objects, by the identities of their parts."""
        self.places: dict[int, str] = {}
        """The places in the original, by the identities of parts."""
        self.moved: dict[str, None] = {}
        self.unenforced: dict[str, None] = {}
        self.narrowed: dict[str, None] = {}
        self._kept: list[Part] = []

    def keep(self, sent: Part, place: str) -> Part:
        """Keep a part alive, so that its identity stays its own, and note its place."""
        self._kept.append(sent)
        self.places[id(sent)] = place
        return sent

    def copy(self, sent: Part, changes: Part) -> Part:
        """Return a part with other keywords; its object is changed in the same way."""
        copy = self.keep({**sent, **changes}, self.places.get(id(sent), ""))
        note = self.objects.get(id(sent))
        if note is not None:
            names, absent, nullable = dict(note.names), set(note.absent), set(note.nullable)
            self.objects[id(copy)] = SentObject(names, absent, nullable)
        return copy

    def take_over(self, inner: Part, sent: Part) -> None:
        """Write a part in the place of the one around it."""
        copy = self.copy(inner, {})
        sent.update(copy)
        if id(copy) in self.objects:
            self.objects[id(sent)] = self.objects.pop(id(copy))

    def move_to_definitions(self, name: str, sent: Part) -> None:
        """Make a definition of a part that was already written in place."""
        self.definitions[name] = self.copy(sent, {})
        self.objects.pop(id(sent), None)
        sent.clear()
        sent["$ref"] = f"#/$defs/{name}"

    def make_nullable(self, inner: Part, dialect: Dialect) -> Part:
        """Return a part that null fits, too."""
        types = inner.get("type")
        place = self.places.get(id(inner), "")
        is_plain = (
            types not in ("object", "array") and not {"enum", "const", "anyOf"} & inner.keys()
        )
        if isinstance(types, str) and is_plain and dialect.takes_type_lists:
            return self.keep({**inner, "type": [types, "null"]}, place)
        null: Part = {"type": "null"}
        most = dialect.most_branches
        branches = inner.get("anyOf")
        if branches and inner.keys() <= {"anyOf", *ANNOTATIONS} and (most is None or len(branches) < most):  # fmt: skip
            return self.keep({**inner, "anyOf": [*branches, null]}, place)
        return self.keep({"anyOf": [inner, null]}, place)


def free_reference(sent: Part, allowed: frozenset[str] | None) -> Part:
    """Return a part with its reference inside of it, if something stands beside that may not.

    Args:
        sent: the part.
        allowed: the keywords that may stand beside a reference; None if all may.
    """
    if "$ref" not in sent or allowed is None or sent.keys() - {"$ref"} <= allowed:
        return sent
    beside = {keyword: value for keyword, value in sent.items() if keyword != "$ref"}
    return {"anyOf": [{"$ref": sent["$ref"]}], **beside}


class SaidConstraints:
    """The constraints of one part that are said in its description.

    Args:
        sent: the parts that are sent, which note the places.
        write_words: returns a value for a description.
    """

    def __init__(self, sent: SentParts, write_words: Callable[[object], object]) -> None:
        self._sent = sent
        self._write_words = write_words
        self._notes: list[dict[str, object]] = []
        self._sentences: list[str] = []

    def add(self, keyword: str, value: object, place: str, *, is_constraint: bool = True) -> None:
        """Say a keyword."""
        note = next((one for one in self._notes if keyword not in one), None)
        if note is None:
            note = {}
            self._notes.append(note)
        note[keyword] = self._write_words(value)
        self.note_place(place, is_constraint=is_constraint)

    def add_sentence(self, sentence: str, place: str) -> None:
        """Say a constraint in words."""
        self._sentences.append(sentence)
        self.note_place(place)

    def note_place(self, place: str, *, is_constraint: bool = True) -> None:
        """Note the place of something that is said."""
        self._sent.moved[place] = None
        if is_constraint:
            self._sent.unenforced[place] = None

    def finish(self, sent: Part) -> None:
        """Write everything into the description of a part."""
        texts = [msgspec.json.encode(note).decode() for note in self._notes] + self._sentences
        if texts:
            described = sent.get("description")
            sent["description"] = "\n\n".join([described, *texts] if described else texts)


def drop_repeated(found: Iterable[SentPart]) -> list[Part]:
    """Return parts without those that no value fits, and without repeated ones.

    Objects that look the same may differ in the way back, and stay.
    """
    kept: dict[object, Part] = {}
    for one in found:
        if one is not False:
            text = msgspec.json.encode(one)
            kept.setdefault(id(one) if b'"properties"' in text else text, one)
    return list(kept.values())


def drop_type(sent: Part, name: str) -> None:
    """Leave out a type of which no value fits."""
    given = sent.get("type", ALL_TYPES)
    names = [one for one in ([given] if isinstance(given, str) else given) if one != name]
    sent["type"] = names[0] if len(names) == 1 else names


def join_texts(outer: Any, inner: Any, keyword: str) -> object:
    """Return an annotation of a part and of its only branch as one."""
    if keyword == "description" and isinstance(inner, str) and inner != outer:
        return f"{outer}\n\n{inner}"
    return outer


class SentGraph:
    """The parts of a schema that is sent.

    Args:
        root: the schema.
        objects: the notes about objects, by the identities of their parts.
    """

    def __init__(self, root: Part, objects: dict[int, SentObject]) -> None:
        self.root = root
        self._objects = objects
        self._definitions: dict[str, Part] = root.get("$defs", {})
        self.parts: list[Part] = []
        """All parts that values can be in, in the order in which they are found."""
        self._edges: dict[int, list[Edge]] = {}
        self._collect()

    def _collect(self) -> None:
        waiting = [self.root]
        while waiting:
            part = waiting.pop()
            if id(part) in self._edges:
                continue
            edges = list(self._find_edges(part))
            self.parts.append(part)
            self._edges[id(part)] = edges
            waiting.extend(edge.part for edge in reversed(edges))

    def _find_edges(self, part: Part) -> Iterator[Edge]:
        for keyword, value in part.items():
            if keyword == "$ref":
                target = self.root if value == "#" else self._definitions[value[8:]]
                yield Edge("same", "", target)
            elif keyword == "properties":
                for key, inner in value.items():
                    yield Edge("property", key, inner)
            elif keyword in _KINDS:
                found = value.values() if keyword in _MAPS else value
                for inner in found if keyword in _MAPS or isinstance(value, list) else [value]:
                    if isinstance(inner, dict):
                        yield Edge(_KINDS[keyword], "", inner)

    def measure(self) -> SchemaSize:
        """Return the size of the schema."""
        properties = optional = unions = values = characters = 0
        enums: list[tuple[int, int]] = []
        for part in self.parts:
            names = part.get("properties", {})
            properties += len(names)
            optional += len(names.keys() - set(part.get("required", ())))
            unions += "anyOf" in part or "oneOf" in part or isinstance(part.get("type"), list)
            literals = [*part.get("enum", ()), *([part["const"]] if "const" in part else ())]
            texts = sum(len(value) for value in literals if isinstance(value, str))
            values += len(literals)
            characters += texts + sum(map(len, names))
            if literals:
                enums.append((len(literals), texts))
        characters += sum(map(len, self._definitions))
        return SchemaSize(
            levels=self._count_levels(),
            properties=properties,
            optional=optional,
            unions=unions,
            enum_values=values,
            characters=characters,
            long_enums=tuple(enums),
        )

    def _count_levels(self) -> int:
        """Return how many objects and arrays are inside of each other; a part inside of itself counts once."""
        levels: dict[int, int] = {}
        opened: set[int] = set()
        waiting: list[tuple[Part, bool]] = [(self.root, False)]
        while waiting:
            part, is_done = waiting.pop()
            inner = [edge.part for edge in self._edges[id(part)]]
            if is_done:
                opened.discard(id(part))
                deepest = max((levels.get(id(one), 0) for one in inner), default=0)
                holds = "properties" in part or "items" in part or part.get("type") in ("object", "array")  # fmt: skip
                levels[id(part)] = deepest + holds
            elif id(part) not in levels and id(part) not in opened:
                opened.add(id(part))
                waiting.append((part, True))
                waiting.extend((one, False) for one in inner)
        return levels[id(self.root)]

    def find_cycle(self, *, passes_optional: bool) -> list[tuple[Part, Edge]]:
        """Return the steps of a cycle: parts, and the edges that leave them. [] if there is none.

        Args:
            passes_optional: also return a cycle that passes through a property that is not required.
        """
        done: set[int] = set()
        for start in self.parts:
            path: dict[int, Iterator[tuple[Part, Edge]]] = {}
            taken: list[tuple[Part, Edge]] = []
            if id(start) not in done:
                path[id(start)] = self._steps(start, passes_optional=passes_optional)
            while path:
                at = next(reversed(path))
                step = next(path[at], None)
                if step is None:
                    done.add(at)
                    del path[at]
                    if taken:
                        taken.pop()
                    continue
                inner = step[1].part
                if id(inner) in path:
                    begin = list(path).index(id(inner))
                    return [*taken[begin:], step]
                if id(inner) not in done:
                    path[id(inner)] = self._steps(inner, passes_optional=passes_optional)
                    taken.append(step)
        return []

    def _steps(self, part: Part, *, passes_optional: bool) -> Iterator[tuple[Part, Edge]]:
        required = part.get("required", ())
        for edge in self._edges[id(part)]:
            if passes_optional or edge.kind != "property" or edge.key in required:
                yield part, edge

    def make_rewriting(self, make_name: Callable[[str], str]) -> RewriteNode | None:
        """Return how values come back in the form of the original; None if they have it.

        A property that is renamed here is null in one object where another one at the same place allows null.

        Args:
            make_name: returns a name that no property has, for a name.
        """
        if not any(one.names or one.absent for one in self._objects.values()):
            return None
        places = _ValuePlaces(self.parts, self._edges)
        every = [
            [(part, self._objects[id(part)]) for part in members if id(part) in self._objects]
            for members in places.find_members()
        ]
        renamed = [_separate_names(members, make_name) for members in every]
        if any(renamed):
            # Renamed properties are other edges.
            self._edges.clear()
            self.parts.clear()
            self._collect()
            places = _ValuePlaces(self.parts, self._edges)
        return places.make_nodes(self.root, self._objects)


def _separate_names(
    members: list[tuple[Part, SentObject]], make_name: Callable[[str], str]
) -> bool:
    """Rename the properties whose null means absent in one object and null in another one; return whether any is."""
    nullable = {key for _, note in members for key in note.nullable}
    absent = {key for _, note in members for key in note.absent}
    for key in sorted(absent & nullable):
        name = make_name(key)
        for part, note in members:
            if key in note.absent:
                part["properties"] = {
                    name if one == key else one: inner for one, inner in part["properties"].items()
                }
                part["required"] = [name if one == key else one for one in part["required"]]
                note.absent = (note.absent - {key}) | {name}
                note.names[name] = note.names.pop(key, key)
            elif key in note.nullable:
                # This name is sent, too, and is no other way to write the renamed one.
                note.names.setdefault(key, key)
    return bool(absent & nullable)


class _ValuePlaces:
    """Parts that the same value may be in, as classes: a value is rewritten without knowing which part it fits."""

    def __init__(self, parts: list[Part], edges: dict[int, list[Edge]]) -> None:
        self._parts = parts
        self._edges = edges
        self._heads = {id(part): id(part) for part in parts}
        self._children: dict[int, dict[str, int]] = {}
        self._items: dict[int, int] = {}
        self._others: dict[int, int] = {}
        self._waiting: list[tuple[int, int]] = []
        self._add_edges()
        self._join_waiting()
        while self._join_others():
            self._join_waiting()

    def _find(self, at: int) -> int:
        """Return the head of the class of a part."""
        while self._heads[at] != at:
            self._heads[at] = at = self._heads[self._heads[at]]
        return at

    def _add_edges(self) -> None:
        for part in self._parts:
            at = id(part)
            children = self._children.setdefault(at, {})
            for edge in self._edges[at]:
                inner = id(edge.part)
                if edge.kind == "same":
                    self._waiting.append((at, inner))
                elif edge.kind == "property":
                    children[edge.key] = inner
                else:
                    known = self._items if edge.kind == "item" else self._others
                    self._waiting.append((known.setdefault(at, inner), inner))

    def _join_waiting(self) -> None:
        """Join pairs of parts, and the parts at the same places inside of them."""
        while self._waiting:
            one, other = map(self._find, self._waiting.pop())
            if one == other:
                continue
            if len(self._children[one]) < len(self._children[other]):
                one, other = other, one
            self._heads[other] = one
            children = self._children[one]
            for key, inner in self._children.pop(other).items():
                self._waiting.append((children.setdefault(key, inner), inner))
            for known in (self._items, self._others):
                if other in known:
                    inner = known.pop(other)
                    self._waiting.append((known.setdefault(one, inner), inner))

    def _join_others(self) -> bool:
        """Join named properties with those without a name, where one part names a property and another one does not."""
        for part in self._parts:
            at = self._find(id(part))
            edges = self._edges[id(part)]
            if not any(edge.kind == "other" for edge in edges):
                continue
            named = {edge.key for edge in edges if edge.kind == "property"}
            others = self._others[at]
            for key, inner in self._children[at].items():
                is_free = key not in named or "patternProperties" in part
                if is_free and self._find(inner) != self._find(others):
                    self._waiting.append((inner, others))
        return bool(self._waiting)

    def find_members(self) -> list[list[Part]]:
        """Return the parts of each class."""
        members: dict[int, list[Part]] = {}
        for part in self._parts:
            members.setdefault(self._find(id(part)), []).append(part)
        return list(members.values())

    def make_nodes(self, root: Part, objects: dict[int, SentObject]) -> RewriteNode | None:
        """Return the node of the root: nodes of all classes in which, or below which, something is rewritten."""
        nodes: dict[int, RewriteNode] = {}
        for part in self._parts:
            note = objects.get(id(part))
            if note is not None and (note.names or note.absent):
                node = nodes.setdefault(self._find(id(part)), RewriteNode())
                node.names.update(note.names)
                node.optional.update(note.absent)
        above: dict[int, set[int]] = {}
        for at, inner in self._links():
            above.setdefault(inner, set()).add(at)
        waiting = list(nodes)
        while waiting:
            for at in above.get(waiting.pop(), ()):
                if at not in nodes:
                    nodes[at] = RewriteNode()
                    waiting.append(at)
        for at, node in nodes.items():
            children = {key: nodes.get(self._find(one)) for key, one in self._children[at].items()}
            node.children.update((key, one) for key, one in children.items() if one is not None)
            node.items = nodes.get(self._find(self._items[at])) if at in self._items else None
            node.others = nodes.get(self._find(self._others[at])) if at in self._others else None
        return nodes.get(self._find(id(root)))

    def _links(self) -> Iterator[tuple[int, int]]:
        for at, children in self._children.items():
            for inner in children.values():
                yield at, self._find(inner)
        for known in (self._items, self._others):
            for at, inner in known.items():
                yield at, self._find(inner)


def find_excess(size: SchemaSize, limits: DialectLimits) -> str:
    """Return the limit of one schema that a size exceeds, in words; "" if it keeps all.

    >>> find_excess(SchemaSize(levels=12), DialectLimits(levels=10))
    'has 12 levels of objects and arrays, more than 10'
    """
    for number, limit, thing in (
        (size.levels, limits.levels, "levels of objects and arrays"),
        (size.properties, limits.properties, "properties"),
        (size.enum_values, limits.enum_values, "values in enums"),
        (size.characters, limits.characters, "characters in names and enums"),
    ):
        if limit is not None and number > limit:
            return f"has {number:,} {thing}, more than {limit:,}"
    long_enum, most = limits.long_enum, limits.long_enum_characters
    for count, characters in size.long_enums:
        if long_enum is not None and most is not None and count > long_enum and characters > most:
            return f"has an enum of {count:,} values with {characters:,} characters, more than {most:,}"
    return ""


def find_request_excess(sizes: Iterable[SchemaSize], limits: DialectLimits) -> str:
    """Return the limit of a request that several schemas exceed together, in words; "" if they keep all."""
    every = list(sizes)
    for number, limit, thing in (
        (len(every), limits.strict_schemas, "enforced schemas"),
        (sum(size.optional for size in every), limits.optional, "optional properties"),
        (sum(size.unions for size in every), limits.unions, "parts with anyOf or null"),
    ):
        if limit is not None and number > limit:
            return f"{number} {thing}, more than {limit} in a request"
    return ""
