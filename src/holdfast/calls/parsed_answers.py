"""The JSON answers of an agent with routines, and how the text of a reply is parsed into one.

The steps are tried in order: strict JSON, then one JSON value in a code fence or in prose, then the
raw text if it is allowed. This module never repairs an answer, and never returns a JSON object of
the wrong form as raw text.
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
from holdfast.core.problem_wording import word_msgspec_error
from holdfast.core.problems import Problem
from holdfast.core.schema_checks.schema_limits import StepBudget

RawText: TypeAlias = Literal["accept", "prose", "refuse"]
"""How text that is not a JSON object is treated: as an answer, as an answer unless it looks like
truncated JSON, or as a failure."""

_Words = Annotated[str, Meta(min_length=1)]
_Routine = Annotated[int, Meta(ge=1)]


class RoutineAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """An answer that names the next routine, in the form that the model is asked for."""

    agent_final_response: _Words
    routine_number: _Routine


class PlainAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """An answer without routines."""

    agent_final_response: _Words


class _LooseRoutineAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """Like `RoutineAnswer`, but the routine may be missing or null."""

    agent_final_response: _Words
    routine_number: _Routine | None = None


class ParsedAnswer(Struct, frozen=True):
    """The parsed answer of a reply.

    Args:
        content: the text for the user; for a type of yours, the value.
        routine_number: the next routine, if the answer names one.
        parsed_by: how the answer was parsed: "strict", "embedded" or "raw_text"; for a type of yours, also
            "repaired" or "raw".
        note: why earlier steps failed; "" if the first step succeeded.
    """

    content: object
    routine_number: int | None
    parsed_by: str
    note: str = ""


class AnswerType:
    """The `OutputType` of one of the two answers.

    Args:
        routines: whether an answer may name a routine.

    >>> AnswerType(routines=True).check('{"agent_final_response": "", "routine_number": 1}', StepBudget(1))
    Invalid(problems=(Problem(path='agent_final_response', expected='must have at least 1 character', got='""', note=''),))
    """

    def __init__(self, *, routines: bool) -> None:
        self._kind: type[_LooseRoutineAnswer | PlainAnswer] = (
            _LooseRoutineAnswer if routines else PlainAnswer
        )
        self._routines = routines

    @property
    def schema(self) -> OutputSchema:
        """The schema for the provider: every field is required, and no other field is allowed."""
        response_type = RoutineAnswer if self._routines else PlainAnswer
        name = "agent_response" if self._routines else "re_registration_response"
        _, parts = msgspec.json.schema_components((response_type,))
        return OutputSchema(name, parts[response_type.__name__])

    def check(self, json_text: str, steps: StepBudget, now: float | None = None) -> ParseResult:  # noqa: ARG002  # REASON: our own types
        """Validate one JSON text."""
        try:
            return Valid(msgspec.json.decode(json_text, type=self._kind))
        except RecursionError:
            return Invalid((Problem("", "nested too deeply"),))
        except msgspec.ValidationError as error:
            written: object = msgspec.json.decode(json_text)
            return Invalid((word_msgspec_error(str(error), written),))
        except ValueError as error:
            # The text is not JSON, or is not UTF-8.
            return Invalid((Problem("", str(error)),))


def parse_answer(
    texts: tuple[str, ...], answer_type: AnswerType, raw_text: RawText
) -> ParsedAnswer:
    """Return the first answer in the texts of a reply.

    Args:
        texts: texts that are not blank; the last one is used if raw text is accepted.
        answer_type: the type of the answer.
        raw_text: how text that is not a JSON object is treated.

    Raises:
        OutputError: the texts hold an object of another form, or raw text that is not allowed.

    >>> parse_answer(("Just text",), AnswerType(routines=True), "accept").parsed_by
    'raw_text'
    """
    problems: tuple[Problem, ...] = ()
    is_object = False
    for text in texts:
        result = parse_output(text, answer_type)
        if isinstance(result, Valid):
            return _to_parsed_answer(result)
        problems = problems or result.problems
        is_object = is_object or isinstance(read_strict_json(text.strip()), dict)
    last = texts[-1]
    if is_object:
        raise OutputError("The answer does not match the schema", raw=last, problems=problems)
    if raw_text == "refuse" or (raw_text == "prose" and last.lstrip()[:1] in _JSON_BEGINS):
        raise OutputError("The answer is not a JSON object", raw=last, problems=problems)
    return ParsedAnswer(last, None, "raw_text", str(problems[0]) if problems else "")


def _to_parsed_answer(result: Valid) -> ParsedAnswer:
    value = result.value
    if isinstance(value, _LooseRoutineAnswer):
        return ParsedAnswer(value.agent_final_response, value.routine_number, result.parsed_by)
    if isinstance(value, PlainAnswer):
        return ParsedAnswer(value.agent_final_response, None, result.parsed_by)
    raise TypeError(f"{type(value).__name__} is not an answer")


_JSON_BEGINS = ("{", "[", '"')
