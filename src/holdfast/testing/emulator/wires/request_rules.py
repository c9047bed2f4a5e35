"""Judges the fields of a request by a table, and words a refusal as its provider does.

A rule says the types, the range and the known fields of a value; a table of rules is data. This module
must never refuse a field that a table does not describe, and must never change a request.

Sources of the words: the bodies of errors in recorded traffic, and those that users published in issues.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from holdfast.testing.emulator.emulated_request import MalformedRequest

JsonKind: TypeAlias = Literal["string", "boolean", "integer", "number", "array", "object"]
FaultKind: TypeAlias = Literal[
    "unknown",
    "missing",
    "type",
    "below",
    "above",
    "choice",
    "short",
    "long",
    "pattern",
    "tag",
    "order",
]


class Tag(str):
    """The tag of a variant, as a step of a place: Anthropic names it in the paths of its errors."""

    __slots__ = ()


FieldPlace: TypeAlias = tuple[str | int, ...]
"""The steps from the request to a value: names of fields, positions in lists, tags of variants."""


class FieldRule(Struct, frozen=True, kw_only=True):
    """The values that a provider takes in one field.

    Args:
        kinds: the JSON types; empty for any. Null is taken as an absent field, and not as an item of a list.
        least: the smallest number.
        most: the largest number.
        choices: the only texts; those in capitals are taken in any case, as by Google.
        shortest: the fewest characters, items or entries.
        longest: the most characters, items or entries.
        pattern: matches the whole text.
        fields: the known fields of an object; None if any are taken.
        others: whether an object may have other fields, too.
        required: the fields that an object must have.
        items: the rule for each item of a list.
        entries: the rule for the value of each field of an object with any names.
        variants: the rules for an object by the value of its field `tag`.
        tag: the name of that field.
        default: the tag of an object without that field; "" if it is required.
        closed: whether an object with another tag is refused.
        alternates: whether messages of the user and of the assistant must alternate in a list.
        shown: whether the places of faults name the tag.
        name: the type's name in Google's errors, or Anthropic's words for a value of another type.
    """

    kinds: tuple[JsonKind, ...] = ()
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    shortest: int = 0
    longest: int | None = None
    pattern: str = ""
    fields: Mapping[str, FieldRule] | None = None
    others: bool = False
    required: tuple[str, ...] = ()
    items: FieldRule | None = None
    entries: FieldRule | None = None
    variants: Mapping[str, FieldRule] = {}
    tag: str = "type"
    default: str = ""
    closed: bool = False
    alternates: bool = False
    shown: bool = True
    name: str = ""


class FieldFault(Struct, frozen=True):
    """The first value of a request that breaks its rule.

    Args:
        kind: what is wrong.
        place: where.
        rule: the broken rule.
        value: the value that was sent.
    """

    kind: FaultKind
    place: FieldPlace
    rule: FieldRule
    value: object = None


Rename: TypeAlias = Callable[[str], str]
RefusalWording: TypeAlias = Callable[[FieldFault], MalformedRequest]
"""Words the refusal of a field as a provider does."""

ANY = FieldRule()
REFUSED = FieldRule(choices=("",))
"""The rule for a field that is refused as an unknown one, whatever its value is."""

TEXT = FieldRule(kinds=("string",))
FLAG = FieldRule(kinds=("boolean",))
OBJECT = FieldRule(kinds=("object",))


def whole(least: float | None = None, most: float | None = None) -> FieldRule:
    """Return the rule for a whole number."""
    return FieldRule(kinds=("integer",), least=least, most=most)


def number(least: float | None = None, most: float | None = None) -> FieldRule:
    """Return the rule for a number."""
    return FieldRule(kinds=("number",), least=least, most=most)


def choice(words: str) -> FieldRule:
    """Return the rule for one of several words, which spaces separate."""
    return FieldRule(kinds=("string",), choices=tuple(words.split()))


def list_of(items: FieldRule, *, shortest: int = 0, longest: int | None = None) -> FieldRule:
    """Return the rule for a list."""
    return FieldRule(kinds=("array",), items=items, shortest=shortest, longest=longest)


def object_of(
    fields: Mapping[str, FieldRule] | Iterable[str], *required: str, others: bool = False
) -> FieldRule:
    """Return the rule for an object whose fields are known, each with its rule or with any value.

    Args:
        fields: the rules by name, or the names.
        required: the fields that it must have.
        others: whether it may have other fields, too.

    >>> sorted(object_of(("type", "text"), "type").fields)
    ['text', 'type']
    """
    rules = fields if isinstance(fields, Mapping) else dict.fromkeys(fields, ANY)
    return FieldRule(kinds=("object",), fields=rules, required=required, others=others)


def by_tag(
    variants: Mapping[str, FieldRule], tag: str = "type", *, closed: bool = True, default: str = ""
) -> FieldRule:
    """Return the rule for an object whose fields depend on one of them.

    Args:
        variants: the rule for each value of that field.
        tag: the name of that field.
        closed: whether other values are refused.
        default: its value if it is absent; "" if it is required.
    """
    kinds: tuple[JsonKind, ...] = ("object",)
    return FieldRule(kinds=kinds, variants=variants, tag=tag, closed=closed, default=default)


def find_fault(
    value: object, rule: FieldRule, place: FieldPlace = (), rename: Rename = str
) -> FieldFault | None:
    """Return the first fault of a value, in the order of its fields, or None.

    Args:
        value: the decoded JSON.
        rule: its rule.
        place: the steps to the value.
        rename: returns the name of a field in the table for its name in the request.

    >>> find_fault({"top_p": 3}, object_of({"top_p": number(0, 1)})).place
    ('top_p',)
    """
    if value is None:
        return None
    if rule.kinds and not _is_of_kind(value, rule.kinds):
        return FieldFault("type", place, rule, value)
    if kind := _find_wrong_value(value, rule):
        return FieldFault(kind, place, rule, value)
    if isinstance(value, list) and rule.items is not None:
        for at, one in enumerate(value):
            here = (*place, at)
            if one is None and rule.items.kinds:
                return FieldFault("type", here, rule.items)
            if (fault := find_fault(one, rule.items, here, rename)) is not None:
                return fault
        repeated = _find_repeated_role(value) if rule.alternates else None
        return None if repeated is None else FieldFault("order", (*place, repeated), rule)
    if isinstance(value, dict):
        return _find_object_fault(value, rule, place, rename)
    return None


def _find_repeated_role(messages: list[Any]) -> int | None:
    """Return the position of the first message of the user that follows no message of the assistant."""
    last = ""
    for at, message in enumerate(messages):
        role = message.get("role")
        if role == "user" and last in ("user", "tool"):
            return at
        last = role
    return None


def _find_object_fault(
    value: Mapping[str, Any], rule: FieldRule, place: FieldPlace, rename: Rename
) -> FieldFault | None:
    if rule.variants:
        tag = rule.default if value.get(rule.tag) is None else value[rule.tag]
        if not tag:
            return FieldFault("missing", (*place, rule.tag), rule)
        variant = rule.variants.get(tag) if isinstance(tag, str) else None
        if variant is None:
            return FieldFault("tag", place, rule, tag) if rule.closed else None
        step = (*place, Tag(tag)) if rule.shown else place
        return find_fault(value, variant, step, rename)
    names = {rename(name) for name in value if value[name] is not None}
    for name in rule.required:
        if name not in names:
            return FieldFault("missing", (*place, name), rule)
    for name, inner in value.items():
        inner_rule = rule.entries if rule.fields is None else rule.fields.get(rename(name))
        is_unknown = inner_rule is None and rule.fields is not None and not rule.others
        if is_unknown or inner_rule is REFUSED:
            return FieldFault("unknown", (*place, name), rule, inner)
        if inner_rule is not None:
            fault = find_fault(inner, inner_rule, (*place, name), rename)
            if fault is not None:
                return fault
    return None


def _is_of_kind(value: object, kinds: tuple[JsonKind, ...]) -> bool:
    kind = kind_of(value)
    return kind in kinds or (
        (kind == "integer" and "number" in kinds)
        or (isinstance(value, float) and value.is_integer() and "integer" in kinds)
    )


def kind_of(value: object) -> str:
    """Return the name of the JSON type of a decoded value.

    >>> kind_of(True), kind_of(1), kind_of(None)
    ('boolean', 'integer', 'null')
    """
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _find_wrong_value(value: object, rule: FieldRule) -> FaultKind | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if rule.least is not None and value < rule.least:
            return "below"
        if rule.most is not None and value > rule.most:
            return "above"
    # The lengths of a rule for a text or a list are those of the list.
    is_measured = not isinstance(value, str) or "array" not in rule.kinds
    if isinstance(value, str | list | dict) and is_measured:
        if len(value) < rule.shortest:
            return "short"
        if rule.longest is not None and len(value) > rule.longest:
            return "long"
    if isinstance(value, str):
        if rule.choices and value not in rule.choices and value.upper() not in rule.choices:
            return "choice"
        if rule.pattern and not re.fullmatch(rule.pattern, value):
            return "pattern"
    return None


# OpenAI. Source: recorded errors, such as "Invalid type for 'metadata.modified': expected a string, but got a
# boolean instead." (invalid_type) and "Invalid 'temperature': decimal above maximum value. Expected a value
# <= 2, but got 99.0 instead." (decimal_above_max_value).

_OPENAI_KINDS = {
    "string": "a string",
    "boolean": "a boolean",
    "integer": "an integer",
    "number": "a decimal",
    "array": "an array",
    "object": "an object",
    "null": "null",
}


def word_openai(fault: FieldFault) -> MalformedRequest:
    """Return the refusal of a fault in the words of OpenAI's server.

    >>> str(word_openai(find_fault({"top_k": 1}, object_of(("model",)))))
    "Unknown parameter: 'top_k'."
    """
    path = format_brackets(fault.place)
    text, code = _openai_text(fault, path)
    if fault.kind == "tag":
        path = f"{path}.{fault.rule.tag}"
    return MalformedRequest(text, param=path, code=code)


def format_brackets(place: FieldPlace) -> str:
    """Return a place as OpenAI and Google write it.

    >>> format_brackets(("tools", 0, Tag("function"), "function", "name"))
    'tools[0].function.name'
    """
    path = ""
    for step in place:
        if isinstance(step, int):
            path += f"[{step}]"
        elif not isinstance(step, Tag):
            path += f".{step}" if path else step
    return path


def _openai_text(fault: FieldFault, path: str) -> tuple[str, str]:
    rule, value = fault.rule, fault.value
    noun = "integer" if rule.kinds == ("integer",) else "decimal"
    match fault.kind:
        case "unknown":
            return f"Unknown parameter: '{path}'.", "unknown_parameter"
        case "missing":
            return f"Missing required parameter: '{path}'.", "missing_required_parameter"
        case "type":
            text = f"expected {_openai_kinds(rule)}, but got {_OPENAI_KINDS[kind_of(value)]}"
            return f"Invalid type for '{path}': {text} instead.", "invalid_type"
        case "below":
            text = f"{noun} below minimum value. Expected a value >= {_plain(rule.least)}"
            return f"Invalid '{path}': {text}, but got {value} instead.", f"{noun}_below_min_value"
        case "above":
            text = f"{noun} above maximum value. Expected a value <= {_plain(rule.most)}"
            return f"Invalid '{path}': {text}, but got {value} instead.", f"{noun}_above_max_value"
        case "choice" | "tag":
            names = _quote_all(rule.choices or rule.variants, "and", comma=",")
            return f"Invalid value: '{value}'. Supported values are: {names}.", "invalid_value"
        case "pattern":
            text = "string does not match pattern. Expected a string that matches the pattern"
            return f"Invalid '{path}': {text} '^{rule.pattern}$'.", "invalid_value"
        case "short" | "long":
            return _openai_length(fault, path)
        case "order":
            text = "Conversation roles must alternate user/assistant/user/assistant/..."
            return f"Invalid '{path}': {text}", "invalid_value"


def _openai_length(fault: FieldFault, path: str) -> tuple[str, str]:
    rule, value = fault.rule, fault.value
    size = len(value) if isinstance(value, str | list | dict) else 0
    if isinstance(value, dict):
        text = f"Expected an object with at most {rule.longest} properties"
        text = f"too many properties. {text}, but got an object with {size} properties instead."
        return f"Invalid '{path}': {text}", "object_above_max_properties"
    noun, article = ("array", "an") if isinstance(value, list) else ("string", "a")
    if fault.kind == "long":
        text = f"Expected {article} {noun} with maximum length {rule.longest}"
        text = f"{noun} too long. {text}, but got {article} {noun} with length {size} instead."
        return f"Invalid '{path}': {text}", f"{noun}_above_max_length"
    text = f"Expected {article} {noun} with minimum length {rule.shortest}"
    text = f"empty {noun}. {text}, but got an empty {noun} instead."
    return f"Invalid '{path}': {text}", f"empty_{noun}"


def _openai_kinds(rule: FieldRule) -> str:
    """Return the wanted types, as in "one of a string or array of objects"."""
    words = [_OPENAI_KINDS[kind] for kind in rule.kinds]
    if "array" in rule.kinds and rule.items is not None and rule.items.kinds:
        items = "integer" if rule.items.kinds[0] == "integer" else rule.items.kinds[0]
        words = [f"{word} of {items}s" if word == "an array" else word for word in words]
    if len(words) == 1:
        return words[0]
    rest = " or ".join(word.partition(" ")[2] for word in words[1:])
    return f"one of {words[0]} or {rest}"


def _quote_all(words: Iterable[str], last: str, *, comma: str = "") -> str:
    """Return quoted words as an English list.

    >>> _quote_all(["a", "b", "c"], "or")
    "'a', 'b' or 'c'"
    """
    quoted = [f"'{word}'" for word in words]
    if len(quoted) < 2:
        return "".join(quoted)
    return f"{', '.join(quoted[:-1])}{comma} {last} {quoted[-1]}"


def _plain(value: float | None) -> str:
    return f"{value:g}" if value is not None else ""


# Anthropic. Source: issues, such as "response_format: Extra inputs are not permitted" (amrit110/oli#7) and
# "temperature: range: 0..1"; the other words are pydantic's, by which the server checks.

_PYDANTIC_KINDS = {
    "string": "a valid string",
    "boolean": "a valid boolean",
    "integer": "a valid integer",
    "number": "a valid number",
    "array": "a valid list",
    "object": "a valid dictionary",
}


def word_anthropic(fault: FieldFault) -> MalformedRequest:
    """Return the refusal of a fault in the words of Anthropic's server.

    >>> str(word_anthropic(find_fault({"a": {"b": 1}}, object_of({"a": object_of(("c",))}))))
    'a.b: Extra inputs are not permitted'
    """
    path = ".".join(map(str, fault.place))
    return MalformedRequest(f"{path}: {_pydantic_text(fault)}")


def _pydantic_text(fault: FieldFault) -> str:
    rule, value = fault.rule, fault.value
    match fault.kind:
        case "unknown":
            return "Extra inputs are not permitted"
        case "order":
            return 'roles must alternate between "user" and "assistant"'
        case "missing":
            return "Field required"
        case "type":
            return rule.name or f"Input should be {_PYDANTIC_KINDS[rule.kinds[0]]}"
        case "below" | "above":
            return _pydantic_bound(fault)
        case "choice":
            return f"Input should be {_quote_all(rule.choices, 'or')}"
        case "pattern":
            return f"String should match pattern '^{rule.pattern}$'"
        case "tag":
            tags = ", ".join(f"'{tag}'" for tag in rule.variants)
            text = f"Input tag '{value}' found using '{rule.tag}' does not match any of the"
            return f"{text} expected tags: {tags}"
        case "short" | "long":
            return _pydantic_length(fault)


def _pydantic_bound(fault: FieldFault) -> str:
    rule = fault.rule
    if rule.least is not None and rule.most is not None:
        return f"range: {_plain(rule.least)}..{_plain(rule.most)}"
    if fault.kind == "below":
        return f"Input should be greater than or equal to {_plain(rule.least)}"
    return f"Input should be less than or equal to {_plain(rule.most)}"


def _pydantic_length(fault: FieldFault) -> str:
    bound = "at least" if fault.kind == "short" else "at most"
    size = fault.rule.shortest if fault.kind == "short" else fault.rule.longest
    ending = "" if size == 1 else "s"
    if isinstance(fault.value, str):
        return f"String should have {bound} {size} character{ending}"
    given = len(fault.value) if isinstance(fault.value, list | dict) else 0
    return f"List should have {bound} {size} item{ending} after validation, not {given}"


# Google. Source: issues, such as "Invalid value at 'generation_config.seed' (TYPE_INT32), 3812238859" and "Unknown
# name "inlineData" at 'contents[0]': Cannot find field."

_PROTO_KINDS = {
    "string": "TYPE_STRING",
    "boolean": "TYPE_BOOL",
    "integer": "TYPE_INT32",
    "number": "TYPE_FLOAT",
}
_PROTO = "type.googleapis.com/google.ai.generativelanguage.v1beta."
_CAPITAL = re.compile(r"(?<!^)[A-Z]")


def word_google(fault: FieldFault) -> MalformedRequest:
    """Return the refusal of a fault in the words of Google's server, with its field violation."""
    steps = tuple(_to_snake_case(step) if isinstance(step, str) else step for step in fault.place)
    path, rule = format_brackets(steps), fault.rule
    match fault.kind:
        case "unknown":
            parent = format_brackets(steps[:-1])
            at = f" at '{parent}'" if parent else ""
            text = f'Unknown name "{fault.place[-1]}"{at}: Cannot find field.'
            return _violation(f"Invalid JSON payload received. {text}", parent)
        case "below" | "above":
            bounds = f"[{_plain(rule.least)}, {_plain(rule.most)}]"
            text = f"value must be in the range {bounds}"
            return MalformedRequest(f"* GenerateContentRequest.{path}: {text}")
        case "missing":
            text = f"* GenerateContentRequest.{path}: {_to_snake_case(str(steps[-1]))} is required"
            return MalformedRequest(f"{text}\n")
        case "short" | "long":
            text = f"list must have at most {rule.longest} items"
            return MalformedRequest(f"* GenerateContentRequest.{path}: {text}")
        case _:
            kind = _PROTO_KINDS.get(rule.kinds[0], "") if not rule.choices else ""
            shown = msgspec.json.encode(fault.value).decode()
            text = f"({kind or _PROTO + (rule.name or 'Content')}), {shown[:200]}"
            return _violation(f"Invalid value at '{path}' {text}", path)


def _to_snake_case(name: str) -> str:
    return _CAPITAL.sub(lambda match: "_" + match[0].lower(), name)


def _violation(text: str, field: str) -> MalformedRequest:
    violation: dict[str, str] = {"field": field} if field else {}
    details = {
        "@type": "type.googleapis.com/google.rpc.BadRequest",
        "fieldViolations": [{**violation, "description": text}],
    }
    return MalformedRequest(text, details=(details,))
