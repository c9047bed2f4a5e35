"""From the argument text that a model wrote to validated values, or to words about what is wrong.

Text that is malformed, cut or unfinished is never executed and never mended into something that can
be: half a payment is not a payment. Strict means: one JSON object and nothing else, no name twice,
no NaN or Infinity. An empty text is `{}` for a tool that needs no argument, since some providers
send that. Values are converted as pydantic does in its lax mode ("3" is taken for 3).

The words name each argument at fault, what the schema wants there and what the model wrote. What a
validator of the user says is shown redacted and cut; the text of any other exception never is.
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
    quote_value,
    show_path,
)

_CONSTANT = re.compile("NaN|Infinity")
_MOST_PROBLEMS = 10
_LONGEST_REASON = 200


class ArgumentSchema(Protocol):
    """What this module needs of a compiled signature."""

    schema: Mapping[str, object]
    required: Sequence[str]
    validate_json: Callable[..., BaseModel]


def parse_arguments(
    signature: ArgumentSchema, text: str, *, by_name: bool = False
) -> BaseModel | RefusedCall:
    """Validate the argument text of one call.

    Args:
        signature: of the tool.
        text: as the model wrote it.
        by_name: arguments may have the names of their parameters, beside their aliases.

    Raises:
        Exception: whatever a validator of the user raises, other than ValueError and
            AssertionError, which are its way to refuse a value.
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
        # A validator of the user may itself have validated something else.
        return _refuse_invalid(signature, text, error)
    # One colon for each name, at least: so this proves that no name came twice, at little cost.
    if text.count(":") != len(validated.__pydantic_fields_set__) or _CONSTANT.search(text):
        return _check_strictness(text) or validated
    return validated


def _refuse_malformed(problem: str, signature: ArgumentSchema | None = None) -> RefusedCall:
    names = ", ".join(signature.required) if signature is not None else ""
    needed = f" It needs: {names}." if names else ""
    return RefusedCall(f"{problem}.{needed} {SEND_AGAIN}", "malformed_arguments")


def not_showable(name: str, problem: str) -> RefusedCall:
    """The refusal of arguments that nobody could be shown.

    Args:
        name: of the argument.
        problem: what it holds.
    """
    shown = quote_value(name)
    return _refuse_malformed(f"its argument {shown} holds {problem}, which JSON cannot hold")


class _DuplicateName(ValueError):
    """A name that came twice in one object."""


def _check_strictness(text: str) -> RefusedCall | None:
    """What pydantic's parser lets pass and JSON does not: a name twice, NaN, Infinity."""
    try:
        json.loads(text, object_pairs_hook=_build_object, parse_constant=_reject_constant)
    except _DuplicateName as error:
        return _refuse_malformed(
            f"its arguments have the name {quote_value(str(error))} twice in one object"
        )
    except ArithmeticError as error:
        return _refuse_malformed(f"its arguments hold {error}, which is no JSON number")
    except (ValueError, RecursionError):
        # Taken by pydantic's parser, and deeper or longer than Python's own takes.
        return _refuse_malformed("its arguments are nested too deeply or hold too long a number")
    return None


def _build_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _DuplicateName(name)
            seen.add(name)
    return made


def _reject_constant(constant: str) -> object:
    raise ArithmeticError(constant)


def _refuse_invalid(signature: ArgumentSchema, text: str, error: ValidationError) -> RefusedCall:
    problems = error.errors(include_url=False, include_input=False)
    if problems[0]["type"] == "json_invalid":
        return _refuse_bad_json(text, str(problems[0].get("ctx", {}).get("error", "")))
    if problems[0]["type"] == "string_unicode" and not problems[0]["loc"]:
        return _refuse_malformed("its arguments are no Unicode text")
    try:
        written = json.loads(text)
    except (ValueError, RecursionError):
        return _refuse_malformed("its arguments cannot be read as JSON")
    if not isinstance(written, dict):
        return _refuse_non_object(written)
    lines = _problem_lines(signature, written, problems)
    more = f"\n- and {len(lines) - _MOST_PROBLEMS} more" if len(lines) > _MOST_PROBLEMS else ""
    shown = "\n".join(f"- {line}" for line in lines[:_MOST_PROBLEMS])
    return RefusedCall(
        f"its arguments are invalid:\n{shown}{more}\nCorrect them and call it again.",
        "invalid_arguments",
    )


def _refuse_bad_json(text: str, problem: str) -> RefusedCall:
    """The parser's words, and the text around the place that it names."""
    if SUBSTITUTE in text:
        return _refuse_malformed("its arguments are no Unicode text")
    what, _, place = problem.rpartition(" at line ")
    line, _, column = place.partition(" column ")
    if not (what and line.isdigit() and column.isdigit()):
        return _refuse_malformed("its arguments are not valid JSON")
    lines = text.encode("utf-8", "replace").split(b"\n")
    row = min(int(line), len(lines)) - 1
    before = b"\n".join([*lines[:row], lines[row][: int(column)]]).decode("utf-8", "ignore")
    # The parser counts bytes; people and models count characters.
    column_shown = len(before) - before.rfind("\n") - 1
    rest = text[len(before) : len(before) + 20]
    near = f"`{before[-50:]}{rest}`"
    return _refuse_malformed(
        f"its arguments are not valid JSON: {what} at line {line} column {column_shown}, near {near}"
    )


def _refuse_non_object(written: object) -> RefusedCall:
    kind = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    got = kind.get(type(written), "a number")
    hint = " Do not quote the object." if isinstance(written, str) else ""
    return _refuse_malformed(
        f"its arguments must be one JSON object, and are {got}.{hint}".rstrip(".")
    )


class _Problem(Struct, frozen=True):
    """One fault: where in what the model wrote, by which members of unions, and what it is."""

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
    """Tell the names in a location from the members of unions, which stand in no JSON."""
    path: list[str | int] = []
    members: list[tuple[int, str]] = []
    here: Any = written
    places = error["loc"]
    for at, place in enumerate(places):
        names_last = at == len(places) - 1 and error["type"] in ("missing", "extra_forbidden")
        if _has_place(here, place):
            here = here[place]
        elif not names_last:
            members.append((len(path), str(place)))
            continue
        path.append(place)
    reason = _extra_reason(error)
    return _Problem(tuple(path), tuple(members), error["type"], reason, redact(error["msg"]))


def _has_place(here: object, place: str | int) -> bool:
    if isinstance(place, str):
        return isinstance(here, dict) and place in here
    return isinstance(here, list) and place < len(here)


def _extra_reason(error: Any) -> str:
    """What adds to the schema's words: why a date is none, or a validator's own sentence."""
    kind: str = error["type"]
    if kind in ("value_error", "assertion_error") or kind not in _built_in_kinds():
        said = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    else:
        # Of pydantic's own kinds those about dates, times and the like tell more.
        detail = error.get("ctx", {}).get("error", "")
        said = detail if isinstance(detail, str) else ""
    said = " ".join(redact(said).split())
    return said if len(said) <= _LONGEST_REASON else said[:_LONGEST_REASON] + "... [cut]"


@cache
def _built_in_kinds() -> frozenset[str]:
    return frozenset(get_args(ErrorType))


def _likeliest_problems(problems: list[_Problem], level: int) -> list[_Problem]:
    """Of each union the member that the model meant: one that fits further in, with least wrong.

    Where no member fits further in, all say the same about the same place, and are one line.
    """
    kept = [problem for problem in problems if len(problem.members) <= level]
    unions: dict[Path, dict[str, list[_Problem]]] = {}
    for problem in problems:
        if len(problem.members) > level:
            depth, member = problem.members[level]
            at = unions.setdefault(problem.path[:depth], {})
            at.setdefault(member, []).append(problem)
    for place, members in unions.items():
        further = [
            found
            for found in members.values()
            if all(len(problem.path) > len(place) for problem in found)
        ]
        chosen = [min(further, key=len)] if further else list(members.values())
        for found in chosen:
            kept += _likeliest_problems(found, level + 1)
    return kept


def _problem_line(schema: Node, written: object, problem: _Problem) -> str:
    where = show_path(problem.path)
    expected = describe_wanted(schema, problem.path)
    if problem.kind == "missing":
        return f"{where}: is required{f' ({expected})' if expected else ''}"
    if problem.kind == "extra_forbidden":
        names = known_names(schema, problem.path[:-1])
        if not names:
            return f"{where}: is not an argument; there are none"
        return f"{where}: is not an argument; the arguments are: {', '.join(names)}"
    line = f"{where}: expected {expected}" if expected else f"{where}: {problem.fallback}"
    line += f"; got {quote_value(_value_at(written, problem.path))}"
    return f"{line} ({problem.reason})" if problem.reason and expected else line


def _value_at(written: object, path: Path) -> object:
    for place in path:
        written = written[place]  # type: ignore[index]  # REASON: the path was walked before
    return written
