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
from holdfast.tools.wording import (
    SEND_AGAIN,
    Node,
    Path,
    Refused,
    known_names,
    quote,
    show_path,
    wanted,
)

_CONSTANT = re.compile("NaN|Infinity")
_MOST_PROBLEMS = 10
_LONGEST_REASON = 200


class Wanted(Protocol):
    """What this module needs of a compiled signature."""

    schema: Mapping[str, object]
    required: Sequence[str]
    validate_json: Callable[..., BaseModel]


def parse(signature: Wanted, text: str, *, by_name: bool = False) -> BaseModel | Refused:
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
            return _malformed("its arguments are empty", signature)
        text = "{}"
    try:
        if by_name:
            validated = signature.validate_json(text, by_alias=True, by_name=True)
        else:
            validated = signature.validate_json(text)
    except ValidationError as error:
        # A validator of the user may itself have validated something else.
        return _refused(signature, text, error)
    # One colon for each name, at least: so this proves that no name came twice, at little cost.
    if text.count(":") != len(validated.__pydantic_fields_set__) or _CONSTANT.search(text):
        return _strictness(text) or validated
    return validated


def _malformed(problem: str, signature: Wanted | None = None) -> Refused:
    names = ", ".join(signature.required) if signature is not None else ""
    needed = f" It needs: {names}." if names else ""
    return Refused(f"{problem}.{needed} {SEND_AGAIN}", "malformed_arguments")


def not_showable(name: str, problem: str) -> Refused:
    """The refusal of arguments that nobody could be shown.

    Args:
        name: of the argument.
        problem: what it holds.
    """
    shown = quote(name)
    return _malformed(f"its argument {shown} holds {problem}, which JSON cannot hold")


class _Twice(ValueError):
    """A name that came twice in one object."""


def _strictness(text: str) -> Refused | None:
    """What pydantic's parser lets pass and JSON does not: a name twice, NaN, Infinity."""
    try:
        json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except _Twice as error:
        return _malformed(f"its arguments have the name {quote(str(error))} twice in one object")
    except ArithmeticError as error:
        return _malformed(f"its arguments hold {error}, which is no JSON number")
    except (ValueError, RecursionError):
        # Taken by pydantic's parser, and deeper or longer than Python's own takes.
        return _malformed("its arguments are nested too deeply or hold too long a number")
    return None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _Twice(name)
            seen.add(name)
    return made


def _no_constant(constant: str) -> object:
    raise ArithmeticError(constant)


def _refused(signature: Wanted, text: str, error: ValidationError) -> Refused:
    problems = error.errors(include_url=False, include_input=False)
    if problems[0]["type"] == "json_invalid":
        return _not_json(text, str(problems[0].get("ctx", {}).get("error", "")))
    if problems[0]["type"] == "string_unicode" and not problems[0]["loc"]:
        return _malformed("its arguments are no Unicode text")
    try:
        written = json.loads(text)
    except (ValueError, RecursionError):
        return _malformed("its arguments cannot be read as JSON")
    if not isinstance(written, dict):
        return _not_an_object(written)
    lines = _lines(signature, written, problems)
    more = f"\n- and {len(lines) - _MOST_PROBLEMS} more" if len(lines) > _MOST_PROBLEMS else ""
    shown = "\n".join(f"- {line}" for line in lines[:_MOST_PROBLEMS])
    return Refused(
        f"its arguments are invalid:\n{shown}{more}\nCorrect them and call it again.",
        "invalid_arguments",
    )


def _not_json(text: str, problem: str) -> Refused:
    """The parser's words, and the text around the place that it names."""
    if SUBSTITUTE in text:
        return _malformed("its arguments are no Unicode text")
    what, _, place = problem.rpartition(" at line ")
    line, _, column = place.partition(" column ")
    if not (what and line.isdigit() and column.isdigit()):
        return _malformed("its arguments are not valid JSON")
    lines = text.encode("utf-8", "replace").split(b"\n")
    row = min(int(line), len(lines)) - 1
    before = b"\n".join([*lines[:row], lines[row][: int(column)]]).decode("utf-8", "ignore")
    # The parser counts bytes; people and models count characters.
    column_shown = len(before) - before.rfind("\n") - 1
    rest = text[len(before) : len(before) + 20]
    near = f"`{before[-50:]}{rest}`"
    return _malformed(
        f"its arguments are not valid JSON: {what} at line {line} column {column_shown}, near {near}"
    )


def _not_an_object(written: object) -> Refused:
    kind = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    got = kind.get(type(written), "a number")
    hint = " Do not quote the object." if isinstance(written, str) else ""
    return _malformed(f"its arguments must be one JSON object, and are {got}.{hint}".rstrip("."))


class _Problem(Struct, frozen=True):
    """One fault: where in what the model wrote, by which members of unions, and what it is."""

    path: tuple[str | int, ...]
    members: tuple[tuple[int, str], ...]
    kind: str
    reason: str
    fallback: str


def _lines(signature: Wanted, written: object, errors: Sequence[Any]) -> list[str]:
    problems = _likeliest([_located(written, error) for error in errors], 0)
    lines = (_line(signature.schema, written, problem) for problem in problems)
    return list(dict.fromkeys(lines))


def _located(written: object, error: Any) -> _Problem:
    """Tell the names in a location from the members of unions, which stand in no JSON."""
    path: list[str | int] = []
    members: list[tuple[int, str]] = []
    here: Any = written
    places = error["loc"]
    for at, place in enumerate(places):
        names_last = at == len(places) - 1 and error["type"] in ("missing", "extra_forbidden")
        if _holds(here, place):
            here = here[place]
        elif not names_last:
            members.append((len(path), str(place)))
            continue
        path.append(place)
    reason = _reason(error)
    return _Problem(tuple(path), tuple(members), error["type"], reason, redact(error["msg"]))


def _holds(here: object, place: str | int) -> bool:
    if isinstance(place, str):
        return isinstance(here, dict) and place in here
    return isinstance(here, list) and place < len(here)


def _reason(error: Any) -> str:
    """What adds to the schema's words: why a date is none, or a validator's own sentence."""
    kind: str = error["type"]
    if kind in ("value_error", "assertion_error") or kind not in _built_in():
        said = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    else:
        # Of pydantic's own kinds those about dates, times and the like tell more.
        detail = error.get("ctx", {}).get("error", "")
        said = detail if isinstance(detail, str) else ""
    said = " ".join(redact(said).split())
    return said if len(said) <= _LONGEST_REASON else said[:_LONGEST_REASON] + "... [cut]"


@cache
def _built_in() -> frozenset[str]:
    return frozenset(get_args(ErrorType))


def _likeliest(problems: list[_Problem], level: int) -> list[_Problem]:
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
            kept += _likeliest(found, level + 1)
    return kept


def _line(schema: Node, written: object, problem: _Problem) -> str:
    where = show_path(problem.path)
    expected = wanted(schema, problem.path)
    if problem.kind == "missing":
        return f"{where}: is required{f' ({expected})' if expected else ''}"
    if problem.kind == "extra_forbidden":
        names = known_names(schema, problem.path[:-1])
        if not names:
            return f"{where}: is not an argument; there are none"
        return f"{where}: is not an argument; the arguments are: {', '.join(names)}"
    line = f"{where}: expected {expected}" if expected else f"{where}: {problem.fallback}"
    line += f"; got {quote(_at(written, problem.path))}"
    return f"{line} ({problem.reason})" if problem.reason and expected else line


def _at(written: object, path: Path) -> object:
    for place in path:
        written = written[place]  # type: ignore[index]  # REASON: the path was walked before
    return written
