"""The answers that an agent with routines gives as JSON, and how the text of a reply becomes one.

The ladder is strict JSON, then one JSON value in a fence or in prose, then the raw text, if that is
allowed. This module must never mend an answer, and never take text for an answer that is an object
of the wrong form.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from holdfast.codecs.json_text import read_strict_json
from holdfast.core.errors import OutputError
from holdfast.core.model_request import OutputSchema
from holdfast.core.output import Invalid, ParseResult, Valid
from holdfast.core.output_parser import parse_output
from holdfast.core.problems import Problem

RawText: TypeAlias = Literal["accept", "prose", "refuse"]
"""What text that is no JSON object counts as: an answer, an answer unless it looks like JSON
that was cut, or a failure that is repeated."""

_Words = Annotated[str, Meta(min_length=1)]
_Routine = Annotated[int, Meta(ge=1)]


class RoutineAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """An answer that names the next routine, as the model is asked for it."""

    agent_final_response: _Words
    routine_number: _Routine


class PlainAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """An answer without routines."""

    agent_final_response: _Words


class _LooseRoutineAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """As `RoutineAnswer`; agents that have no routine to name leave it out, or say null."""

    agent_final_response: _Words
    routine_number: _Routine | None = None


class ParsedAnswer(Struct, frozen=True):
    """What a reply says to the user.

    Args:
        content: the text.
        routine_number: the next routine, when the answer names one.
        parsed_by: how it was read: "strict", "embedded" or "raw_text".
        note: why it was not read by a higher rung; "" for the highest.
    """

    content: str
    routine_number: int | None
    parsed_by: str
    note: str = ""


class AnswerType:
    """An `OutputType` of one of the two answers.

    Args:
        routines: whether an answer may name a routine.

    >>> AnswerType(routines=True).check_event('{"agent_final_response": "", "routine_number": 1}')
    Invalid(problems=(Problem(path='', expected='Expected `str` of length >= 1 - at `$.agent_final_response`', got=''),))
    """

    def __init__(self, *, routines: bool) -> None:
        self._kind: type[_LooseRoutineAnswer | PlainAnswer] = (
            _LooseRoutineAnswer if routines else PlainAnswer
        )
        self._routines = routines

    @property
    def schema(self) -> OutputSchema:
        """What the provider is told: every field required, and no other."""
        shown = RoutineAnswer if self._routines else PlainAnswer
        name = "agent_response" if self._routines else "re_registration_response"
        _, parts = msgspec.json.schema_components((shown,))
        return OutputSchema(name, parts[shown.__name__])

    def check(self, json_text: str) -> ParseResult:
        """Validate one JSON text."""
        try:
            return Valid(msgspec.json.decode(json_text, type=self._kind))
        except RecursionError:
            return Invalid((Problem("", "nested too deeply"),))
        except ValueError as error:
            # msgspec's errors are ValueErrors, and so is text that is no UTF-8.
            return Invalid((Problem("", str(error)),))


def parse_answer(texts: tuple[str, ...], wanted: AnswerType, raw_text: RawText) -> ParsedAnswer:
    """The answer in the texts of a reply, of which the first that holds one decides.

    Args:
        texts: texts with something in them; the last one is shown when raw text is accepted.
        wanted: the form of the answer.
        raw_text: what text that is no JSON object counts as.

    Raises:
        OutputError: an object of another form, or raw text that is not allowed.

    >>> parse_answer(("Just text",), AnswerType(routines=True), "accept").parsed_by
    'raw_text'
    """
    problems: tuple[Problem, ...] = ()
    is_object = False
    for text in texts:
        found = parse_output(text, wanted)
        if isinstance(found, Valid):
            return _to_parsed_answer(found)
        problems = problems or found.problems
        is_object = is_object or isinstance(read_strict_json(text.strip()), dict)
    shown = texts[-1]
    if is_object:
        raise OutputError("The answer does not have the wanted form", raw=shown, problems=problems)
    if raw_text == "refuse" or (raw_text == "prose" and shown.lstrip()[:1] in _JSON_BEGINS):
        raise OutputError("The answer is no JSON object", raw=shown, problems=problems)
    return ParsedAnswer(shown, None, "raw_text", str(problems[0]) if problems else "")


def _to_parsed_answer(found: Valid) -> ParsedAnswer:
    value = found.value
    if isinstance(value, _LooseRoutineAnswer):
        return ParsedAnswer(value.agent_final_response, value.routine_number, found.parsed_by)
    if isinstance(value, PlainAnswer):
        return ParsedAnswer(value.agent_final_response, None, found.parsed_by)
    raise TypeError(f"{type(value).__name__} is no answer")


_JSON_BEGINS = ("{", "[", '"')
