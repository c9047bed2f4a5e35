"""Checks of an answer beyond its type, and the errors of answers that do not fit.

`run_validators` is a generator, so that a turn, a blocking call and an asynchronous one run the same validators
in their own way. An exception of a validator must never reach the model, except for `OutputRejected`, whose message
is for the model.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import TypeAlias

from holdfast.core.errors import OutputError, TruncatedError, TruncatedOutputError
from holdfast.core.output import OutputRejected
from holdfast.core.partial_json import parse_partial_json
from holdfast.core.problems import Problem
from holdfast.core.redaction import redact
from holdfast.output.structured_output import Output, OutputContext, Validator

Checks: TypeAlias = Generator[Callable[[], object], object, tuple[Problem, ...]]
"""Yields the call of each validator, receives what it returned or raised, and returns the problems."""


class BadValidatorError(TypeError):
    """An output validator returned a value, which would be ignored."""


def run_validators(
    output: Output, value: object, make_context: Callable[[], OutputContext[object]]
) -> Checks:
    """Yield the calls of all validators, and return the problems that they report.

    Args:
        output: the type with its validators.
        value: the answer.
        make_context: makes the context of a validator that takes one.

    Raises:
        BadValidatorError: a validator returned a value.
    """
    problems: list[Problem] = []
    for validator, takes_context in output.validators:
        given = (value, make_context()) if takes_context else (value,)
        try:
            returned = yield partial(validator, *given)
        except OutputRejected as rejected:
            problems.append(Problem("", redact(rejected.message)))
            continue
        if returned is not None:
            raise BadValidatorError(
                f"{_name_validator(validator)} returned {type(returned).__name__}: it must return None, "
                "or raise OutputRejected"
            )
    return tuple(problems)


def _name_validator(validator: Validator) -> str:
    return getattr(validator, "__qualname__", type(validator).__name__)


def as_cut_output(error: TruncatedError) -> TruncatedOutputError:
    """Return the error of an answer that was cut at the output limit, with the way out."""
    if isinstance(error, TruncatedOutputError):
        return error
    cut = TruncatedOutputError(
        f"{error.info.safe}, so there is no whole answer. Raise settings.max_tokens, or ask "
        "for a smaller one: asked again in the same way, it would be cut again",
        info=error.info,
        partial=error.partial,
    )
    cut.__cause__ = error
    return cut


def keep_text(error: OutputError, text: str) -> None:
    """Keep the text of the last answer in its error, and the JSON value of it as far as it goes."""
    error.raw, error.best = text, parse_partial_json(text)
