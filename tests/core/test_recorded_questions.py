"""Questions restored from a journal: of their own class if it is known, and never of another."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core.errors import ConfigurationError
from holdfast.core.events import QuestionAsked
from holdfast.core.question_log import UnknownQuestion, require_known_kind, restore_question
from holdfast.core.questions import (
    AnyQuestion,
    ClarificationQuestion,
    ContinuationQuestion,
    PermissionQuestion,
    Question,
    question_content,
)

KEY = "t1.i0.tool.0.ask.0"


class Fee(Question[int], frozen=True, kw_only=True):
    cents: int = 0


class SmallFee(Fee, frozen=True, kw_only=True):
    """A subclass of another question."""


def asked(kind: str, plain: object) -> QuestionAsked:
    return QuestionAsked(f"{KEY}.asked", 1.0, kind, plain)


@pytest.mark.parametrize(
    "request_",
    [
        PermissionQuestion(key=KEY, tool="pay", arguments={"euros": 5, "to": ["a"]}),
        ContinuationQuestion(key=KEY, iteration=3, limit=2),
        ClarificationQuestion(key=KEY, question="Where?", options=("Porto", "Faro")),
        Fee(key=KEY, cents=3),
        SmallFee(key=KEY, cents=1),
    ],
)
def test_a_question_is_restored_unchanged(request_: AnyQuestion) -> None:
    found = restore_question(asked(type(request_).__name__, question_content(request_)), "r")
    assert found == msgspec.structs.replace(request_, binding=found.binding)
    assert type(found) is type(request_)
    assert require_known_kind(found) is found


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        ("Stranger", {"cents": 3}),
        ("Fee", {"cents": "three"}),
        ("PermissionQuestion", {}),
        ("X", []),
    ],
)
def test_an_unknown_or_invalid_question_is_shown_and_cannot_be_answered(
    kind: str, plain: object
) -> None:
    found = restore_question(asked(kind, plain), "r")
    assert isinstance(found, UnknownQuestion)
    assert (found.key, found.kind) == (KEY, kind)
    with pytest.raises(ConfigurationError, match="Import the module"):
        require_known_kind(found)


def test_of_two_classes_with_one_name_the_newer_counts() -> None:
    class Twice(Question[int], frozen=True, kw_only=True):
        a: int

    older = Twice

    class Twice(Question[str], frozen=True, kw_only=True):  # type: ignore[no-redef]
        a: int

    found = restore_question(asked("Twice", {"a": 1}), "r")
    assert type(found) is Twice
    assert type(found) is not older
