"""Sentences about wrong values, for a model that must correct them: the wanted value, and the one that came.

The errors of pydantic are looked up by their types, and those of msgspec by their messages; the checks of JSON Schemas
have sentences of their own. Tools and outputs share these words. Each sentence names the constraint that is broken,
never one that is met. The work is bounded: so many errors are read, and so many described. This module must never
quote anything but the schema, the value, and the redacted message of a user's validator.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

from msgspec import Struct

from holdfast.core.error_words import (
    BROKEN_CONSTRAINTS,
    CHOICE_PROBLEM,
    CLOCK_ERRORS,
    CONSEQUENCES,
    FACTS,
    FIXED_PROBLEM,
    MISSING_NAMES,
    MSGSPEC_MESSAGES,
    MSGSPEC_NOUNS,
    MSGSPEC_SIGNS,
    MSGSPEC_TYPES,
    PREDICATES,
    UNKNOWN_NAMES,
    WRONG_TYPES,
)
from holdfast.core.problems import Problem
from holdfast.core.redaction import redact
from holdfast.core.value_wording import (
    Inside,
    Node,
    SchemaWords,
    count_things,
    list_names,
    quote_value,
    shorten_text,
    show_path,
)

RawError: TypeAlias = Mapping[str, object]
"""An error of pydantic: its `type`, `loc`, `msg`, `ctx` and perhaps its `input`."""

_MOST_ERRORS = 1000
_MOST_READINGS = 64
_MOST_STEPS = 5000
_LONGEST_TERM = 200
_LONGEST_REASON = 200

_LENGTH = re.compile(r"must have at (?:least|most) \d+ (?:character|item|key)s?$")
_DISCRIMINATOR = re.compile(r"'([^']+)'")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MUST = re.compile(r"(?:input|value) (?:should|must) (?P<rest>.+)", re.IGNORECASE)
_IS_NOT = re.compile(r"(?:input|value) is not (?P<rest>.+)", re.IGNORECASE)


class Checked(Struct, frozen=True):
    """A value that was checked and did not fit.

    Args:
        value: the value, as JSON data.
        schema: its JSON Schema.
        now: the time of the check in the local time zone, such as `2026-11-29T10:00:00+01:00`; "" if it is not known.
        whole: the name of the whole value.
    """

    value: object
    schema: Node
    now: str = ""
    whole: str = ""


class _Found(Struct, frozen=True):
    """One error: its path, the values on the way to it, the members of unions that are passed, and the error."""

    path: tuple[str | int | Inside, ...]
    values: tuple[object, ...]
    members: tuple[tuple[int, str], ...]
    error: RawError

    @property
    def kind(self) -> str:
        return str(self.error["type"])


def word_errors(
    errors: Sequence[RawError], checked: Checked, most: int
) -> tuple[tuple[Problem, ...], int]:
    """Describe the errors of pydantic about one value.

    Args:
        errors: the errors.
        checked: the value.
        most: how many problems are described.

    Returns:
        The problems, and the number of those that are not described.

    >>> errors = [{"type": "less_than_equal", "loc": ("days",), "msg": "", "ctx": {"le": 14}, "input": 99}]
    >>> [str(problem) for problem in word_errors(errors, Checked({"days": 99}, {}), 10)[0]]
    ['days: must be at most 14; got 99']
    """
    reader = _LocationReader(checked.value)
    found = [reader.locate(error) for error in errors[:_MOST_ERRORS]]
    if causes := [one for one in found if one.kind not in CONSEQUENCES]:
        found = causes
    groups: dict[tuple[str | int | Inside, ...], list[_Found]] = {}
    for one in _choose_likeliest(found, 0):
        groups.setdefault(_place_of(one), []).append(one)
    words = SchemaWords(checked.schema)
    problems = tuple(_word_group(group, checked, words) for group in islice(groups.values(), most))
    return problems, len(groups) - len(problems) + len(errors) - len(errors[:_MOST_ERRORS])


class _LocationReader:
    """Separates the names in pydantic's locations from the members of unions, which are not in the JSON.

    A name may be both. So of all readings of a location the first one is taken that leads to the value of the error.

    Args:
        value: the value that was checked.
    """

    def __init__(self, value: object) -> None:
        self._value = value
        self._texts: dict[str, object] = {}
        self._left = 0

    def locate(self, error: RawError) -> _Found:
        """Return an error with its path."""
        location: tuple[str | int, ...] = tuple(error["loc"])  # type: ignore[arg-type]  # REASON: pydantic's form
        start = _Found((), (self._value,), (), error)
        first: _Found | None = None
        self._left = _MOST_STEPS
        for reading in islice(self._read(location, start), _MOST_READINGS):
            first = first or reading
            if "input" not in error or _resembles(reading.values[-1], error["input"]):
                return reading
        return first or start

    def _read(self, location: tuple[str | int, ...], at: _Found) -> Iterator[_Found]:
        self._left -= 1
        value = at.values[-1]
        if not location:
            yield at
            yield from self._read_text(location, at)
        if not location or self._left < 0:
            return
        step, rest = location[0], location[1:]
        if _has_step(value, step):
            yield from self._read(rest, _go_to(at, step, value[step]))  # type: ignore[index]  # REASON: it has the step
        yield from self._read_text(location, at)
        if step == "[key]" and not rest and at.path:
            yield _go_to(at, Inside.KEY, at.path[-1])
        elif not rest and (at.kind in MISSING_NAMES or at.kind in UNKNOWN_NAMES):
            yield _Found((*at.path, step), at.values, at.members, at.error)
        elif isinstance(step, str):
            members = (*at.members, (len(at.path), step))
            yield from self._read(rest, _Found(at.path, at.values, members, at.error))

    def _read_text(self, location: tuple[str | int, ...], at: _Found) -> Iterator[_Found]:
        """Read the rest of a location in the JSON text of a string."""
        text = at.values[-1]
        if not isinstance(text, str) or Inside.TEXT in at.path[-1:]:
            return
        if text not in self._texts:
            try:
                self._texts[text] = json.loads(text)
            except (ValueError, RecursionError):
                self._texts[text] = text
        if self._texts[text] != text:
            yield from self._read(location, _go_to(at, Inside.TEXT, self._texts[text]))


def _go_to(at: _Found, step: str | int | Inside, value: object) -> _Found:
    return _Found((*at.path, step), (*at.values, value), at.members, at.error)


def _has_step(value: object, step: str | int) -> bool:
    if isinstance(step, str):
        return isinstance(value, dict) and step in value
    return isinstance(value, list) and step < len(value)


def _resembles(value: object, given: object) -> bool:
    """Whether two values are probably the same; large ones are not compared as a whole."""
    if isinstance(value, dict | list):
        return isinstance(given, type(value)) and len(value) == len(given)
    return value == given


def _choose_likeliest(problems: list[_Found], level: int) -> list[_Found]:
    """Choose for each union the problems of the member that the model probably meant.

    It is the member that matches deepest, with the fewest fixed values that are not there, and then the fewest
    problems. If no member matches below the union, the problems of all members are at the same place.
    """
    likeliest = [problem for problem in problems if len(problem.members) <= level]
    unions: dict[tuple[str | int | Inside, ...], dict[str, list[_Found]]] = {}
    for problem in problems:
        if len(problem.members) > level:
            depth, member = problem.members[level]
            at = unions.setdefault(problem.path[:depth], {})
            at.setdefault(member, []).append(problem)
    for path, members in unions.items():
        deeper = [
            group for group in members.values() if all(len(one.path) > len(path) for one in group)
        ]

        def count_misses(group: list[_Found], depth: int = len(path) + 1) -> tuple[int, int]:
            misses = sum(one.kind == "literal_error" and len(one.path) == depth for one in group)
            return misses, len(group)

        groups = [min(deeper, key=count_misses)] if deeper else list(members.values())
        for group in groups:
            likeliest += _choose_likeliest(group, level + 1)
    return likeliest


def _place_of(found: _Found) -> tuple[str | int | Inside, ...]:
    """Return the place of an error: the name that selects a member of a union is a place inside of it."""
    name = _discriminator(found)
    return (*found.path, name) if name else found.path


def _discriminator(found: _Found) -> str:
    """Return the name of the field that selects the member of a union; "" if a function selects it."""
    if found.kind not in ("union_tag_invalid", "union_tag_not_found"):
        return ""
    name = _DISCRIMINATOR.match(_term(found, "discriminator"))
    return name[1] if name is not None and isinstance(found.values[-1], dict) else ""


def _term(found: _Found, name: str) -> str:
    """Return an entry of the context of an error as text; "" if there is none."""
    context = found.error.get("ctx")
    entry = context.get(name) if isinstance(context, Mapping) else None
    if isinstance(entry, float) and entry.is_integer():
        return f"{entry:.0f}"
    try:
        return "" if entry is None else str(entry)
    except ValueError:
        return "a number with too many digits"


def _word_group(group: Sequence[_Found], checked: Checked, words: SchemaWords) -> Problem:
    """Describe the errors at one place, several if a union has several members, as one problem."""
    first = group[0]
    place = show_path(_place_of(first)) or checked.whole
    for found in group:
        if found.kind in MISSING_NAMES or (
            found.kind == "union_tag_not_found" and _discriminator(found)
        ):
            return Problem(place, _word_missing(found, words))
        if found.kind in UNKNOWN_NAMES:
            return Problem(place, _word_unknown_name(found, words))
    statements: dict[str, None] = {}
    wanted: dict[str, None] = {}
    if all(map(_is_about_type, group)):
        described, is_met = words.describe_unmet(first.path, first.values)
        if described and not (first.kind == CHOICE_PROBLEM and is_met):
            # An alternative of a choice that seems to fit does not fit inside.
            wanted[f"be {described}"] = None
    if not wanted:
        for found in group:
            statement, verb_phrase = _word_broken(found, words)
            statements.update({statement: None} if statement else {})
            wanted.update({verb_phrase: None} if verb_phrase else {})
        names_null = first.values[-1] is None or any("null" in phrase for phrase in wanted)
        if wanted and not names_null and words.allows_null(first.path, first.values):
            wanted["be null"] = None
    got, note = _quote(first), next(filter(None, (_note(one, checked.now) for one in group)), "")
    return Problem(place, _join_phrases(list(statements), list(wanted)), got, note)


def _is_about_type(found: _Found) -> bool:
    return found.kind in WRONG_TYPES or found.kind == CHOICE_PROBLEM


def _join_phrases(statements: list[str], wanted: list[str]) -> str:
    """Join statements, and phrases that complete "must ", to one text."""
    if all(phrase.startswith("be ") for phrase in wanted):
        wanted = (
            [wanted[0], *(phrase.removeprefix("be ") for phrase in wanted[1:])] if wanted else []
        )
    between = ", or " if any("," in phrase for phrase in wanted) else " or "
    texts = [*statements, *([f"must {between.join(wanted)}"] if wanted else [])]
    return "; or ".join(texts)


def _word_missing(found: _Found, words: SchemaWords) -> str:
    statement = _term(found, "problem") or "is required"
    described = words.describe_wanted(_place_of(found), found.values)
    return f"{statement} ({described})" if described else statement


def _word_unknown_name(found: _Found, words: SchemaWords) -> str:
    names = words.known_names(found.path[:-1], found.values)
    if not names:
        return "is not a known name" if names is None else "is not a known name; there are none"
    return f"is not a known name; the names are: {list_names(names)}"


class _Term(Struct, frozen=True):
    """A term of a constraint, which a template shows as it is or counts."""

    text: str

    def __format__(self, noun: str) -> str:
        if not noun:
            return self.text
        return count_things(int(self.text) if self.text.isdigit() else self.text, noun)


def _word_broken(found: _Found, words: SchemaWords) -> tuple[str, str]:
    """Return a statement about the value, or a phrase that completes "must "; the other one is ""."""
    kind = found.kind
    if kind in (FIXED_PROBLEM, CHOICE_PROBLEM):
        problem = _term(found, "problem")
        phrase = problem.removeprefix("must ")
        return ("", phrase) if phrase != problem else (problem, "")
    if kind in FACTS:
        return FACTS[kind], ""
    if kind == "union_tag_invalid":
        return "", _word_tag(found)
    if kind == "union_tag_not_found":
        return "", "be an object of one of the kinds in the schema"
    if kind in ("predicate_failed", "not_operation_failed"):
        return _word_predicate(found)
    template = BROKEN_CONSTRAINTS.get(kind) or (
        f"be {WRONG_TYPES[kind]}" if kind in WRONG_TYPES else ""
    )
    if " or " not in _term(found, "expected"):
        template = template.replace("one of {expected}", "{expected}")
    if template:
        template = template.replace(":item", f":{_noun_of(found.values[-1])}")
        try:
            return "", template.format_map(_terms(found))
        except (KeyError, ValueError):
            pass  # another version of pydantic may have other terms
    return _word_message(found, words)


def _terms(found: _Found) -> dict[str, _Term]:
    context = found.error.get("ctx")
    given = context if isinstance(context, Mapping) else {}
    terms = {str(name): _term(found, str(name)) for name in given}
    for name in ("tz_expected", "tz_actual"):
        if name in terms:
            terms[name] = _show_offset(terms[name])
    if "expected_schemes" in terms:
        terms["expected_schemes"] = re.sub(r"'([^']*)'", r"\1://", terms["expected_schemes"])
    if "expected" in terms:
        terms["expected"] = _quote_doubly(terms["expected"])
    return {name: _Term(shorten_text(redact(text), _LONGEST_TERM)) for name, text in terms.items()}


def _show_offset(seconds: str) -> str:
    """Return the offset of a time zone.

    >>> _show_offset("-5400")
    '-01:30'
    """
    if not seconds.removeprefix("-").isdigit():
        return seconds
    minutes = int(seconds) // 60
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def _quote_doubly(text: str) -> str:
    return re.sub(r"'([^'\"]*)'", r'"\1"', text)


def _word_tag(found: _Found) -> str:
    tags = shorten_text(_quote_doubly(_term(found, "expected_tags")), 10 * _LONGEST_TERM)
    kinds = tags if _discriminator(found) else f"the kinds {tags}"
    return f"be one of {kinds}" if ", " in tags or not _discriminator(found) else f"be {tags}"


def _word_predicate(found: _Found) -> tuple[str, str]:
    """Return the words for a predicate in the metadata of a type, by the name in its message."""
    name = _DISCRIMINATOR.search(str(found.error["msg"]))
    known = PREDICATES.get(name[1]) if name is not None else None
    if known and found.kind == "predicate_failed":
        return "", known
    return "does not pass a check that has no description", ""


def _word_message(found: _Found, words: SchemaWords) -> tuple[str, str]:
    """Return the words of the message of a validator, or of a type of error that is not known here."""
    message = str(found.error["msg"])
    message = message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    reason = shorten_text(" ".join(redact(message).split()), _LONGEST_REASON)
    if known := _MUST.fullmatch(reason):
        return "", known["rest"]
    if known := _IS_NOT.fullmatch(reason):
        return "", f"be {known['rest']}"
    if reason:
        return reason, ""
    described, _ = words.describe_unmet(found.path, found.values)
    return "", f"be {described}" if described else "be another value"


def _quote(found: _Found) -> str:
    """Quote the value of an error."""
    value: object = found.values[-1]
    if name := _discriminator(found):
        value = value.get(name) if isinstance(value, dict) else value
    if found.kind in CLOCK_ERRORS and isinstance(value, str) and len(value) < 40:
        return redact(value)
    return redact(quote_value(value))


def _note(found: _Found, now: str) -> str:
    """Return a fact that shows why the value does not fit; "" if the value shows it itself."""
    value, kind = found.values[-1], found.kind
    if kind in CLOCK_ERRORS:
        return _note_today(value, kind, now)
    if kind in ("string_too_short", "string_too_long", "url_too_long") and isinstance(value, str):
        return count_things(len(value), "character")
    if kind in ("bytes_too_short", "bytes_too_long") and isinstance(value, str):
        return count_things(len(value.encode("utf-8", "surrogatepass")), "byte")
    is_length = kind == FIXED_PROBLEM and _LENGTH.match(_term(found, "problem"))
    if is_length or kind in ("too_short", "too_long"):
        return _note_length(found)
    if kind == "uuid_version" and isinstance(value, str):
        digits = value.replace("-", "")
        return f"version {digits[12]}" if len(digits) == 32 else ""
    if kind == "union_tag_invalid" and not _discriminator(found):
        return f"of the kind {shorten_text(_term(found, 'tag'), _LONGEST_TERM)}"
    if kind == "timezone_offset":
        return f"time zone {_show_offset(_term(found, 'tz_actual'))}"
    if kind in BROKEN_CONSTRAINTS or kind in WRONG_TYPES:
        # Only errors about dates, times, URLs and the like have a detail.
        detail = _term(found, "error") or _term(found, "encoding_error")
        return shorten_text(redact(detail), _LONGEST_REASON)
    return ""


def _note_today(value: object, kind: str, now: str) -> str:
    """Return the time of the check, unless the value is on the right side of it by that clock."""
    if not now:
        return ""
    today, written = now[:10], str(value)[:10]
    if _DATE.fullmatch(written) and (
        written > today if kind.endswith("future") else written < today
    ):
        return ""
    return f"today is {today}" if kind.startswith("date_") else f"now is {now}"


def _noun_of(value: object) -> str:
    """Return the noun for a part of a value that is counted."""
    if isinstance(value, dict):
        return "key"
    return "character" if isinstance(value, str) else "item"


def _note_length(found: _Found) -> str:
    value, actual = found.values[-1], _term(found, "actual_length")
    noun = _noun_of(value)
    if actual.isdigit():
        different = "different " if _term(found, "field_type") in ("Set", "Frozenset") else ""
        return count_things(int(actual), f"{different}{noun}")
    return count_things(len(value), noun) if isinstance(value, dict | list | str) else ""


_MSGSPEC_PLACE = re.compile(r" - at (?P<key>`key` in )?`\$(?P<place>.*)`")
_MSGSPEC_STEP = re.compile(r"\.?(?P<name>[^.\[\]]+)|\[(?P<index>\d+)\]|(?P<unknown>\[\.\.\.\])")


def word_msgspec_error(message: str, value: object) -> Problem:
    """Describe an error of msgspec about a value.

    Args:
        message: the text of the error.
        value: the value that was checked, as JSON data.

    >>> print(word_msgspec_error("Expected `str` of length >= 1 - at `$.names[0]`", {"names": [""]}))
    names[0]: must have at least 1 character; got ""
    """
    located = _MSGSPEC_PLACE.search(message)
    place = located["place"] if located is not None else ""
    text = message[: located.start()] if located is not None else message
    steps, got = _follow_msgspec(place, value)
    if located is not None and located["key"]:
        steps, got = f"a key of {steps}" if steps else "a key", ""  # msgspec does not name it
    matches = ((pattern.fullmatch(text), words) for pattern, words in MSGSPEC_MESSAGES)
    found, words = next((pair for pair in matches if pair[0] is not None), (None, ""))
    if found is None:
        return Problem(steps, shorten_text(redact(text), _LONGEST_REASON), got)
    terms = found.groupdict(default="")
    if name := terms.get("name"):
        return Problem(f"{steps}.{name}".removeprefix("."), words)
    if kinds := terms.get("type"):
        terms["type"] = " or ".join(MSGSPEC_TYPES.get(kind, kind) for kind in kinds.split(" | "))
    if noun := terms.get("noun"):
        terms["count"] = count_things(int(terms["count"]), MSGSPEC_NOUNS.get(noun, "item"))
    sign = terms.get("sign", "")
    terms["sign"] = MSGSPEC_SIGNS.get(sign, sign)
    return Problem(steps, shorten_text(words.format_map(terms), _LONGEST_REASON), got)


def _follow_msgspec(place: str, value: object) -> tuple[str, str]:
    """Return a place of msgspec in our form, and the quoted value there; "" if a key on the way is not named."""
    path: list[str | int] = []
    for step in _MSGSPEC_STEP.finditer(place):
        name: str | int = int(step["index"]) if step["index"] else step["name"] or ""
        if not _has_step(value, name):
            return place.removeprefix("."), ""
        path.append(name)
        value = value[name]  # type: ignore[index]  # REASON: it has the step
    return show_path(path), redact(quote_value(value))
