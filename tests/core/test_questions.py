"""Questions and answers as data: typed, with keys, and no answer means no."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest

from holdfast.core.errors import AnswerTypeError, ConfigurationError, UnansweredError
from holdfast.core.questions import (
    Answer,
    Approved,
    ClarificationQuestion,
    ContinuationQuestion,
    Continued,
    Denied,
    PermissionQuestion,
    Question,
    answer_type,
    plain_form,
    restore_answer,
    type_name,
    validate_answer,
)

PERMISSION = PermissionQuestion(key="k", tool="pay", arguments={"amount": 3})
CONTINUE = ContinuationQuestion(key="c", iteration=21, limit=20)
CLARIFY = ClarificationQuestion(key="q", question="Which city?", options=("Porto", "Faro"))


class Count(Question[int], frozen=True, kw_only=True):
    """A question that a user defines."""


class Choose(Question[Literal["a", "b"] | list[str]], frozen=True, kw_only=True):
    """A question with an answer type that isinstance cannot check."""


@dataclass
class Amount:
    euros: int


class Ask(Question[Amount], frozen=True, kw_only=True):
    """A question whose answer is a dataclass."""


class Untyped(Question, frozen=True, kw_only=True):  # type: ignore[type-arg]
    """A question that does not name its answer type."""


def test_helper_methods_return_answers_with_the_key() -> None:
    assert PERMISSION.approve() == Answer("k", Approved(), "")
    edited = PERMISSION.approve(remember="tool", arguments={"amount": 1})
    assert edited.value == Approved(remember="tool", arguments={"amount": 1})
    assert PERMISSION.deny("no", remember="call").value == Denied(reason="no", remember="call")
    assert CONTINUE.approve(5) == Answer("c", Continued(iterations=5), "")
    assert CONTINUE.deny().value == Denied(reason="Continuation denied by user.")
    assert CLARIFY.answer("Braga") == Answer("q", "Braga", "")


@pytest.mark.parametrize(
    ("request_", "value", "expected", "got"),
    [
        (PERMISSION, Continued(), "Approved | Denied", "Continued"),
        (PERMISSION, True, "Approved | Denied", "bool"),
        (CONTINUE, Approved(), "Continued | Denied", "Approved"),
        (CLARIFY, 3, "str", "int"),
        (Count(), "3", "int", "str"),
        (Ask(), {"euros": 3}, "Amount", "dict"),
        (Ask(), Amount("three"), "Amount", "Amount"),  # type: ignore[arg-type]
        (Choose(), "c", "Literal['a', 'b'] | list", "str"),
        (Choose(), [1], "Literal['a', 'b'] | list", "list"),
        (PERMISSION, None, "Approved | Denied", "NoneType"),
    ],
)
def test_a_wrong_type_names_both(
    request_: Question[object], value: object, expected: str, got: str
) -> None:
    with pytest.raises(AnswerTypeError) as caught:
        validate_answer(request_, value)
    said = str(caught.value).replace("typing.", "")
    assert said.startswith("Expected response of type")
    assert said.endswith(f"but received {got}")
    assert caught.value.got == got
    assert isinstance(caught.value, TypeError)
    assert caught.value.expected.replace("typing.", "").startswith(expected.split("[", 1)[0])


@pytest.mark.parametrize(
    ("request_", "value"),
    [
        (PERMISSION, Approved(arguments={"amount": 1})),
        (PERMISSION, Denied(because="timeout")),
        (CONTINUE, Continued(iterations=3)),
        (CLARIFY, "Porto"),
        (Count(), 3),
        (Ask(), Amount(3)),
        (Choose(), "a"),
        (Choose(), ["x"]),
    ],
)
def test_an_answer_is_restored_from_its_plain_form(
    request_: Question[object], value: object
) -> None:
    assert restore_answer(request_, plain_form(validate_answer(request_, value))) == value


def test_a_saved_answer_of_another_type_is_refused() -> None:
    with pytest.raises(AnswerTypeError, match=r"Approved \| Denied"):
        restore_answer(PERMISSION, {"type": "continued"})


def test_without_an_answer_permissions_and_continuations_are_denied_with_the_cause() -> None:
    for why in ("timeout", "cancelled", "nobody", "failed"):
        denied = PERMISSION.default_answer(why)
        assert isinstance(denied, Denied)
        assert denied.because == why
        again = CONTINUE.default_answer(why)
        assert isinstance(again, Denied)
        assert again.because == why
    assert PERMISSION.default_answer("timeout") == Denied(
        reason="Permission request timed out. Please respond to permission requests promptly.",
        because="timeout",
    )
    assert PERMISSION.default_answer("cancelled").reason == "Permission request was cancelled."  # type: ignore[union-attr]
    assert "on_question" in PERMISSION.default_answer("nobody").reason  # type: ignore[union-attr]
    assert Denied().reason == "Permission denied by user."


def test_other_questions_without_an_answer_raise_and_say_why() -> None:
    with pytest.raises(UnansweredError, match="in time") as caught:
        CLARIFY.default_answer("timeout")
    assert caught.value.why == "timeout"
    assert not caught.value.info.category.is_retryable
    with pytest.raises(UnansweredError, match="on_question"):
        Count().default_answer("nobody")


def test_a_question_without_an_answer_type_names_the_fix() -> None:
    with pytest.raises(ConfigurationError, match="Derive it from Question"):
        answer_type(Untyped)


def test_a_value_that_json_cannot_hold_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="PermissionQuestion: cannot be saved"):
        plain_form(PermissionQuestion(tool="x", arguments={"a": object()}))


def test_a_subclass_keeps_the_answer_type() -> None:
    class Special(PermissionQuestion, frozen=True, kw_only=True):
        level: int = 1

    assert type_name(answer_type(Special)) == "Approved | Denied"


def test_an_extension_is_never_negative() -> None:
    with pytest.raises(ConfigurationError, match="at least 0"):
        CONTINUE.approve(-1)
