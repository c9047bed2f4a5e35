"""Acts for a turn that another process drives, and their results, as the texts that cross processes.

This module must never perform an act, or send one.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from holdfast.core.acts import Act
from holdfast.core.errors import ConfigurationError
from holdfast.core.questions import Answer, AnyAnswer, AnyQuestion, plain_form, restore_answer
from holdfast.journal.encoding import to_json
from holdfast.runtime.questions.open_question import Receipt


class RelayedAnswer(Struct, frozen=True):
    """An answer on its way to another process, as JSON values."""

    key: str
    binding: str
    value: object
    by: str
    expires_at: float | None
    act: Act | None = None

    def restore(self, question: AnyQuestion) -> AnyAnswer:
        """Return the answer in the type that its question asks for. Raises AnswerTypeError."""
        value = restore_answer(question, self.value)
        return Answer(
            self.key, value, self.binding, by=self.by, expires_at=self.expires_at, act=self.act
        )


class RelayedCancellation(Struct, frozen=True):
    """A cancellation on its way to another process: who cancels which turn; 0 for any."""

    by: str = ""
    turn: int = 0


class _Result(Struct, frozen=True):
    receipt: Receipt = Receipt()
    problem: str = ""


def encode_answer(answer: AnyAnswer) -> str:
    """Return an answer as JSON, for `RelayedAnswer`."""
    relayed = RelayedAnswer(
        answer.key,
        answer.binding,
        plain_form(answer.value),
        by=answer.by,
        expires_at=answer.expires_at,
        act=answer.act,
    )
    return to_json(relayed).decode()


def encode_result(receipt: Receipt, problem: str = "") -> str:
    """Return what came of an answer as JSON; `problem` says why it does not fit its question."""
    return to_json(_Result(receipt, problem)).decode()


def decode_result(text: str) -> Receipt:
    """Return the receipt for an answer that another process was given.

    Raises:
        ConfigurationError: the answer does not fit its question.

    >>> decode_result(encode_result(Receipt("answered")))
    Receipt(reason='answered')
    """
    result = msgspec.json.decode(text, type=_Result)
    if result.problem:
        raise ConfigurationError("answer", result.problem)
    return result.receipt
