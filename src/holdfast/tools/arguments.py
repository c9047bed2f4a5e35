"""Validates the arguments that a model wrote, or explains what is wrong with them.

Malformed or incomplete arguments are never repaired and never executed. The text must be one JSON
object without duplicate names, NaN or Infinity. An empty text counts as `{}` for a tool without
required arguments, because some providers send it. Values are converted as in pydantic's lax mode
("3" is accepted for 3).

The explanation names each invalid argument, what the schema expects and what the model wrote. The
message of a user's validator is redacted and shortened; the text of any other exception is not shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol, get_args

from msgspec import Struct
from pydantic import BaseModel, ValidationError
from pydantic_core.core_schema import ErrorType

from holdfast.core.json_strict import SUBSTITUTE
from holdfast.core.redaction import redact
from holdfast.tools.argument_wording import (
    SEND_AGAIN,
    Node,
    Path,
    RefusedCall,
    describe_wanted,
    known_names,
    list_names,
    quote_value,
    show_path,
)

_CONSTANT = re.compile("NaN|Infinity")
_MOST_PROBLEMS = 10
_LONGEST_REASON = 200


class ArgumentSchema(Protocol):
    """The part of a compiled signature that this module uses."""

    schema: Mapping[str, object]
    required: Sequence[str]
    validate_json: Callable[..., BaseModel]


def parse_arguments(
    signature: ArgumentSchema, text: str, *, by_name: bool = False
) -> BaseModel | RefusedCall:
    """Validate the argument text of one call.

    Args:
        signature: the tool's signature.
        text: the argument text of the model.
        by_name: arguments may have the names of their parameters as well as their aliases.

    Raises:
        Exception: a user's validator raised it; a ValueError or AssertionError rejects the value
            and is not raised here.
    """
    if not text.strip():
        if signature.required:
            return _refuse_malformed("its arguments are empty", signature)
        text = "{}"
    try:
        if by_name:
            validated = signature.validate_json(text, by_alias=True, by_name=True)
        else:
            validated = signature.validate_json(text)
    except ValidationError as error:
        # The error may also come from a validation inside the user's validator.
        return _refuse_invalid(signature, text, error)
    # Each name has at least one colon, so equal counts prove cheaply that no name is duplicated.
    if text.count(":") != len(validated.__pydantic_fields_set__) or _CONSTANT.search(text):
        return _check_strictness(text) or validated
    return validated


def _refuse_malformed(problem: str, signature: ArgumentSchema | None = None) -> RefusedCall:
    names = list_names(signature.required) if signature is not None else ""
    needed = f" It needs: {names}." if names else ""
    return RefusedCall(f"{problem}.{needed} {SEND_AGAIN}", "malformed_arguments")


def not_showable(name: str, problem: str) -> RefusedCall:
    """Return the refusal of an argument that JSON cannot express.

    Args:
        name: the argument.
        problem: what it contains.
    """
    return _refuse_malformed(
        f"its argument {quote_value(name)} holds {problem}, which JSON cannot express"
    )


class _DuplicateName(ValueError):
    """A name that occurs twice in one object."""


def _check_strictness(text: str) -> RefusedCall | None:
    """Reject what pydantic's parser accepts and JSON does not: duplicate names, NaN, Infinity."""
    try:
        json.loads(text, object_pairs_hook=_build_object, parse_constant=_reject_constant)
    except _DuplicateName as error:
        return _refuse_malformed(
            f"its arguments have the name {quote_value(str(error))} twice in one object"
        )
    except ArithmeticError as error:
        return _refuse_malformed(f"its arguments hold {error}, which is not a JSON number")
    except (ValueError, RecursionError):
        # pydantic's parser accepts more nesting and longer numbers than Python's.
        return _refuse_malformed("its arguments are nested too deeply or hold too long a number")
    return None


def _build_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        names: set[str] = set()
        for name, _ in pairs:
            if name in names:
                raise _DuplicateName(name)
            names.add(name)
    return fields


def _reject_constant(constant: str) -> object:
    raise ArithmeticError(constant)


def _refuse_invalid(signature: ArgumentSchema, text: str, error: ValidationError) -> RefusedCall:
    problems = error.errors(include_url=False, include_input=False)
    if problems[0]["type"] == "json_invalid":
        return _refuse_bad_json(text, str(problems[0].get("ctx", {}).get("error", "")))
    if problems[0]["type"] == "string_unicode" and not problems[0]["loc"]:
        return _refuse_malformed("its arguments are not valid Unicode")
    try:
        written = json.loads(text)
    except (ValueError, RecursionError):
        return _refuse_malformed("its arguments cannot be read as JSON")
    if not isinstance(written, dict):
        return _refuse_non_object(written)
    lines = _problem_lines(signature, written, problems)
    rest = f"\n- and {len(lines) - _MOST_PROBLEMS} more" if len(lines) > _MOST_PROBLEMS else ""
    listed = "\n".join(f"- {line}" for line in lines[:_MOST_PROBLEMS])
    return RefusedCall(
        f"its arguments are invalid:\n{listed}{rest}\nCorrect them and call it again.",
        "invalid_arguments",
    )


def _refuse_bad_json(text: str, problem: str) -> RefusedCall:
    """Quote the parser's message, and the text around the position that it names."""
    if SUBSTITUTE in text:
        return _refuse_malformed("its arguments are not valid Unicode")
    message, _, position = problem.rpartition(" at line ")
    line, _, column = position.partition(" column ")
    if not (message and line.isdigit() and column.isdigit()):
        return _refuse_malformed("its arguments are not valid JSON")
    lines = text.encode("utf-8", "replace").split(b"\n")
    row = min(int(line), len(lines)) - 1
    before = b"\n".join([*lines[:row], lines[row][: int(column)]]).decode("utf-8", "ignore")
    # The parser counts bytes, but the message counts characters.
    column_shown = len(before) - before.rfind("\n") - 1
    rest = text[len(before) : len(before) + 20]
    near = f"`{before[-50:]}{rest}`"
    return _refuse_malformed(
        f"its arguments are not valid JSON: {message} at line {line} column {column_shown}, near {near}"
    )


def _refuse_non_object(written: object) -> RefusedCall:
    kinds = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    kind_name = kinds.get(type(written), "a number")
    hint = " Do not quote the object." if isinstance(written, str) else ""
    return _refuse_malformed(
        f"its arguments must be one JSON object, and are {kind_name}.{hint}".rstrip(".")
    )


class _Problem(Struct, frozen=True):
    """One problem: its path in the arguments, the members of unions on the way, its kind and messages."""

    path: tuple[str | int, ...]
    members: tuple[tuple[int, str], ...]
    kind: str
    reason: str
    fallback: str


def _problem_lines(signature: ArgumentSchema, written: object, errors: Sequence[Any]) -> list[str]:
    problems = _likeliest_problems([_locate_problem(written, error) for error in errors], 0)
    lines = (_problem_line(signature.schema, written, problem) for problem in problems)
    return list(dict.fromkeys(lines))


def _locate_problem(written: object, error: Any) -> _Problem:
    """Separate the names in pydantic's location from the members of unions, which are not in the JSON."""
    path: list[str | int] = []
    members: list[tuple[int, str]] = []
    value: Any = written
    location = error["loc"]
    for at, step in enumerate(location):
        names_last = at == len(location) - 1 and error["type"] in ("missing", "extra_forbidden")
        if _has_step(value, step):
            value = value[step]
        elif not names_last:
            members.append((len(path), str(step)))
            continue
        path.append(step)
    reason = _extra_reason(error)
    return _Problem(tuple(path), tuple(members), error["type"], reason, redact(error["msg"]))


def _has_step(value: object, step: str | int) -> bool:
    if isinstance(step, str):
        return isinstance(value, dict) and step in value
    return isinstance(value, list) and step < len(value)


def _extra_reason(error: Any) -> str:
    """Return what the schema does not tell: why a date is invalid, or a validator's message."""
    kind: str = error["type"]
    if kind in ("value_error", "assertion_error") or kind not in _built_in_kinds():
        reason = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    else:
        # Of pydantic's own errors, only those about dates, times and the like have a detail.
        detail = error.get("ctx", {}).get("error", "")
        reason = detail if isinstance(detail, str) else ""
    reason = " ".join(redact(reason).split())
    return reason if len(reason) <= _LONGEST_REASON else reason[:_LONGEST_REASON] + "... [cut]"


@cache
def _built_in_kinds() -> frozenset[str]:
    return frozenset(get_args(ErrorType))


def _likeliest_problems(problems: list[_Problem], level: int) -> list[_Problem]:
    """Choose for each union the problems of the member that the model probably meant.

    It is the member that matches deepest, with the fewest problems. If no member matches below the
    union, the problems of all members describe the same path and become one line.
    """
    likeliest = [problem for problem in problems if len(problem.members) <= level]
    unions: dict[Path, dict[str, list[_Problem]]] = {}
    for problem in problems:
        if len(problem.members) > level:
            depth, member = problem.members[level]
            at = unions.setdefault(problem.path[:depth], {})
            at.setdefault(member, []).append(problem)
    for path, members in unions.items():
        deeper = [
            group
            for group in members.values()
            if all(len(problem.path) > len(path) for problem in group)
        ]
        groups = [min(deeper, key=len)] if deeper else list(members.values())
        for group in groups:
            likeliest += _likeliest_problems(group, level + 1)
    return likeliest


def _problem_line(schema: Node, written: object, problem: _Problem) -> str:
    where = show_path(problem.path)
    expected = describe_wanted(schema, problem.path)
    if problem.kind == "missing":
        return f"{where}: is required{f' ({expected})' if expected else ''}"
    if problem.kind == "extra_forbidden":
        names = known_names(schema, problem.path[:-1])
        if not names:
            return f"{where}: is not an argument; there are none"
        return f"{where}: is not an argument; the arguments are: {list_names(names)}"
    line = f"{where}: expected {expected}" if expected else f"{where}: {problem.fallback}"
    line += f"; got {quote_value(_value_at(written, problem.path))}"
    return f"{line} ({problem.reason})" if problem.reason and expected else line


def _value_at(written: object, path: Path) -> object:
    for step in path:
        written = written[step]  # type: ignore[index]  # REASON: the path was checked before
    return written
